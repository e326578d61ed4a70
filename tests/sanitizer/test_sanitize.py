# SPDX-License-Identifier: Apache-2.0
"""Where checks come from, what becomes of a finding, and that nothing is left of them where they are off."""

from __future__ import annotations

import os
import pickle
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import weft
from tests.sanitizer.zoo import SILENT, all_cases, report_of
from weft.backends.cpu.lowering import fission
from weft.backends.cuda.backend import CudaBackend
from weft.config import SANITIZER_CHECKS, override
from weft.sanitizer.checks import KINDS

ROOT = Path(__file__).parents[2]
Vector = weft.Tensor[weft.f32, ("n",)]


@weft.kernel
def shift_kernel(a: weft.Tensor):
    a[weft.thread_idx.x] = a[weft.thread_idx.x + 1]


@weft.jit
def shift(a: Vector):
    shift_kernel(a).launch(grid=1, block=4)


@weft.jit(options="--sanitize")
def always(a: Vector):
    shift_kernel(a).launch(grid=1, block=4)


def vector():
    """Four numbers of an array of eight, so that nothing bad happens without checks."""
    return np.arange(8, dtype=np.float32)[:4]


def code_of(fn):
    """The text of the kernels, without the numbers of lines."""
    return fn.llvm_ir


def test_a_report_has_every_part_of_the_message():
    with pytest.raises(weft.SanitizerError) as caught:
        always(vector())
    (report,) = caught.value.reports
    assert (report.kind, report.array, report.access) == ("out of bounds", "a", "read")
    assert (report.index, report.shape) == ((4,), (4,))
    assert (report.block, report.thread, report.kernel) == ((0, 0, 0), (3, 0, 0), "shift_kernel")
    assert report.file == __file__
    assert "a[weft.thread_idx.x + 1]" in report.location.excerpt()
    assert str(caught.value).startswith(report.location.excerpt())
    assert report.text in str(caught.value)
    assert caught.value.code == "OUT_OF_BOUNDS"
    assert caught.value.location is report.location


def test_an_error_can_be_sent_to_another_process():
    with pytest.raises(weft.SanitizerError) as caught:
        always(vector())
    copy = pickle.loads(pickle.dumps(caught.value))
    assert str(copy) == str(caught.value)
    assert copy.reports[0].index == (4,)


def test_only_calls_inside_the_switch_are_checked():
    shift(vector())
    with weft.sanitize(), pytest.raises(weft.SanitizerError):
        shift(vector())
    shift(vector())
    with weft.sanitize(), pytest.raises(weft.SanitizerError):
        weft.compile(shift, vector())(vector())


def test_the_environment_switches_checks_on(monkeypatch):
    before = weft.compile(shift, vector())
    monkeypatch.setenv("WEFT_SANITIZE", "bounds")
    with pytest.raises(weft.SanitizerError):
        weft.compile(shift, vector())(vector())
    before(vector())


def test_code_without_checks_is_the_same_before_and_after():
    plain = weft.compile(shift, vector())
    checked = weft.compile(shift, vector(), options="--sanitize")
    assert code_of(plain) == code_of(weft.compile(shift, vector()))
    assert "simt.check" in str(checked.ir_module) and "simt.check" not in str(plain.ir_module)
    assert plain.stages.keys() ^ checked.stages.keys() == {"check_accesses"}


def test_nothing_is_written_out_of_bounds():
    whole = np.arange(8, dtype=np.float32)

    @weft.kernel
    def fill_kernel(a: weft.Tensor):
        a[weft.thread_idx.x] = -1.0

    with weft.sanitize(), pytest.raises(weft.SanitizerError):
        fill_kernel[1, 8](whole[:4])
    assert whole.tolist() == [-1, -1, -1, -1, 4, 5, 6, 7]


def test_blocks_on_several_threads_end_with_one_report():
    @weft.kernel
    def fill_kernel(a: weft.Tensor):
        a[weft.block_idx.x * 64 + weft.thread_idx.x] = 1.0

    with override(num_threads=4), weft.sanitize():
        for _ in range(20):
            with pytest.raises(weft.SanitizerError) as caught:
                fill_kernel[4096, 64](np.zeros(64 * 2048, np.float32))
            (report,) = caught.value.reports
            assert report.index[0] == report.block[0] * 64 + report.thread[0] >= 64 * 2048


