# SPDX-License-Identifier: Apache-2.0
"""Compiled functions on the fake driver: device guard, lazy loading, executors, errors, threads, capture."""

from __future__ import annotations

import ctypes
import functools
import gc
import itertools
import os
import threading
from pathlib import Path

import numpy as np
import pytest

import weft
from tests.native.fake_cuda.cpu_builds import Compiled
from tests.native.fake_cuda.fake import FakeCuda, build, in_child, on_fake, start
from tests.sampling import sampled
from weft import _native
from weft.driver.launch_attributes import Priority
from weft.driver.library import prepare_driver
from weft.driver.memory import empty
from weft.errors import CudaError

EXECUTORS = ("context", "library", "tvm-ffi")


@weft.kernel
def add_one_kernel(a: weft.Tensor, b: weft.Tensor):
    i = weft.block_idx.x * weft.block_dim.x + weft.thread_idx.x
    if i < a.shape[0]:
        b[i] = a[i] + 1.0


@weft.jit
def add_one(a: weft.Tensor[weft.f32, ("n",)], b: weft.Tensor[weft.f32, ("n",)]):
    add_one_kernel(a, b).launch(grid=weft.ceil_div(a.shape[0], 128), block=128)


@weft.jit
def add_one_on(
    a: weft.Tensor[weft.f32, ("n",)], b: weft.Tensor[weft.f32, ("n",)], stream: weft.Stream
):
    add_one_kernel(a, b).launch(grid=weft.ceil_div(a.shape[0], 128), block=128, stream=stream)


@weft.jit
def add_one_twice(
    a: weft.Tensor[weft.f32, ("n",)],
    b: weft.Tensor[weft.f32, ("n",)],
    first: weft.Stream,
    second: weft.Stream,
):
    add_one_kernel(a, b).launch(grid=weft.ceil_div(a.shape[0], 128), block=128, stream=first)
    add_one_kernel(b, b).launch(grid=weft.ceil_div(a.shape[0], 128), block=128, stream=second)


@functools.cache
def compiled_twice() -> Compiled:
    vector = weft.fake_tensor(weft.f32, ("n",))
    return Compiled(add_one_twice, vector, vector, weft.Stream(0), weft.Stream(0))


@functools.cache
def compiled(executor: str, with_stream: bool = False) -> Compiled:
    vector = weft.fake_tensor(weft.f32, ("n",))
    if with_stream:
        return Compiled(
            add_one_on, vector, vector, weft.Stream(0), options=f"--executor {executor}"
        )
    return Compiled(add_one, vector, vector, options=f"--executor {executor}")


@pytest.fixture(autouse=True, scope="module")
def everything_is_compiled_before_the_first_fork():
    build()
    for executor in EXECUTORS:
        compiled(executor)
    for executor in ("context", "library"):
        compiled(executor, with_stream=True)
    compiled_twice()


def vectors(device: int, size: int = 10) -> tuple[_native.Object, _native.Object, np.ndarray]:
    """Two device tensors, and the second one's memory (host memory on the fake)."""
    a, b = empty(size, weft.f32, device), empty(size, weft.f32, device)
    memory = [
        np.frombuffer((ctypes.c_char * (4 * size)).from_address(address_of(tensor)), np.float32)
        for tensor in (a, b)
    ]
    memory[0][:] = np.arange(size)
    memory[1][:] = 0
    return a, b, memory[1]


def address_of(tensor: _native.Object) -> int:
    info = _native.tensor_info(tensor)
    if info is not None:
        return info.data
    return ctypes.c_void_p.from_address(tensor.address + 24).value or 0


@on_fake(devices=2)
@pytest.mark.parametrize("executor", EXECUTORS)
def test_tensors_of_two_devices_in_turn_need_no_rebinding(fake: FakeCuda, executor: str):
    function = compiled(executor).register(fake)
    for device in (0, 1, 0, 1):
        a, b, result = vectors(device)
        for callers in (None, fake.retain_primary(1 - device), fake.create_context(0)):
            result[:] = 0
            fake.set_current(callers)
            function(a, b)
            assert fake.current() == callers
            assert result.tolist() == list(range(1, 11))
    modules, libraries = (2, 0) if executor == "context" else (0, 1)
    assert (fake.live("module"), fake.live("library")) == (modules, libraries)


