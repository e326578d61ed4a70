# SPDX-License-Identifier: Apache-2.0
"""The sanitizer's checks and assertions on a real GPU: the finding is reported, the context lives on.

In: the faulty kernels of tests/sanitizer, whose reports are the CPU's. Out: the same, of whichever thread was first.
"""

from __future__ import annotations

import re
from types import SimpleNamespace

import numpy as np
import pytest

import weft
from tests.gpu.device_memory import DeviceArray
from tests.gpu.test_calls import run_apart
from tests.sanitizer.zoo import CASES, SILENT, read_cases, report_of

pytestmark = pytest.mark.gpu

ARRAYS = SimpleNamespace(
    **{name: getattr(np, name) for name in ("float16", "float32", "int32", "bool_")},
    ones=lambda *given: DeviceArray(np.ones(*given)),
    zeros=lambda *given: DeviceArray(np.zeros(*given)),
    arange=lambda *given, **named: DeviceArray(np.arange(*given, **named)),
    array=lambda *given, **named: DeviceArray(np.array(*given, **named)),
)
# Nothing may be left out of what other threads wait for: a finding is reported, and then the context is lost.
AWAITED = ("mbarrier", "st_async", "wgmma", "copy_map")
# NumPy's arrays, used for more than to hand them over.
OF_NUMPY = (".ctypes", ")[")
CASES_OF_BOUNDS = [
    case
    for case in read_cases(CASES / "bounds.txt")
    if not any(word in case.program for word in OF_NUMPY)
]
AWAITED_CASES = [case for case in CASES_OF_BOUNDS if any(word in case.program for word in AWAITED)]
GOING_ON = [case for case in CASES_OF_BOUNDS if case not in AWAITED_CASES]
Vector = weft.Tensor[weft.f32, ("n",)]


def without_numbers(report: str) -> str:
    return re.sub(r"-?\d+", "N", report)


@pytest.mark.parametrize("case", GOING_ON, ids=[case.name for case in GOING_ON])
def test_a_faulty_kernel_gets_the_report_of_the_cpu(case):
    found = report_of(case.program, "bounds", ARRAYS)
    assert without_numbers(found) == without_numbers(case.report)
    assert report_of(case.twin, "bounds", ARRAYS) == SILENT


@pytest.mark.parametrize("case", AWAITED_CASES, ids=[case.name for case in AWAITED_CASES])
def test_a_finding_where_others_wait_is_the_cpus_too(case):
    said = run_apart(
        f"""
        from tests.gpu.test_findings import ARRAYS, CASES_OF_BOUNDS, report_of
        (case,) = (case for case in CASES_OF_BOUNDS if case.name == {case.name!r})
        print(report_of(case.twin, "bounds", ARRAYS))
        print(report_of(case.program, "bounds", ARRAYS))
        """
    )
    twin, _, found = said.strip().partition("\n")
    assert twin == SILENT
    assert without_numbers(found) == without_numbers(case.report)


@weft.kernel
def shift_kernel(a: weft.Tensor, b: weft.Tensor):
    part = weft.shared(128, weft.f32)
    i = weft.block_idx.x * weft.block_dim.x + weft.thread_idx.x
    part[weft.thread_idx.x] = a[i + 1]
    weft.sync_threads()
    b[i] = part[weft.block_dim.x - 1 - weft.thread_idx.x]


@weft.jit
def shift(a: Vector, b: Vector):
    shift_kernel(a, b).launch(grid=a.shape[0] // 128, block=128)


def test_a_checked_read_outside_gives_zero_and_goes_on():
    a, b = DeviceArray(np.ones(1024, np.float32)), DeviceArray(np.zeros(1024, np.float32))
    fn = weft.compile(shift, a, b, options="--sanitize=bounds")
    fn(a, b)
    with pytest.raises(weft.SanitizerError, match=r"a\[1024\] is read") as caught:
        weft.synchronize("cuda:0")
    assert caught.value.reports[0].block == (7, 0, 0)
    expected = np.ones(1024, np.float32)
    expected[7 * 128] = 0
    assert np.array_equal(b.fetch(), expected)
    for _ in range(3):  # the context lives, and each launch tells its own
        fn(a, b)
        with pytest.raises(weft.SanitizerError):
            weft.synchronize("cuda:0")


@weft.kernel
def positive_kernel(a: weft.Tensor):
    assert a[weft.thread_idx.x] > 0, "not positive"
    weft.sync_threads()
    a[weft.thread_idx.x] += weft.warp.sum(1.0)


@weft.jit
def positive(a: Vector):
    positive_kernel(a).launch(grid=1, block=64)


@pytest.mark.parametrize("executor", ["library", "context"])
def test_a_failed_assertion_is_an_error_that_keeps_the_context(executor: str):
    bad = np.ones(64, np.float32)
    bad[41] = -1
    a = DeviceArray(bad)
    fn = weft.compile(positive, a, options=f"--enable-assertions --executor {executor}")
    fn(a)
    with pytest.raises(
        AssertionError, match=r"not positive \(block \(0, 0, 0\), thread \(41, 0, 0\)\)"
    ):
        weft.synchronize("cuda:0")
    a = DeviceArray(np.ones(64, np.float32))
    fn(a)
    assert (a.fetch() == 33).all()


def test_the_next_call_tells_it_too():
    a = DeviceArray(np.zeros(64, np.float32))
    fn = weft.compile(positive, a, options="--enable-assertions")
    fn(a)
    with pytest.raises(AssertionError, match="not positive"):
        for _ in range(100000):
            fn(a)


@weft.kernel
def groups_kernel(a: weft.Tensor):
    assert a[weft.thread_idx.x] > 0, "not positive"
    weft.sync_warpgroup()
    a[weft.thread_idx.x] = 2.0


@weft.jit
def groups(a: Vector):
    groups_kernel(a).launch(grid=1, block=128)


def test_a_trap_beside_counted_barriers_keeps_its_line():
    said = run_apart(
        """
        from tests.gpu.test_findings import groups
        a = DeviceArray(np.zeros(128, np.float32))
        fn = weft.compile(groups, a, options="--enable-assertions")
        fn(a)
        for _ in range(2):
            try:
                weft.synchronize("cuda:0")
            except Exception as error:
                print(type(error).__name__, repr(str(error)))
        """
    )
    first, second = said.splitlines()
    assert first.startswith("AssertionError") and "not positive" in first
    assert second.startswith("CudaError")


def test_an_endless_loop_of_findings_ends():
    @weft.kernel
    def search_kernel(a: weft.Tensor, found: weft.Tensor):
        i = 0
        while a[i] != 7.0:
            i += 1
        found[0] = i

    with weft.sanitize(), pytest.raises(weft.SanitizerError, match=r"a\[64\] is read"):
        search_kernel[1, 1](
            DeviceArray(np.zeros(64, np.float32)), DeviceArray(np.zeros(1, np.int32))
        )
        weft.synchronize("cuda:0")