@pytest.mark.parametrize("given", [{"options": "--sanitize"}, {}])
def test_a_target_without_checks_refuses_them(given, monkeypatch):
    monkeypatch.setattr(CudaBackend, "checks", ())
    with weft.sanitize() if not given else override():
        with pytest.raises(weft.UnavailableError, match="not available for the target cuda"):
            weft.compile[weft.GPUArch("sm_90a")](shift, **given)


def test_checks_leave_other_targets_alone(monkeypatch):
    monkeypatch.setattr(CudaBackend, "checks", ())
    monkeypatch.setenv("WEFT_SANITIZE", "bounds")
    for function in (shift, always):
        assert ".target sm_90a" in weft.compile[weft.GPUArch("sm_90a")](function).ptx


def test_the_switch_refuses_unknown_checks():
    with pytest.raises(weft.OptionError, match=r"takes some of bounds, races.*received 'bound'"):
        weft.sanitize("bound")


def test_every_kind_is_found_by_a_check_and_told_by_the_page():
    page = (ROOT / "docs" / "sanitizer.md").read_text()
    found = {kind.check: [] for kind in KINDS}
    for kind in KINDS:
        assert kind.words.lower() == kind.name.replace("_", " ").lower()
        found[kind.check].append(kind.words)
    assert tuple(sorted(found)) == tuple(sorted(SANITIZER_CHECKS))
    check = ""
    told = {}
    for line in page.splitlines():
        if line.startswith("| `") and line.count("|") == 4:
            check, words = re.findall("`([^`]*)`", line.rsplit("|", 2)[0])[:2]
        elif line.startswith("| |"):
            (words,) = re.findall("`([^`]*)`", line)
        else:
            continue
        told.setdefault(check, []).append(words)
    assert told == found
    in_zoo = {case.report.split("\n[")[1].partition("]")[0] for case in all_cases()}
    assert in_zoo == {kind.words.upper().replace(" ", "_") for kind in KINDS}


def test_half_of_sixty_cases_are_bugs_that_peers_had():
    names = [case.name for case in all_cases()]
    assert len(set(names)) == len(names) >= 60
    assert sum("#" in name for name in names) >= 30


@weft.kernel
def in_turn_kernel(a: weft.Tensor, b: weft.Tensor):
    i = weft.thread_idx.x
    b[i] = a[i + 1]
    a[i] = 2.0


def test_a_launch_that_continues_reports_all_and_groups_equal_ones():
    a, b = np.zeros(8, np.float32), np.zeros(8, np.float32)
    with (
        weft.sanitize("races", "bounds", continue_=True),
        pytest.raises(weft.SanitizerError) as found,
    ):
        in_turn_kernel[1, 8](a, b)
    race, outside = found.value.reports
    assert (race.kind, race.count, race.index, race.thread) == ("race", 6, (1,), (1, 0, 0))
    assert (race.other.line, race.other.access) == (race.line - 1, "read")
    assert (outside.kind, outside.count, outside.index) == ("out of bounds", 1, (8,))
    assert str(found.value).count("\n[") == 2 and "found 6 times" in str(found.value)
    # Only the thread that was out of bounds ended there.
    assert a.tolist() == [2.0] * 7 + [0.0]
    copy = pickle.loads(pickle.dumps(found.value))
    assert [report.other is None for report in copy.reports] == [False, True]


def test_a_launch_that_continues_leaves_the_other_blocks_alone():
    a = np.zeros(10, np.float32)

    @weft.kernel
    def fill_kernel(a: weft.Tensor):
        tile = weft.shared(4, weft.f32)
        tile[weft.thread_idx.x] = 1.0
        weft.sync_threads()
        a[weft.block_idx.x * 4 + weft.thread_idx.x] = tile[3 - weft.thread_idx.x]

    with weft.sanitize("all", continue_=True), pytest.raises(weft.SanitizerError) as found:
        fill_kernel[3, 4](a)
    (report,) = found.value.reports
    assert (report.count, report.block, report.thread) == (2, (2, 0, 0), (2, 0, 0))
    assert a.tolist() == [1.0] * 10


