# SPDX-License-Identifier: Apache-2.0
"""Helpers of ``weft.math``: operands in one float type, and constant folding.

In: operands and the IR operation. Out: a scalar, or a Python number for constants alone.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any, Concatenate

from weft.dialects.simt.scalar import APPROXIMATE
from weft.errors import TypeMismatchError, ValueRangeError
from weft.language.numbers.convert import expect_scalar, to_common
from weft.language.numbers.promotion import arithmetic_dtype, common_dtype, float_dtype
from weft.language.operation import operation
from weft.language.values import Scalar, describe
from weft.types import dtype as types

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from xdsl.ir import Operation as IROperation

    from weft.dialects.builder import Builder
    from weft.language.numbers.promotion import Operand
    from weft.language.operation import Operation, Parameters
    from weft.types.dtype import DType

    PythonFunction = Callable[..., float | int | bool]


def math_operation(
    function: Callable[Concatenate[Builder, Parameters], Any],
) -> Operation[Parameters]:
    """`@operation` for a name under ``weft.math``; a trailing underscore avoids Python's builtin."""
    name = f"math.{function.__name__.rstrip('_')}"
    return operation(name=name, on_host=True)(function)


def operands_of(builder: Builder, name: str, values: Sequence[object]) -> list[Operand]:
    """The arguments of ``weft.math.<name>`` as operands.

    Raises:
        TypeMismatchError: if an argument is not a number.
    """
    return [expect_scalar(builder, value, f"math.{name}: an argument") for value in values]


def computation_dtype(operands: Sequence[Operand]) -> DType:
    """The float type in which a function of these operands is computed.

    The common type if it is a float; for integers f64 if one has 64 bits, else f32.

    Raises:
        TypeMismatchError: for types without a common one.
    """
    staged = [arithmetic_dtype(value.dtype) for value in operands if isinstance(value, Scalar)]
    weak_float = any(isinstance(value, float) for value in operands)
    floats = [dtype for dtype in staged if dtype.is_float]
    if floats:
        return reduce(common_dtype, floats)
    return types.f32 if weak_float or not staged else float_dtype(*staged)


def emit_float(
    builder: Builder,
    name: str,
    kind: Callable[..., IROperation],
    python: PythonFunction,
    *values: object,
    approx: object = False,
) -> Scalar | float:
    """``weft.math.<name>(*values)`` as one IR operation in the operands' float type.

    Args:
        name: for messages.
        kind: makes the IR operation from SSA values.
        python: the same function on Python numbers, for constants.
        *values: the user's arguments.
        approx: whether the target's approximate instruction will do.

    Raises:
        TypeMismatchError: if an argument is not a number, or `approx` does not fit.
        ValueRangeError: for constants outside the function's domain.
    """
    if not isinstance(approx, bool):
        raise TypeMismatchError(
            "MATH_APPROX",
            f"math.{name}: approx must be True or False, known at compile time, received {describe(approx)}",
        )
    operands = operands_of(builder, name, values)
    if not any(isinstance(value, Scalar) for value in operands):
        return float(of_constants(name, python, operands))
    if approx:
        _check_approximate(name, operands)
    dtype = computation_dtype(operands)
    arguments = [to_common(builder, value, dtype).ssa for value in operands]
    op = builder.emit(kind(*arguments))
    if approx:
        op.properties["fastmath"] = APPROXIMATE
    return Scalar(op.results[0], dtype)


def _check_approximate(name: str, operands: Sequence[Operand]) -> None:
    for value in operands:
        if isinstance(value, Scalar) and (not value.dtype.is_float or value.dtype.bits == 64):
            raise TypeMismatchError(
                "MATH_APPROX",
                f"math.{name}: approx=True is for floats of at most 32 bits, received {describe(value)}",
                hint="convert the argument, as in weft.f32(x), or leave approx out",
            )


def of_constants(
    name: str, python: PythonFunction, operands: Sequence[Operand]
) -> float | int | bool:
    """The function of Python numbers.

    Raises:
        ValueRangeError: if Python raises an error: outside the domain, or too large.
    """
    try:
        return python(*operands)
    except (ValueError, OverflowError, ZeroDivisionError) as error:
        numbers = ", ".join(repr(value) for value in operands)
        raise ValueRangeError(
            "MATH_DOMAIN",
            f"math.{name}({numbers}) of constants: {error}",
            hint="with a value known at run time, such as weft.f32(x), the result is an infinity or NaN",
        ) from None
