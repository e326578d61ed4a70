# SPDX-License-Identifier: Apache-2.0
"""Hooks around the launches of compiled functions, and the metadata that they can ask for."""

from __future__ import annotations

import functools
import gc
import signal
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import weft
from tests.native.fake_cuda.cpu_builds import Compiled
from tests.native.fake_cuda.fake import FakeCuda, build, on_fake
from weft.driver import LaunchMetadata, set_launch_hooks
from weft.driver.memory import empty
from weft.errors import CudaError


@weft.kernel
def add_one_kernel(a: weft.Tensor):
    i = weft.block_idx.x * weft.block_dim.x + weft.thread_idx.x
    if i < a.shape[0]:
        a[i] = a[i] + 1.0


@weft.jit
def add_two(a: weft.Tensor[weft.f32, ("n",)]):
    add_one_kernel(a).launch(grid=weft.ceil_div(a.shape[0], 64), block=64, cooperative=True)
    add_one_kernel(a).launch(grid=(weft.ceil_div(a.shape[0], 32), 1), block=32)


@functools.cache
def compiled() -> Compiled:
    return Compiled(add_two, weft.fake_tensor(weft.f32, ("n",)))


@functools.cache
def on_cpu() -> Any:
    return weft.compile(add_two, weft.fake_tensor(weft.f32, ("n",)), options="--target cpu")


@pytest.fixture(autouse=True, scope="module")
def everything_is_compiled_before_the_first_fork():
    build()
    compiled()


@pytest.fixture(autouse=True)
def no_hook_is_left() -> Iterator[None]:
    yield
    set_launch_hooks()


@on_fake()
def test_hooks_are_called_around_every_launch_with_one_object_each(fake: FakeCuda):
    function = compiled().register(fake)
    seen: list[tuple[str, LaunchMetadata]] = []
    set_launch_hooks(
        lambda launch: seen.append(("enter", launch)), lambda launch: seen.append(("exit", launch))
    )
    stream = fake.create_stream(fake.retain_primary(0))
    del stream
    function(empty(100, weft.f32, 0))
    assert [when for when, _ in seen] == ["enter", "exit", "enter", "exit"]
    assert seen[0][1] is seen[1][1] and seen[0][1] is not seen[2][1]
    first, second = seen[0][1], seen[2][1]
    assert (first.kernel, first.device) == ("add_one_kernel", "cuda:0")
    assert (first.grid, first.block) == ((2, 1, 1), (64, 1, 1))
    assert (second.grid, second.block) == ((4, 1, 1), (32, 1, 1))
    assert (first.shared_memory_bytes, first.stream) == (0, 0)
    assert first.attributes == ((2, (1).to_bytes(64, "little")),)
    assert second.attributes == ()
    assert repr(first) == "<launch of add_one_kernel on cuda:0, grid=(2, 1, 1), block=(64, 1, 1)>"
    set_launch_hooks()
    function(empty(100, weft.f32, 0))
    assert len(seen) == 4


@on_fake()
def test_more_metadata_is_computed_once_and_only_when_asked_for(fake: FakeCuda):
    function = compiled().register(fake)
    computed: list[str] = []

    def compute(launch: LaunchMetadata) -> dict[str, object]:
        computed.append(launch.kernel)
        return {"threads": launch.grid[0] * launch.block[0]}

    set_launch_hooks(lambda launch: None, metadata=compute)
    function(empty(100, weft.f32, 0))
    assert computed == []
    answers: list[dict[str, object]] = []
    set_launch_hooks(
        lambda launch: answers.append(launch.get()),
        lambda launch: answers.append(launch.get()),
        metadata=compute,
    )
    function(empty(100, weft.f32, 0))
    assert len(computed) == 2
    assert answers[0] is answers[1]
    assert answers[0] == {
        "kernel": "add_one_kernel",
        "device": "cuda:0",
        "grid": (2, 1, 1),
        "block": (64, 1, 1),
        "shared_memory_bytes": 0,
        "stream": 0,
        "attributes": ((2, (1).to_bytes(64, "little")),),
        "threads": 128,
    }


@on_fake()
def test_a_raising_enter_hook_prevents_the_launch(fake: FakeCuda):
    function = compiled().register(fake)
    failure = KeyError("not now")

    def refuse(launch: LaunchMetadata) -> None:
        raise failure

    exits: list[LaunchMetadata] = []
    set_launch_hooks(refuse, exits.append)
    tensor = empty(8, weft.f32, 0)
    with pytest.raises(KeyError) as raised:
        function(tensor)
    assert raised.value is failure
    assert fake.launches() == [] and exits == []
    assert fake.current() is None


