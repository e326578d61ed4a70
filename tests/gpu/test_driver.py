# SPDX-License-Identifier: Apache-2.0
"""The driver bridge on a real driver: what the fake claims of it, and what it cannot claim.

In: kernels as PTX, which the driver assembles itself. Out: their results, and the words of real failures.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from weft import _native, driver
from weft.driver import launch_attributes as attributes
from weft.errors import CudaError
from weft.types import dtype

pytestmark = pytest.mark.gpu

HEADER = b".version 7.8\n.target sm_75\n.address_size 64\n"
COPY = (
    HEADER
    + b"""
.visible .entry copy(.param .u64 a, .param .u64 b, .param .u32 n, .param .u8 flag)
.maxntid 256, 1, 1
{ .reg .b64 %rd<4>; .reg .b32 %r<4>; .reg .pred %p;
  mov.u32 %r1, %tid.x; ld.param.u32 %r2, [n]; setp.ge.s32 %p, %r1, %r2; @%p ret;
  ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b]; mul.wide.s32 %rd3, %r1, 4;
  add.s64 %rd1, %rd1, %rd3; add.s64 %rd2, %rd2, %rd3; ld.global.u32 %r3, [%rd1]; st.global.u32 [%rd2], %r3; ret; }
"""
)
EMPTY = HEADER + b".visible .entry empty() { ret; }\n"
SHARED = (
    HEADER
    + b""".extern .shared .align 4 .b8 dynamic[];
.visible .entry shared() { .shared .align 4 .b8 fixed[1024]; .reg .b32 %r1; mov.u32 %r1, %tid.x;
st.shared.u32 [fixed], %r1; st.shared.u32 [dynamic], %r1; ret; }
"""
)
SPIN = (
    HEADER
    + b"""
