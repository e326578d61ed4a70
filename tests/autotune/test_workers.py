# SPDX-License-Identifier: Apache-2.0
"""Compiling in other processes: found in the cache afterwards, failures told, nothing run twice."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import weft
from tests.autotune import kernels
from tests.autotune.kernels import vectors
from weft.autotuner import workers
from weft.autotuner.workers import reference_to

ROOT = Path(__file__).parents[2]
SPACE = {"threads": [32], "items": [1, 2, 3]}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("WEFT_NO_CACHE", "0")
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path))


@pytest.mark.slow
def test_what_other_processes_compile_is_a_hit_here():
    before = weft.cache.stats().hits
    result = kernels.tuned(space=SPACE, workers=2).tune(**vectors(100))
    assert [trial.state for trial in result.trials if trial.median is None] == []
    assert weft.cache.stats().hits - before == 3


def test_what_cannot_be_compiled_there_is_reported_here():
    space = {"threads": [32], "items": [1, "two", 3]}
    result = kernels.tuned(space=space, workers=2).tune(**vectors(100))
    (failed,) = [trial for trial in result.trials if trial.median is None]
    assert failed.configuration["items"] == "two"
    assert "Constexpr[int]" in failed.reason


def test_processes_that_end_early_leave_the_rest_to_this_one(monkeypatch):
    monkeypatch.setattr(workers, "_PROGRAM", "{}; raise SystemExit")
    result = kernels.tuned(space=SPACE, workers=2).tune(**vectors(100))
    assert len([trial for trial in result.trials if trial.median is not None]) == 3


def test_a_function_inside_a_function_has_no_reference():
    @weft.jit
    def inner(a: kernels.VECTOR): ...

    assert reference_to(inner) is None
    assert reference_to(kernels.plain_scale).name == "plain_scale"
    assert reference_to(kernels.scale.function).find() is kernels.scale.function


SCRIPT = """
import sys
import numpy, weft
print("loaded", __name__, file=sys.stderr)

@weft.kernel
def kernel(a: weft.Tensor, items: weft.Constexpr[int]):
    for i in weft.static_range(items):
        a[i] = items

@weft.autotune(space={{"items": [1, 2, 3]}}, samples=3, workers=2)
@weft.jit
def host(a: weft.Tensor[weft.f32, ("n",)], items: weft.Constexpr[int]):
    kernel(a, items).launch(grid=1, block=1)

{guard}
    host(numpy.zeros(4, numpy.float32))
    print(weft.cache.stats().hits)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("guard", "hits", "loads"),
    [('if __name__ == "__main__":', "4", 3), ("if True:", "1", 1)],
    ids=["guarded", "unguarded"],
)
def test_a_script_is_loaded_elsewhere_only_if_its_work_is_guarded(tmp_path, guard, hits, loads):
    path = tmp_path / "script.py"
    path.write_text(SCRIPT.format(guard=guard))
    done = subprocess.run(
        [sys.executable, str(path)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.stdout.split() == [hits], done.stderr
    assert done.stderr.count("loaded") == loads
