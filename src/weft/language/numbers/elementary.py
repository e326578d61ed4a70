# SPDX-License-Identifier: Apache-2.0
"""``weft.math``, elementary functions: exponentials, logarithms, trigonometry, roots, `fma`.

In: numbers; floats keep their type, an integer enters as f32, or f64 if it has 64 bits, and an f8 value as
f32. Out: a scalar of that type, one `math` operation each; of constants alone a Python float.
"""

from __future__ import annotations

import math as python
from functools import reduce, wraps
from typing import TYPE_CHECKING, Any, Concatenate, cast

from xdsl.dialects import arith, math

from weft.dialects.simt.scalar import APPROXIMATE
from weft.errors import TypeMismatchError, ValueRangeError
from weft.language.numbers.complex import is_complex, parts
from weft.language.numbers.complex_math import FORMULAS, complex_function, complex_power
from weft.language.numbers.convert import (
    arithmetic_dtype,
    common_dtype,
    default_float,
    expect_scalar,
    float_dtype,
    to_common,
)
from weft.language.operation import operation
from weft.language.values import Scalar, describe

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from xdsl.ir import Operation as IROperation

    from weft.dialects.builder import Builder
    from weft.language.numbers.convert import Operand
    from weft.language.operation import Operation, Parameters
    from weft.types.dtype import DType

    Number = object
    Result = Scalar | float
    PythonFunction = Callable[..., float | int | bool]


def math_operation(
    function: Callable[Concatenate[Builder, Parameters], Any],
) -> Operation[Parameters]:
    """`@operation` for a name under ``weft.math``; a trailing underscore avoids Python's builtin."""
    name = function.__name__.rstrip("_")
    takes_complex = name in FORMULAS or name in ("abs", "angle", "pow")
    made: Any = _or_complex(name, function) if name in FORMULAS else function
    return operation(
        name=f"math.{name}", on_host=True, takes_complex=takes_complex, elementwise=True
    )(made)


