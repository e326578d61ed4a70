# SPDX-License-Identifier: Apache-2.0
"""Conversions of numbers: explicit, implicit, by promotion of two operands; constants; truth of a value; ``bitcast``.

In: a staged scalar or a Python constant, which is weak, and a target type or another operand. Out: a scalar of that
type, or the common type by the promotion table; or an error with both numbers, or one that says how to write the
conversion.
"""

from __future__ import annotations

import math
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerType

from weft.arguments.scalar import numpy_scalar_dtype
from weft.errors import TypeMismatchError, ValueRangeError, brief
from weft.imports import imported
from weft.language.ir_types import float_type, ir_type
from weft.language.operation import operation
from weft.language.values import Fragment, Scalar, Tensor, describe
from weft.types import dtype as types
from weft.types.dtype import DType

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Sequence
    from typing import TypeAlias

    from weft.dialects.builder import Builder
    from weft.types.dtype import FloatFormat

    Operand: TypeAlias = Scalar | int | float | bool
    Typed: TypeAlias = DType | Operand

_DEFAULT_FLOAT: Final[ContextVar[DType]] = ContextVar("default_float", default=types.f32)


def default_float() -> DType:
    """The type of a float that nothing else gives a type, in the function being traced: f32, or f64 beside f64."""
    return _DEFAULT_FLOAT.get()


def named_dtype(value: object) -> Any:
    """The element type that an object names, as `as_dtype`; Python's `float` is `default_float`."""
    return default_float() if value is float else types.as_dtype(value)


@contextmanager
def floats_beside(dtypes: Iterable[DType]) -> Generator[None]:
    """Traces a function whose arguments have these types: `default_float` is f64 if one of them is.

    Example:
        >>> with floats_beside([types.f64, types.i32]):
        ...     default_dtype(0.1)
        weft.f64
    """
    token = _DEFAULT_FLOAT.set(
        types.f64 if types.f64 in [dtype.part for dtype in dtypes] else types.f32
    )
    try:
        yield
    finally:
        _DEFAULT_FLOAT.reset(token)


def constant(
    builder: Builder, value: int | float | bool, dtype: DType, *, may_vanish: bool = False
) -> Scalar:
    """The constant as a scalar of that type.

    Raises:
        ValueRangeError: if it does not fit, or rounds to 0 unless it `may_vanish`.
        TypeMismatchError: for a float where an integer is needed.
    """
    if dtype.is_complex:
        return _complex().complex_constant(builder, complex(value), dtype)
    number = constant_of(value, dtype, may_vanish=may_vanish)
    return Scalar(builder.constant(ir_type(dtype), number), dtype)


def _complex() -> Any:
    return imported("weft.language.numbers.complex")  # it imports this module


def operand(builder: Builder, value: object) -> Operand:
    """A value as an operand: a scalar or a Python number.

    A captured NumPy scalar has its own type and becomes a typed constant.

    Raises:
        TypeMismatchError: for anything else.
    """
    if isinstance(value, Scalar) or type(value) in (int, float, bool):
        return value  # pyright: ignore[reportReturnType]
    dtype = numpy_scalar_dtype(value)
    if dtype is not None:
        return constant(builder, cast("Any", value).item(), dtype)
    if isinstance(value, bool | int):  # an IntEnum, say
        return int(value)
    if isinstance(value, float):
        return float(value)
    if isinstance(value, complex):
        dtype = types.c128 if default_float() is types.f64 else types.c64
        return _complex().complex_constant(builder, complex(value), dtype)
    raise not_a_number(value)


def typed(builder: Builder, value: object) -> object:
    """A captured NumPy scalar as a constant of its own type; anything else as it is."""
    return value if numpy_scalar_dtype(value) is None else operand(builder, value)


