# SPDX-License-Identifier: Apache-2.0
"""load_binary and what can be asked of a loaded kernel; bad code is refused before the driver sees it."""

from __future__ import annotations

import random

import pytest

from tests.native.fake_cuda.code import ADD_ONE, EMPTY, SHARED, assemble
from tests.native.fake_cuda.fake import FakeCuda, in_child, on_fake
from weft import _native
from weft.driver.binary import (
    drain_unloads,
    largest_cluster,
    load_binary,
    occupancy_blocks,
    occupancy_clusters,
    parameter_sizes,
    static_shared_memory,
    unload,
)
from weft.errors import CudaError


@on_fake()
def test_load_binary_gives_handles_and_resources(fake: FakeCuda):
    module, function, registers, spills, threads = load_binary("add_one_kernel", assemble(ADD_ONE))
    assert module != 0
    assert function != 0
    assert 4 <= registers <= 32
    assert (spills, threads) == (0, 256)
    assert parameter_sizes(function) == (8, 8, 4, 1)


@on_fake(devices=2)
def test_without_a_context_the_primary_one_is_retained(
    fake: FakeCuda,
):
    load_binary("empty_kernel", assemble(EMPTY), 0, 1)
    assert fake.live("retain") == 1
    assert fake.current() is None
    own = fake.create_context(1)
    load_binary("empty_kernel", assemble(EMPTY), 0, 1)
    assert (fake.live("retain"), fake.current()) == (1, own)
    load_binary("empty_kernel", assemble(EMPTY), 0, 0)
    assert (fake.live("retain"), fake.current()) == (2, own)


@on_fake()
def test_more_than_48_kb_of_shared_memory_is_allowed(fake: FakeCuda):
    load_binary("shared_kernel", assemble(SHARED), 48000, 0)
    assert fake.count("cuFuncSetAttribute") == 0
    load_binary("shared_kernel", assemble(SHARED), 49152, 0)
    (call,) = fake.calls("cuFuncSetAttribute")
    assert call.endswith(f", 8, {232448 - 1024}) -> 0")
    with pytest.raises(
        ValueError, match=r"233472 bytes of shared memory \(1024 static, 232448 dynamic\)"
    ):
        load_binary("shared_kernel", assemble(SHARED), 232448, 0)
    with pytest.raises(ValueError, match="shared is -1"):
        load_binary("shared_kernel", assemble(SHARED), -1, 0)
    assert fake.live("module") == 2