def _or_complex(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, with a formula for complex numbers."""

    @wraps(function)
    def either(builder: Builder, x: object, **keywords: Any) -> Any:
        if is_complex(x):
            return complex_function(builder, name, x, keywords, _real_function)
        return function(builder, x, **keywords)

    return either


def _real_function(builder: Builder, name: str, *values: object) -> Any:
    functions = {"exp": exp, "log": log, "log1p": log1p, "sqrt": sqrt, "atan2": atan2}
    functions |= {"sin": sin, "cos": cos, "tan": tan, "sinh": sinh, "cosh": cosh}
    return functions[name].emit(builder, *values)


def operands_of(builder: Builder, name: str, values: Sequence[object]) -> list[Operand]:
    """The arguments of ``weft.math.<name>`` as operands.

    Raises:
        TypeMismatchError: if an argument is not a number.
    """
    return [expect_scalar(builder, value, f"math.{name}: an argument") for value in values]


def computation_dtype(operands: Sequence[Operand]) -> DType:
    """The float type in which a function of these operands is computed.

    The common type if it is a float; for integers f64 if one has 64 bits, else `default_float`.

    Raises:
        TypeMismatchError: for types without a common one.
    """
    staged = [arithmetic_dtype(value.dtype) for value in operands if isinstance(value, Scalar)]
    weak_float = any(isinstance(value, float) for value in operands)
    floats = [dtype for dtype in staged if dtype.is_float]
    if floats:
        return reduce(common_dtype, floats)
    return default_float() if weak_float or not staged else float_dtype(*staged)


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


@math_operation
def exp(builder: Builder, x: Number, *, approx: bool = False) -> Result:
    """E to the power of `x`; 0 for −∞, ∞ beyond the type's range.

    With ``approx=True`` a GPU uses `ex2.approx.ftz.f32` of x · log₂ e: 2.5 + 1.3 · abs(x) units in the last place off,
    and 0 instead of subnormal results.

    Example:
        ``b[i] = weft.math.exp(a[i])``
    """
    return emit_float(builder, "exp", math.ExpOp, python.exp, x, approx=approx)


@math_operation
def exp2(builder: Builder, x: Number, *, approx: bool = False) -> Result:
    """2 to the power of `x`; the fastest exponential on a GPU.

    With ``approx=True`` a GPU uses `ex2.approx.ftz.f32`: 2 units in the last place off the correctly rounded result,
    and 0 instead of subnormal ones.

    Example:
        ``p = weft.math.exp2(x * scale)``
    """
    return emit_float(builder, "exp2", math.Exp2Op, python.exp2, x, approx=approx)


@math_operation
def expm1(builder: Builder, x: Number) -> Result:
    """E to the power of `x`, minus 1, without the digits that ``exp(x) - 1`` loses near 0.

    Example:
        ``b[i] = weft.math.expm1(a[i])``
    """
    return emit_float(builder, "expm1", math.ExpM1Op, python.expm1, x)


@math_operation
def log(builder: Builder, x: Number, *, approx: bool = False) -> Result:
    """Natural logarithm; −∞ for 0, NaN below.

    With ``approx=True`` a GPU uses `lg2.approx.f32` times ln 2: 2⁻²² off between 1/2 and 2, elsewhere
    2⁻²¹·⁵ in relative terms.

    Example:
        ``b[i] = weft.math.log(a[i])``
    """
    return emit_float(builder, "log", math.LogOp, python.log, x, approx=approx)


@math_operation
def log2(builder: Builder, x: Number, *, approx: bool = False) -> Result:
    """Logarithm to base 2; −∞ for 0, NaN below.

    With ``approx=True`` a GPU uses `lg2.approx.f32`: 2⁻²² off between 1/2 and 2, elsewhere in relative terms.

    Example:
        ``bits = weft.math.log2(x)``
    """
    return emit_float(builder, "log2", math.Log2Op, python.log2, x, approx=approx)


@math_operation
def log10(builder: Builder, x: Number) -> Result:
    """Logarithm to base 10; −∞ for 0, NaN below.

    Example:
        ``decibel = 10 * weft.math.log10(power)``
    """
    return emit_float(builder, "log10", math.Log10Op, python.log10, x)


@math_operation
def log1p(builder: Builder, x: Number) -> Result:
    """Natural logarithm of 1 + `x`, without the digits that ``log(1 + x)`` loses near 0; −∞ for −1, NaN below.

    Example:
        ``loss = weft.math.log1p(weft.math.exp(-weft.math.abs(x)))``
    """
    return emit_float(builder, "log1p", math.Log1pOp, python.log1p, x)


@math_operation
def sin(builder: Builder, x: Number, *, approx: bool = False) -> Result:
    """Sine of an angle in radians; NaN for infinities.

    With ``approx=True`` a GPU uses `sin.approx.f32`: 2⁻²⁰·⁵ off between −2π and 2π, 2⁻¹⁴·⁷ up to ±100π; no bound
    beyond.

    Example:
        ``b[i] = weft.math.sin(a[i])``
    """
    return emit_float(builder, "sin", math.SinOp, python.sin, x, approx=approx)


@math_operation
def cos(builder: Builder, x: Number, *, approx: bool = False) -> Result:
    """Cosine of an angle in radians; NaN for infinities.

    With ``approx=True`` a GPU uses `cos.approx.f32`: 2⁻²⁰·⁵ off between −2π and 2π, 2⁻¹⁴·⁷ up to ±100π; no bound
    beyond.

    Example:
        ``b[i] = weft.math.cos(a[i])``
    """
    return emit_float(builder, "cos", math.CosOp, python.cos, x, approx=approx)


@math_operation
def tan(builder: Builder, x: Number) -> Result:
    """Tangent of an angle in radians; NaN for infinities.

    Example:
        ``b[i] = weft.math.tan(a[i])``
    """
    return emit_float(builder, "tan", math.TanOp, python.tan, x)


@math_operation
def sinh(builder: Builder, x: Number) -> Result:
    """Hyperbolic sine; infinite beyond the type's range.

    Example:
        ``b[i] = weft.math.sinh(a[i])``
    """
    return emit_float(builder, "sinh", math.SinhOp, python.sinh, x)


@math_operation
def cosh(builder: Builder, x: Number) -> Result:
    """Hyperbolic cosine, at least 1; ∞ beyond the type's range.

    Example:
        ``b[i] = weft.math.cosh(a[i])``
    """
    return emit_float(builder, "cosh", math.CoshOp, python.cosh, x)


@math_operation
def tanh(builder: Builder, x: Number, *, approx: bool = False) -> Result:
    """Hyperbolic tangent, between −1 and 1.

    With ``approx=True`` a GPU uses `tanh.approx.f32`, from sm_75 on: 2⁻¹¹ off in relative terms.

    Example:
        ``b[i] = weft.math.tanh(a[i])``
    """
    return emit_float(builder, "tanh", math.TanhOp, python.tanh, x, approx=approx)


@math_operation
def asinh(builder: Builder, x: Number) -> Result:
    """Inverse hyperbolic sine.

    Example:
        ``b[i] = weft.math.asinh(a[i])``
    """
    return emit_float(builder, "asinh", math.AsinhOp, python.asinh, x)


@math_operation
def acosh(builder: Builder, x: Number) -> Result:
    """Inverse hyperbolic cosine, at least 0; NaN below 1.

    Example:
        ``b[i] = weft.math.acosh(a[i])``
    """
    return emit_float(builder, "acosh", math.AcoshOp, python.acosh, x)


@math_operation
def atanh(builder: Builder, x: Number) -> Result:
    """Inverse hyperbolic tangent; ±∞ for ±1, NaN beyond.

    Example:
        ``b[i] = weft.math.atanh(a[i])``
    """
    return emit_float(builder, "atanh", math.AtanhOp, python.atanh, x)


@math_operation
def atan(builder: Builder, x: Number) -> Result:
    """Arc tangent in radians, between −π/2 and π/2.

    Example:
        ``angle = weft.math.atan(ratio)``
    """
    return emit_float(builder, "atan", math.AtanOp, python.atan, x)


@math_operation
def atan2(builder: Builder, y: Number, x: Number) -> Result:
    """Angle of the point (`x`, `y`) in radians, between −π and π; zeros keep their sign as in C.

    Example:
        ``angle = weft.math.atan2(dy, dx)``
    """
    return emit_float(builder, "atan2", math.Atan2Op, python.atan2, y, x)


@math_operation
def angle(builder: Builder, z: Number) -> Result:
    """The angle of a complex number, from −π to π: ``atan2(z.imag, z.real)``; of a real number 0 or π.

    Example:
        ``a[i] = weft.math.angle(x + y * 1j)``
    """
    if not is_complex(z):
        return emit_float(builder, "angle", math.Atan2Op, python.atan2, 0.0, z)
    if not isinstance(z, Scalar):
        return python.atan2(cast("complex", z).imag, cast("complex", z).real)
    real, imaginary = parts(builder, z)
    return atan2.emit(builder, imaginary, real)


@math_operation
def asin(builder: Builder, x: Number) -> Result:
    """Arc sine in radians, between −π/2 and π/2; NaN outside −1 to 1.

    Example:
        ``angle = weft.math.asin(height / length)``
    """
    return emit_float(builder, "asin", math.AsinOp, python.asin, x)


@math_operation
def acos(builder: Builder, x: Number) -> Result:
    """Arc cosine in radians, between 0 and π; NaN outside −1 to 1.

    Example:
        ``angle = weft.math.acos(dot / norms)``
    """
    return emit_float(builder, "acos", math.AcosOp, python.acos, x)


@math_operation
def divide(builder: Builder, a: Number, b: Number, *, approx: bool = False) -> Result:
    """``a / b``.

    With ``approx=True`` a GPU uses `div.full.f32`: 2 units in the last place off, with operands of any size; for
    ``divide(1.0, x, approx=True)`` it is `rcp.approx.f32`: 1 unit.

    Example:
        ``b[i] = weft.math.divide(a[i], total, approx=True)``
    """
    return emit_float(builder, "divide", arith.DivfOp, _quotient, a, b, approx=approx)


def _quotient(a: float, b: float) -> float:
    return a / b


@math_operation
def sqrt(builder: Builder, x: Number, *, approx: bool = False) -> Result:
    """Square root, correctly rounded; NaN below 0.

    With ``approx=True`` a GPU uses `sqrt.approx.f32`: 2⁻²³ off in relative terms.

    Example:
        ``length = weft.math.sqrt(x * x + y * y)``
    """
    return emit_float(builder, "sqrt", math.SqrtOp, python.sqrt, x, approx=approx)


@math_operation
def cbrt(builder: Builder, x: Number) -> Result:
    """Cube root; negative for negative numbers.

    Example:
        ``b[i] = weft.math.cbrt(a[i])``
    """
    return emit_float(builder, "cbrt", math.CbrtOp, python.cbrt, x)


@math_operation
def rsqrt(builder: Builder, x: Number, *, approx: bool = False) -> Result:
    """1 over the square root; ∞ for 0, NaN below.

    With ``approx=True`` a GPU uses `rsqrt.approx.f32`, as it does for `f32` anyway: 2⁻²²·⁹ off in relative terms.

    Example:
        ``scale = weft.math.rsqrt(mean + epsilon)``
    """
    return emit_float(builder, "rsqrt", math.RsqrtOp, _rsqrt, x, approx=approx)


def _rsqrt(x: float) -> float:
    return 1.0 / python.sqrt(x)


@math_operation
def erf(builder: Builder, x: Number) -> Result:
    """Error function, between −1 and 1.

    Example:
        ``gelu = 0.5 * x * (1 + weft.math.erf(x * 0.70710678))``
    """
    return emit_float(builder, "erf", math.ErfOp, python.erf, x)


@math_operation
def pow_(builder: Builder, base: Number, exponent: Number) -> Result:
    """`base` to the power of `exponent`, always in floats; NaN for a negative base with a fractional exponent.

    ``base ** exponent`` is the same for floats and complex numbers, but multiplies floats for small constant exponents.

    Example:
        ``b[i] = weft.math.pow(a[i], gamma)``
    """
    if is_complex(base) or is_complex(exponent):
        return complex_power(builder, base, exponent, _real_function)
    return emit_float(builder, "pow", math.PowFOp, python.pow, base, exponent)


@math_operation
def fma(builder: Builder, a: Number, b: Number, c: Number) -> Result:
    """``a * b + c`` with one rounding, also with ``--fp-contract off``.

    Example:
        ``total = weft.math.fma(a[i], b[i], total)``
    """
    return emit_float(builder, "fma", math.FmaOp, _multiply_add, a, b, c)


def _multiply_add(a: float, b: float, c: float) -> float:
    return a * b + c