def materialize(builder: Builder, value: object, dtype: DType) -> Scalar:
    """The value converted without loss; the implicit conversion of atomics and calls.

    A constant must fit (a float is rounded). A scalar must have the type, or one whose values all fit it, such as i32
    for i64, f16 for f32 or ``bool_`` for any integer.

    Raises:
        ValueRangeError: if a constant does not fit.
        TypeMismatchError: if the conversion could change the value, so that it must be explicit.

    Example:
        Passing an i32 for an f64 converts; for an f32 it is ``weft.f32(x)``.
    """
    value = operand(builder, value)
    if not isinstance(value, Scalar):
        return constant(builder, value, dtype)
    if value.dtype is dtype:
        return value
    if value.dtype.is_complex and not dtype.is_complex:
        raise not_real(dtype, value.dtype)
    if not holds(dtype, value.dtype):
        raise TypeMismatchError(
            "TYPE_NARROWING",
            f"expected {article(dtype)}, received {article(value.dtype)}, whose values {dtype} may not hold",
            hint=f"write weft.{dtype}(...) to convert",
        )
    return convert(builder, value, dtype)


def stored(builder: Builder, value: object, dtype: DType) -> Scalar:
    """The value for an element of a tensor: as `narrowed`, and any integer rounds to a float.

    Raises:
        ValueRangeError, TypeMismatchError: as `materialize`.
    """
    value = operand(builder, value)
    if (
        isinstance(value, Scalar)
        and dtype.part.is_float
        and not dtype.is_scale
        and value.dtype.kind in ("int", "uint", "bool")
    ):
        return convert(builder, value, dtype)
    return narrowed(builder, value, dtype)


def narrowed(builder: Builder, value: object, dtype: DType) -> Scalar:
    """The value in `dtype`: as `materialize`, but it also takes the wide type (`wide_dtype`).

    An f32 rounds to a smaller float, and an i32 wraps to a smaller integer. A scale, which loses the sign, is converted
    by name.

    Raises:
        ValueRangeError, TypeMismatchError: as `materialize`.
    """
    is_wide = isinstance(value, Scalar) and value.dtype is wide_dtype(dtype)
    return (convert if is_wide and not dtype.is_scale else materialize)(builder, value, dtype)


def accumulator(builder: Builder, value: object, term: object) -> object:
    """A literal to which `term` is added, in the wide type if the term's is narrow; anything else unchanged.

    Example:
        ``s = 0.0`` becomes an f32 in ``s += x`` if x is an f16.
    """
    if not isinstance(term, Scalar) or type(value) not in (int, float):
        return value
    wide = wide_dtype(term.dtype)
    if wide is term.dtype or (wide.is_integer and isinstance(value, float)):
        return value
    return constant(builder, cast("int | float", value), wide)


def convert(builder: Builder, value: object, dtype: DType) -> Scalar:
    """An explicit conversion, such as ``weft.f32(x)``.

    Between integers the value wraps. A float becomes an integer toward zero; one out of range becomes the
    nearest limit, and NaN becomes 0, on every target. To a float type the value is rounded once, to nearest,
    ties to even; beyond the largest finite number it becomes an infinity, and for the f8 types that number.
    To ``bool_`` is ``x != 0``. A constant is converted at once, and must fit.

    Raises:
        ValueRangeError: for a constant out of range, such as ``weft.u8(-1)``.
        TypeMismatchError: if an argument is not a number.
    """
    value = operand(builder, value)
    if not isinstance(value, Scalar):
        return _converted_constant(builder, value, dtype)
    if value.dtype is dtype:
        return value
    if dtype.is_complex:
        return _complex().to_complex(builder, value, dtype)
    if value.dtype.is_complex:
        if dtype.is_bool:
            return truth(builder, value)
        raise not_real(dtype, value.dtype)
    known = value.constant
    if known is not None and (folded := _fold(known, dtype)) is not None:
        return Scalar(builder.constant(ir_type(dtype), folded), dtype)
    if dtype.is_bool:
        return truth(builder, value)
    if dtype.is_float:
        return _to_float(builder, value, dtype)
    return _to_integer(builder, value, dtype)


