# SPDX-License-Identifier: Apache-2.0
"""The reference's functions of one thread: what is exact of `weft.math`, builtins, conversions of bits.

In: `Value`s and literals. Out: `Value`s. Functions that are only near the exact value are not here:
tools/sweep_math.py measures those.
"""

from __future__ import annotations

import math
import struct
from types import SimpleNamespace
from typing import TYPE_CHECKING

import numpy as np

from tools.fuzz.values import (
    BOOL,
    F64,
    I32,
    I64,
    Type,
    UnspecifiedError,
    Value,
    common,
    convert,
    counted,
    default_float,
    in_floats,
    meet,
    multiply_add,
    tick,
    typed,
    wrap,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def _extreme(chosen: Callable[..., int | float]) -> Callable[[object, object], Value]:
    def function(left: object, right: object) -> Value:
        type_, a, b = meet(left, right)
        if a != a or b != b:
            return Value(type_, b if a != a else a)
        if a == b == 0 and type_.kind == "f" and math.copysign(1, a) != math.copysign(1, b):
            raise UnspecifiedError("which zero is the smaller")
        return Value(type_, chosen(a, b))

    return function


smaller, larger = _extreme(min), _extreme(max)


def _float_type(*operands: Value) -> Type:
    """The type in which a function of floats computes."""
    types = [counted(operand.type) for operand in operands]
    if all(type_.kind != "f" for type_ in types):
        return F64 if any(type_.bits == 64 for type_ in types) else default_float()
    result = next(type_ for type_ in types if type_.kind == "f")
    for type_ in types:
        result = common(result, type_)
    return result


def _of_floats(numpy: Callable[..., float], rounding: bool) -> Callable[..., Value]:
    def function(*arguments: object) -> Value:
        values = [typed(argument) for argument in arguments]
        if rounding and values[0].type.kind != "f":
            return Value(counted(values[0].type), values[0].number)
        type_ = _float_type(*values)
        return in_floats(type_, numpy, *(convert(value, type_).number for value in values))

    return function


def absolute(value: object) -> Value:
    """`abs`, which wraps for the smallest integer."""
    operand = typed(value)
    type_ = counted(operand.type)
    if type_.kind == "f":
        return Value(type_, abs(operand.number))
    return Value(type_, wrap(abs(int(operand.number)), type_))


def fused(a: object, b: object, c: object) -> Value:
    """`a * b + c`, rounded once."""
    values = [typed(each) for each in (a, b, c)]
    type_ = _float_type(*values)
    return multiply_add(type_, *(float(convert(value, type_).number) for value in values))


def signed(magnitude: object, sign: object) -> Value:
    """`copysign`; nothing says which sign a NaN has that an operation made."""
    if typed(sign).number != typed(sign).number:
        raise UnspecifiedError("the sign of a NaN")
    return _of_floats(np.copysign, rounding=False)(magnitude, sign)


def _asked(test: Callable[[float], bool]) -> Callable[[object], Value]:
    return lambda value: Value(BOOL, int(test(typed(value).number)))


def _bits(value: object) -> tuple[int, int]:
    operand = typed(value)
    if operand.type.kind == "f":
        raise UnspecifiedError("a float has no bits to count")
    width = counted(operand.type).bits
    return int(operand.number) & ((1 << width) - 1), width


def _of_bits(count: Callable[[int, int], int]) -> Callable[[object], Value]:
    return lambda value: Value(I32, count(*_bits(value)))


def upper_half(left: object, right: object) -> Value:
    """`mulhi`."""
    type_, a, b = meet(left, right)
    return Value(type_, int(a) * int(b) >> type_.bits)


_CODES = {
    ("f", 64): "d", ("f", 32): "f", ("i", 64): "q", ("i", 32): "i", ("i", 16): "h",
    ("i", 8): "b", ("u", 64): "Q", ("u", 32): "I", ("u", 16): "H", ("u", 8): "B",
}  # fmt: skip


def encoded(value: Value) -> bytes:
    """The bits of a value; a NaN's are not specified."""
    if value.number != value.number:
        raise UnspecifiedError("the bits of a NaN")
    code = "e" if value.type.name == "f16" else _CODES.get((value.type.kind, value.type.bits))
    if code is None or value.type.name == "bf16":
        raise UnspecifiedError(f"bits of {value.type.name}")
    return struct.pack(f"<{code}", value.number)


def bitcast(value: object, type_: Type) -> Value:
    """The bits of a value as a number of another type of its width."""
    operand = typed(value)
    if operand.type.bits != type_.bits:
        raise UnspecifiedError("bitcast to another width")
    code = "e" if type_.name == "f16" else _CODES[type_.kind, type_.bits]
    (number,) = struct.unpack(f"<{code}", encoded(operand))
    return Value(type_, number)


def select(condition: object, if_true: object, if_false: object) -> Value:
    """`weft.where`: the common type of both."""
    type_, a, b = meet(if_true, if_false)
    if isinstance(if_true, Value) and isinstance(if_false, Value):
        if if_true.type == if_false.type:
            type_ = if_true.type
    return Value(type_, a if condition else b)


def ceil_div(dividend: object, divisor: object) -> object:
    """`weft.ceil_div`; of constants a constant."""
    if not isinstance(dividend, Value) and not isinstance(divisor, Value):
        return -(-dividend // divisor)  # type: ignore[operator]
    type_, a, b = meet(dividend, divisor)
    if b == 0:
        raise UnspecifiedError("ceil_div by zero")
    if type_.kind == "i" and a == type_.lowest:  # "which wraps": so does its negative
        return Value(type_, wrap(-(int(a) // int(b)), type_))
    return Value(type_, wrap(-(-int(a) // int(b)), type_))


def counting(*arguments: object) -> Iterator[Value]:
    """`range`: the variable is i32 where that holds the arguments' types, else i64."""
    values = [typed(argument) for argument in arguments]
    type_ = I32 if all(common(value.type, I32) == I32 for value in values) else I64
    numbers = [int(value.number) for value in values]
    if len(numbers) == 3 and numbers[2] == 0:
        raise UnspecifiedError("a range with the step 0")
    for number in range(*numbers):
        tick()
        yield Value(type_, number)


def as_float(value: object) -> object:
    """`float`: a float unchanged, an integer as in a division."""
    if not isinstance(value, Value):
        return float(value)  # type: ignore[arg-type]
    if value.type.kind == "f":
        return value
    return convert(value, F64 if value.type.bits == 64 else default_float())


def negated(value: object) -> object:
    """`not`, whose result is a bool_ for a run-time value."""
    return Value(BOOL, int(not value)) if isinstance(value, Value) else not value


MATH = SimpleNamespace(
    abs=absolute,
    min=smaller,
    max=larger,
    sqrt=_of_floats(np.sqrt, rounding=False),
    floor=_of_floats(np.floor, rounding=True),
    ceil=_of_floats(np.ceil, rounding=True),
    trunc=_of_floats(np.trunc, rounding=True),
    round=_of_floats(np.rint, rounding=True),
    copysign=signed,
    fma=fused,
    isnan=_asked(lambda number: number != number),
    isinf=_asked(lambda number: isinstance(number, float) and math.isinf(number)),
    isfinite=_asked(math.isfinite),
    popcount=_of_bits(lambda bits, _: bits.bit_count()),
    clz=_of_bits(lambda bits, width: width - bits.bit_length()),
    ctz=_of_bits(lambda bits, width: (bits & -bits).bit_length() - 1 if bits else width),
    ffs=_of_bits(lambda bits, _: (bits & -bits).bit_length()),
    mulhi=upper_half,
)
BUILTINS = {"range": counting, "abs": absolute, "min": smaller, "max": larger, "float": as_float}
