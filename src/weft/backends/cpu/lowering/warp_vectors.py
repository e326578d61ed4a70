# SPDX-License-Identifier: Apache-2.0
"""Collectives of a warp that all of its lanes come to: vectors of 32 elements.

In: shuffles, votes, matches and reductions under the full mask. Out: vector instructions on the lanes' kept values, to
the same bits as native/cpu/collectives.cpp.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from xdsl.dialects.builtin import f32

from weft.backends.cpu.lowering.affine import Group
from weft.backends.cpu.lowering.rows import counted_loop
from weft.backends.cpu.lowering.split_threads import Tail
from weft.codegen.llvm.types import FLOAT_NAMES, float_text, integer_text, llvm_type, size_in_bytes
from weft.codegen.operations.conversions import float_name, from_f32, is_wide, to_f32
from weft.dialects.builder import constant_integer
from weft.dialects.nvgpu.threads import ElectOneOp
from weft.dialects.simt.threads import MatchOp, ShuffleOp, VoteOp, WarpReduceOp
from weft.types.launch_limits import WARP_SIZE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.ir import Attribute, Operation, SSAValue

    from weft.backends.cpu.lowering.split_threads import Slot, ThreadsPrinter
    from weft.codegen.llvm.function_printer import FunctionPrinter

_LANES: Final = range(WARP_SIZE)
_EXTREMA: Final = {"min": "smin", "max": "smax", "umin": "umin", "umax": "umax"}


def collective_tail(threads: ThreadsPrinter, operation: Operation) -> Tail | None:
    """Posts each lane's operand, unless it is kept anyway or the lanes share it."""
    if not isinstance(operation, ShuffleOp | VoteOp | MatchOp | WarpReduceOp):
        return None
    value = _operand(operation)
    if threads.sharing.of(value) <= Group.WARP or not threads.computes_again(value):
        return None
    slot = threads.posted[operation] = threads.slots.array(_kind(value), Group.WARP)

    def run() -> None:
        slot.store(threads.printer, llvm_type(value.type), threads.printer.values[value])

    return Tail([value], operation, run)


def print_collective(threads: ThreadsPrinter, operation: Operation) -> None:
    """Defines a collective's result: one value of the warp, or one per lane."""
    if isinstance(operation, VoteOp):
        _print_vote(threads, operation)
    elif isinstance(operation, MatchOp):
        _print_match(threads, operation)
    elif isinstance(operation, WarpReduceOp):
        _print_reduce(threads, operation)
    elif isinstance(operation, ShuffleOp):
        _print_shuffle(threads, operation)
    elif isinstance(operation, ElectOneOp):
        _print_elect_one(threads, operation)


def _operand(operation: Any) -> SSAValue:
    return operation.predicate if isinstance(operation, VoteOp) else operation.value


# ---- vectors of the lanes


def _kind(value: SSAValue) -> str:
    text = llvm_type(value.type)
    return "i8" if text == "i1" else text


def _place(printer: FunctionPrinter, slot: Slot) -> str:
    """The address of the warp's first element."""
    if slot.group is Group.WARP:
        return slot.pointer
    first = printer.let(f"zext i32 {printer.coordinates['first']} to i64")
    return printer.let(f"getelementptr inbounds {slot.kind}, ptr {slot.pointer}, i64 {first}")


def _constants(kind: str, texts: Sequence[str]) -> str:
    return f"<{', '.join(f'{kind} {text}' for text in texts)}>"


def _splat(printer: FunctionPrinter, kind: str, text: str) -> str:
    if not text.startswith("%"):
        return _constants(kind, [text] * WARP_SIZE)
    whole = f"<{WARP_SIZE} x {kind}>"
    one = printer.let(f"insertelement {whole} poison, {kind} {text}, i32 0")
    return printer.let(
        f"shufflevector {whole} {one}, {whole} poison, <{WARP_SIZE} x i32> zeroinitializer"
    )


def _lanes_of(threads: ThreadsPrinter, operation: Operation) -> Slot:
    """Memory of the lanes' operands."""
    posted = threads.posted.get(operation)
    return threads.slots[_operand(operation)][0] if posted is None else posted


def _vector(threads: ThreadsPrinter, operation: Operation) -> str:
    """The lanes' operands; an i1 as i8."""
    value = _operand(operation)
    printer, kind = threads.printer, _kind(value)
    if threads.sharing.of(value) <= Group.WARP:
        text = threads.text(value)
        if llvm_type(value.type) == "i1":
            text = {"true": "1", "false": "0"}.get(text) or printer.let(f"zext i1 {text} to i8")
        return _splat(printer, kind, text)
    place = _place(printer, _lanes_of(threads, operation))
    return printer.let(
        f"load <{WARP_SIZE} x {kind}>, ptr {place}, align {size_in_bytes(kind)}", "lanes"
    )