def _converted_constant(builder: Builder, value: int | float | bool, dtype: DType) -> Scalar:
    if dtype.is_bool:
        return constant(builder, bool(value), dtype)
    if isinstance(value, float) and not dtype.is_float:
        if not math.isfinite(value):
            raise ValueRangeError(
                "CONSTANT_OUT_OF_RANGE", f"the constant {value} does not fit {dtype}"
            )
        value = math.trunc(value)
    return constant(builder, value, dtype, may_vanish=True)


def _fold(known: int | float | bool, dtype: DType) -> int | float | bool | None:
    """A typed constant in another type, by the run-time rules; None if left to run time."""
    if dtype.is_bool:
        return known != 0
    if dtype.is_float:
        if isinstance(known, float) and not math.isfinite(known):
            return None
        try:
            return constant_of(round_to(known, dtype), dtype, may_vanish=True)
        except ValueRangeError:
            return None
    if not isinstance(known, float):
        return int(known)  # the builder wraps it
    if math.isnan(known):
        return 0
    return int(max(min(known, dtype.maximum), dtype.minimum))


def truth(builder: Builder, value: object) -> Scalar:
    """The truth of a value as a ``bool_``: not zero. NaN is true, as in Python.

    Raises:
        TypeMismatchError: if an argument is not a number.
    """
    value = operand(builder, value)
    if not isinstance(value, Scalar):
        return constant(builder, bool(value), types.bool_)
    if value.dtype.is_bool:
        return value
    if value.dtype.is_complex:
        return _complex().complex_compare(builder, "!=", value, 0)
    known = value.constant
    if known is not None:
        return constant(builder, known != 0, types.bool_)
    if value.dtype.is_narrow_float:
        value = _to_float(builder, value, types.f32)
    zero = builder.constant(ir_type(value.dtype), 0.0 if value.dtype.is_float else 0)
    compared = (
        arith.CmpfOp(value.ssa, zero, "une")
        if value.dtype.is_float
        else arith.CmpiOp(value.ssa, zero, "ne")
    )
    return Scalar(builder.emit(compared).result, types.bool_)


def _to_integer(builder: Builder, value: Scalar, dtype: DType) -> Scalar:
    source = value.dtype
    target = IntegerType(dtype.bits)
    if source.is_float:
        kind = arith.FPToSIOp if dtype.is_signed else arith.FPToUIOp
        return Scalar(builder.compute(kind, value.ssa, to=target), dtype)
    width = 1 if source.is_bool else source.bits
    if width == dtype.bits:
        return Scalar(value.ssa, dtype)
    if width > dtype.bits:
        return Scalar(builder.compute(arith.TruncIOp, value.ssa, to=target), dtype)
    extend = arith.ExtSIOp if source.is_signed else arith.ExtUIOp
    return Scalar(builder.compute(extend, value.ssa, to=target), dtype)


def _to_float(builder: Builder, value: Scalar, dtype: DType) -> Scalar:
    """To a float type, rounded once, in one operation that every target supports.

    `arith` has no cast between floats of equal width; these go through f32, which holds both.
    """
    source = value.dtype
    target = float_type(dtype)
    if not source.is_float:
        step = arith.SIToFPOp if source.is_signed else arith.UIToFPOp
        return Scalar(builder.compute(step, value.ssa, to=target), dtype)
    if source.bits == dtype.bits:
        return _to_float(builder, _to_float(builder, value, types.f32), dtype)
    kind = arith.ExtFOp if dtype.bits > source.bits else arith.TruncFOp
    return Scalar(builder.compute(kind, value.ssa, to=target), dtype)


def expect_scalar(builder: Builder, value: object, what: str) -> Operand:
    """The value as an operand, or an error naming its role.

    Example:
        ``expect_scalar(builder, value, "atomic_add: value")``
    """
    try:
        return operand(builder, value)
    except TypeMismatchError:
        raise TypeMismatchError(
            "TYPE_NOT_A_NUMBER", f"{what} must be a number, received {describe(value)}"
        ) from None


