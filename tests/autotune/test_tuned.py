# SPDX-License-Identifier: Apache-2.0
"""The tuned function: what calls run, when it measures, what it never touches, and what it refuses."""

from __future__ import annotations

import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import pytest

import weft
from tests.autotune.kernels import VECTOR, plain_scale, scale_kernel, tuned, vectors
from weft.autotuner.trials import occupancy as occupancy_of
from weft.config import override
from weft.runtime.code_image import KernelInfo


def test_a_tuned_call_is_right_and_remembers_the_choice():
    scale = tuned()
    given = vectors(100)
    scale(**given)
    assert given["out"].tolist() == [2.0] * 100
    (result,) = scale.results
    assert result.best == scale.best(**given) in scale.space
    assert [trial.state in ("measured", "stopped") for trial in result.trials] == [True, True]
    scale(given["a"], given["out"])
    assert len(scale.results) == 1


def test_a_new_key_or_type_is_tuned_again():
    by_size, by_type = tuned(), tuned(key=())
    for n in (10, 20, 10):
        by_size(**vectors(n))
        by_type(**vectors(n))
    assert [result.subject.key for result in by_size.results] == [{"n": 10}, {"n": 20}]
    assert len(by_type.results) == 1


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("n", {"n": 10}),
        (["a", "n"], {"a": (10,), "n": 10}),
        (lambda n, out: (n // 4, out), {"key": (2, (10,))}),
    ],
)
def test_keys_are_dimensions_parameters_and_functions_of_these(key, expected):
    scale = tuned(key=key)
    scale(**vectors(10))
    assert scale.results[0].subject.key == expected


def test_trials_never_write_to_the_users_tensors():
    scale = tuned()
    given = vectors(100)
    given["out"][:] = 7
    result = scale.tune(**given)
    assert result.trials[0].samples
    assert (given["a"].tolist(), given["out"].tolist()) == ([1.0] * 100, [7.0] * 100)


def test_with_all_parameters_of_the_space_it_is_the_plain_function():
    scale = tuned()
    given = vectors(10)
    scale(**given, threads=32, items=2)
    assert given["out"].tolist() == [2.0] * 10
    assert scale.results == []
    with pytest.raises(weft.UnavailableError, match="AUTOTUNE_PARTIAL"):
        scale(**given, threads=32)


def test_prune_keeps_what_it_returns_true_for():
    seen = []

    def small(threads, n, a, **rest):
        seen.append((threads, n, a.shape, rest))
        return threads < 64

    scale = tuned(prune=small)
    assert scale.best(**vectors(10)) == {"threads": 32, "items": 1}
    assert seen[0] == (32, 10, (10,), {"items": 1})
    assert scale.results[0].refused == 1


def test_prune_compiled_sees_the_kernels():
    asked = []

    def first(kernels, remarks, threads):
        asked.append((sorted(kernels), isinstance(remarks, tuple), threads))
        return threads == 32

    scale = tuned(prune_compiled=first)
    result = scale.tune(**vectors(10))
    assert asked == [(["scale_kernel"], True, 32), (["scale_kernel"], True, 64)]
    assert [(trial.state, bool(trial.reason)) for trial in result.trials] == [
        *(("measured", False), ("dropped", True))
    ]
    assert "dropped: prune_compiled refuses it" in str(result)


def test_prune_compiled_asks_for_the_occupancy():
    class Compiled(NamedTuple):
        kernels: dict[str, KernelInfo]
        architecture: str = "sm_90a"
        target: str = "cuda"

    kernels = {
        name: KernelInfo(name, registers=registers, shared_memory_bytes=shared)
        for name, registers, shared in (("first", 32, 0), ("second", 128, 1024))
    }
    assert occupancy_of(Compiled(kernels), 256) == 0.25
    assert occupancy_of(Compiled(kernels), 256, 120 * 1024) == 0.125
    assert occupancy_of(Compiled(kernels, "", "cpu"), 256) == 1.0

    seen = []
    scale = tuned(prune_compiled=lambda occupancy, threads: seen.append(occupancy(threads)) or True)
    scale.tune(**vectors(10))
    assert seen == [1.0, 1.0]