def _keep(threads: ThreadsPrinter, result: SSAValue, vector: str) -> None:
    """Keeps a vector as the lanes' results."""
    if not result.uses:
        return
    threads.keep(result, Group.WARP)
    (slot,) = threads.slots[result]
    place = _place(threads.printer, slot)
    kind = _kind(result)
    threads.printer.line(
        f"store <{WARP_SIZE} x {kind}> {vector}, ptr {place}, align {size_in_bytes(kind)}"
    )


def _are_present(printer: FunctionPrinter, numbers: Sequence[int] = _LANES) -> str:
    """Whether the warp has each of the lanes, a vector of i1; empty if the warp is whole."""
    lanes = printer.coordinates["lanes"]
    if lanes == str(WARP_SIZE):
        return ""
    listed = _constants("i32", [str(number) for number in numbers])
    return printer.let(
        f"icmp ult <{WARP_SIZE} x i32> {listed}, {_splat(printer, 'i32', lanes)}", "present"
    )


def _bits(printer: FunctionPrinter, condition: str) -> str:
    """A vector of i1 as an i32 with a bit per lane, of those that the warp has."""
    present = _are_present(printer)
    if present:
        condition = printer.let(f"and <{WARP_SIZE} x i1> {condition}, {present}")
    return printer.let(f"bitcast <{WARP_SIZE} x i1> {condition} to i32", "bits")


def _all_bits(printer: FunctionPrinter) -> str:
    return _bits(printer, _constants("i1", ["true"] * WARP_SIZE))


# ---- the operations


def _print_vote(threads: ThreadsPrinter, operation: VoteOp) -> None:
    printer, kind, result = threads.printer, operation.kind.data, operation.result
    votes = _vector(threads, operation)
    chosen = printer.let(f"icmp ne <{WARP_SIZE} x i8> {votes}, zeroinitializer")
    ballot = _bits(printer, chosen)
    if kind == "ballot":
        printer.values[result] = ballot
    elif kind == "any":
        printer.define(result, f"icmp ne i32 {ballot}, 0")
    else:
        printer.define(result, f"icmp eq i32 {ballot}, {_all_bits(printer)}")


def _print_match(threads: ThreadsPrinter, operation: MatchOp) -> None:
    printer, kind = threads.printer, _kind(operation.value)
    vector = _vector(threads, operation)
    result = operation.result
    whole = f"<{WARP_SIZE} x {kind}>"
    if operation.kind.data == "all":
        first = printer.let(f"extractelement {whole} {vector}, i32 0")
        same = printer.let(f"icmp eq {whole} {vector}, {_splat(printer, kind, first)}")
        equal, every = _bits(printer, same), _all_bits(printer)
        is_all = printer.let(f"icmp eq i32 {equal}, {every}")
        printer.define(result, f"select i1 {is_all}, i32 {every}, i32 0")
        return
    if not result.uses:
        return
    threads.keep(result, Group.WARP)

    def run() -> None:
        text = printer.values[operation.value]
        if llvm_type(operation.value.type) == "i1":
            text = {"true": "1", "false": "0"}.get(text) or printer.let(f"zext i1 {text} to i8")
        same = printer.let(f"icmp eq {whole} {vector}, {_splat(printer, kind, text)}")
        threads.slots.store(result, [_bits(printer, same)])

    threads.print_threads([], Group.WARP, Tail([operation.value], operation, run))


def _print_elect_one(threads: ThreadsPrinter, operation: ElectOneOp) -> None:
    """The first lane: all of the warp have come, and the last warp of a block lacks the last lanes."""
    printer, result = threads.printer, operation.result
    threads.keep(result, Group.WARP)

    def run() -> None:
        lane = printer.coordinates["lane_id"]
        threads.slots.store(result, [printer.let(f"icmp eq i32 {lane}, 0")])

    threads.print_threads([], Group.WARP, Tail([], operation, run))


def shuffle_source(kind: str, lane: int, argument: int, width: int) -> int:
    """The lane that a lane reads, or itself; as in native/cpu/collectives.cpp."""
    first = lane & -width
    number = argument % WARP_SIZE
    source = {
        "up": lane - number,
        "down": lane + number,
        "xor": lane ^ number,
        "idx": first + argument % width,
    }[kind]
    is_outside = (kind == "up" and source < first) or source > first + width - 1
    return lane if is_outside else source