@on_fake(devices=2)
def test_the_usual_call_asks_the_driver_twice(fake: FakeCuda):
    function = compiled("library").register(fake)
    a, b, _ = vectors(0)
    fake.set_current(fake.retain_primary(0))
    _native.set_launch_gil("hold")  # else some calls look whether the stream is idle
    function(a, b)
    fake.forget_calls()
    function(a, b)
    assert [call.split("(")[0] for call in fake.calls()] == ["cuCtxGetCurrent", "cuLaunchKernelEx"]


@on_fake(devices=2)
def test_another_librarys_primary_context_is_used(fake: FakeCuda):
    function = compiled("library", with_stream=True).register(fake)
    fake.set_current(fake.retain_primary(1))
    stream = fake.create_stream(fake.retain_primary(1))
    nothing = empty(0, weft.f32, 1)
    for _ in range(2):
        fake.forget_calls()
        function(nothing, nothing, stream)
    assert [call.split("(")[0] for call in fake.calls()] == ["cuCtxGetCurrent", "cuStreamGetCtx"]
    assert fake.live("context") == 1


@on_fake()
def test_no_primary_context_is_made_beside_the_callers_own(fake: FakeCuda):
    function = compiled("library").register(fake)
    context = fake.create_context(0)
    nothing = empty(0, weft.f32, 0)
    function(nothing, nothing)
    assert (fake.live("context"), fake.current()) == (1, context)


CALLERS = {
    "none": lambda fake: None,
    "other device": lambda fake: fake.retain_primary(0),
    "own context": lambda fake: fake.create_context(0),
}


def first_call(executor: str, callers: str, failing: tuple[str, int] | None) -> list[str]:
    """In a fresh process: the first call with tensors of device 1, one driver call of it failing.

    Returns the names of the driver functions that it called, in order.
    """
    fake = start(devices=2)
    function = compiled(executor).register(fake)
    a, b, result = vectors(1)
    context = CALLERS[callers](fake)
    fake.set_current(context)
    fake.forget_calls()
    if failing is None:
        function(a, b)
    else:
        fake.fail(failing[0], 2, failing[1])
        with pytest.raises(CudaError) as caught:
            function(a, b)
        assert (caught.value.function, caught.value.code) == (failing[0], 2)
        assert fake.current() == context
        function(a, b)
    names = [call.split("(")[0] for call in fake.calls()]
    assert fake.current() == context
    assert result.tolist() == list(range(1, 11))
    return names


# What may fail unnoticed: a limit that is read, a name for a message, a precaution.
HARMLESS = (
    "cuDeviceGetName",
    "cuDevicePrimaryCtxGetState",
    "cuFuncGetAttribute",
    "cuKernelGetAttribute",
    "cuStreamIsCapturing",
    "cuStreamQuery",
    "cuThreadExchangeStreamCaptureMode",
)


@pytest.mark.parametrize(
    ("executor", "callers"), sampled(itertools.product(EXECUTORS, CALLERS), 8, several=True)
)
def test_any_failed_driver_call_of_a_first_use_is_undone(
    executor: str, callers: str, tmp_path: Path
):
    file = tmp_path / "names"
    in_child(lambda: file.write_text(" ".join(first_call(executor, callers, None))) and None)
    names = file.read_text().split()
    assert len(names) >= 9
    for index, name in enumerate(names):
        failing = name, names[: index + 1].count(name)
        # The last switch is the restoring itself; its failure has a test of its own.
        is_restoring = name == "cuCtxSetCurrent" and name not in names[index + 1 :]
        if name not in HARMLESS and not is_restoring:
            in_child(lambda failing=failing: first_call(executor, callers, failing) and None)


@on_fake()
def test_a_context_that_cannot_be_restored_is_an_error_of_its_own(fake: FakeCuda):
    function = compiled("library").register(fake)
    a, b, _ = vectors(0)
    function(a, b)
    fake.fail("cuCtxSetCurrent", 201, 2)
    with pytest.raises(CudaError, match="restoring the caller's context: cuCtxSetCurrent returned"):
        function(a, b)
    fake.set_current(None)
    fake.fail("cuLaunchKernelEx", 719)
    fake.fail("cuCtxSetCurrent", 201, 2)
    with pytest.raises(CudaError, match="CUDA_ERROR_LAUNCH_FAILED"):
        function(a, b)


