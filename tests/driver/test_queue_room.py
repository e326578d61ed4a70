# SPDX-License-Identifier: Apache-2.0
"""A launch may wait for the device, and the device for Python: the GIL is free meanwhile, on every path.

The fake's queue takes so much work and no more until a thread of Python has made room, as a callback in a stream
would. A launch that waited with the GIL held would keep that thread out forever: the test's child would be ended.
"""

from __future__ import annotations

import functools
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import weft
from tests.native.fake_cuda.code import EMPTY, assemble
from tests.native.fake_cuda.fake import FakeCuda, build, on_fake
from tests.sampling import sampled
from weft import _native, driver
from weft.driver.memory import empty

Vector = weft.Tensor[weft.f32, ("n",)]
LIMIT = 1024  # as the driver's


@weft.kernel
def touch_kernel(a: weft.Tensor):
    a[0] = 1.0


@weft.kernel
def scratch_kernel(a: weft.Tensor):
    kept = weft.global_scratch(1, weft.f32)
    kept[0] = 1.0
    a[0] = kept[0]


@weft.jit
def touch(a: Vector):
    touch_kernel(a).launch(grid=1, block=1)


@weft.jit
def touch_twice(a: Vector):
    touch_kernel(a).launch(grid=1, block=1)
    touch_kernel(a).launch(grid=1, block=1)


@weft.jit
def with_scratch(a: Vector):
    scratch_kernel(a).launch(grid=1, block=1)


@functools.cache
def compiled(function: Any, executor: str = "library") -> Any:
    return weft.compile(function, options=f"--gpu-arch sm_90 --executor {executor}")


@pytest.fixture(autouse=True, scope="module")
def everything_is_compiled_before_the_first_fork():
    build()
    for function in (touch, touch_twice, with_scratch):
        compiled(function)
    compiled(touch, "context")


def vector() -> Any:
    return empty((8,), weft.f32, 0)


def loaded() -> int:
    return driver.load_binary("empty_kernel", assemble(EMPTY))[1]


NOTHING = driver.make_kernel_signature([])


def by_compiled() -> Callable[[], object]:
    return functools.partial(compiled(touch), vector())


def by_context() -> Callable[[], object]:
    return functools.partial(compiled(touch, "context"), vector())


def by_two_launches() -> Callable[[], object]:
    return functools.partial(compiled(touch_twice), vector())


def by_direct_call() -> Callable[[], object]:
    return functools.partial(touch, vector())


def by_subscript() -> Callable[[], object]:
    return functools.partial(touch_kernel[1, 1], vector())


def by_prepared() -> Callable[[], object]:
    return compiled(touch).prepare(vector())


def by_scratch() -> Callable[[], object]:
    return functools.partial(compiled(with_scratch), vector())


def by_launch() -> Callable[[], object]:
    function = loaded()
    return lambda: driver.launch(
        1, 1, 1, None, function, False, False, (1, 1, 0), None, None, None, None, None, None, NOTHING, ()
    )  # fmt: skip


def by_launch_ex() -> Callable[[], object]:
    return functools.partial(driver.launch_ex, loaded(), 1, 32, NOTHING, ())


def by_launcher() -> Callable[[], object]:
    launcher = driver.Launcher([], driver.KernelMetadata())
    return functools.partial(launcher, 1, 1, 1, None, loaded(), (1, 1, 0), None, None, None)


def by_hooks() -> Callable[[], object]:
    function = loaded()
    return lambda: driver.launch_ex(
        function, 1, 32, NOTHING, (), enter_hook=lambda _: None, exit_hook=lambda _: None
    )


def by_fill() -> Callable[[], object]:
    return functools.partial(_native.fill_tensor, vector(), 0.0)


WAYS = (
    by_compiled, by_context, by_two_launches, by_direct_call, by_subscript, by_prepared, by_scratch, by_launch,
    by_launch_ex, by_launcher, by_hooks, by_fill,
)  # fmt: skip


@contextmanager
def room_made_by_python(fake: FakeCuda, limit: int = LIMIT) -> Iterator[None]:
    """A queue with a limit, and a thread of Python that makes room whenever it is full."""
    done = threading.Event()

    def serve() -> None:
        while not done.is_set():
            if fake.queued() >= limit:
                fake.limit_queue(limit)
            time.sleep(0.001)

    thread = threading.Thread(target=serve)
    fake.limit_queue(limit)
    thread.start()
    yield
    done.set()
    thread.join()
    fake.limit_queue(0)


