# SPDX-License-Identifier: Apache-2.0
"""Packed elements as floats, without conversion instructions, of which a multiprocessor has few.

In: arith.sitofp and arith.uitofp of elements of four bits. Out: the element as the last bits of a float whose unit in
the last place is 1, less that float: one `lop3` and one subtraction; of two adjacent ones, in 16 bits, for both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerType

from weft.codegen.llvm.types import f32_text, llvm_type
from weft.codegen.operations.conversions import CONVERSIONS, float_name
from weft.dialects.builder import constant_integer
from weft.dialects.simt.types import elements_in_a_byte
from weft.types.dtype_info import INFO

if TYPE_CHECKING:
    from collections.abc import Callable

    from xdsl.ir import Operation, SSAValue

    from weft.codegen.llvm.function_printer import FunctionPrinter

_BITS: Final = 4
_MASK: Final = (1 << _BITS) - 1
_SIGN: Final = 1 << (_BITS - 1)


class _Nibble(NamedTuple):
    """An element in a word, from a bit on."""

    word: SSAValue
    begin: int


def _nibble(value: SSAValue) -> _Nibble | None:
    """Where an element of four bits comes from; None where it does not come out of a word."""
    owner = value.owner
    if not isinstance(owner, arith.TruncIOp):
        return None
    word, begin = owner.input, 0
    if isinstance(word.owner, arith.ShRUIOp):
        known = constant_integer(word.owner.rhs)
        if known is None:
            return _Nibble(word, 0)
        word, begin = word.owner.lhs, known
    return _Nibble(word, begin)


def _kind(op: Operation | None) -> tuple[object, ...]:
    """Operation and types, which the two conversions of a pair share."""
    if not isinstance(op, arith.SIToFPOp | arith.UIToFPOp):
        return ()
    return type(op), op.operands[0].type, op.results[0].type


def _pair(op: Operation) -> tuple[Operation, _Nibble] | None:
    """The conversion of the following element of the word, and where this one is; None where there is none."""
    following = op.next_op
    if following is None or not _kind(op) or _kind(following) != _kind(op):
        return None
    own = _nibble(op.operands[0])
    if own is None:
        return None
    other = _nibble(following.operands[0])
    is_pair = other == _Nibble(own.word, own.begin + _BITS) and own.begin % (2 * _BITS) == 0
    return (following, own) if is_pair else None


def _print_cast(printer: FunctionPrinter, op: Operation) -> None:
    source, name = op.operands[0].type, float_name(op.results[0].type)
    if elements_in_a_byte(source) * _BITS != 8 or name not in ("f16", "bf16", "f32"):
        CONVERSIONS[type(op)](printer, op)
    elif name == "f32":
        _print_f32(printer, op)
    elif (found := _pair(op)) is not None:
        _print_pair(printer, op, *found, name)
    else:
        before = op.prev_op and _pair(op.prev_op)
        if before is None or before[0] is not op:  # else printed with the one before
            CONVERSIONS[type(op)](printer, op)


def _bias(op: Operation) -> int:
    """Bits xored with the element: the sign bit of a signed one, which then counts from 0."""
    return _SIGN if isinstance(op, arith.SIToFPOp) else 0


def _print_f32(printer: FunctionPrinter, op: Operation) -> None:
    place, bias = _nibble(op.operands[0]), _bias(op)
    if place is None:
        bits = printer.let(f"zext i{_BITS} {printer.values[op.operands[0]]} to i32")
    else:
        bits = printer.let(f"and i32 {_moved(printer, place)}, {_MASK}")
    number = INFO["f32"].format
    assert number is not None
    base = number.bits_of(2.0**number.mantissa_bits) | bias
    bits = printer.let(f"xor i32 {bits}, {base}")
    value = printer.let(f"bitcast i32 {bits} to float")
    printer.define(
        op.results[0], f"fsub float {value}, {f32_text(2.0**number.mantissa_bits + bias)}"
    )


def _moved(printer: FunctionPrinter, place: _Nibble) -> str:
    """A word from the element's first bit on, as an i32."""
    text, kind = printer.values[place.word], llvm_type(place.word.type)
    width = cast("IntegerType", place.word.type).width.data
    if place.begin:
        text = printer.let(f"lshr {kind} {text}, {place.begin}")
    if width < 32:
        text = printer.let(f"zext {kind} {text} to i32")
    return text if width <= 32 else printer.let(f"trunc {kind} {text} to i32")


def _print_pair(
    printer: FunctionPrinter, op: Operation, following: Operation, place: _Nibble, name: str
) -> None:
    info, bias = INFO[name], _bias(op)
    number, kind = info.format, f"<2 x {info.llvm_float}>"
    assert number is not None
    base = number.bits_of(2.0**number.mantissa_bits) | bias
    word = _moved(printer, place)
    moved = printer.let(f"shl i32 {word}, {16 - _BITS}")
    low = printer.let(f"and i32 {word}, {_MASK}")
    high = printer.let(f"and i32 {moved}, {_MASK << 16}")
    # Two operations of three operands each: (low & 15) ^ base, and (high & 15 << 16) ^ that.
    both = printer.let(f"xor i32 {low}, {base | base << 16}")
    both = printer.let(f"xor i32 {high}, {both}")
    pair = printer.let(f"bitcast i32 {both} to {kind}")
    less = number.bits_of(2.0**number.mantissa_bits + bias)
    words = printer.let(f"bitcast i32 {less | less << 16} to {kind}")
    pair = printer.let(f"fsub {kind} {pair}, {words}")
    halves = printer.let(f"bitcast {kind} {pair} to <2 x i16>", "pair")
    for lane, one in enumerate((op, following)):
        printer.define(one.results[0], f"extractelement <2 x i16> {halves}, i32 {lane}")


PACKED: Final[dict[type[Operation], Callable[[FunctionPrinter, Any], None]]] = {
    arith.SIToFPOp: _print_cast,
    arith.UIToFPOp: _print_cast,
}