def test_a_result_is_drawn_with_a_bar_for_each_that_was_measured(tmp_path):
    scale = tuned(space={"threads": [4096, 32, 64], "items": [1]})
    result = scale.tune(**vectors(10))
    figure = result.plot(tmp_path / "scale.svg")
    (axes,) = figure.axes
    assert len(axes.patches) == 2 and "1 more are not shown" in axes.get_title()
    assert axes.get_yticklabels()[0].get_text() == ", ".join(
        f"{name}={value}" for name, value in result.best.items()
    )
    assert (tmp_path / "scale.svg").read_text().rstrip().endswith("</svg>")
    assert len(result.plot(most=1).axes[0].patches) == 1


def test_a_configuration_that_cannot_run_is_reported_and_left_out():
    scale = tuned(space={"threads": [4096, 32], "items": [1]})
    given = vectors(10)
    scale(**given)
    best, failed = scale.results[0].trials
    assert (best.configuration["threads"], failed.state) == (32, "failed")
    assert "block.x is 4096" in failed.reason
    assert "failed: ValueError: launch of scale_kernel" in str(scale.results[0])


@pytest.mark.parametrize(
    "arguments",
    [
        {"space": {"threads": [4096, 8192], "items": [1]}},
        {"prune": lambda threads: False},
        {"prune_compiled": lambda kernels: False},
    ],
)
def test_it_is_an_error_if_nothing_is_left(arguments):
    scale = tuned(**arguments)
    for _ in range(2):
        with pytest.raises(weft.TuningError, match="AUTOTUNE_NOTHING_LEFT"):
            scale(**vectors(10))


@weft.kernel
def fill_kernel(out: weft.Tensor, value: weft.f32):
    for i in weft.each(out.shape[0]):
        out[i] = value


@weft.jit
def fill(out: VECTOR, value: weft.f32):
    fill_kernel(out, value).launch(over=out.shape[0])


def test_differing_results_are_an_error_beyond_the_tolerance():
    space = {"value": [100.0, 101.0, float("nan")]}
    with pytest.raises(weft.TuningError, match=r"difference is 0\.01, allowed is 0\.001") as caught:
        tuned(fill, space=space, check=1e-3)(np.zeros(3, np.float32))
    assert caught.value.code == "AUTOTUNE_RESULTS_DIFFER"
    tuned(fill, space={"value": [100.0, 101.0]}, check=0.02)(np.zeros(3, np.float32))
    with pytest.raises(weft.TuningError, match="inf"):
        tuned(fill, space=space, check=0.02)(np.zeros(3, np.float32))


def test_two_threads_that_call_at_once_tune_once():
    entered = []

    def keep(threads):
        entered.append(threads)
        return True

    scale = tuned(prune=keep)
    together = threading.Barrier(4)

    def call():
        given = vectors(50)
        together.wait(10)
        scale(**given)
        return float(given["out"].sum())

    with ThreadPoolExecutor(4) as pool:
        sums = [future.result() for future in [pool.submit(call) for _ in range(4)]]
    assert sums == [100.0] * 4
    assert len(scale.results) == 1
    assert entered == [32, 64]


def test_a_function_that_its_own_tuning_calls_says_so():
    def asks(threads):
        return scale(**vectors(10)) is None

    scale = tuned(prune=asks)
    with pytest.raises(weft.UnavailableError, match="AUTOTUNE_NEEDS_ITSELF"):
        scale(**vectors(10))