def to_common(builder: Builder, value: Operand, dtype: DType) -> Scalar:
    """An operand in the common type: a constant must fit, a scalar is converted."""
    if isinstance(value, Scalar):
        return convert(builder, value, dtype)
    return constant(builder, value, dtype)


@operation(on_host=True)
def bitcast(builder: Builder, value: object, dtype: object) -> Any:
    """The bits of `value` as a number of another type, like CUDA's ``__float_as_uint``.

    A tuple's bits are those of its numbers one after the other, the first one lowest, and the result is a tuple, or a
    number if it would be a tuple of one: ``bitcast((x, y), weft.u32)`` of two bf16 is a register, and
    ``bitcast((word,), weft.bf16)`` the pair.

    Args:
        value: a number, or a tuple of numbers of one type. A constant has its default type: i32, f32.
        dtype: an element type of the same width, except ``bool_``; of a tuple, one that its bits are a multiple of.

    Raises:
        TypeMismatchError: for a type of another width, ``bool_``, or a non-type.

    Example:
        ``exponent = (weft.bitcast(x, weft.u32) >> 23) & 0xFF``
    """
    dtype = named_dtype(dtype)
    if not isinstance(dtype, DType):
        raise TypeMismatchError(
            "BITCAST_TYPE",
            f"bitcast: the second argument must be an element type, received {describe(dtype)}",
            hint="write bitcast(x, weft.u32)",
        )
    if isinstance(value, tuple | list):
        return _bitcast_tuple(builder, cast("Sequence[object]", value), dtype)
    number = _with_bits(builder, value, dtype)
    source = number.dtype
    if source.bits != dtype.bits:
        raise TypeMismatchError(
            "BITCAST_TYPE",
            f"bitcast: {source} has {source.bits} bits and {dtype} has {dtype.bits}",
            hint=f"convert first, such as weft.bitcast(weft.{_of_width(source, dtype.bits)}(x), weft.{dtype})",
        )
    return _same_bits(builder, number, dtype)


def _with_bits(builder: Builder, value: object, dtype: DType) -> Scalar:
    """A number that has bits to be taken as another type's."""
    number = expect_scalar(builder, value, "bitcast: the first argument")
    if not isinstance(number, Scalar):
        number = constant(builder, number, default_dtype(number))
    if number.dtype.is_bool or dtype.is_bool:
        raise TypeMismatchError(
            "BITCAST_TYPE",
            "bitcast: a bool_ has no bits of its own",
            hint="write x != 0, or weft.i32(x)",
        )
    return number


def _same_bits(builder: Builder, number: Scalar, dtype: DType) -> Scalar:
    """A number's bits as one of another type of the same width."""
    if ir_type(number.dtype) == ir_type(dtype):
        return Scalar(number.ssa, dtype)
    return Scalar(builder.emit(arith.BitcastOp(number.ssa, ir_type(dtype))).result, dtype)


def _bitcast_tuple(builder: Builder, values: Sequence[object], dtype: DType) -> Any:
    """The bits of numbers one after the other as numbers of another type."""
    numbers = [_with_bits(builder, one, dtype) for one in values]
    kinds = {number.dtype for number in numbers}
    bits = sum(number.dtype.bits for number in numbers)
    if len(kinds) != 1 or not bits or bits % dtype.bits:
        names = ", ".join(number.dtype.name for number in numbers)
        raise TypeMismatchError(
            "BITCAST_TYPE",
            f"bitcast: ({names}) has {bits} bits, and {dtype} has {dtype.bits}",
            hint="give numbers of one type, as many as fill the result's",
        )
    source = kinds.pop()
    if source.bits == dtype.bits:
        found = [_same_bits(builder, number, dtype) for number in numbers]
        return found[0] if len(found) == 1 else tuple(found)
    own, other = _unsigned(source.bits), _unsigned(dtype.bits)
    words = [_same_bits(builder, number, own) for number in numbers]
    if source.bits < dtype.bits:
        each = dtype.bits // source.bits
        parts = [words[first : first + each] for first in range(0, len(words), each)]
        joined = [_joined(builder, part, other) for part in parts]
    else:
        joined = [
            _convert_part(builder, word, place, other)
            for word in words
            for place in range(0, source.bits, dtype.bits)
        ]
    found = [_same_bits(builder, word, dtype) for word in joined]
    return found[0] if len(found) == 1 else tuple(found)