.visible .entry spin(.param .u64 out, .param .u64 nanoseconds)
{ .reg .b64 %rd<5>; .reg .pred %p; ld.param.u64 %rd1, [out]; ld.param.u64 %rd2, [nanoseconds];
  mov.u64 %rd3, %globaltimer; add.s64 %rd2, %rd2, %rd3;
L: mov.u64 %rd4, %globaltimer; setp.lt.u64 %p, %rd4, %rd2; @%p bra L; st.global.u64 [%rd1], %rd4; ret; }
"""
)
SIGNATURE = driver.make_kernel_signature(("*i32", "*i32", "i32", "i1"))
NOTHING = driver.make_kernel_signature([])


@pytest.fixture
def cuda() -> ctypes.CDLL:
    """libcuda itself, for what weft does not offer."""
    driver.open_driver()
    return ctypes.CDLL("libcuda.so.1")


def address_of(tensor: _native.Object) -> int:
    return ctypes.c_uint64.from_address(tensor.address + 24).value


def to_device(cuda: ctypes.CDLL, array: np.ndarray) -> _native.Object:
    tensor = driver.empty(array.shape, dtype.i32, 0)
    driver.set_current_device(0)
    source = array.ctypes.data_as(ctypes.c_void_p)
    assert cuda.cuMemcpyHtoD_v2(ctypes.c_uint64(address_of(tensor)), source, array.nbytes) == 0
    return tensor


def to_host(cuda: ctypes.CDLL, tensor: _native.Object, size: int) -> np.ndarray:
    array = np.empty(size, np.int32)
    target = array.ctypes.data_as(ctypes.c_void_p)
    assert cuda.cuMemcpyDtoH_v2(target, ctypes.c_uint64(address_of(tensor)), array.nbytes) == 0
    return array


def test_a_kernel_is_loaded_launched_and_unloaded(cuda: ctypes.CDLL):
    module, function, registers, spills, threads = driver.load_binary("copy", COPY)
    assert registers > 0
    assert (spills, threads) == (0, 256)
    assert driver.parameter_sizes(function) in ((8, 8, 4, 1), None)
    a, b = (to_device(cuda, np.arange(8, dtype=np.int32) * factor) for factor in (1, 0))
    driver.launch_ex(function, 1, 32, SIGNATURE, (a, b, 6, True), pointer_check="driver")
    driver.synchronize(0)
    assert to_host(cuda, b, 8).tolist() == [0, 1, 2, 3, 4, 5, 0, 0]
    driver.unload(module)
    assert driver.drain_unloads() >= 1
    with pytest.raises(ValueError, match="kernel copy was unloaded"):
        driver.launch_ex(function, 1, 32, SIGNATURE, (a, b, 6, True))


@pytest.mark.parametrize(
    ("grid", "block", "shared", "attribute", "words"),
    [
        (1, 512, 0, None, "the block has 512 threads, this kernel allows 256"),
        (1, 128, 400_000, None, "the block needs 400000 bytes of shared memory"),
        (10**6, 128, 0, attributes.Cooperative(), "it has 1000000 blocks, the device holds"),
    ],
)
def test_a_failed_launch_says_which_limit(grid, block, shared, attribute, words):
    function = driver.load_binary("copy", COPY)[1]
    with pytest.raises(CudaError, match=words):
        driver.launch_ex(
            function,
            grid,
            block,
            SIGNATURE,
            (0, 0, 0, 0),
            shared_memory_bytes=shared,
            attributes=[attribute] if attribute else [],
        )


def test_all_of_the_shared_memory_can_be_used():
    most = driver.device_properties(0).max_shared_memory_per_block_bytes
    function = driver.load_binary("shared", SHARED, most - 1024)[1]
    assert driver.static_shared_memory(function) == 1024
    driver.launch_ex(function, 1, 32, NOTHING, (), shared_memory_bytes=most - 1024)
    driver.synchronize(0)
    assert driver.occupancy_blocks(function, 32, most - 1024) == 1
    with pytest.raises(ValueError, match=f"{most + 1} bytes of shared memory"):
        driver.load_binary("shared", SHARED, most - 1023)


def test_attributes_that_one_gpu_can_show():
    properties = driver.device_properties(0)
    function = driver.load_binary("empty", EMPTY)[1]
    groups = [[attributes.Cooperative()], [attributes.Priority(-1)]]
    if properties.compute_capability >= (9, 0):
        groups += [
            [attributes.Cluster((2, 2))],
            [attributes.Cluster(16)],
            [attributes.Cluster(2), attributes.ClusterSchedulingPolicy("spread")],
            [attributes.ProgrammaticStreamSerialization()],
            [attributes.MemorySyncDomainMap(0, 1)],
            [attributes.MemorySyncDomain("remote")],
        ]
    for group in groups:
        driver.launch_ex(function, (16, 2), 32, NOTHING, (), attributes=group, device=properties)
    driver.synchronize(0)
    if properties.compute_capability >= (9, 0):
        assert driver.largest_cluster(function, (128, 1, 1)) == 16
        assert driver.occupancy_clusters(function, (128, 1, 1), (2, 1, 1)) > 0


def test_code_for_another_architecture_is_not_missing_code():
    future = EMPTY.replace(b"sm_75", b"sm_999")
    with pytest.raises(CudaError, match=r"cuModuleLoadData returned CUDA_ERROR_\w+"):
        driver.load_binary("empty", future)
    with pytest.raises(CudaError, match="the code has no kernel of that name"):
        driver.load_binary("full", EMPTY)


def test_descriptors_are_accepted_by_the_driver():
    if driver.device_properties(0).compute_capability < (9, 0):
        pytest.skip("needs a GPU with a tensor memory accelerator")
    tensor = driver.empty((64, 128), dtype.f16, 0)
    for swizzle, inner in (("none", 64), ("32B", 16), ("64B", 32), ("128B", 64)):
        descriptor = driver.fill_tma_descriptor_tiled(
            driver.TensorMap(),
            address_of(tensor),
            "f16",
            (64, 128),
            (128, 1),
            (8, inner),
            swizzle=swizzle,
        )
        assert any(memoryview(descriptor))  # type: ignore[arg-type]


def test_unloading_waits_for_a_kernel_that_runs(cuda: ctypes.CDLL):
    out = to_device(cuda, np.zeros(2, np.int32))
    module, function, *_ = driver.load_binary("spin", SPIN)
    signature = driver.make_kernel_signature(("*i64", "i64"))
    driver.launch_ex(function, 1, 1, signature, (out, 20_000_000))
    driver.unload(module)
    driver.drain_unloads()
    driver.synchronize(0)
    assert to_host(cuda, out, 2).any()


def test_memory_that_is_not_there_is_an_error_with_its_size():
    with pytest.raises(CudaError, match="allocating 1099511627776000 bytes on cuda:0"):
        driver.empty(10**3 * 2**40, dtype.u8, 0)


def test_a_launch_is_captured_and_replayed(cuda: ctypes.CDLL):
    function = driver.load_binary("copy", COPY)[1]
    a, b = (to_device(cuda, np.arange(8, dtype=np.int32) * factor) for factor in (1, 0))
    driver.set_current_device(0)
    stream, graph, runnable = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    assert cuda.cuStreamCreate(ctypes.byref(stream), 1) == 0
    assert cuda.cuStreamBeginCapture_v2(stream, 0) == 0
    assert driver.is_capturing(stream.value)
    driver.launch_ex(function, 1, 32, SIGNATURE, (a, b, 8, 1), stream=stream.value)
    driver.load_binary("empty", EMPTY)  # another load leaves the capture alone
    assert cuda.cuStreamEndCapture(stream, ctypes.byref(graph)) == 0
    assert cuda.cuGraphInstantiateWithFlags(ctypes.byref(runnable), graph, ctypes.c_uint64(0)) == 0
    assert not to_host(cuda, b, 8).any()
    assert cuda.cuGraphLaunch(runnable, stream) == 0
    assert cuda.cuStreamSynchronize(stream) == 0
    assert to_host(cuda, b, 8).tolist() == list(range(8))


def test_an_illegal_access_tells_the_last_launches():
    code = textwrap.dedent(
        """
        from weft import driver
        from weft.errors import CudaError
        from tests.gpu.test_driver import COPY, SIGNATURE
        function = driver.load_binary("copy", COPY)[1]
        driver.launch_ex(function, 1, 32, SIGNATURE, (16, 32, 8, 1))
        for attempt in range(2):
            try:
                driver.synchronize(0)
            except CudaError as error:
                print(error.code, error)
        """
    )
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([".", os.environ.get("PYTHONPATH", "")]),
    }
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True
    )
    assert result.stdout.count("700 waiting for cuda:0") == 2
    assert "the process must be restarted" in result.stdout
    assert "copy on cuda:0, grid=(1, 1, 1), block=(32, 1, 1)" in result.stdout


def test_a_child_forked_after_use_gets_an_error():
    code = textwrap.dedent(
        """
        import os
        from weft import driver
        from weft.errors import CudaError
        driver.device_properties(0)
        if os.fork() == 0:
            try:
                driver.device_properties(0)
            except CudaError as error:
                print(error, flush=True)
            os._exit(0)
        os.wait()
        """
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert "forked after CUDA was initialized" in result.stdout
