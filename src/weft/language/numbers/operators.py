# SPDX-License-Identifier: Apache-2.0
"""Python's operators on staged numbers, by the promotion rules; of integers also ``& | ^ ~ << >>``.

In: an operator as written and operands, at least one of them staged. Out: a `Scalar`. A constant operand may make the
operation vanish if that is exact.
"""

from __future__ import annotations

from operator import eq, ge, gt, le, lt, ne
from typing import TYPE_CHECKING, Any, Final, cast

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Operation

from weft.dialects.builder import SIGNED
from weft.dialects.simt.scalar import CONTRACT, NO_WRAP, FloorDivOp, FloorModOp
from weft.errors import TypeMismatchError, ValueRangeError
from weft.language import resolve
from weft.language.ir_types import ir_type
from weft.language.numbers.complex import (
    complex_binary,
    complex_compare,
    complex_negative,
    is_complex,
)
from weft.language.numbers.convert import (
    arithmetic_dtype,
    article,
    common_dtype,
    constant,
    convert,
    dtype_of,
    materialize,
    operand,
    quotient_dtype,
    to_common,
    truth,
    typed,
)
from weft.language.numbers.promises import divides, divisor_of, factor_of, note_quotient
from weft.language.values import Scalar, describe
from weft.types import dtype as types

if TYPE_CHECKING:
    from collections.abc import Callable

    from weft.dialects.builder import Builder
    from weft.language.numbers.convert import Operand
    from weft.types.dtype import DType


_BITWISE: Final = {"&": arith.AndIOp, "|": arith.OrIOp, "^": arith.XOrIOp}


def bitwise(builder: Builder, operator: str, left: Operand, right: Operand) -> Scalar:
    """``& | ^`` on integers in their common type; two bools give a ``bool_``.

    Raises:
        TypeMismatchError: for a float.
    """
    dtype = types.bool_ if _is_bool(left) and _is_bool(right) else common_dtype(left, right)
    if dtype.is_float:
        raise _no_bits(operator, left, right)
    first, second = to_common(builder, left, dtype), to_common(builder, right, dtype)
    if operator == "&" and not dtype.is_bool:
        for number, mask in ((first, second), (second, first)):
            masked = _masked(builder, number, mask)
            if masked is not None:
                return masked
    return Scalar(builder.compute(_BITWISE[operator], first.ssa, second.ssa), dtype)


def _masked(builder: Builder, number: Scalar, mask: Scalar) -> Scalar | None:
    """``n & mask`` where it takes all bits that a multiple of a power of two may have, or none."""
    if mask.constant is None:
        return None
    low = factor_of(builder, number.ssa) - 1
    every = (1 << number.dtype.bits) - 1
    bits = int(mask.constant) & every
    if bits & ~low == 0:
        return constant(builder, 0, number.dtype)
    return number if bits | low == every else None


def invert(builder: Builder, value: Operand) -> Scalar:
    """``~value`` of an integer.

    Raises:
        TypeMismatchError: for a float, and for a ``bool_``: Python's ``~True`` is −2, which is true.
    """
    if _is_bool(value):
        raise TypeMismatchError(
            "TYPE_INVERT_BOOL",
            "~ of a bool_ would be −1 or −2, as in Python; both are true",
            hint="write `not x`, or weft.i32(x) to invert the bits of a number",
        )
    dtype = common_dtype(value, 0)
    if dtype.part.is_float:
        raise _no_bits("~", value)
    ones = builder.constant(ir_type(dtype), (1 << dtype.bits) - 1)
    number = to_common(builder, value, dtype)
    return Scalar(builder.compute(arith.XOrIOp, number.ssa, ones), dtype)