@on_fake()
def test_damaged_binaries_are_refused_before_the_driver(fake: FakeCuda):
    cubin = assemble(ADD_ONE)
    generator = random.Random(0)
    for size in [0, 1, 4, 63, 64, 1000, len(cubin) // 2, len(cubin) - 1]:
        with pytest.raises(ValueError, match="add_one_kernel is"):
            load_binary("add_one_kernel", cubin[:size])
    for size in [1, 100, 5000]:
        with pytest.raises(
            ValueError, match=f"neither a cubin nor a fatbin nor PTX: received {size} bytes"
        ):
            load_binary("add_one_kernel", generator.randbytes(size))
    assert fake.count("cuModuleLoadData") == 0


@on_fake()
def test_a_damaged_header_never_reaches_past_the_bytes(fake: FakeCuda):
    cubin = bytearray(assemble(ADD_ONE))
    cubin[58] = 255  # the size of a section's header
    with pytest.raises(ValueError, match="its ELF header does not describe its tables"):
        load_binary("add_one_kernel", bytes(cubin))
    cubin[58] = 64
    for offset in range(16, 64):
        for value in (0x00, 0x7F, 0xFF):
            damaged = bytes(cubin[:offset] + bytes([value]) + cubin[offset + 1 :])
            try:
                module, *_ = load_binary("add_one_kernel", damaged)
                unload(module)
            except (ValueError, CudaError):
                pass


@on_fake(version=12040)
@pytest.mark.parametrize(
    ("result", "words"),
    [
        (218, "the driver cannot assemble this PTX for sm_90a: is it whole, and made for"),
        (222, r"the PTX is newer than the driver, which knows CUDA 12\.4; update the driver"),
    ],
)
def test_ptx_refused_by_the_driver_is_explained(fake: FakeCuda, result: int, words: str):
    ptx = b".version 8.3\n.target sm_90\n.address_size 64\n.visible .entry k() { ret; }\n"
    fake.fail("cuModuleLoadData", result)
    with pytest.raises(CudaError, match=words):
        load_binary("k", ptx)
    fake.fail("cuLibraryLoadData", result)
    with pytest.raises(CudaError, match=words):
        _native.DeviceProgram(ptx, ["k"], "k", "sm_90").preload(0)


@on_fake()
def test_invalid_ptx_is_called_ptx_on_both_paths(
    fake: FakeCuda,
):
    ptx = b".version 8.3\n.target sm_90\n.address_size 64\n.visible .entry k() { ret; }\n"
    words = rf"these {len(ptx)} bytes are PTX, which this driver does not assemble for sm_"
    fake.fail("cuModuleLoadData", 200)
    with pytest.raises(CudaError, match=words):
        load_binary("k", ptx)
    fake.fail("cuLibraryLoadData", 200)
    with pytest.raises(CudaError, match=words):
        _native.DeviceProgram(ptx, ["k"], "k", "sm_90").preload(0)


@on_fake()
def test_an_elf_file_of_another_machine_is_distinguished(fake: FakeCuda):
    cubin = bytearray(assemble(EMPTY))
    cubin[18:20] = (62).to_bytes(2, "little")
    with pytest.raises(ValueError, match=r"not for CUDA devices \(machine 62, expected 190\)"):
        load_binary("empty_kernel", bytes(cubin))


@on_fake()
def test_a_missing_kernel_is_named_and_nothing_stays_loaded(fake: FakeCuda):
    with pytest.raises(CudaError, match="the code has no kernel of that name") as caught:
        load_binary("other", assemble(EMPTY))
    assert (caught.value.kernel, caught.value.function) == ("other", "cuModuleGetFunction")
    assert fake.live("module") == 0


@on_fake()
@pytest.mark.parametrize(
    "function",
    [
        "cuDevicePrimaryCtxRetain",
        "cuCtxSetCurrent",
        "cuModuleLoadData",
        "cuModuleGetFunction",
        "cuFuncLoad",
        "cuFuncGetAttribute",
        "cuFuncSetCacheConfig",
        "cuFuncSetAttribute",
    ],
)
def test_a_load_that_fails_anywhere_restores_and_leaks_nothing(fake: FakeCuda, function: str):
    fake.fail(function, 2)
    with pytest.raises(CudaError) as caught:
        load_binary("shared_kernel", assemble(SHARED), 60000, 0)
    assert (caught.value.code, caught.value.function) == (2, function)
    assert (fake.live("module"), fake.current()) == (0, None)
    load_binary("shared_kernel", assemble(SHARED), 60000, 0)


@on_fake()
def test_unload_queues_and_refuses_the_stale_handles(fake: FakeCuda):
    module, function, *_ = load_binary("empty_kernel", assemble(EMPTY))
    unload(module)
    assert fake.live("module") == 1
    with pytest.raises(ValueError, match="kernel empty_kernel was unloaded"):
        occupancy_blocks(function, 128)
    with pytest.raises(ValueError, match="was it unloaded before"):
        unload(module)
    assert drain_unloads() == 1
    assert (fake.live("module"), fake.current()) == (0, None)


@on_fake()
def test_unloading_in_a_context_that_is_gone_is_nothing_to_tell(fake: FakeCuda):
    context = fake.create_context(0)
    module, *_ = load_binary("empty_kernel", assemble(EMPTY))
    fake.call("cuCtxDestroy_v2", __import__("ctypes").c_void_p(context))
    unload(module)
    assert drain_unloads() == 1


@on_fake()
def test_a_forked_child_unloads_nothing(fake: FakeCuda):
    module, *_ = load_binary("empty_kernel", assemble(EMPTY))
    in_child(lambda: unload(module))
    assert fake.live("module") == 1
    assert _native.pending_unloads() == 0


@on_fake()
def test_occupancy_is_asked_in_the_functions_own_context(fake: FakeCuda):
    _, function, *_ = load_binary("shared_kernel", assemble(SHARED))
    assert occupancy_blocks(function, 128) == 16
    assert occupancy_blocks(function, 128, 100_000) == 2
    assert occupancy_clusters(function, (128, 1, 1), (2, 1, 1)) == 32
    assert largest_cluster(function, (128, 1, 1)) == 16
    assert static_shared_memory(function) == 1024
    assert fake.current() is None
    with pytest.raises(CudaError, match="asking about shared_kernel on cuda:0"):
        occupancy_blocks(function, 0)


@on_fake(version=12000)
def test_an_older_driver_cannot_tell_the_parameters(fake: FakeCuda):
    _, function, *_ = load_binary("add_one_kernel", assemble(ADD_ONE))
    assert parameter_sizes(function) is None