def _joined(builder: Builder, parts: Sequence[Scalar], dtype: DType) -> Scalar:
    """Unsigned numbers side by side, the first one lowest."""
    result = convert(builder, parts[0], dtype).ssa
    for number, part in enumerate(parts[1:], 1):
        count = builder.constant(ir_type(dtype), number * part.dtype.bits)
        moved = builder.compute(arith.ShLIOp, convert(builder, part, dtype).ssa, count)
        result = builder.compute(arith.OrIOp, result, moved)
    return Scalar(result, dtype)


def _convert_part(builder: Builder, word: Scalar, place: int, dtype: DType) -> Scalar:
    """The bits of a word from a place on."""
    if place:
        count = builder.constant(ir_type(word.dtype), place)
        word = Scalar(builder.compute(arith.ShRUIOp, word.ssa, count), word.dtype)
    return convert(builder, word, dtype)


def _unsigned(bits: int) -> DType:
    """The unsigned type of that width."""
    return {8: types.u8, 16: types.u16, 32: types.u32, 64: types.u64}[bits]


def _of_width(dtype: DType, bits: int) -> str:
    """The type of that kind and width."""
    if dtype.is_float and bits > 8:
        return f"f{bits}"
    return f"{'i' if dtype.is_signed else 'u'}{bits}"


def arithmetic_dtype(dtype: DType) -> DType:
    """The arithmetic type of a value: ``bool_`` and packed integers as i32, floats of at most 8 bits as f32.

    These floats are for storage: rounding after each operation would lose too much. Every value is exact in f32, and
    ``weft.f8e4m3(x)`` rounds back once.

    Example:
        >>> arithmetic_dtype(types.bool_), arithmetic_dtype(types.f8e4m3), arithmetic_dtype(types.u8)
        (weft.i32, weft.f32, weft.u8)
    """
    if dtype.is_narrow_float:
        return types.f32
    return types.i32 if dtype.is_bool or dtype.is_packed else dtype


def computed(builder: Builder, value: Scalar) -> Scalar:
    """A packed element as the i32 or f32 that it computes as; others as they are."""
    return (
        convert(builder, value, arithmetic_dtype(value.dtype)) if value.dtype.is_packed else value
    )


def wide_dtype(dtype: DType) -> DType:
    """The type of a sum of such values that began as a literal: f32 for smaller floats, i32 for smaller integers.

    A variable that begins as a literal has it where values of `dtype` are added or where control flow joins; stored in
    an element of `dtype`, it narrows.

    Example:
        >>> wide_dtype(types.f16), wide_dtype(types.u8), wide_dtype(types.u32), wide_dtype(types.bool_)
        (weft.f32, weft.i32, weft.u32, weft.bool_)
    """
    if dtype.is_float:
        return types.f32 if dtype.bits < 32 else dtype
    return types.i32 if dtype.is_integer and dtype.bits < 32 else dtype


def common_dtype(left: Typed, right: Typed) -> DType:
    """The type in which an arithmetic operation on the two is computed.

    Each operand is a `DType`, a staged scalar, or a Python constant. A constant is weak: an int takes the other's type,
    a float the other's if that is a float, and `default_float` if it is an integer. Two constants use their default
    types.

    Raises:
        TypeMismatchError: for a signed type with u64, and for a non-number.

    Example:
        >>> common_dtype(types.i8, types.u8), common_dtype(types.f16, types.bf16)
        (weft.i16, weft.f32)
        >>> common_dtype(types.f64, 1.5), common_dtype(types.u8, 3), common_dtype(types.i64, 0.5)
        (weft.f64, weft.u8, weft.f32)
    """
    left_dtype, right_dtype = dtype_of(left), dtype_of(right)
    found = [dtype for dtype in (left_dtype, right_dtype) if dtype is not None]
    if any(dtype.is_complex for dtype in found):
        raise TypeMismatchError(
            "COMPLEX_OPERATOR",
            f"{next(dtype for dtype in found if dtype.is_complex)} has neither an order nor bits to compute with",
            hint="compute with abs(x), x.real or x.imag",
        )
    if left_dtype is None and right_dtype is None:
        left_dtype, right_dtype = default_dtype(left), default_dtype(right)
    if left_dtype is None:
        assert right_dtype is not None
        return _with_constant(arithmetic_dtype(right_dtype), left)
    if right_dtype is None:
        return _with_constant(arithmetic_dtype(left_dtype), right)
    return _common(arithmetic_dtype(left_dtype), arithmetic_dtype(right_dtype))