def shift(builder: Builder, operator: str, left: Operand, right: Operand) -> Scalar:
    """``<<`` and ``>>``; the result has the left operand's type, whatever the count's type.

    A constant on the left is weak and takes the count's type. A count of the type's width or more gives
    0, or for ``>>`` of a negative number −1, as in Python. A negative run-time count acts as a large one.

    Raises:
        TypeMismatchError: for floats.
        ValueRangeError: for a negative constant count.
    """
    dtype, count_dtype = _shift_dtypes(operator, left, right)
    number = to_common(builder, left, dtype)
    count = right.constant if isinstance(right, Scalar) else right
    if count is not None:
        return _shift_by_constant(builder, operator, number, int(count))
    assert isinstance(right, Scalar)
    staged = convert(builder, right, count_dtype)
    if _is_masked_below(staged, dtype.bits):
        amount = convert(builder, staged, dtype)
        return Scalar(builder.compute(_shift_kind(operator, dtype), number.ssa, amount.ssa), dtype)
    if (
        operator == ">>" and dtype.is_signed
    ):  # the sign fills; a negative count is large when unsigned
        amount = convert(builder, _at_most(builder, staged, dtype.bits - 1), dtype)
        return Scalar(builder.compute(arith.ShRSIOp, number.ssa, amount.ssa), dtype)
    kind = arith.ShLIOp if operator == "<<" else arith.ShRUIOp
    return _zero_beyond_width(builder, kind, number, staged)


def _shift_dtypes(operator: str, left: Operand, right: Operand) -> tuple[DType, DType]:
    left_dtype, right_dtype = dtype_of(left), dtype_of(right)
    if _is_float(left) or _is_float(right):
        raise _no_bits(operator, left, right)
    count_dtype = types.i32 if right_dtype is None else arithmetic_dtype(right_dtype)
    dtype = count_dtype if left_dtype is None else arithmetic_dtype(left_dtype)
    return dtype, count_dtype


def _shift_by_constant(builder: Builder, operator: str, number: Scalar, count: int) -> Scalar:
    dtype = number.dtype
    if count < 0:
        raise ValueRangeError(
            "SHIFT_NEGATIVE",
            f"a shift by {count}; expected 0 or more",
            hint=f"shift the other way: {'>>' if operator == '<<' else '<<'} {-count}",
        )
    if count == 0:
        return number
    if count >= dtype.bits:
        if operator == "<<" or not dtype.is_signed:
            return constant(builder, 0, dtype)
        count = dtype.bits - 1
    amount = builder.constant(ir_type(dtype), count)
    return Scalar(builder.compute(_shift_kind(operator, dtype), number.ssa, amount), dtype)


def _shift_kind(operator: str, dtype: DType) -> type[arith.ShLIOp | arith.ShRSIOp | arith.ShRUIOp]:
    if operator == "<<":
        return arith.ShLIOp
    return arith.ShRSIOp if dtype.is_signed else arith.ShRUIOp


def _is_masked_below(count: Scalar, width: int) -> bool:
    """Whether the count is masked, as in ``x & 31``, below the width."""
    owner = count.ssa.owner
    if not isinstance(owner, arith.AndIOp):
        return False
    masks = (Scalar(operand, count.dtype).constant for operand in owner.operands)
    return any(mask is not None and 0 <= mask < width for mask in masks)


def _zero_beyond_width(
    builder: Builder, kind: type[arith.ShLIOp | arith.ShRUIOp], number: Scalar, count: Scalar
) -> Scalar:
    dtype = number.dtype
    width = builder.constant(ir_type(count.dtype), dtype.bits)
    inside = builder.emit(arith.CmpiOp(count.ssa, width, "ult")).result
    # Beyond the width the shift is poison, which select ignores.
    shifted = builder.compute(kind, number.ssa, convert(builder, count, dtype).ssa)
    zero = builder.constant(ir_type(dtype), 0)
    return Scalar(builder.emit(arith.SelectOp(inside, shifted, zero)).result, dtype)


def _at_most(builder: Builder, count: Scalar, limit: int) -> Scalar:
    last = builder.constant(ir_type(count.dtype), limit)
    return Scalar(builder.compute(arith.MinUIOp, count.ssa, last), count.dtype)


def _is_bool(value: Operand) -> bool:
    return isinstance(value, bool) or (isinstance(value, Scalar) and value.dtype.is_bool)


def _is_float(value: Operand) -> bool:
    return isinstance(value, float) or (isinstance(value, Scalar) and value.dtype.is_float)


