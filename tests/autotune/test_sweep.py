# SPDX-License-Identifier: Apache-2.0
"""Sweeps: many problems on the workers of any executor, one result for each."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import pytest

import weft
from tests.autotune.kernels import scale, tuned, vectors

PROBLEMS = [{"n": 10}, {"n": 20}]


def broken(n):
    raise OSError(f"no data for {n}")


def test_without_an_executor_this_process_measures():
    found = weft.autotune.sweep(tuned(), PROBLEMS, vectors)
    assert [result.subject.key for result in found] == PROBLEMS


def test_threads_measure_and_later_calls_use_what_they_found():
    with ThreadPoolExecutor(2) as pool:
        plain = tuned()
        found = weft.autotune.sweep(
            plain, PROBLEMS, lambda n: tuple(vectors(n).values()), executor=pool
        )
    assert [plain.best(**vectors(p["n"])) for p in PROBLEMS] == [result.best for result in found]


@pytest.mark.slow
def test_configurations_are_shared_among_processes(tmp_path, monkeypatch):
    monkeypatch.setenv("WEFT_NO_CACHE", "0")
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path))
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(2, mp_context=spawn) as pool:
        found = weft.autotune.sweep(scale, PROBLEMS[:1], vectors, executor=pool, each=2)
    (result,) = found
    assert len(result.trials) == len(scale.space) == 4
    assert result.best == result.trials[0].configuration
    scale.forget()
    with weft.config.override(autotune="cached"):
        assert scale.best(**vectors(10)) == result.best


def test_an_error_names_the_problem():
    with pytest.raises(weft.TuningError, match="AUTOTUNE_SWEEP") as caught:
        weft.autotune.sweep(tuned(), PROBLEMS, broken)
    assert "the problem {'n': 10} failed: OSError: no data for 10" in str(caught.value)


@pytest.mark.parametrize(
    "arguments",
    [
        (vectors, PROBLEMS, vectors),
        (scale, {"n": 10}, vectors),
        (scale, [10], vectors),
        (scale, [], 3),
    ],
)
def test_wrong_arguments_are_refused(arguments):
    with pytest.raises(TypeError):
        weft.autotune.sweep(*arguments)
