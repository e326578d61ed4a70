# SPDX-License-Identifier: Apache-2.0
"""Single instructions of words of 32 bits: ``prmt``, ``lop3``, ``dp4a``.

In: ``i32`` and ``u32``, and constants. Out: a scalar of 32 bits, one IR operation each; the CPU computes the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.dialects.simt.scalar import Dp4aOp, Lop3Op, PrmtOp
from weft.errors import TypeMismatchError, ValueRangeError
from weft.language.ir_types import ir_type
from weft.language.numbers.convert import article, constant_of, expect_scalar
from weft.language.operation import operation
from weft.language.values import Scalar, describe
from weft.types import dtype as types

if TYPE_CHECKING:
    from weft.dialects.builder import Builder
    from weft.types.dtype import DType


@operation(on_host=True)
def prmt(builder: Builder, a: object, b: object, selector: object) -> Scalar:
    """Four bytes out of the eight of two words: PTX's `prmt`, CUDA's `__byte_perm`.

    Bytes 0 to 3 are those of `a`, lowest first, 4 to 7 those of `b`. Each four bits of `selector`, lowest first, say
    which becomes the result's next byte; with the highest of the four bits set, that byte's sign fills it.

    Args:
        a, b: ``i32`` or ``u32``, or constants of 32 bits.
        selector: the same; a constant is cheapest.

    Returns:
        A scalar of the type of `a`, or of `b` if `a` is a constant; ``u32`` if both are.

    Raises:
        TypeMismatchError: for another type.
        ValueRangeError: for a constant beyond 32 bits.

    Example:
        ``swapped = weft.prmt(word, 0, 0x0123)``, with its bytes in the opposite order
    """
    a, b = expect_scalar(builder, a, "prmt: a"), expect_scalar(builder, b, "prmt: b")
    dtype = _type_of(a, b)
    words = [
        _word(builder, "prmt", name, value, dtype).ssa
        for name, value in (("a", a), ("b", b), ("selector", selector))
    ]
    return Scalar(builder.emit(PrmtOp(*words)).result, dtype)


@operation(on_host=True)
def lop3(builder: Builder, a: object, b: object, c: object, table: object) -> Scalar:
    """Any logical function of the bits of three words: PTX's `lop3`.

    Args:
        a, b, c: ``i32`` or ``u32``, or constants of 32 bits.
        table: a constant from 0 to 255: the function of 0xF0, 0xCC and 0xAA in place of `a`, `b`, `c`.

    Returns:
        A scalar of the type of the first operand that is not a constant; ``u32`` if all are.

    Raises:
        TypeMismatchError: for another type.
        ValueRangeError: for a constant beyond 32 bits, or another table.

    Example:
        ``half = weft.lop3(word, 0x000F000F, 0x64006400, 0xF0 & 0xCC | 0xAA)``, which is ``word & mask | bits``
    """
    if isinstance(table, bool) or not isinstance(table, int) or not 0 <= table <= 255:
        raise ValueRangeError(
            "LOP3_TABLE",
            f"lop3: table is {describe(table)}; expected a constant from 0 to 255",
            hint="write the function of 0xF0, 0xCC and 0xAA, such as 0xF0 & 0xCC | 0xAA for a & b | c",
        )
    a, b, c = (
        expect_scalar(builder, one, f"lop3: {name}") for name, one in (("a", a), ("b", b), ("c", c))
    )
    dtype = _type_of(a, b, c)
    first, second, third = (
        _word(builder, "lop3", name, value, dtype).ssa
        for name, value in (("a", a), ("b", b), ("c", c))
    )
    return Scalar(builder.emit(Lop3Op(first, second, third, table)).result, dtype)


@operation(on_host=True)
def dp4a(builder: Builder, a: object, b: object, c: object) -> Scalar:
    """`c` plus the four products of the bytes of `a` and `b`: PTX's `dp4a`, one instruction from sm_61 on; it wraps.

    Args:
        a, b: words of four bytes, which are signed in an ``i32``, unsigned in a ``u32``; a constant is as the other.
        c: of the result's type, or a constant.

    Returns:
        ``u32`` if `a` and `b` are unsigned, else ``i32``.

    Raises:
        TypeMismatchError: for another type.
        ValueRangeError: for a constant beyond 32 bits.

    Example:
        ``total = weft.dp4a(word, bits, 0)``
    """
    a, b = expect_scalar(builder, a, "dp4a: a"), expect_scalar(builder, b, "dp4a: b")
    like_a = a if isinstance(a, Scalar) else b
    like_b = b if isinstance(b, Scalar) else a
    kinds = [value.dtype if isinstance(value, Scalar) else types.i32 for value in (like_a, like_b)]
    result = types.u32 if all(kind is types.u32 for kind in kinds) else types.i32
    first, second = (
        _word(builder, "dp4a", name, value, kind).ssa
        for name, value, kind in (("a", a, kinds[0]), ("b", b, kinds[1]))
    )
    total = _word(builder, "dp4a", "c", c, result)
    if total.dtype is not result:
        raise TypeMismatchError(
            "WORD_TYPE",
            f"dp4a: c is {article(total.dtype)}, and the sum of these bytes {article(result)}",
            hint=f"convert it: weft.{result}(c)",
        )
    made = Dp4aOp(
        first,
        second,
        total.ssa,
        first_signed=kinds[0] is not types.u32,
        second_signed=kinds[1] is not types.u32,
    )
    return Scalar(builder.emit(made).result, result)


def _type_of(*values: object) -> DType:
    """The type of the first that is not a constant."""
    for value in values:
        if isinstance(value, Scalar):
            return value.dtype
    return types.u32


def _word(builder: Builder, name: str, what: str, value: object, dtype: DType) -> Scalar:
    """An operand of 32 bits; a constant becomes one of `dtype` with these bits."""
    found = expect_scalar(builder, value, f"{name}: {what}")
    if isinstance(found, Scalar):
        if found.dtype not in (types.i32, types.u32):
            raise TypeMismatchError(
                "WORD_TYPE",
                f"{name}: {what} is {article(found.dtype)}; expected an i32 or a u32",
                hint="convert it, such as weft.u32(x), or take its bits: weft.bitcast(x, weft.u32)",
            )
        return found
    if isinstance(found, float):
        raise TypeMismatchError(
            "WORD_TYPE",
            f"{name}: {what} is {describe(value)}; expected an i32, a u32 or a constant integer",
        )
    kind = types.i32 if found < 0 else types.u32
    number = constant_of(int(found), kind)
    if dtype is types.i32 and number > types.i32.maximum:
        number -= 1 << 32
    if dtype is not types.i32 and number < 0:
        number += 1 << 32
    return Scalar(builder.constant(ir_type(dtype), number), dtype)
