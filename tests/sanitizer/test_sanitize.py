# SPDX-License-Identifier: Apache-2.0
"""Where checks come from, what becomes of a finding, and that nothing is left of them where they are off."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import weft
from weft.backends.cuda.backend import CudaBackend
from weft.config import override

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


def test_calls_inside_of_the_switch_are_checked_and_those_outside_are_not():
    shift(vector())
    with weft.sanitize(), pytest.raises(weft.SanitizerError):
        shift(vector())
    shift(vector())
    with weft.sanitize(), pytest.raises(weft.SanitizerError):
        weft.compile(shift, vector())(vector())


def test_the_environment_switches_checks_on_for_what_is_compiled_from_then_on(monkeypatch):
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


def test_a_decorators_checks_and_the_environments_leave_other_targets_alone(monkeypatch):
    monkeypatch.setattr(CudaBackend, "checks", ())
    monkeypatch.setenv("WEFT_SANITIZE", "bounds")
    for function in (shift, always):
        assert ".target sm_90a" in weft.compile[weft.GPUArch("sm_90a")](function).ptx


def test_the_switch_refuses_unknown_checks():
    with pytest.raises(weft.OptionError, match=r"weft\.sanitize takes bounds, received 'bound'"):
        weft.sanitize("bound")


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


def test_checked_and_unchecked_code_have_places_of_their_own_in_the_cache(tmp_path):
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