def dtype_of(operand: Typed) -> DType | None:
    """The operand's own type; None for a weak constant.

    Raises:
        TypeMismatchError: if an argument is not a number.
    """
    if isinstance(operand, Scalar):
        return operand.dtype
    if isinstance(operand, int | float):
        return None
    if isinstance(operand, DType):
        return operand
    raise not_a_number(operand)


def not_real(dtype: DType, source: DType) -> TypeMismatchError:
    """The error for a complex number where a real one is needed."""
    return TypeMismatchError(
        "COMPLEX_TO_REAL",
        f"expected {article(dtype)}, received {article(source)}, a complex number",
        hint="take a part of it, x.real or x.imag, or its magnitude, abs(x)",
    )


def not_a_number(value: object) -> TypeMismatchError:
    """The error for an operand that is neither a scalar nor a Python number."""
    hint = ""
    if isinstance(value, Tensor):
        hint = "read an element: tensor[index]"
    elif isinstance(value, Fragment):
        hint = "compute with its elements: f.map(lambda x: 2 * x)"
    return TypeMismatchError(
        "TYPE_NOT_A_NUMBER", f"expected a number, received {describe(value)}", hint=hint
    )


def _with_constant(dtype: DType, constant: Typed) -> DType:
    if isinstance(constant, float) and not dtype.is_float:
        return default_float()
    return dtype


def _common(left: DType, right: DType) -> DType:
    if left is right:
        return left
    if left.is_float or right.is_float:
        return _common_float(left, right)
    if left.kind == right.kind:
        return left if left.bits >= right.bits else right
    signed, unsigned = (left, right) if left.is_signed else (right, left)
    if unsigned.bits < signed.bits:
        return signed
    if unsigned.bits < 64:
        return {8: types.i16, 16: types.i32, 32: types.i64}[unsigned.bits]
    raise TypeMismatchError(
        "TYPE_MIXED_SIGN",
        f"{left} with {right} has no common type: no signed integer holds every u64",
        hint=f"convert one operand: weft.u64(x) or weft.{signed}(x)",
    )


def _common_float(left: DType, right: DType) -> DType:
    if not right.is_float:
        return left
    if not left.is_float:
        return right
    if left.bits == right.bits:  # f16 with bf16: neither holds the other
        return types.f32
    return left if left.bits > right.bits else right


def quotient_dtype(left: Typed, right: Typed) -> DType:
    """The type of a true division ``/``: as `common_dtype`, but two integers give `default_float`, or f64.

    f64 if an operand has 64 bits; signs do not matter, so i64 with u64 is allowed here.

    Example:
        >>> quotient_dtype(types.i32, 2), quotient_dtype(types.u64, types.i8)
        (weft.f32, weft.f64)
    """
    dtypes = [found for found in (dtype_of(left), dtype_of(right)) if found is not None]
    weak_float = isinstance(left, float) or isinstance(right, float)
    if weak_float or any(dtype.is_float for dtype in dtypes) or not dtypes:
        found = common_dtype(left, right)
        return found if found.is_float else default_float()
    return float_dtype(*dtypes)