@pytest.mark.parametrize("mode", ["off", "cached"])
def test_without_measuring_the_first_that_prune_keeps_is_run(mode):
    scale = tuned(prune=lambda threads: threads > 32)
    with override(autotune=mode):
        given = vectors(10)
        scale(**given)
    assert (given["out"].sum(), scale.results) == (20.0, [])
    assert scale.best(**given) == {"threads": 64, "items": 1}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"key": ["m"]}, "the key of plain_scale names 'm'"),
        ({"key": ["threads"]}, "it can name a, out, n"),
        ({"prune": lambda tile: True}, "prune of plain_scale names 'tile'"),
        (
            {"prune_compiled": lambda warps: True},
            "it can name threads, items, kernels, remarks, occupancy, a",
        ),
    ],
)
def test_a_name_that_means_nothing_is_refused(arguments, message):
    with pytest.raises(weft.SignatureError, match="AUTOTUNE_NAME") as caught:
        tuned(**arguments)(**vectors(10))
    assert message in str(caught.value)


def test_a_key_must_be_of_numbers_and_texts():
    with pytest.raises(weft.ArgumentValueError, match="AUTOTUNE_KEY"):
        tuned(key=lambda n: object())(**vectors(10))


def test_pointers_are_refused():
    @weft.jit
    def touch(p: weft.Pointer[weft.f32], threads: weft.i32):
        scale_kernel(p.tensor((4,)), p.tensor((4,)), 1).launch(grid=1, block=threads)

    memory = np.zeros(4, np.float32)
    with pytest.raises(weft.WeftError):
        tuned(touch, space={"threads": [32]}, key=())(memory.ctypes.data)


def test_wrong_arguments_are_reported_as_those_of_the_function():
    scale = tuned()
    with pytest.raises(TypeError, match=r"plain_scale\(\) missing 1 required .*'out'"):
        scale(np.ones(3, np.float32))
    with pytest.raises(weft.SignatureError, match="argument 'out'"):
        scale(np.ones(3, np.float32), object())


def test_a_method_and_keyword_only_parameters():
    class Scaler:
        def __init__(self, factor):
            self.factor = factor

        @weft.autotune(space={"threads": [32, 64]}, samples=3, workers=0)
        @weft.jit
        def run(self: weft.Constexpr, out: VECTOR, *, threads: weft.i32):
            fill_kernel(out, self.factor).launch(grid=1, block=threads)

    made = Scaler(3.0)
    made.run(out := np.zeros(4, np.float32))
    assert out.tolist() == [3.0] * 4


def test_progress_is_a_line_on_standard_error_only_if_it_is_wanted(capsys):
    tuned()(**vectors(10))
    assert capsys.readouterr() == ("", "")
    tuned(progress=True)(**vectors(10))
    out, error = capsys.readouterr()
    assert out == ""
    assert error.startswith("weft: tuned plain_scale: threads=")
    assert error.count("\n") == 1


def test_a_terminal_sees_each_step(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    tuned()(**vectors(10))
    error = capsys.readouterr().err
    assert "compiling 1 of 1" in error
    assert "sample 3, " in error


def test_it_is_found_by_its_name_and_described():
    scale = tuned()
    assert scale.function is plain_scale
    assert scale.__name__ == "plain_scale"
    assert repr(scale) == "<weft tuned function plain_scale: 2 configurations of threads, items>"


def test_with_all_parameters_a_host_function_calls_the_plain_one():
    @weft.kernel
    def scale_kernel(a, factor):
        for i in weft.each(a.shape[0]):
            a[i] = a[i] * factor

    @weft.autotune(space={"threads": [32, 64], "factor": [2]})
    @weft.jit
    def scale(a: weft.Tensor, threads: weft.Constexpr, factor: weft.i32):
        scale_kernel(a, factor).launch(grid=1, block=threads)

    @weft.jit
    def host(a: weft.Tensor):
        scale(a, 32, factor=5)

    host(a := np.ones(8, np.float32))
    assert a.tolist() == [5.0] * 8
    assert scale.results == []
