# SPDX-License-Identifier: Apache-2.0
"""Conversions of small elements to and from floats, by pairs or without conversion instructions.

In: arith.extf and arith.truncf of floats of at most 8 bits, arith.sitofp and arith.uitofp of elements of four bits.
Out: from sm_89 on, and of 4 bits, 6 bits and exponents from sm_100a on, for two that stand next to one another, as
those of a vector's elements do, one `cvt.rn.satfinite.e4m3x2.f32` or `cvt.rn.f16x2.e4m3x2`; for one by itself, and for
other types, what codegen prints. Of integers, the element as the last bits of a float whose unit in the last place is
1, less that float: one `lop3` and one subtraction; of two adjacent ones, in 16 bits, for both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerType

from weft.backends.cuda.fast_math import NARROW_PAIRS, NarrowPair
from weft.backends.cuda.lowering.convergent import has
from weft.codegen.llvm.types import f32_text, llvm_type
from weft.codegen.operations.arithmetic import print_multiply_add, print_native
from weft.codegen.operations.conversions import CONVERSIONS, convert_float, float_name
from weft.dialects.builder import constant_integer
from weft.dialects.simt.types import packed_bits
from weft.types.dtype import INFO

if TYPE_CHECKING:
    from collections.abc import Callable

    from xdsl.ir import Operation, SSAValue

    from weft.codegen.llvm.function_printer import FunctionPrinter


def _cast_kind(op: Operation | None) -> tuple[object, ...]:
    """Common facts of two conversions that make a pair."""
    if not isinstance(op, arith.ExtFOp | arith.TruncFOp):
        return ()
    return type(op), op.operands[0].type, op.results[0].type


def _partner(op: Operation) -> tuple[bool, Operation | None]:
    """Whether the operation is the second of a pair, or else what follows it as one."""
    kind, before = _cast_kind(op), 0
    other = op.prev_op
    while other is not None and _cast_kind(other) == kind:
        other, before = other.prev_op, before + 1
    following = op.next_op
    return before % 2 == 1, following if _cast_kind(following) == kind else None


def _print_narrow_float_cast(printer: FunctionPrinter, op: Operation) -> None:
    source, result = float_name(op.operands[0].type), float_name(op.results[0].type)
    name = source if source in NARROW_PAIRS else result
    pair = NARROW_PAIRS.get(name)
    are_both = source in NARROW_PAIRS and result in NARROW_PAIRS
    if pair is None or are_both or not has(printer, pair.feature):
        CONVERSIONS[type(op)](printer, op)
        return
    is_second, other = _partner(op)
    if is_second:
        return  # printed with the first
    if other is None:
        CONVERSIONS[type(op)](printer, op)
        return
    texts = [printer.values[one.operands[0]] for one in (op, other)]
    print_them = _widened if source in NARROW_PAIRS else _narrowed
    found = print_them(printer, texts, source, result)
    for one, text in zip((op, other), found, strict=True):
        printer.values[one.results[0]] = text


def _narrowed(printer: FunctionPrinter, texts: list[str], source: str, result: str) -> list[str]:
    """Two floats rounded to at most 8 bits."""
    low, high = (_as_f32(printer, text, source) for text in texts)
    pair = NARROW_PAIRS[result]
    callee = printer.module.intrinsic(f"llvm.nvvm.{pair.narrows}")
    both = printer.let(f"call i16 {callee}(float {high}, float {low})", "pair")
    found: list[str] = []
    for lane in range(2):
        moved = printer.let(f"lshr i16 {both}, {_pitch(pair)}") if lane else both
        found.append(printer.let(f"trunc i16 {moved} to i{pair.bits}"))
    return found


def _pitch(pair: NarrowPair) -> int:
    """Bits from one of a pair to the other: two of 4 are in a byte, others in one each."""
    return 4 if pair.bits == 4 else 8


def _as_f32(printer: FunctionPrinter, text: str, source: str) -> str:
    """A float that rounds to 8 bits as the original does."""
    if source == "f64":
        return printer.call_library("f64_to_f32_odd", "float", f"double {text}")
    return convert_float(printer, text, source, "f32")


def _widened(printer: FunctionPrinter, texts: list[str], source: str, result: str) -> list[str]:
    """Two floats of at most 8 bits, which f16 or bf16 holds exactly, in another type."""
    pair = NARROW_PAIRS[source]
    low, high = (printer.let(f"zext i{pair.bits} {text} to i16") for text in texts)
    both = printer.let(f"shl i16 {high}, {_pitch(pair)}")
    both = printer.let(f"or i16 {low}, {both}", "pair")
    callee = printer.module.intrinsic(f"llvm.nvvm.{pair.widens}")
    halves = printer.let(f"call <2 x {pair.wide}> {callee}(i16 {both})", "halves")
    found: list[str] = []
    for lane in range(2):
        half = printer.let(f"extractelement <2 x {pair.wide}> {halves}, i32 {lane}")
        bits = printer.let(f"bitcast {pair.wide} {half} to i16")
        found.append(convert_float(printer, bits, _WIDE[pair.wide], result))
    return found


_WIDE: Final = {"half": "f16", "bfloat": "bf16"}

NARROW_FLOATS: Final[dict[type[Operation], Callable[[FunctionPrinter, Any], None]]] = {
    arith.ExtFOp: _print_narrow_float_cast,
    arith.TruncFOp: _print_narrow_float_cast,
}


_BITS: Final = 4
_MASK: Final = (1 << _BITS) - 1
_SIGN: Final = 1 << (_BITS - 1)


class _Nibble(NamedTuple):
    """An element in a word, from a bit on."""

    word: SSAValue
    begin: int


def _nibble(value: SSAValue) -> _Nibble | None:
    """Source of a 4-bit element; None if it does not come out of a word."""
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


def _integer_kind(op: Operation | None) -> tuple[object, ...]:
    """Operation and types, which the two conversions of a pair share."""
    if not isinstance(op, arith.SIToFPOp | arith.UIToFPOp):
        return ()
    return type(op), op.operands[0].type, op.results[0].type


def _pair(op: Operation) -> tuple[Operation, _Nibble] | None:
    """The conversion of the following element of the word, and where this one is; None where there is none."""
    following = op.next_op
    if following is None or not _integer_kind(op) or _integer_kind(following) != _integer_kind(op):
        return None
    own = _nibble(op.operands[0])
    if own is None:
        return None
    other = _nibble(following.operands[0])
    is_pair = other == _Nibble(own.word, own.begin + _BITS) and own.begin % (2 * _BITS) == 0
    return (following, own) if is_pair else None


def _print_integer_cast(printer: FunctionPrinter, op: Operation) -> None:
    source, name = op.operands[0].type, float_name(op.results[0].type)
    if packed_bits(source) != _BITS or name not in ("f16", "bf16", "f32"):
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


def print_fma(printer: FunctionPrinter, op: Operation) -> None:
    """`math.fma`, of 16-bit floats too by one instruction where the machine has it."""
    name = float_name(op.operands[0].type)
    if name in ("f16", "bf16") and has(printer, f"fma_{name}"):
        print_native(printer, op, "llvm.fma")
    else:
        print_multiply_add(printer, op)


PACKED: Final[dict[type[Operation], Callable[[FunctionPrinter, Any], None]]] = {
    arith.SIToFPOp: _print_integer_cast,
    arith.UIToFPOp: _print_integer_cast,
}