def _no_bits(operator: str, *values: Operand) -> TypeMismatchError:
    value = next(value for value in values if _is_float(value) or is_complex(value))
    found = article(value.dtype) if isinstance(value, Scalar) else describe(value)
    return TypeMismatchError(
        "TYPE_NO_BITS",
        f"{operator} takes integers and bools, received {found}",
        hint="convert to an integer first, such as weft.i32(x)",
    )


_LARGEST_UNROLLED: Final = 16
"""Above this |exponent| a float goes through `math.powf`, whose error does not grow with the exponent."""


def _power(builder: Builder, operator: str, base: Operand, exponent: Operand) -> Scalar:
    """``base ** exponent``.

    An integer base takes a constant exponent of 0 or more, and wraps. A float base takes any exponent:
    up to 16 by repeated multiplication, others by `math.powf`.

    Raises:
        TypeMismatchError: for an integer base with another exponent.
    """
    del operator
    if isinstance(exponent, Scalar):
        return _run_time_exponent(builder, base, exponent)
    assert isinstance(base, Scalar)
    dtype = common_dtype(base, exponent)
    number = to_common(builder, base, dtype)
    if dtype.is_float:
        whole = abs(exponent) <= _LARGEST_UNROLLED and float(exponent).is_integer()
        if not whole:
            return _powf(builder, number, to_common(builder, exponent, dtype))
        power = _product(builder, number, abs(int(exponent)))
        if exponent >= 0:
            return power
        one = constant(builder, 1.0, dtype)
        return Scalar(builder.emit(arith.DivfOp(one.ssa, power.ssa)).result, dtype)
    if exponent < 0:
        raise TypeMismatchError(
            "POWER_NEGATIVE",
            f"an integer to the power of {exponent} is not an integer",
            hint="convert the base: weft.f32(x) ** -n",
        )
    return _product(builder, number, int(exponent))


def _run_time_exponent(builder: Builder, base: Operand, exponent: Scalar) -> Scalar:
    dtype = common_dtype(base, exponent)
    if dtype.is_float:
        first, second = to_common(builder, base, dtype), to_common(builder, exponent, dtype)
        return _powf(builder, first, second)
    hint = "convert the base: weft.f32(x) ** n"
    if isinstance(base, int) and base == 2:
        hint = "write 1 << n"
    raise TypeMismatchError(
        "POWER_INTEGER",
        f"an integer to a power known only at run time ({arithmetic_dtype(exponent.dtype)}) could be a fraction",
        hint=hint,
    )


def _powf(builder: Builder, base: Scalar, exponent: Scalar) -> Scalar:
    return Scalar(builder.emit(math.PowFOp(base.ssa, exponent.ssa)).result, base.dtype)


def _product(builder: Builder, base: Scalar, exponent: int) -> Scalar:
    """base**exponent by squaring, for exponent ≥ 0; pow(x, 0) is 1, for NaN too."""
    if exponent == 0:
        return constant(builder, 1, base.dtype)
    result: Scalar | None = None
    square = base
    while True:
        if exponent & 1:
            result = square if result is None else _arithmetic(builder, "*", result, square)
        exponent >>= 1
        if exponent == 0:
            assert result is not None
            return result
        square = _arithmetic(builder, "*", square, square)


__all__ = [
    "binary",
    "common_dtype",
    "compare",
    "convert",
    "logical_not",
    "mark_index",
    "mark_product",
    "materialize",
    "truth",
    "unary",
]

# Operator → operation on integers, on floats.
_ARITHMETIC: Final = {
    "+": (arith.AddiOp, arith.AddfOp),
    "-": (arith.SubiOp, arith.SubfOp),
    "*": (arith.MuliOp, arith.MulfOp),
}

# Operator → predicate for signed integers, for unsigned ones, for floats. Comparing NaN is false, except for !=.
_PREDICATES: Final = {
    "==": ("eq", "eq", "oeq"),
    "!=": ("ne", "ne", "une"),
    "<": ("slt", "ult", "olt"),
    "<=": ("sle", "ule", "ole"),
    ">": ("sgt", "ugt", "ogt"),
    ">=": ("sge", "uge", "oge"),
}
_SHIFTS: Final = (arith.ShRSIOp, arith.ShRUIOp)
_DIVISIONS: Final = (*_SHIFTS, FloorDivOp, arith.DivUIOp)
COMPARISONS: Final[dict[str, Callable[..., bool]]] = {
    "==": eq,
    "!=": ne,
    "<": lt,
    "<=": le,
    ">": gt,
    ">=": ge,
}


