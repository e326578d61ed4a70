# SPDX-License-Identifier: Apache-2.0
"""Functions of `weft.kernels` refuse bad arguments by name, before anything is compiled.

What it can take lies anywhere: backwards, with gaps, off every boundary of a vector.
"""

from __future__ import annotations

import inspect
import re
from typing import Any

import numpy as np
import pytest

import weft
from tests.kernels.calls import CALLS
from weft import kernels
from weft.api import JitFunction

pytestmark = pytest.mark.joined


def shown(value: Any) -> str:
    """A value for messages of the test."""
    array: Any = value
    return f"{array.dtype}{[*array.shape]}" if isinstance(value, np.ndarray) else repr(value)


def refusal(name: str, arguments: dict[str, Any], parameter: str, value: Any, named: str) -> str:
    """The defect in how a function refuses a value, or an empty string."""
    call = f"{name}({parameter}={shown(value)})"
    try:
        getattr(kernels, name)(**{**arguments, parameter: value})
    except (TypeError, ValueError) as error:
        if re.search(rf"\b({named})\b", str(error)):
            return ""
        return f"{call} says {type(error).__name__}: {error}"
    except Exception as error:
        return f"{call} fails with {type(error).__name__}: {error}"
    return f"{call} is accepted"


@pytest.fixture
def without_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Host functions do nothing: what they would refuse is refused too late."""
    monkeypatch.setattr(JitFunction, "__call__", lambda self, *arguments, **keywords: None)
    monkeypatch.setattr("weft.kernels.host.dispatch_cache.known_call", lambda call, values: None)


BY_TRUTH = {"causal", "descending", "deterministic", "exclusive", "inverse", "largest"}
ANY_TYPE = {("sort", "values"), ("compress", "x"), ("partition", "x")}
COMPLEX = {("fft", "x"), ("irfft", "x")}
MOVED = {("copy", "x"), ("transpose", "x")}  # of any type
ANY_SHAPE = {("embedding", "indices")}


@pytest.mark.usefixtures("without_kernels")
def test_what_an_option_cannot_be_is_refused_by_its_name():
    x, starts = np.zeros((4, 2, 8), np.float32), np.array([0, 3, 4], np.int32)
    cases: list[tuple[str, dict[str, Any], str, Any]] = [
        ("transpose", {"x": x}, "axes", 5),
        ("transpose", {"x": x}, "axes", (0, 1)),
        ("transpose", {"x": x}, "axes", (0, 1.0, 2)),
        ("dropout", {"x": x, "seed": 1}, "p", 1.5),
        ("dropout", {"x": x, "p": 0.5}, "seed", -1),
        ("gather", {"x": x, "indices": np.zeros((4, 2, 8), np.int32)}, "axis", 3),
        ("cross_entropy", {"logits": x[0], "target": starts[:2]}, "ignore_index", 1 << 31),
        ("embedding_backward", {"gradient": x[0], "indices": starts[:2]}, "rows", -1),
    ]
    attention = {"q": x, "k": x, "v": x, "cu_seqlens_q": starts, "cu_seqlens_k": starts}
    cases += [
        ("attention", attention, "max_seqlen_q", wrong) for wrong in (0, -1, 1 << 31, 2.0, True)
    ]
    assert [found for case in cases if (found := refusal(*case, case[2]))] == []


WITH_OUT = [n for n in CALLS if "out" in inspect.signature(getattr(kernels, n)).parameters]


@pytest.mark.usefixtures("without_kernels")
@pytest.mark.parametrize("name", WITH_OUT)
def test_an_out_that_overlaps_an_argument_is_refused_by_name(name: str):
    function = getattr(kernels, name)
    arguments = inspect.signature(function).bind(*CALLS[name].arguments).arguments
    results = function(**arguments)
    result = np.asarray(results[0] if isinstance(results, tuple) else results)
    step = result.dtype.itemsize
    found: list[str] = []
    for parameter, value in arguments.items():
        if isinstance(value, np.ndarray) and value.nbytes > step:
            memory = np.zeros(value.nbytes + step + result.nbytes, np.uint8)
            given = {**arguments, parameter: np.ndarray(value.shape, value.dtype, memory)}
            out = np.ndarray(result.shape, result.dtype, memory, step)
            found.append(refusal(name, given, "out", out, f"out overlaps with {parameter}"))
    assert found and not any(found)


@pytest.mark.usefixtures("without_kernels")
@pytest.mark.parametrize("name", CALLS)
def test_wrong_arguments_are_refused_by_name(name: str):
    parameters = list(inspect.signature(getattr(kernels, name)).parameters)
    given = dict(zip(parameters, CALLS[name].arguments, strict=False))
    wrong: list[str] = []
    for k, parameter in enumerate(parameters):
        value = given.get(parameter)
        values: list[Any] = [object(), "nonsense"]
        others: list[Any] = []
        if isinstance(value, np.ndarray):
            values = ["text", [1, 2], np.zeros((), value.dtype)]
            if (name, parameter) not in MOVED:
                other = np.int8 if (name, parameter) in COMPLEX else np.complex64
                values.append(np.zeros(value.shape, other))
            if k and (name, parameter) not in ANY_TYPE:
                other = np.float32 if value.dtype == np.bool_ else np.bool_
                others.append(np.zeros(value.shape, other))
            if k and (name, parameter) not in ANY_SHAPE:
                others.append(np.zeros((*value.shape, 3), value.dtype))
        elif parameter == "out":
            values += [np.zeros(7, np.complex64), np.zeros((3, 1, 3, 1, 3), np.float32)]
        elif parameter in BY_TRUTH:
            continue
        wrong += [refusal(name, given, parameter, one, parameter) for one in values]
        wrong += [refusal(name, given, parameter, one, "|".join(parameters)) for one in others]
    assert list(filter(None, wrong)) == []


# The others' layouts are tested with what they compute, and compile for longer.
QUICK = (
    "copy embedding embedding_backward gather gelu gelu_backward histogram log_softmax_backward "
    "scatter_add silu_mul silu_mul_backward softmax_backward sparse_matvec transpose"
).split()


def backwards(value: Any) -> Any:
    """The same elements from the last to the first, each second one of memory that begins at an odd place."""
    if not isinstance(value, np.ndarray):
        return value
    array: np.ndarray[Any, Any] = value
    memory = np.zeros((*array.shape[:-1], 2 * array.shape[-1] + 1), array.dtype)
    view = memory[..., 1::2][..., ::-1]
    view[...] = array
    return view


@pytest.mark.slow
@pytest.mark.parametrize("name", QUICK)
def test_reversed_strided_arrays_give_the_same_results(name: str):
    function, arguments = getattr(kernels, name), CALLS[name].arguments
    expected = function(*(one.copy() if isinstance(one, np.ndarray) else one for one in arguments))
    found = function(*map(backwards, arguments))
    for one, other in zip(np.atleast_2d(found), np.atleast_2d(expected), strict=True):
        assert np.allclose(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.usefixtures("without_kernels")
@pytest.mark.parametrize("name", CALLS)
def test_packed_elements_are_refused_by_the_arguments_name(name):
    parameters = inspect.signature(getattr(kernels, name)).parameters
    given = dict(zip(parameters, CALLS[name].arguments, strict=False))
    defects = []
    for parameter, value in given.items():
        if isinstance(value, np.ndarray):
            half = (*value.shape[:-1], max(value.shape[-1] // 2, 1))
            packed = weft.packed(np.zeros(half, np.uint8), weft.i4)
            defects.append(refusal(name, given, parameter, packed, parameter))
    assert not [*filter(None, defects)]