@on_fake(devices=8)
def test_sixteen_threads_share_one_function_on_eight_devices(fake: FakeCuda):
    function = compiled("library").register(fake)
    tensors = [vectors(index % 8) for index in range(16)]
    fake.delay("cuLibraryLoadData", 1000)
    errors: list[BaseException] = []
    barrier = threading.Barrier(16)

    def work(index: int) -> None:
        try:
            a, b, result = tensors[index]
            context = fake.retain_primary((index + 1) % 8) if index % 2 else None
            fake.set_current(context)
            barrier.wait()
            for _ in range(20):
                function(a, b)
                assert fake.current() == context
            assert result.tolist() == list(range(1, 11))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(index,)) for index in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert fake.count("cuLibraryLoadData") == 1
    assert fake.count("cuKernelGetFunction") == 8
    assert len(fake.launches()) == 320


@on_fake(devices=2)
@pytest.mark.parametrize("executor", EXECUTORS)
def test_a_bound_function_refuses_other_devices(fake: FakeCuda, executor: str):
    function = compiled(executor).register(fake)
    bound = function.to(1)
    a, b, result = vectors(1)
    bound(a, b)
    function(a, b)
    assert result[0] == 1
    assert fake.live("library") + fake.live("module") == 1
    c, d, _ = vectors(0)
    with pytest.raises(
        ValueError, match=r"bound to cuda:1 by \.to\(\), received tensors on cuda:0"
    ):
        bound(c, d)
    with pytest.raises(ValueError, match="there is no device cuda:7; the driver sees 2 devices"):
        function.to(7)(a, b)


@on_fake(devices=2)
def test_work_follows_the_stream_and_both_must_agree(fake: FakeCuda):
    function = compiled("library", with_stream=True).register(fake)
    stream = fake.create_stream(fake.retain_primary(1))
    a, b, result = vectors(1)
    function(a, b, stream)
    assert (result[0], fake.current()) == (1, None)
    assert f"stream={stream:#x}" in fake.launches()[0]
    c, d, _ = vectors(0)
    with pytest.raises(ValueError, match="is on cuda:1, expected one of cuda:0"):
        function(c, d, stream)
    fake.destroy_stream(stream)
    with pytest.raises(CudaError, match="the stream does not exist, or was destroyed"):
        function(a, b, stream)
    assert fake.current() is None


@on_fake(devices=2)
def test_every_launch_may_name_a_stream_of_its_device(fake: FakeCuda):
    function = compiled_twice().register(fake)
    streams = [fake.create_stream(fake.retain_primary(device)) for device in (1, 1, 0)]
    a, b, result = vectors(1)
    function(a, b, streams[0], streams[1])
    assert result[0] == 2
    assert [
        f"stream={stream:#x}" in text
        for stream, text in zip(streams, fake.launches(), strict=False)
    ] == [True] * 2
    with pytest.raises(ValueError, match=r"stream 0x.* is on cuda:0, expected one of cuda:1"):
        function(a, b, streams[0], streams[2])
    assert len(fake.launches()) == 3
    assert fake.current() is None


@on_fake()
def test_a_stream_of_a_context_of_its_own_runs_there(fake: FakeCuda):
    context = fake.create_context(0)
    stream = fake.create_stream(context)
    a, b, result = vectors(0)
    fake.set_current(None)
    compiled("library", with_stream=True).register(fake)(a, b, stream)
    assert result[0] == 1
    with pytest.raises(ValueError, match=r"not of the primary context.*--executor library"):
        compiled("context", with_stream=True).function(a, b, stream)
    assert fake.current() is None


@on_fake()
def test_a_first_call_under_capture_loads_the_code(fake: FakeCuda):
    function = compiled("library", with_stream=True).register(fake)
    stream = fake.create_stream(fake.retain_primary(0))
    a, b, result = vectors(0)
    fake.begin_capture(stream)
    function(a, b, stream)
    assert result[0] == 0 and fake.count("cuLibraryLoadData") == 1
    fake.replay(fake.end_capture(stream), stream)
    assert result[0] == 1