def test_threads_that_write_the_same_race_only_on_request():
    @weft.kernel
    def flag_kernel(a: weft.Tensor):
        a[0] = 3.0

    a = np.zeros(1, np.float32)
    with weft.sanitize("races"):
        flag_kernel[4, 8](a + 3.0)
    with weft.sanitize("races", "benign"), pytest.raises(weft.SanitizerError):
        flag_kernel[4, 8](a + 3.0)


def test_the_order_of_threads_does_not_decide_whether_they_race():
    """Forward and backward, within a warp and across blocks: two accesses that nothing orders."""

    @weft.kernel
    def kernel(a: weft.Tensor, step: weft.i32):
        i = weft.block_idx.x * weft.block_dim.x + weft.thread_idx.x
        a[64 + i] = a[64 + i + step]

    for step in (-64, -33, -1, 1, 33, 64):
        with weft.sanitize("races"), pytest.raises(weft.SanitizerError):
            kernel[4, 32](np.zeros(256, np.float32), step)
    with weft.sanitize("races"):
        kernel[4, 32](np.zeros(256, np.float32), 0)


@weft.kernel
def four_threads_kernel(a: weft.Tensor, flags: weft.Tensor, unknown: weft.i32):
    """Thread 3 writes what the others have read, and waits for all but one of them."""
    i = weft.thread_idx.x
    if i < 3:
        a[1 + i] = a[0]
        weft.atomic_store(flags, i, 1, order="release")
    else:
        for other in range(3):
            while other != unknown and weft.atomic_load(flags, other, order="acquire") == 0:
                pass
        a[0] = 5.0


@pytest.mark.parametrize("unknown", [0, 1, 2, 3])
def test_each_of_three_readers_is_remembered(unknown):
    arrays = np.zeros(4, np.float32), np.zeros(3, np.int32)
    with weft.sanitize("races"):
        if unknown == 3:
            four_threads_kernel[1, 4](*arrays, unknown)
            return
        with pytest.raises(weft.SanitizerError) as caught:
            four_threads_kernel[1, 4](*arrays, unknown)
    (report,) = caught.value.reports
    assert (report.index, report.access, report.thread) == ((0,), "written", (3, 0, 0))
    assert (report.other.access, report.other.thread) == ("read", (unknown, 0, 0))


@weft.kernel
def written_late_kernel(a: weft.Tensor, element: weft.i32):
    thread = weft.thread_idx.x
    if weft.block_idx.x == 0:
        for _ in range(thread % 3):
            weft.fence_device()
        a[thread] = 1.0
    elif thread == 5:
        a[8] = a[element]


def test_a_race_names_the_writer_however_often_threads_have_fenced():
    a = np.zeros(9, np.float32)
    for element in range(8):
        with weft.sanitize("races"), pytest.raises(weft.SanitizerError) as caught:
            written_late_kernel[2, 8](a, element)
        (report,) = caught.value.reports
        assert (report.index, report.block, report.thread) == ((element,), (1, 0, 0), (5, 0, 0))
        assert (report.other.block, report.other.thread) == ((0, 0, 0), (element, 0, 0))


def test_coroutines_tell_what_split_loops_tell(monkeypatch):
    monkeypatch.setattr(fission, "needs_coroutines", lambda _: True)
    cases = [case for case in all_cases() if case.checks in ("races", "uninit")]
    split = [case for case in cases if not re.search(r"for |while |if ", case.program)]
    split = [case for case in split if "weft.sync_threads()" in case.program + case.twin]
    assert len(split) > 3
    for case in split:
        assert report_of(case.program, case.checks) == case.report
        assert report_of(case.twin, case.checks) == SILENT


@pytest.mark.parametrize("dtype", [np.int8, np.float16, np.float32, np.float64])
def test_adjacent_bytes_in_one_word_do_not_race(dtype):
    @weft.kernel
    def kernel(a: weft.Tensor, whole: weft.Tensor):
        i = weft.thread_idx.x
        a[i] = a[i]
        weft.sync_threads()
        if i == 0:
            for j in range(whole.shape[0]):
                whole[j] = whole[j]
        weft.sync_threads()
        a[a.shape[0] - 1 - i] = a[a.shape[0] - 1 - i]

    a = np.zeros(32, dtype)
    with weft.sanitize("races"):
        kernel[1, 32](a, a.view(np.uint64))


