# SPDX-License-Identifier: Apache-2.0
"""What kernels on a GPU have found reaches the program: on the fake driver, a test writes what a kernel would write."""

from __future__ import annotations

import ctypes
import functools
import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest

import weft
from tests.native.fake_cuda.fake import ROOT, FakeCuda, build, on_fake
from weft import _native
from weft.driver.memory import empty

Vector = weft.Tensor[weft.f32, ("n",)]
VALUES, SITE, CAPACITY = _native.DEVICE_REPORT_LAYOUT


def shifted(a: weft.Tensor, i):
    return a[i + 1]


@weft.kernel
def shift_kernel(a: weft.Tensor, b: weft.Tensor):
    i = weft.block_idx.x * weft.block_dim.x + weft.thread_idx.x
    assert i < 100, "too many"
    b[i] = shifted(a, i)


@weft.jit
def shift(a: Vector, b: Vector):
    shift_kernel(a, b).launch(grid=2, block=4)


@functools.cache
def compiled(executor: str = "library"):
    options = f"--gpu-arch sm_90 --executor {executor} --sanitize=bounds --enable-assertions"
    return weft.compile(shift, options=options)


def sites() -> list[bytes]:
    """The constants of the kernel's checks, as its PTX has them."""
    found = re.findall(r"\.b8 site_\S+\[(\d+)\] = \{([^}]*)\}", compiled().ptx)
    return [bytes(map(int, numbers.split(","))).ljust(int(size), b"\0") for size, numbers in found]


def site(word: bytes) -> bytes:
    (found,) = (one for one in sites() if word in one)
    return found


@pytest.fixture(autouse=True, scope="module")
def everything_is_compiled_before_the_first_fork():
    build()
    sites()
    compiled("context")


def arguments(count: int = 8) -> tuple[_native.Object, _native.Object]:
    return empty(count, weft.f32, 0), empty(count, weft.f32, 0)


def write(
    fake: FakeCuda,
    constant: bytes,
    values: tuple[int, ...] = (),
    block: tuple[int, int, int] = (1, 0, 0),
    thread: tuple[int, int, int] = (3, 0, 0),
) -> None:
    """Does what a kernel does that finds something."""
    variable = (ctypes.c_int64 * 2).from_address(fake.last_global())
    host = variable[0]
    variable[1] += 1
    assert host, "the program knows where to write"
    data = struct.pack("<3i3i2i", *block, *thread, len(values), len(constant))
    ctypes.memmove(host + 4, data, len(data))
    ctypes.memmove(host + VALUES, struct.pack(f"<{len(values)}q", *values), 8 * len(values))
    ctypes.memmove(host + SITE, constant, len(constant))
    ctypes.c_int32.from_address(host).value = 1


@on_fake()
@pytest.mark.parametrize("executor", ["library", "context"])
def test_a_finding_ends_the_next_call_and_only_that(fake: FakeCuda, executor: str):
    fn, given = compiled(executor), arguments()
    fn(*given)
    write(fake, site(b"read\0"), (8, 8))
    with pytest.raises(weft.SanitizerError) as caught:
        fn(*given)
    (report,) = caught.value.reports
    assert (report.kind, report.array, report.access) == ("out of bounds", "a", "read")
    assert (report.index, report.shape) == ((8,), (8,))
    assert (report.block, report.thread, report.kernel) == ((1, 0, 0), (3, 0, 0), "shift_kernel")
    assert report.file == __file__ and report.location.caller is not None
    assert str(caught.value).endswith(
        "[OUT_OF_BOUNDS] a[8] is read: index 0 is 8, and a.shape[0] is 8 (block (1, 0, 0), thread (3, 0, 0))"
    )
    assert len(fake.launches()) == 1  # the second call launched nothing
    assert (ctypes.c_int64 * 2).from_address(fake.last_global())[
        1
    ] == 0  # the next one counts as first
    fn(*given)
    weft.synchronize("cuda:0")
    assert len(fake.launches()) == 2


@on_fake()
def test_synchronize_raises_a_failed_assertion_as_the_cpu_does(fake: FakeCuda):
    fn, given = compiled(), arguments()
    fn(*given)
    write(fake, site(b"too many\0"), thread=(2, 0, 0))
    with pytest.raises(AssertionError) as caught:
        weft.synchronize("cuda:0")
    line = next(n for n, text in enumerate(Path(__file__).open(), 1) if "i < 100" in text)
    assert str(caught.value) == (
        f"{__file__}:{line}, in shift_kernel: assertion failed: too many (block (1, 0, 0), thread (2, 0, 0))"
    )
    weft.synchronize("cuda:0")


@on_fake(devices=2)
def test_each_device_has_findings_of_its_own(fake: FakeCuda):
    fn = compiled()
    fn(*arguments())
    other = empty(8, weft.f32, 1), empty(8, weft.f32, 1)
    fn(*other)
    write(fake, site(b"written\0"), (9, 8))
    weft.synchronize("cuda:0")
    with pytest.raises(weft.SanitizerError, match=r"b\[9\] is written"):
        weft.synchronize("cuda:1")


@on_fake()
def test_a_kernel_that_lost_its_context_is_still_told(fake: FakeCuda):
    fn = compiled()
    fn(*arguments())
    write(fake, site(b"too many\0"))
    fake.poison(719)
    with pytest.raises(AssertionError, match="too many"):
        weft.synchronize("cuda:0")
    with pytest.raises(weft.CudaError):
        weft.synchronize("cuda:0")


@on_fake()
def test_memory_of_a_report_that_cannot_be_read_is_refused(fake: FakeCuda):
    fn, given = compiled(), arguments()
    fn(*given)
    for constant in (b"", b"\xff" * 7, struct.pack("<3i", 99, 1, 1), struct.pack("<3i", 0, 70, 1)):
        write(fake, constant, (1, 1))
        with pytest.raises(RuntimeError, match="cannot read; this is a defect of weft"):
            fn(*given)


@on_fake()
@pytest.mark.parametrize("function", ["cuLibraryGetGlobal", "cuMemHostAlloc", "cuMemcpyAsync"])
def test_refused_driver_memory_is_an_error_of_one_call(fake: FakeCuda, function: str):
    fn = compiled()
    given = arguments()
    fake.fail(function, 2)
    with pytest.raises(weft.CudaError, match=f"{function} returned CUDA_ERROR_OUT_OF_MEMORY"):
        fn(*given)
    assert fake.live("pinned") == 0
    fn(*given)
    assert fake.live("pinned") == 1


@on_fake()
def test_a_function_without_checks_has_no_memory_for_findings(fake: FakeCuda):
    weft.compile(shift, options="--gpu-arch sm_90")(*arguments())
    assert fake.count("cuLibraryGetGlobal") == fake.count("cuMemHostAlloc") == 0


def test_an_unread_finding_is_printed_at_the_end():
    program = """
import weft
from tests.driver.test_findings import *
from tests.native.fake_cuda.fake import start
fake = start(1, 13000, True)
compiled()(*arguments())
write(fake, site(b"too many\\0"))
"""
    found = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert "weft: a kernel has failed, and no call has said so:" in found.stderr
    assert "assertion failed: too many (block (1, 0, 0), thread (3, 0, 0))" in found.stderr