@on_fake()
def test_the_exit_hook_cannot_hide_a_failed_launch(
    fake: FakeCuda,
):
    function = compiled().register(fake)
    tensor = empty(8, weft.f32, 0)
    kernels: list[str] = []

    def leave(launch: LaunchMetadata) -> None:
        kernels.append(launch.kernel)
        raise ValueError("the hook's own")

    set_launch_hooks(None, leave)
    fake.fail("cuLaunchKernelEx", 1)
    with pytest.raises(CudaError, match="cuLaunchKernelEx returned CUDA_ERROR_INVALID_VALUE"):
        function(tensor)
    assert kernels == ["add_one_kernel"]
    assert fake.current() is None
    with pytest.raises(ValueError, match="the hook's own"):
        function(tensor)


@on_fake()
def test_threads_share_the_hooks(fake: FakeCuda):
    function = compiled().register(fake)
    function(empty(8, weft.f32, 0))
    counts: list[int] = []
    set_launch_hooks(lambda launch: counts.append(launch.grid[0]))

    def work() -> None:
        for _ in range(20):
            function(tensors[threading.current_thread().name])

    names = [f"worker {number}" for number in range(4)]
    tensors = {name: empty(8, weft.f32, 0) for name in names}
    threads = [threading.Thread(target=work, name=name) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(counts) == 4 * 20 * 2


def test_launches_on_the_cpu_have_hooks_too():
    function = on_cpu()
    seen: list[tuple[str, tuple[int, int, int]]] = []
    set_launch_hooks(exit=lambda launch: seen.append((launch.device, launch.grid)))
    values = np.zeros(100, np.float32)
    function(values)
    assert seen == [("cpu", (2, 1, 1)), ("cpu", (4, 1, 1))]
    assert values.tolist() == [2] * 100


@weft.kernel
def spin_kernel(flag: weft.Tensor):
    while weft.atomic_add(flag, 0, 0) == 0:
        pass


@weft.jit
def spin(flag: weft.Tensor[weft.i32, (1,)]):
    spin_kernel(flag).launch(grid=1, block=1)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("hooks", ["enter", "exit", "raising exit"])
def test_an_interrupt_reaches_the_caller_despite_hooks(
    hooks: str,
):
    class Interrupt(BaseException):
        pass

    def interrupt(*_: object) -> None:
        raise Interrupt

    def fail(launch: LaunchMetadata) -> None:
        raise ValueError("the hook's own")

    calls: list[str] = []
    function = weft.compile(spin, np.zeros(1, np.int32), options="--target cpu")
    if hooks == "raising exit":
        set_launch_hooks(exit=fail)
    else:
        set_launch_hooks(**{hooks: lambda launch: calls.append(launch.kernel)})
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(Interrupt):
            function(np.zeros(1, np.int32))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert calls == ([] if hooks == "raising exit" else ["spin_kernel"])


def test_a_hook_may_replace_the_hooks_while_it_runs():
    function = on_cpu()
    later: list[str] = []

    def once(launch: LaunchMetadata) -> None:
        set_launch_hooks(lambda launch: later.append(launch.kernel))

    set_launch_hooks(once)
    function(np.zeros(8, np.float32))
    assert later == ["add_one_kernel"]


def test_hooks_and_metadata_are_released():
    class Hook:
        def __call__(self, launch: LaunchMetadata) -> None:
            launch.get()

    hook = Hook()
    gone = weakref.ref(hook)
    set_launch_hooks(hook, hook, metadata=lambda launch: {"more": 1})
    on_cpu()(np.zeros(8, np.float32))
    set_launch_hooks()
    del hook
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("name", ["enter", "exit", "metadata"])
def test_what_cannot_be_called_is_refused_by_name(name: str):
    with pytest.raises(TypeError, match=f"{name}: expected a function"):
        set_launch_hooks(**{name: 3})  # type: ignore[arg-type]


def test_metadata_that_is_not_a_dict_is_an_error_of_the_call():
    set_launch_hooks(lambda launch: launch.get(), metadata=lambda launch: 3)  # type: ignore[arg-type, return-value]
    with pytest.raises((TypeError, AttributeError)):
        on_cpu()(np.zeros(8, np.float32))