PROGRAM = """
import sys
import numpy as np, weft

@weft.kernel
def shift_kernel(a: weft.Tensor):
    a[weft.thread_idx.x] = a[weft.thread_idx.x + 1]

a = np.arange(8, dtype=np.float32)[:4]
for checked in (False, True):
    try:
        if checked:
            with weft.sanitize():
                shift_kernel[1, 4](a)
        else:
            shift_kernel[1, 4](a)
        print("silent")
    except weft.SanitizerError as error:
        print(error.reports[0].line, error.reports[0].index)
print("xdsl" in sys.modules, weft.cache.stats().hits)
"""


def test_checked_and_unchecked_code_are_cached_apart(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    environment = {**os.environ, "WEFT_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": str(ROOT)}
    environment.pop("WEFT_NO_CACHE", None)
    outputs = [
        subprocess.run(
            [sys.executable, program], env=environment, capture_output=True, text=True, check=True
        ).stdout.split("\n")[:3]
        for _ in range(2)
    ]
    assert outputs == [["silent", "7 (4,)", "True 0"], ["silent", "7 (4,)", "False 2"]]


def test_scratch_memory_that_nothing_uses_is_not_looked_for():
    """Its frame has no chain of arrays then."""

    @weft.kernel
    def add_kernel(a: weft.Tensor):
        weft.global_scratch(8, weft.f32)
        a[weft.thread_idx.x] += 1.0

    @weft.jit
    def host(a: weft.Tensor[weft.f32, ("n",)]):
        weft.scratch(8, weft.f32)
        add_kernel(a).launch(grid=1, block=4)

    a = np.zeros(4, np.float32)
    with weft.sanitize("uninit"):
        for _ in range(3):
            host(a)
    assert (a == 3).all()


def kept(value):
    """An array of a call, which the caller keeps."""
    array = weft.local(2, weft.f32)
    array[0] = value
    return array


@weft.kernel
def kept_arrays_kernel(a: weft.Tensor):
    first, second = kept(1.0), kept(2.0)
    both = (second, first)
    for i in range(2):
        one = kept(3.0 + i)  # in each iteration the same memory
        both = (one, both[0])
    a[0], a[1], a[2], a[3] = first[0], second[0], both[0][0], both[1][0]


def test_local_arrays_live_as_long_as_their_thread():
    a = np.zeros(4, np.float32)
    with weft.sanitize("all"):
        kept_arrays_kernel[1, 1](a)
    assert a.tolist() == [1, 2, 4, 4]


@weft.kernel
def apart_kernel(a: weft.Tensor):
    i = weft.thread_idx.x
    if a[0] > 0:
        one = weft.shared(8, weft.f32)
        one[i] = 1.0
        a[i] = one[7 - i]
    else:
        other = weft.shared(8, weft.f32)
        other[i] = 2.0
        a[i] = other[7 - i]


def test_shared_arrays_have_memory_of_their_own():
    fn = weft.compile(apart_kernel_of, np.ones(8, np.float32))
    assert fn.kernels["apart_kernel"].shared_memory_bytes == 64


@weft.jit
def apart_kernel_of(a: Vector):
    apart_kernel(a).launch(grid=1, block=8)


@pytest.mark.parametrize("whole", [True, False])
def test_a_host_function_cannot_return_its_scratch_memory(whole):
    @weft.jit
    def host():
        memory = weft.scratch(8, weft.f32)
        return memory if whole else (1, memory[2:])

    with pytest.raises(weft.TypeMismatchError, match="RETURN_SCRATCH"):
        host()


@weft.kernel
def rows_kernel(x: weft.Tensor, b: weft.Tensor):
    tile = weft.shared(32, weft.f32)
    i = weft.thread_idx.x
    part = x[i, i:]
    tile[i] = part[0] + weft.f32(len(part))
    weft.sync_threads()
    b[i] = tile[31 - i]


@pytest.mark.parametrize("checks", ["bounds", "races"])
def test_a_check_of_a_threads_view_changes_no_result(checks):
    """The size was taken for the block's, and with it the view of the first thread for all others'."""
    x, b = np.arange(1024, dtype=np.float32).reshape(32, 32), np.zeros(32, np.float32)
    with weft.sanitize(checks):
        rows_kernel[1, 32](x, b)
    assert np.array_equal(b, (np.diag(x) + np.arange(32, 0, -1))[::-1])