def _print_shuffle(threads: ThreadsPrinter, operation: ShuffleOp) -> None:
    printer, result = threads.printer, operation.result
    known = constant_integer(operation.lane)
    if threads.sharing.of(operation.value) <= Group.WARP:
        text = threads.text(operation.value)
        if threads.sharing.of(result) <= Group.WARP:
            printer.values[result] = text
            return
    if known is None:
        _print_shuffle_of_any(threads, operation)
        return
    kind, width = _kind(operation.value), operation.width.value.data
    vector = _vector(threads, operation)
    sources = [shuffle_source(operation.kind.data, lane, known, width) for lane in _LANES]
    whole = f"<{WARP_SIZE} x {kind}>"
    listed = _constants("i32", [str(source) for source in sources])
    moved = printer.let(
        f"shufflevector {whole} {vector}, {whole} poison, <{WARP_SIZE} x i32> {listed}", "moved"
    )
    present = _are_present(printer, sources)
    if present:
        moved = printer.let(
            f"select <{WARP_SIZE} x i1> {present}, {whole} {moved}, {whole} {vector}"
        )
    if threads.sharing.of(result) <= Group.WARP:
        text = printer.let(f"extractelement {whole} {moved}, i32 0")
        is_bool = llvm_type(result.type) == "i1"
        printer.values[result] = printer.let(f"icmp ne i8 {text}, 0") if is_bool else text
        return
    _keep(threads, result, moved)


def _print_shuffle_of_any(threads: ThreadsPrinter, operation: ShuffleOp) -> None:
    """A shuffle whose lane is known at run time only."""
    printer, result = threads.printer, operation.result
    shares = threads.sharing.of(result) <= Group.WARP
    kind = _kind(operation.value)
    place = ""
    if threads.sharing.of(operation.value) > Group.WARP:
        place = _place(printer, _lanes_of(threads, operation))

    def read() -> str:
        source = _source(printer, operation)
        index = printer.let(f"zext i32 {source} to i64")
        address = printer.let(f"getelementptr inbounds {kind}, ptr {place}, i64 {index}")
        text = printer.let(f"load {kind}, ptr {address}")
        is_bool = llvm_type(result.type) == "i1"
        return printer.let(f"icmp ne i8 {text}, 0") if is_bool else text

    if shares:
        threads.take(operation.lane)
        printer.values[result] = read()
        return
    if not result.uses:
        return
    threads.keep(result, Group.WARP)

    def run() -> None:
        text = read() if place else printer.values[operation.value]
        threads.slots.store(result, [text])

    values = [operation.lane] if place else [operation.lane, operation.value]
    threads.print_threads([], Group.WARP, Tail(values, operation, run))


def _source(printer: FunctionPrinter, operation: ShuffleOp) -> str:
    """The lane that the running lane reads."""
    kind, width = operation.kind.data, operation.width.value.data
    lane, argument = printer.coordinates["lane_id"], printer.values[operation.lane]
    first = printer.let(f"and i32 {lane}, {-width}")
    if kind == "idx":
        source = printer.let(f"or i32 {first}, {printer.let(f'and i32 {argument}, {width - 1}')}")
    else:
        number = printer.let(f"and i32 {argument}, {WARP_SIZE - 1}")
        instruction = {"up": "sub", "down": "add", "xor": "xor"}[kind]
        source = printer.let(f"{instruction} i32 {lane}, {number}")
    last = printer.let(f"or i32 {first}, {width - 1}")
    outside = printer.let(f"icmp sgt i32 {source}, {last}")
    if kind == "up":
        below = printer.let(f"icmp slt i32 {source}, {first}")
        outside = printer.let(f"or i1 {outside}, {below}")
    lanes = printer.coordinates["lanes"]
    if lanes != str(WARP_SIZE):
        absent = printer.let(f"icmp sge i32 {source}, {lanes}")
        outside = printer.let(f"or i1 {outside}, {absent}")
    return printer.let(f"select i1 {outside}, i32 {lane}, i32 {source}", "source")