def binary(builder: Builder, operator: str, left: object, right: object) -> Scalar:
    """``left operator right`` for ``+ - * / // % ** << >> & | ^``.

    Integers wrap, each float operation rounds once in its type, ``//`` and ``%`` floor as Python's do.
    Integer division by zero yields all bits set for ``//`` and the dividend for ``%``, on every target.

    Args:
        operator: as written in Python.
        left: a staged scalar or a Python number.
        right: likewise.

    Raises:
        TypeMismatchError: for incompatible operands.
        ValueRangeError: for a constant that does not fit the common type.
    """
    emit = _BINARY.get(operator)
    if emit is None:
        raise TypeMismatchError("OPERATOR_UNKNOWN", f"numbers have no operator {operator!r}")
    try:
        first, second = typed(builder, left), typed(builder, right)
        if is_complex(first) or is_complex(second):
            if operator == "**":
                return cast("Any", resolve("math.pow")).emit(builder, first, second)
            return complex_binary(builder, operator, first, second, binary)
        return emit(builder, operator, operand(builder, first), operand(builder, second))
    except (TypeMismatchError, ValueRangeError) as error:
        raise _with_operands(error, operator, left, right) from None


def mark_product(value: Scalar) -> None:
    """Marks a multiplication of floats as an operand of a sum in the program's text."""
    if isinstance(value.ssa.owner, arith.MulfOp):
        value.ssa.owner.fastmath = CONTRACT


def mark_index(value: Scalar) -> None:
    """Marks a sum, difference or product of signed integers as a term of an index."""
    owner = value.ssa.owner
    if value.dtype.is_signed and isinstance(owner, arith.AddiOp | arith.SubiOp | arith.MuliOp):
        owner.overflow_flags = NO_WRAP


def compare(builder: Builder, operator: str, left: object, right: object) -> Scalar:
    """``left operator right`` for ``== != < <= > >=``, as a ``bool_``.

    Both are compared in their common type; with NaN only ``!=`` is true.

    Raises:
        TypeMismatchError: for incompatible operands, such as i64 with u64.
        ValueRangeError: for a constant that does not fit the other's type, such as ``u < -1``.
    """
    predicates = _PREDICATES.get(operator)
    if predicates is None:
        raise TypeMismatchError("OPERATOR_UNKNOWN", f"numbers have no comparison {operator!r}")
    try:
        first, second = typed(builder, left), typed(builder, right)
        if is_complex(first) or is_complex(second):
            return complex_compare(builder, operator, first, second)
        return _compare(builder, operator, operand(builder, first), operand(builder, second))
    except (TypeMismatchError, ValueRangeError) as error:
        raise _with_operands(error, operator, left, right) from None


def _compare(builder: Builder, operator: str, left: Operand, right: Operand) -> Scalar:
    signed, unsigned, floating = _PREDICATES[operator]
    dtype = _comparison_dtype(operator, left, right)
    numbers = [to_common(builder, value, dtype) for value in (left, right)]
    known_numbers = [number.constant for number in numbers]
    if not dtype.is_float and None not in known_numbers:
        holds = COMPARISONS[operator](*known_numbers)
        return constant(builder, holds, types.bool_)
    first, second = (number.ssa for number in numbers)
    if not dtype.is_float and first is second:
        return constant(builder, COMPARISONS[operator](0, 0), types.bool_)
    if dtype.is_float:
        return Scalar(builder.emit(arith.CmpfOp(first, second, floating)).result, types.bool_)
    predicate = signed if dtype.is_signed else unsigned
    return Scalar(builder.emit(arith.CmpiOp(first, second, predicate)).result, types.bool_)


