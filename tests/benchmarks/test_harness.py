# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import __main__ as every
from benchmarks.harness import ROOT, Figure, Missing, Worker, interleave, medians


def test_candidates_are_measured_in_turn():
    order: list[str] = []

    def candidate(name: str):
        return lambda: order.append(name) or float(len(order))

    samples = interleave({"a": candidate("a"), "b": candidate("b")}, repeats=3)
    assert order == ["a", "b"] * 3
    assert samples == {"a": [1.0, 3.0, 5.0], "b": [2.0, 4.0, 6.0]}
    assert medians(samples) == {"a": 3.0, "b": 4.0}


def test_a_failing_candidate_is_left_out_with_its_reason():
    calls = iter(range(10))

    def breaks() -> float:
        if next(calls) == 1:
            raise RuntimeError("the second time\nit breaks")
        return 1.0

    failed: dict[str, str] = {}
    samples = interleave({"breaks": breaks, "holds": lambda: 2.0}, 4, failed)
    assert samples == {"holds": [2.0] * 4}
    assert failed == {"breaks": "RuntimeError: the second time"}
    with pytest.raises(RuntimeError, match="no reason"):
        interleave({"ours": lambda: exec("raise RuntimeError('no reason')") or 0.0}, 1)


def test_figure_is_one_line_of_json_with_its_ratio():
    line = Figure("calls/one", 20.0, "ns", "tvm_ffi", 80.0).json()
    assert "\n" not in line
    assert json.loads(line) == {
        "name": "calls/one",
        "value": 20.0,
        "unit": "ns",
        "peer": "tvm_ffi",
        "peer_value": 80.0,
        "note": "",
        "ratio": 0.25,
    }


def test_a_figure_without_a_peer_has_no_ratio():
    figure = Figure("calls/one", 20.0, "ns", "CuTe DSL", None)
    assert figure.ratio is None
    assert "CuTe DSL not installed" in figure.row()


def test_peer_without_its_environment_is_missing_and_no_failure(tmp_path: Path):
    with pytest.raises(Missing, match="make bench installs the peers"):
        Worker("benchmarks.peers.nvrtc", "add_one", tmp_path / "python")


def test_worker_that_cannot_start_is_missing_with_its_last_words():
    with pytest.raises(Missing, match="No module named"):
        Worker("benchmarks.no_such_peer", "add_one")


def test_every_benchmark_is_in_the_list_that_make_bench_runs():
    # performance runs the rows of ready_kernels and writes a page.
    helpers = {"__init__", "__main__", "harness", "weft_compile", "first_result", "performance"}
    programs = {
        path.stem
        for path in (ROOT / "benchmarks").glob("*.py")
        if "__main__" in path.read_text() and path.stem not in helpers
    }
    assert programs == set(every.BENCHMARKS)