@pytest.mark.parametrize("way", sampled(WAYS, 3))
@on_fake()
def test_a_full_queue_lets_python_run(fake: FakeCuda, way: Callable[[], Callable[[], object]]):
    call = way()
    for _ in range(600):  # the stream is idle: launches hold the GIL
        call()
    with room_made_by_python(fake):
        for _ in range(2 * LIMIT + 100):
            call()


@pytest.mark.parametrize("way", sampled(WAYS, 3))
@on_fake()
def test_a_queue_that_others_filled_lets_python_run(
    fake: FakeCuda, way: Callable[[], Callable[[], object]]
):
    call = way()
    for _ in range(600):
        call()
    with room_made_by_python(fake, 8):
        time.sleep(0.002)  # the time that others take to queue a thousand launches
        for _ in range(8):
            fake.library.cuMemsetD8Async(fake.last_allocation(), 0, 0, None)
        call()


@on_fake()
def test_a_thread_that_waits_blocks_no_other_stream(fake: FakeCuda):
    """The driver may hold a lock while a launch waits; a second stream's launch then waits, too."""
    first, second = (fake.create_stream(fake.retain_primary(0)) for _ in range(2))
    function = loaded()
    other: Callable[[], object] = functools.partial(
        driver.launch_ex, function, 1, 32, NOTHING, (), stream=second
    )
    for _ in range(600):
        other()
    with room_made_by_python(fake, 1):
        thread = threading.Thread(
            target=lambda: [
                driver.launch_ex(function, 1, 32, NOTHING, (), stream=first) for _ in range(9)
            ]
        )
        thread.start()
        for _ in range(9):
            other()
        thread.join()


@on_fake()
def test_one_slow_launch_is_the_last_with_the_gil(fake: FakeCuda):
    call = by_launch_ex()
    for _ in range(40):
        call()
    fake.delay("cuLaunchKernelEx", 100)
    call()  # may have the GIL
    turns = 0
    stop = threading.Event()

    def count() -> None:
        nonlocal turns
        while not stop.is_set():
            turns += 1
            time.sleep(0)

    thread = threading.Thread(target=count)
    thread.start()
    fake.delay("cuLaunchKernelEx", 20_000)
    call()
    before = turns
    call()
    assert turns > before + 10
    stop.set()
    thread.join()


def looked_at(fake: FakeCuda, call: Callable[[], object], times: int) -> int:
    before = fake.count("cuStreamQuery")
    for _ in range(times):
        call()
    return fake.count("cuStreamQuery") - before


@on_fake()
def test_an_idle_stream_is_rarely_looked_at(fake: FakeCuda):
    call = by_launch_ex()
    start = time.perf_counter()
    looks = looked_at(fake, call, 2000)
    milliseconds = 1e3 * (time.perf_counter() - start)
    assert 2 <= looks <= 2000 / 256 + 4 * milliseconds + 20


@on_fake()
def test_a_stream_that_captures_is_never_asked_whether_it_is_idle(fake: FakeCuda):
    stream = fake.create_stream(fake.retain_primary(0))
    call = functools.partial(driver.launch_ex, loaded(), 1, 32, NOTHING, (), stream=stream)
    call()
    fake.begin_capture(stream)
    assert looked_at(fake, call, 600) == 0
    fake.end_capture(stream)


@pytest.mark.parametrize("word", ["hold", "release"])
@on_fake(prepare=False)
def test_the_switch_holds_or_releases_always(fake: FakeCuda, word: str):
    os.environ.update(WEFT_LIBCUDA=str(fake.path), WEFT_LAUNCH_GIL=word)
    driver.open_driver()
    call = by_launch_ex()
    assert looked_at(fake, call, 600) == 0
    fake.delay("cuLaunchKernelEx", 30_000)
    turns = 0
    stop = threading.Event()

    def count() -> None:
        nonlocal turns
        while not stop.is_set():
            turns += 1
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    time.sleep(0.02)
    before = turns
    for _ in range(3):
        call()
    seen = turns - before
    stop.set()
    thread.join()
    assert (seen < 8) if word == "hold" else (seen > 20)


@on_fake(prepare=False)
def test_another_word_is_refused(fake: FakeCuda):
    os.environ["WEFT_LAUNCH_GIL"] = "never"
    with pytest.raises(
        ValueError, match="WEFT_LAUNCH_GIL is 'never', expected one of auto, hold, release"
    ):
        driver.open_driver()