@on_fake()
def test_code_is_not_loaded_while_a_stream_ordered_by_the_legacy_one_is_captured(fake: FakeCuda):
    function = compiled("library", with_stream=True).register(fake)
    stream = fake.create_stream(fake.retain_primary(0), blocking=True)
    a, b, _ = vectors(0)
    fake.begin_capture(stream)
    with pytest.raises(CudaError, match=r"call the function's preload\(0\) before the capture"):
        function(a, b, stream)
    fake.end_capture(stream)


@on_fake(version=12020)
def test_a_first_call_under_capture_points_to_preload(fake: FakeCuda):
    function = compiled("library", with_stream=True).register(fake)
    stream = fake.create_stream(fake.retain_primary(0))
    a, b, result = vectors(0)
    fake.begin_capture(stream)
    with pytest.raises(CudaError, match=r"call the function's preload\(0\) before the capture"):
        function(a, b, stream)
    fake.end_capture(stream)
    assert set(function.preload(0)) == {"add_one_kernel"}
    fake.begin_capture(stream)
    function(a, b, stream)
    assert result[0] == 0
    graph = fake.end_capture(stream)
    fake.replay(graph, stream)
    assert result[0] == 1


@on_fake()
def test_no_elements_means_no_launch(fake: FakeCuda):
    function = compiled("library").register(fake)
    function(empty(0, weft.f32, 0), empty(0, weft.f32, 0))
    assert fake.count("cuLaunchKernelEx") == 0


@on_fake()
def test_the_code_is_unloaded_after_the_last_function_is_gone(fake: FakeCuda):
    vector = weft.fake_tensor(weft.f32, ("n",))
    function = weft.compile(add_one, vector, vector, options="--target cuda --gpu-arch sm_90")
    a, b, _ = vectors(0)
    function(a, b)
    bound = function.to(0)
    del function
    gc.collect()
    assert _native.pending_unloads() == 0
    bound(a, b)
    del bound
    gc.collect()
    assert _native.pending_unloads() == 1
    weft.synchronize()
    assert (fake.live("library"), fake.live("function")) == (0, 0)


@on_fake()
def test_a_crashed_kernel_is_reported_with_the_last_launches(fake: FakeCuda):
    function = compiled("library").register(fake)
    a, b, _ = vectors(0)
    function(a, b)
    fake.poison(700)
    with pytest.raises(CudaError) as caught:
        function(a, b)
    assert caught.value.name == "CUDA_ERROR_ILLEGAL_ADDRESS"
    assert "add_one_kernel on cuda:0, grid=(1, 1, 1), block=(128, 1, 1)" in str(caught.value)
    assert fake.current() is None


@on_fake()
def test_a_forked_child_gets_an_error_and_the_parent_goes_on(fake: FakeCuda):
    function = compiled("library").register(fake)
    a, b, result = vectors(0)
    function(a, b)

    def child() -> None:
        with pytest.raises(CudaError, match="forked after CUDA was initialized"):
            function(a, b)

    in_child(child)
    result[:] = 0
    function(a, b)
    assert result[0] == 1


@on_fake(devices=2)
def test_other_tools_get_the_module_or_the_library(fake: FakeCuda):
    """The handles are those that the driver gave: it finds the kernels in them."""
    for executor, find in (("context", "cuModuleGetFunction"), ("library", "cuLibraryGetKernel")):
        function = compiled(executor).register(fake)
        codes = [function.code_handle(device) for device in (0, 1)]
        assert (codes[0] == codes[1]) == (executor == "library")
        for code in codes:
            found = ctypes.c_void_p()
            fake.call(find, ctypes.byref(found), ctypes.c_void_p(code), b"add_one_kernel")
            assert found.value
        assert function.code_handle(0) == codes[0]


@on_fake(devices=2)
def test_a_device_is_bound_and_loaded_by_its_name(fake: FakeCuda):
    function = compiled("library").register(fake)
    assert function.to("cuda:1").device == 1
    assert list(function.preload("cuda:1")) == ["add_one_kernel"]
    assert function.to().device == function.to(None).device == 0
    fake.set_current(fake.retain_primary(1))
    assert function.to().device == function.to(None).device == 1
    for device in (2, 7, "cuda:7"):
        for method in (function.to, function.preload, function.code_handle):
            with pytest.raises(
                ValueError, match=r"there is no device cuda:\d; the driver sees 2 devices"
            ):
                method(device)
    with pytest.raises(ValueError, match="device is 'cpu', expected 'cuda'"):
        function.to("cpu")