def _comparison_dtype(operator: str, left: Operand, right: Operand) -> DType:
    bools = all(
        isinstance(value, bool) or (isinstance(value, Scalar) and value.dtype.is_bool)
        for value in (left, right)
    )
    return types.bool_ if bools and operator in ("==", "!=") else common_dtype(left, right)


def unary(builder: Builder, operator: str, value: object) -> Scalar:
    """``operator value`` for ``- + ~``.

    ``-`` wraps for integers, unsigned ones too; a ``bool_`` counts as i32, an f8 type as f32. ``~`` takes
    integers.

    Raises:
        TypeMismatchError: for ``~`` of a float or a ``bool_``, and for a non-number.
    """
    number = operand(builder, value)
    if isinstance(number, Scalar) and number.dtype.is_complex and operator in "+-":
        return number if operator == "+" else complex_negative(builder, number)
    if operator == "~":
        return invert(builder, number)
    if operator not in ("-", "+"):
        raise TypeMismatchError("OPERATOR_UNKNOWN", f"numbers have no operator {operator!r}")
    dtype = (
        arithmetic_dtype(number.dtype) if isinstance(number, Scalar) else common_dtype(number, 0)
    )
    number = to_common(builder, number, dtype)
    if operator == "+":
        return number
    if dtype.is_float:
        return Scalar(builder.emit(arith.NegfOp(number.ssa)).result, dtype)
    zero = builder.constant(ir_type(dtype), 0)
    return Scalar(builder.compute(arith.SubiOp, zero, number.ssa), dtype)


def logical_not(builder: Builder, value: object) -> Scalar:
    """``not value``, as a ``bool_``.

    Raises:
        TypeMismatchError: if an argument is not a number.
    """
    boolean = truth(builder, value)
    if boolean.constant is not None:
        return constant(builder, not boolean.constant, types.bool_)
    true = builder.constant(ir_type(types.bool_), 1)
    return Scalar(builder.compute(arith.XOrIOp, boolean.ssa, true), types.bool_)


def _arithmetic(builder: Builder, operator: str, left: Operand, right: Operand) -> Scalar:
    dtype = common_dtype(left, right)
    same = _unchanged(operator, left, right, dtype)
    if same is not None:
        return to_common(builder, same, dtype)
    first, second = to_common(builder, left, dtype), to_common(builder, right, dtype)
    if dtype.is_integer:
        exact = _exact(builder, operator, first, second)
        if exact is not None:
            return exact
    kind = _ARITHMETIC[operator][dtype.is_float]
    result = builder.compute(kind, first.ssa, second.ssa)
    if builder.marks_signed and dtype.is_signed and isinstance(result.owner, Operation):
        result.owner.attributes[SIGNED] = UnitAttr()
    return Scalar(result, dtype)


def _unchanged(operator: str, left: Operand, right: Operand, dtype: DType) -> Operand | None:
    """The operand that the operation leaves unchanged: ``x + 0``, ``x * 1``, ``x - 0``, ``x // 1``."""
    left_number, right_number = known(left), known(right)
    if operator in ("*", "/", "//"):
        # x * 1.0 and x / 1.0 are exact for floats too; a floor division by 1.0 is not.
        if right_number == 1 and (operator != "//" or not dtype.is_float):
            return left
        return right if left_number == 1 and operator == "*" else None
    # -0.0 + 0.0 is 0.0, so only integers can drop a zero.
    if dtype.is_float:
        return None
    if right_number == 0 and not isinstance(right_number, float):
        return left
    return right if operator == "+" and left_number == 0 else None


def _exact(builder: Builder, operator: str, first: Scalar, second: Scalar) -> Scalar | None:
    """``x - x``, and ``x // d * d`` of a multiple of d."""
    if operator == "-":
        return constant(builder, 0, first.dtype) if first.ssa is second.ssa else None
    if operator != "*":
        return None
    for quotient, factor in ((first, second.constant), (second, first.constant)):
        owner = quotient.ssa.owner
        if not isinstance(factor, int) or not isinstance(owner, _DIVISIONS):
            continue
        by = Scalar(owner.operands[1], quotient.dtype).constant
        assert by is None or isinstance(by, int)
        if by is not None and isinstance(owner, _SHIFTS):
            by = 1 << by
        dividend = Scalar(owner.operands[0], quotient.dtype)
        if by == factor and divides(builder, factor, dividend):
            return dividend
    return None


