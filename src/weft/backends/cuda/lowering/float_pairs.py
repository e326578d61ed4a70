# SPDX-License-Identifier: Apache-2.0
"""Arithmetic of two f32 in one instruction, as sm_100 and sm_103 have: `fma.rn.f32x2`.

In: the operations of a block, a function of a fragment's elements. Out: of elements that a vector load reads beside one
another, or that are adjacent in a fragment, and of all that is computed of both alike, the additions, multiplications
and fused multiply-adds, two by two as vectors of LLVM. Each half is rounded as by itself. The first operation of a pair
moves to the second one, which its users must follow; and a product and a sum that may be fused are both paired or
neither, so that the same ones are fused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import FixedBitwidthType, Float32Type, IndexType
from xdsl.ir import Operation
from xdsl.traits import Pure

from weft.backends.cuda.lowering.convergent import has
from weft.backends.cuda.lowering.conversions import print_fma
from weft.codegen.operations.arithmetic import FLOATING_POINT, flags_of
from weft.dialects.flow import walk
from weft.dialects.simt.memory import LoadVectorOp

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from xdsl.ir import Block, SSAValue

    from weft.codegen.llvm.function_printer import FunctionPrinter
    from weft.dialects.simt.kernel import KernelOp

_INSTRUCTIONS: Final[dict[type[Operation], str]] = {
    arith.AddfOp: "fadd",
    arith.SubfOp: "fsub",
    arith.MulfOp: "fmul",
    math.FmaOp: "",
}
_SUMS: Final = (arith.AddfOp, arith.SubfOp)
_VECTOR: Final = "<2 x float>"


class Pair(NamedTuple):
    """Two operations of the same kind, on both halves of their operands.

    Attributes:
        low, high: the halves.
        last: which of them comes second in the block.
        is_one: whether one instruction does both.
    """

    low: Operation
    high: Operation
    last: Operation
    is_one: bool

    @property
    def first(self) -> Operation:
        return self.low if self.last is self.high else self.high


class _Lane(NamedTuple):
    """A value's place in a pair of values."""

    pair: int
    half: int


def pair_floats(printer: FunctionPrinter, kernel: KernelOp) -> None:
    """Finds a kernel's pairs for `FLOAT_PAIRS`, and moves their operations beside one another."""
    if not has(printer, "packed_f32x2"):
        return
    inner = [region for op in walk(kernel) for region in op.regions]
    for block in [block for region in inner for block in region.blocks]:
        pairs = _pairs_of(block)
        if any(pair.is_one for pair in pairs):
            for pair in pairs:  # in the order of their last operations
                pair.first.detach()
                block.insert_op_before(pair.first, pair.last)
                if pair.is_one:
                    printer.pairs[pair.low] = printer.pairs[pair.high] = pair


def _pairs_of(block: Block) -> list[Pair]:
    places = {op: number for number, op in enumerate(block.ops)}
    found = _proposed(block)
    while True:
        kept = _placed(found, places)
        kept = [pair for pair in kept if not pair.is_one or _fuses_as_before(pair, kept)]
        if len(kept) == len(found):
            return kept
        found = kept