@on_fake(devices=2)
def test_a_wrong_device_is_an_error_with_the_functions_name(fake: FakeCuda):
    function = compiled("library", with_stream=True).register(fake)
    a, b, _ = vectors(0)
    elsewhere = fake.create_stream(fake.retain_primary(1))
    with pytest.raises(ValueError, match=r"^add_one_on.*: the function is bound to cuda:1 by .to"):
        function.to("cuda:1")(a, b, None)
    with pytest.raises(
        ValueError, match=r"^add_one_on.*: stream 0x.* is on cuda:1, expected one of"
    ):
        function(a, b, elsewhere)


@on_fake(devices=2)
def test_a_stream_of_another_device_is_an_error_of_the_launch(fake: FakeCuda):
    function = compiled_twice().register(fake)
    a, b, _ = vectors(0)
    here, elsewhere = (fake.create_stream(fake.retain_primary(device)) for device in (0, 1))
    with pytest.raises(ValueError, match=r"launch of add_one_kernel: stream 0x.* is on cuda:1"):
        function(a, b, here, elsewhere)


@on_fake()
def test_another_architecture_is_an_error_with_both(fake: FakeCuda):
    fake.set_architecture(0, 8, 0)
    a, b, _ = vectors(0)
    with pytest.raises(CudaError, match=r"assembled for sm_90, and cuda:0.*sm_80. cannot run that"):
        compiled("library").function(a, b)


def test_a_call_without_a_driver_names_the_driver():
    def child() -> None:
        os.environ["WEFT_LIBCUDA"] = "/nowhere/libcuda.so.1"
        prepare_driver()
        vector = np.zeros(4, np.float32)
        with pytest.raises(ValueError, match="device"):
            compiled("library").function(vector, vector)
        with pytest.raises(CudaError, match="cannot open the CUDA driver") as caught:
            compiled("library").function.preload(0)
        assert caught.value.code == -1

    in_child(child)


@on_fake()
def test_a_call_through_tvm_ffi_has_the_same_error_text(fake: FakeCuda):
    tvm_ffi = pytest.importorskip("tvm_ffi")
    function = compiled("tvm-ffi").register(fake)
    a, b, result = vectors(0)
    foreign = function.as_tvm_ffi()
    foreign(tvm_ffi.from_dlpack(a), tvm_ffi.from_dlpack(b))
    assert result[0] == 1
    fake.fail("cuLaunchKernelEx", 701)
    with pytest.raises(RuntimeError, match="launching add_one_kernel on cuda:0"):
        foreign(tvm_ffi.from_dlpack(a), tvm_ffi.from_dlpack(b))


PRIORITY = Priority(-2)


@weft.jit
def add_one_first(a: weft.Tensor[weft.f32, ("n",)], b: weft.Tensor[weft.f32, ("n",)]):
    add_one_kernel(a, b).launch(
        grid=4, block=128, cluster=2, cooperative=True, programmatic=True, attributes=(PRIORITY,)
    )


@on_fake()
def test_launch_attributes_of_a_host_function_reach_the_driver(fake: FakeCuda):
    a, b, result = vectors(0)
    Compiled(add_one_first, a, b).register(fake)(a, b)
    assert result[0] == 1
    assert "attributes=[4:2,1,1 2:1,0,0 6:1,0,0 8:4294967294,0,0]" in fake.launches()[0]


@weft.jit
def count_rows(a: weft.Tensor[weft.f32, ("n", 2)]):
    return a.shape[0]


@on_fake()
def test_a_function_that_launches_nothing_needs_no_device(fake: FakeCuda):
    tensor = empty((5, 2), weft.f32, 0)
    fake.forget_calls()
    function = weft.compile(count_rows, tensor, options="--gpu-arch sm_90")
    assert function(tensor) == 5
    assert fake.calls() == []
    with pytest.raises(ValueError, match=r"shape\[1\] is 3, expected 2"):
        function(empty((5, 3), weft.f32, 0))