def known(value: Operand) -> int | float | bool | None:
    """The number if known at compile time, weak or typed; else None."""
    return value.constant if isinstance(value, Scalar) else value


def _quotient(builder: Builder, operator: str, left: Operand, right: Operand) -> Scalar:
    dtype = quotient_dtype(left, right)
    same = _unchanged(operator, left, right, dtype)
    if same is not None:
        return to_common(builder, same, dtype)
    first, second = to_common(builder, left, dtype), to_common(builder, right, dtype)
    return Scalar(builder.emit(arith.DivfOp(first.ssa, second.ssa)).result, dtype)


def _floor(builder: Builder, operator: str, left: Operand, right: Operand) -> Scalar:
    dtype = common_dtype(left, right)
    divisor = known(right)
    if divisor == 0 and not dtype.is_float:
        raise ValueRangeError(
            "DIVISION_BY_ZERO",
            "integer division by the constant 0",
            hint="a divisor known only at run time gives all bits set for // and the dividend for %",
        )
    if dtype.is_integer and isinstance(divisor, int):
        return _floor_by_constant(builder, operator, left, divisor, dtype)
    return _divided(builder, operator, left, right, dtype)


def _floor_by_constant(
    builder: Builder, operator: str, left: Operand, divisor: int, dtype: DType
) -> Scalar:
    """A remainder that is known to be 0 is; a quotient without a remainder keeps its other divisors."""
    number = to_common(builder, left, dtype)
    is_exact = divides(builder, divisor, number)
    if is_exact and operator == "%":
        return constant(builder, 0, dtype)
    result = _floor_by_power_of_two(builder, operator, number, divisor, dtype)
    if result is None:
        result = _divided(builder, operator, number, divisor, dtype)
    if is_exact and result.ssa is not number.ssa and result.constant is None:
        found = divisor_of(builder, number.ssa, is_signed=dtype.is_signed)
        note_quotient(builder, result.ssa, found // divisor)
    return result


def _divided(
    builder: Builder, operator: str, left: Operand, right: Operand, dtype: DType
) -> Scalar:
    first, second = to_common(builder, left, dtype), to_common(builder, right, dtype)
    if dtype.is_float or dtype.is_signed:
        kind = FloorDivOp if operator == "//" else FloorModOp
    else:
        kind = arith.DivUIOp if operator == "//" else arith.RemUIOp
    return Scalar(builder.compute(kind, first.ssa, second.ssa), dtype)


def _floor_by_power_of_two(
    builder: Builder, operator: str, number: Scalar, divisor: int, dtype: DType
) -> Scalar | None:
    """An arithmetic shift floors, and a mask is the floored remainder, for negative dividends too."""
    if divisor < 1 or divisor & (divisor - 1) or divisor > dtype.maximum:
        return None
    if operator == "%":
        mask = builder.constant(ir_type(dtype), divisor - 1)
        return Scalar(builder.compute(arith.AndIOp, number.ssa, mask), dtype)
    if divisor == 1:
        return number
    count = builder.constant(ir_type(dtype), divisor.bit_length() - 1)
    kind = arith.ShRSIOp if dtype.is_signed else arith.ShRUIOp
    return Scalar(builder.compute(kind, number.ssa, count), dtype)


def _with_operands(
    error: TypeMismatchError | ValueRangeError, operator: str, left: object, right: object
) -> TypeMismatchError | ValueRangeError:
    """The same error with the operands' types first."""
    text = f"{describe(left)} {operator} {describe(right)}: {error.message}"
    return type(error)(error.code, text, hint=error.hint, location=error.location)


_BINARY: Final[dict[str, Callable[[Builder, str, Operand, Operand], Scalar]]] = {
    "+": _arithmetic,
    "-": _arithmetic,
    "*": _arithmetic,
    "/": _quotient,
    "//": _floor,
    "%": _floor,
    "**": _power,
    "<<": shift,
    ">>": shift,
    "&": bitwise,
    "|": bitwise,
    "^": bitwise,
}