def _print_reduce(threads: ThreadsPrinter, operation: WarpReduceOp) -> None:
    """Adjacent lanes are combined first, then adjacent results; lanes that are missing change nothing."""
    printer, kind = threads.printer, operation.kind.data
    element: Attribute = operation.value.type
    if not is_wide(FLOAT_NAMES.get(type(element), "f64")):
        _print_small_reduce(threads, operation)
        return
    text = llvm_type(element)
    vector = _vector(threads, operation)
    present = _are_present(printer)
    if present:
        neutral = _constants(text, [_neutral(operation)] * WARP_SIZE)
        whole = f"<{WARP_SIZE} x {text}>"
        vector = printer.let(
            f"select <{WARP_SIZE} x i1> {present}, {whole} {vector}, {whole} {neutral}"
        )
    count = WARP_SIZE
    while count > 1:
        whole, half = f"<{count} x {text}>", count // 2
        parts = [
            printer.let(
                f"shufflevector {whole} {vector}, {whole} poison, <{half} x i32> "
                + _constants("i32", [str(number) for number in range(start, count, 2)])
            )
            for start in (0, 1)
        ]
        vector = _combined(printer, kind, f"<{half} x {text}>", *parts)
        count = half
    printer.define(operation.result, f"extractelement <1 x {text}> {vector}, i32 0")


def _print_small_reduce(threads: ThreadsPrinter, operation: WarpReduceOp) -> None:
    """Reduces floats that are computed in f32, and rounded after each step."""
    printer, value, name = threads.printer, operation.value, float_name(operation.value.type)
    values = printer.alloca(f"[{WARP_SIZE} x float]", 64, "values")
    neutral = _constants("float", [float_text(_neutral_float(operation), f32)] * WARP_SIZE)
    printer.line(f"store <{WARP_SIZE} x float> {neutral}, ptr {values}, align 4")

    def place(index: str) -> str:
        wide = printer.let(f"zext i32 {index} to i64")
        return printer.let(f"getelementptr inbounds float, ptr {values}, i64 {wide}")

    def run() -> None:
        wide = to_f32(printer, printer.values[value], name)
        printer.line(f"store float {wide}, ptr {place(printer.coordinates['lane_id'])}")

    threads.print_threads([], Group.WARP, Tail([value], operation, run))
    half = WARP_SIZE // 2
    while half:
        with counted_loop(printer, "0", str(half), "pair") as pair:
            even = printer.let(f"mul nuw nsw i32 {pair}, 2")
            odd = printer.let(f"add nuw nsw i32 {even}, 1")
            parts = [printer.let(f"load float, ptr {place(index)}") for index in (even, odd)]
            combined = _combined(printer, operation.kind.data, "float", *parts)
            rounded = to_f32(printer, from_f32(printer, combined, name), name)
            printer.line(f"store float {rounded}, ptr {place(pair)}")
        half //= 2
    first = printer.let(f"load float, ptr {values}, align 4")
    printer.values[operation.result] = from_f32(printer, first, name)


def _neutral_float(operation: WarpReduceOp) -> float:
    """Right identity of a reduction."""
    return -0.0 if operation.kind.data == "add" else float("nan")


def _neutral(operation: WarpReduceOp) -> str:
    kind = operation.kind.data
    element: Attribute = operation.value.type
    if FLOAT_NAMES.get(type(element)):
        return float_text(_neutral_float(operation), element)
    bits = 8 * size_in_bytes(llvm_type(element))
    lowest = -(1 << (bits - 1))
    value = {"min": -lowest - 1, "max": lowest, "umin": -1, "and": -1}.get(kind, 0)
    return integer_text(value, bits)


def _combined(printer: FunctionPrinter, kind: str, whole: str, one: str, other: str) -> str:
    """Two values or vectors combined, as in native/cpu/collectives.cpp."""
    count, _, element = whole[1:-1].partition(" x ") if whole[0] == "<" else ("", "", whole)
    if element in ("float", "double"):
        if kind == "add":
            return printer.let(f"fadd {whole} {one}, {other}")
        # The operand that is not NaN, if any.
        bits = f"<{count} x i1>" if count else "i1"
        test = "olt" if kind == "min" else "ogt"
        better = printer.let(f"fcmp {test} {whole} {other}, {one}")
        chosen = printer.let(f"select {bits} {better}, {whole} {other}, {whole} {one}")
        is_nan = printer.let(f"fcmp uno {whole} {one}, {one}")
        return printer.let(f"select {bits} {is_nan}, {whole} {other}, {whole} {chosen}")
    if kind in _EXTREMA:
        callee = printer.module.intrinsic(f"llvm.{_EXTREMA[kind]}", f".v{count}{element}")
        return printer.let(f"call {whole} {callee}({whole} {one}, {whole} {other})")
    return printer.let(f"{kind} {whole} {one}, {other}")