def _proposed(block: Block) -> list[Pair]:
    """Operations of the same kind whose operands are the halves of the same pairs, or the same."""
    lanes: dict[SSAValue, _Lane] = {}
    waiting: dict[tuple[Any, ...], tuple[int, Operation]] = {}
    found: list[Pair] = []
    count = 0
    for op in block.ops:
        if isinstance(op, LoadVectorOp):
            for number, element in enumerate(op.elements):
                lanes[element] = _Lane(count + number // 2, number % 2)
            count += (len(op.elements) + 1) // 2
            continue
        if len(op.results) != 1 or op.regions or not op.has_trait(Pure):
            continue
        halves = {lanes[operand].half for operand in op.operands if operand in lanes}
        if len(halves) != 1:
            continue
        (half,) = halves
        key = (type(op), str(op.properties), op.results[0].type, *map(_key(lanes), op.operands))
        other = waiting.pop((half ^ 1, *key), None)
        if other is None:
            waiting[half, *key] = (count, op)
            lanes[op.results[0]] = _Lane(count, half)
            count += 1
            continue
        number, first = other
        lanes[op.results[0]] = _Lane(number, half)
        low, high = (first, op) if half else (op, first)
        found.append(Pair(low, high, op, _is_float_arithmetic(op)))
    return found


def _key(lanes: dict[SSAValue, _Lane]) -> Callable[[SSAValue], object]:
    """A function from an operand to the key that it shares with that of the other half."""

    def key(operand: SSAValue) -> object:
        lane = lanes.get(operand)
        if lane is not None:
            return ("pair", lane.pair)
        if isinstance(operand.owner, arith.ConstantOp):
            return ("constant", operand.owner.value, operand.type)
        return operand

    return key


def _placed(found: list[Pair], places: dict[Operation, int]) -> list[Pair]:
    """The pairs whose first operation is not used before the second one's place."""
    kept: dict[Operation, Pair] = {}
    for pair in sorted(found, key=lambda pair: places[pair.last], reverse=True):

        def comes_after(user: Operation, at: int = places[pair.last]) -> bool:
            own: Operation | None = user
            while own is not None and own not in places:
                own = own.parent_op()
            if own is None:
                return False
            other = kept.get(own)
            return places[other.last if other is not None else own] > at

        if all(comes_after(use.operation) for use in pair.first.results[0].uses):
            kept[pair.low] = kept[pair.high] = pair
    return [pair for pair in found if pair.low in kept]


def _fuses_as_before(pair: Pair, kept: list[Pair]) -> bool:
    """Whether each product and sum that may become one instruction are both in pairs."""
    paired = {op for one in kept if one.is_one for op in (one.low, one.high)}
    for op in (pair.low, pair.high):
        if isinstance(op, _SUMS):
            near = [operand.owner for operand in op.operands]
            others = [one for one in near if isinstance(one, arith.MulfOp)]
        elif isinstance(op, arith.MulfOp):
            users = [use.operation for use in op.results[0].uses]
            others = [one for one in users if isinstance(one, _SUMS)]
        else:
            continue
        if any(one not in paired for one in others):
            return False
    return True


def _or_paired(
    single: Callable[[FunctionPrinter, Any], None],
) -> Callable[[FunctionPrinter, Any], None]:
    def print_it(printer: FunctionPrinter, op: Operation) -> None:
        pair: Pair | None = printer.pairs.get(op)
        if pair is None:
            single(printer, op)
        elif op is pair.last:
            _print_pair(printer, pair)

    return print_it


def _print_pair(printer: FunctionPrinter, pair: Pair) -> None:
    lists = [[printer.values[one] for one in op.operands] for op in (pair.low, pair.high)]
    found = _computed(printer, pair.low, lists)
    for op, text in zip((pair.low, pair.high), found, strict=True):
        printer.values[op.results[0]] = text


def _computed(printer: FunctionPrinter, op: Operation, lists: list[list[str]]) -> list[str]:
    """The results of an operation for both halves' operands."""
    given: list[str] = []
    for low, high in zip(*lists, strict=True):
        text = f"insertelement {_VECTOR} poison, float {low}, i32 0"
        text = f"insertelement {_VECTOR} {printer.let(text)}, float {high}, i32 1"
        given.append(f"{_VECTOR} {printer.let(text)}")
    name = _INSTRUCTIONS[type(op)]
    if name:
        second = given[1].removeprefix(f"{_VECTOR} ")
        both = printer.let(f"{name}{flags_of(op)} {given[0]}, {second}", "pair")
    else:
        callee = printer.module.intrinsic("llvm.fma", ".v2f32")
        both = printer.let(f"call {_VECTOR} {callee}({', '.join(given)})", "pair")
    return [printer.let(f"extractelement {_VECTOR} {both}, i32 {half}") for half in range(2)]


def is_computed_in_twos(printer: FunctionPrinter, block: Block) -> bool:
    """Whether a function of an element has arithmetic that is done for two, and only numbers."""
    return (
        has(printer, "packed_f32x2")
        and any(_is_float_arithmetic(op) for op in block.ops)
        and not any(op.regions for op in block.ops)
        and all(
            isinstance(result.type, FixedBitwidthType | IndexType)
            for op in block.ops
            for result in op.results
        )
    )


def _is_float_arithmetic(op: Operation) -> bool:
    return type(op) in _INSTRUCTIONS and isinstance(op.results[0].type, Float32Type)


def print_for_two(
    printer: FunctionPrinter,
    block: Block,
    arguments: Sequence[list[str]],
    wanted: Sequence[SSAValue],
) -> list[list[str]]:
    """Prints a function for two elements.

    Args:
        printer: of the kernel.
        block: the function.
        arguments: of the first element, and of the second.
        wanted: values of the function.
    Returns:
        The wanted values of the first element, and of the second.
    """
    values: list[dict[SSAValue, str]] = [
        dict(zip(block.args, texts, strict=True)) for texts in arguments
    ]

    def text(half: int, value: SSAValue) -> str:
        own = values[half]
        return own[value] if value in own else printer.values[value]

    for op in block.ops:
        if _is_float_arithmetic(op):
            printer.place(op.location)
            lists = [[text(half, one) for one in op.operands] for half in range(2)]
            for own, found in zip(values, _computed(printer, op, lists), strict=True):
                own[op.results[0]] = found
            continue
        for own in values:
            printer.values.update(own)
            printer.print_operation(op)
            own.update((one, printer.values[one]) for one in op.results)
    return [[text(half, one) for one in wanted] for half in range(2)]


FLOAT_PAIRS: Final[dict[type[Operation], Callable[[FunctionPrinter, Any], None]]] = {
    **{
        kind: _or_paired(FLOATING_POINT[kind])
        for kind in (arith.AddfOp, arith.SubfOp, arith.MulfOp)
    },
    math.FmaOp: _or_paired(print_fma),
}