def float_dtype(*integers: DType) -> DType:
    """The float type of integers in float arithmetic: f64 for 64 bits, else `default_float`."""
    return types.f64 if any(dtype.bits == 64 for dtype in integers) else default_float()


def index_dtype(dtype: DType) -> DType | None:
    """The type of an integer used as an index or loop variable: i32 or i64; None if it is not an integer.

    Types that i32 holds become i32; u32 becomes i64, which holds it; u64 becomes i64 and wraps.

    Example:
        >>> index_dtype(types.u16), index_dtype(types.u32), index_dtype(types.f32)
        (weft.i32, weft.i64, None)
    """
    if not dtype.is_integer:
        return None
    return types.i32 if dtype.bits < 32 or dtype is types.i32 else types.i64


def holds(wide: DType, narrow: DType) -> bool:
    """Whether every value of `narrow` is exact in `wide`, so that conversion may be implicit.

    Example:
        >>> holds(types.i64, types.u32), holds(types.f32, types.i32), holds(types.f32, types.f16)
        (True, False, True)
    """
    if wide is narrow:
        return True
    if wide.is_complex:
        return holds(wide.part, narrow.part)
    if wide.is_bool or narrow.is_complex:
        return False
    if narrow.is_bool:
        return True
    if narrow.is_float:
        if not wide.is_float or wide.bits <= narrow.bits or wide.bits < 16:
            return False
        return _format(wide).smallest_exponent <= _format(narrow).smallest_exponent
    if wide.is_float:
        return narrow.bits - narrow.is_signed <= significand_bits(wide)
    if wide.is_signed == narrow.is_signed:
        return wide.bits >= narrow.bits
    return wide.is_signed and wide.bits > narrow.bits


def _format(dtype: DType) -> FloatFormat:
    found = dtype.info.format
    assert found is not None, f"{dtype} is not a float type"
    return found


def significand_bits(dtype: DType) -> int:
    """Bits of a float type's significand, including the hidden one: integers up to 2**bits are exact.

    Example:
        >>> significand_bits(types.f32)
        24
    """
    return _format(dtype).precision


def default_dtype(constant: object) -> DType:
    """The default type of a constant.

    An int is i32, i64 if it does not fit, u64 if only that holds it; a float is `default_float`; a bool is ``bool_``.

    Raises:
        ValueRangeError: for an int beyond 64 bits.
        TypeMismatchError: if an argument is not a number.

    Example:
        >>> default_dtype(1), default_dtype(1 << 40), default_dtype(1.5)
        (weft.i32, weft.i64, weft.f32)
    """
    if isinstance(constant, bool):
        return types.bool_
    if isinstance(constant, int):
        for dtype in (types.i32, types.i64, types.u64):
            if dtype.minimum <= constant <= dtype.maximum:
                return dtype
        raise ValueRangeError(
            "CONSTANT_OUT_OF_RANGE",
            f"the constant {brief(constant)} does not fit 64 bits",
            hint=f"integers range from {types.i64.minimum} (i64) to {types.u64.maximum} (u64)",
        )
    if isinstance(constant, float):
        return default_float()
    raise TypeMismatchError(
        "TYPE_NOT_A_NUMBER",
        f"expected a number, received {constant!r} of type {type(constant).__name__}",
    )


def constant_of(
    constant: int | float | bool, dtype: DType, *, may_vanish: bool = False
) -> int | float | bool:
    """The constant in `dtype`: range-checked, a float rounded to nearest, ties to even.

    Raises:
        ValueRangeError: if it lies outside the type's range, or rounds to 0 unless it `may_vanish`.
        TypeMismatchError: for a float instead of an integer.

    Example:
        >>> constant_of(3, types.f16), constant_of(0.1, types.bf16)
        (3.0, 0.10009765625)
    """
    if dtype.is_float:
        return _float_constant(constant, dtype, may_vanish=may_vanish)
    if isinstance(constant, float):
        raise TypeMismatchError(
            "TYPE_FLOAT_CONSTANT",
            f"expected {article(dtype)}, received the constant {constant!r}",
            hint=f"write weft.{dtype}({constant!r}) to drop the fraction",
        )
    number = int(constant)
    if not dtype.minimum <= number <= dtype.maximum:
        raise _out_of_range(constant, dtype, dtype.minimum, dtype.maximum)
    return bool(number) if dtype.is_bool else number


