# SPDX-License-Identifier: Apache-2.0
"""Every way in which an argument can be wrong, or odd and right: one message for every caller.

A case is the annotations of a function `f(a, b, ...)`, the values, and what every caller must get.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import pytest

from tests.ffi_wrapper.golden_callers import CALLERS, Golden
from tests.ffi_wrapper.golden_cases import ON_CUDA, RIGHT, T10, WRONG, N, Pair, errors
from tests.ffi_wrapper.wrapped import CPU, CUDA, Parameter, Wrapped, signature_of
from weft.arguments.scalar import ScalarKind
from weft.arguments.signature import Signature
from weft.arguments.tensor import TensorKind
from weft.dialects.ffi.function import scalar_result
from weft.types.dtype import bf16, f8e4m3, f16, f32, f64, i32, i64

pytestmark = pytest.mark.joined


@functools.cache
def golden(
    annotations: tuple[Any, ...], device: int = CPU, returns: tuple[Any, ...] = ()
) -> Golden:
    parameters = [Parameter(name, spec) for name, spec in zip("abcdef", annotations, strict=False)]
    signature = signature_of("f", *parameters, device=device, args=_examples(annotations))
    return Golden(Wrapped(signature, returns, _tree(returns, signature)))


def _examples(annotations: tuple[Any, ...]) -> tuple[Any, ...]:
    examples = {Pair: Pair(N, N)}
    return tuple(examples[spec] for spec in annotations if spec in examples)


def _tree(returns: tuple[Any, ...], signature: Signature) -> Any:
    if not returns:
        return None
    kinds = {leaf.path: leaf.kind for leaf in signature.host_arguments()}
    name = returns[0] if isinstance(returns[0], str) else returns[0][1]
    kind = kinds[name]
    if isinstance(kind, TensorKind):
        is_narrow = returns[0][0] == "dim" and kind.dim_bits == 32
        return scalar_result(0, i32 if is_narrow else i64)
    assert isinstance(kind, ScalarKind)
    return scalar_result(0, kind.dtype)


@pytest.mark.parametrize("caller", CALLERS)
@pytest.mark.parametrize("case", WRONG)
def test_every_caller_gets_the_message(case: str, caller: str):
    annotations, values, answer = WRONG[case]
    if case == "no memory" and caller == "native":
        # The marshaller looks first.
        answer = (
            "ValueError: argument #0 'a': expected a tensor with memory, received Tensor with 10 elements and "
            "no data"
        )
    if case == "negative dim" and caller == "native":
        answer = "ValueError: argument #0 'a': expected dims of 0 and more, received Tensor with shape[0] = -1"
    assert getattr(golden(annotations), caller)(*values) == answer


@pytest.mark.parametrize("caller", CALLERS)
@pytest.mark.parametrize("case", ON_CUDA)
def test_every_caller_gets_the_message_of_a_device(case: str, caller: str):
    annotations, values, answer = ON_CUDA[case]
    if case == "no stream" and caller == "native":
        answer = (
            "TypeError: argument #0 'a': expected a stream (an object with __cuda_stream__, an address or "
            "None), received float"
        )
    assert getattr(golden(annotations, CUDA), caller)(*values) == answer


@pytest.mark.parametrize("caller", CALLERS)
def test_the_count_is_checked_for_callers_without_names(caller: str):
    answer = getattr(golden((N, i32)), caller)(T10)
    if caller == "native":
        assert answer == (
            "TypeError: f() missing 1 required positional argument: 'b'; signature: "
            "f(a: Tensor[f32, (n,)], b: i32)"
        )
    else:
        assert answer == "TypeError: expected 2 arguments, received 1"


@pytest.mark.parametrize("caller", ["package", "c"])
def test_too_many_arguments_are_refused_by_count_without_names(caller: str):
    answer = getattr(golden((N, i32)), caller)(T10, 1, 2)
    assert answer == "TypeError: expected 2 arguments, received 3"


# Only Python has names: what the marshaller says of them, with the function's own name.
NAMES: dict[str, tuple[tuple[Any, ...], dict[str, Any], str]] = {
    "too many": ((T10, 1, 2), {}, "f() takes from 1 to 2 positional arguments but 3 were given"),
    "none": ((), {}, "f() missing 1 required positional argument: 'a'"),
    "unknown": ((T10,), {"zz": 1}, "f() got an unexpected keyword argument 'zz'"),
    "twice": ((T10,), {"a": T10}, "f() got multiple values for argument 'a'"),
}


@pytest.mark.parametrize("case", NAMES)
def test_wrong_names_are_refused_with_the_real_name(case: str):
    arguments, keywords, answer = NAMES[case]
    signature = signature_of("f", Parameter("a", N), Parameter("b", i32, default=7))
    function = Wrapped(signature, ("b",), scalar_result(0, i32)).function()
    with pytest.raises(TypeError) as caught:
        function(*arguments, **keywords)
    assert str(caught.value) == f"{answer}; signature: f(a: Tensor[f32, (n,)], b: i32 = 7)"
    assert function(T10) == 7


# What each caller makes of the same Python object differs, and so does what was received.
class Plain:
    pass


NO_TENSORS: dict[str, tuple[Any, str, str]] = {
    "bytes": (b"abc", "expected a tensor, received bytes of length 3", "bytes of length 3"),
    "list": (
        [1, 2],
        "expected a tensor, received a list or tuple of 2 items",
        "a list or tuple of 2 items",
    ),
    "dict": (
        {"a": 1},
        "expected a tensor, number, string, stream, None, or a tuple of these, received dict",
        "a map",
    ),
    "object": (
        Plain(),
        "expected a tensor, number, string, stream, None, or a tuple of these, received Plain",
        "a Python object of type Plain",
    ),
}


@pytest.mark.parametrize("name", NO_TENSORS)
def test_what_has_no_word_of_its_own_in_c_is_refused_by_name_too(name: str):
    value, native, package = NO_TENSORS[name]
    function = golden((N,))
    assert function.native(value) == f"TypeError: argument #0 'a': {native}"
    assert function.package(value) == errors(package, "a tensor")


@pytest.mark.parametrize("caller", CALLERS)
@pytest.mark.parametrize("case", RIGHT)
def test_every_caller_may_pass_it(case: str, caller: str):
    annotations, values, returned, value = RIGHT[case]
    answer = getattr(golden(annotations, CPU, (returned,)), caller)(*values)
    assert type(value)(eval(answer, {"inf": math.inf})) == value


@pytest.mark.parametrize("caller", CALLERS)
@pytest.mark.parametrize("dtype", [bf16, f8e4m3, f16, f32, f64], ids=str)
def test_nan_is_a_number_of_every_float_type(dtype, caller: str):
    assert getattr(golden((dtype,), CPU, ("a",)), caller)(math.nan).strip("-") == "nan"