def _float_constant(constant: int | float | bool, dtype: DType, *, may_vanish: bool) -> float:
    if dtype.is_scale:
        return _scale_constant(constant, dtype, may_vanish=may_vanish)
    maximum, has_infinity = _format(dtype).largest, _format(dtype).has_infinity
    if isinstance(constant, float) and not math.isfinite(constant):
        if math.isnan(constant) or has_infinity:
            return constant
        raise _out_of_range(constant, dtype, -maximum, maximum)
    rounded = round_to(constant, dtype)
    if abs(rounded) > maximum:
        raise _out_of_range(constant, dtype, -maximum, maximum)
    if rounded == 0 != constant and not may_vanish:
        raise ValueRangeError(
            "CONSTANT_OUT_OF_RANGE",
            f"the constant {brief(constant)} would be 0 in {dtype}, whose smallest positive value is "
            f"{math.ldexp(1.0, _format(dtype).smallest_exponent)!r}",
            hint=f"compute in f64, as in weft.f64(x), or write weft.{dtype}({constant!r}) for a zero",
        )
    return rounded


def _scale_constant(constant: int | float | bool, dtype: DType, *, may_vanish: bool) -> float:
    """A power of two; only a conversion takes one that is not positive."""
    kind = _format(dtype)
    minimum, maximum = math.ldexp(1.0, kind.smallest_exponent), kind.largest
    if not math.isnan(constant) and not may_vanish and not minimum <= constant <= maximum:
        raise _out_of_range(constant, dtype, minimum, maximum)
    return kind.value_of(kind.bits_of(float(constant)))


def _out_of_range(
    constant: int | float | bool, dtype: DType, minimum: int | float, maximum: int | float
) -> ValueRangeError:
    return ValueRangeError(
        "CONSTANT_OUT_OF_RANGE",
        f"the constant {brief(constant)} does not fit {dtype}, which holds {minimum} to {maximum}",
        hint="convert the other operand to a wider type, or change the constant",
    )


def round_to(constant: int | float | bool, dtype: DType) -> float:
    """A finite number rounded to a float type in one step, to nearest, ties to even.

    The result may exceed the type's largest value, which the caller checks.

    Example:
        >>> round_to(16777217, types.f32), round_to(1e-9, types.f16)
        (16777216.0, 0.0)
    """
    if dtype.is_scale:
        return _format(dtype).value_of(_format(dtype).bits_of(float(constant)))
    precision, smallest_exponent = _format(dtype).precision, _format(dtype).smallest_exponent
    if not isinstance(constant, float):
        return _round_integer(int(constant), precision)
    if constant == 0.0:
        return constant
    exponent = max(math.frexp(constant)[1] - precision, smallest_exponent)
    # Scaling by a power of two is exact here, and round() of a float rounds half to even.
    return math.copysign(_scaled(float(round(_scaled(constant, -exponent))), exponent), constant)


def _round_integer(number: int, precision: int) -> float:
    excess = abs(number).bit_length() - precision
    if excess <= 0:
        return float(number)
    quotient, remainder = divmod(abs(number), 1 << excess)
    half = 1 << (excess - 1)
    if remainder > half or (remainder == half and quotient & 1):
        quotient += 1
    return _scaled(float(quotient if number > 0 else -quotient), excess)


def _scaled(number: float, exponent: int) -> float:
    try:
        return math.ldexp(number, exponent)
    except OverflowError:
        return math.copysign(math.inf, number)


def article(dtype: DType) -> str:
    """A type with its article, for messages.

    Example:
        >>> article(types.i32), article(types.u8), article(types.bool_)
        ('an i32', 'a u8', 'a bool_')
    """
    return f"{'an' if dtype.name[0] in 'if' else 'a'} {dtype}"
