# SPDX-License-Identifier: Apache-2.0
"""Shuffles, votes and matches on a GPU, and a thread's lane and warp.

In: the operations of dialects/simt/warp but the reductions. Out: `shfl.sync`, `vote.sync`, `match.sync`. Registers
have 32 bits: what is smaller travels in one, what is larger in two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from weft.backends.cuda.lowering.convergent import call_convergent, require
from weft.backends.cuda.lowering.kernel import coordinate
from weft.codegen.llvm.types import llvm_type
from weft.dialects.simt.warp import (
    LaneIdOp,
    MatchOp,
    ShuffleOp,
    VoteOp,
    WarpIdOp,
)
from weft.types.launch_limits import WARP_SIZE

if TYPE_CHECKING:
    from collections.abc import Callable

    from xdsl.ir import Operation

    from weft.codegen.llvm.function_printer import FunctionPrinter

_MODES: Final = {"up": "up", "down": "down", "xor": "bfly", "idx": "idx"}
# LLVM type → integer of the same bits, for other types.
_BITS: Final = {"float": "i32", "double": "i64"}


def shuffle(
    printer: FunctionPrinter, kind: str, mask: str, text: str, value: str, lane: str, width: int
) -> str:
    """Another lane's value, of any scalar LLVM type.

    Args:
        printer: where the instructions go.
        kind: ``up``, ``down``, ``xor`` or ``idx``.
        mask: i32, the lanes that take part.
        text: LLVM type of the value.
        value: what this lane gives.
        lane: i32, taken modulo 32.
        width: lanes of a group, a power of two.
    """
    # The instruction's last operand: which bits of a lane are its group's, and up to where it may read.
    bound = (WARP_SIZE - width) << 8 | (0 if kind == "up" else WARP_SIZE - 1)

    def exchange(register: str) -> str:
        return call_convergent(
            printer,
            "i32",
            f"shfl.sync.{_MODES[kind]}.i32",
            *(f"i32 {argument}" for argument in (mask, register, lane)),
            f"i32 {bound}",
        )

    registers = [exchange(register) for register in _as_registers(printer, text, value)]
    return _from_registers(printer, text, registers)


def _as_registers(printer: FunctionPrinter, text: str, value: str) -> list[str]:
    """A value's bits as one i32 or two, the low half first."""
    bits = _BITS.get(text, text)
    if bits != text:
        value = printer.let(f"bitcast {text} {value} to {bits}")
    if bits == "i64":
        return list(halves(printer, value))
    return [value if bits == "i32" else printer.let(f"zext {bits} {value} to i32")]


def _from_registers(printer: FunctionPrinter, text: str, registers: list[str]) -> str:
    bits = _BITS.get(text, text)
    value = registers[0]
    if bits == "i64":
        value = joined(printer, *registers)
    elif bits != "i32":
        value = printer.let(f"trunc i32 {value} to {bits}")
    return value if bits == text else printer.let(f"bitcast {bits} {value} to {text}")


def halves(printer: FunctionPrinter, value: str) -> tuple[str, str]:
    """The low and the high 32 bits of an i64."""
    shifted = printer.let(f"lshr i64 {value}, 32")
    return printer.let(f"trunc i64 {value} to i32"), printer.let(f"trunc i64 {shifted} to i32")


def joined(printer: FunctionPrinter, low: str, high: str) -> str:
    """The i64 of two halves."""
    low_wide, high_wide = (printer.let(f"zext i32 {half} to i64") for half in (low, high))
    shifted = printer.let(f"shl i64 {high_wide}, 32")
    return printer.let(f"or i64 {shifted}, {low_wide}")


def _print_shuffle(printer: FunctionPrinter, op: Any) -> None:
    printer.values[op.results[0]] = shuffle(
        printer,
        op.kind.data,
        printer.values[op.mask],
        llvm_type(op.value.type),
        printer.values[op.value],
        printer.values[op.lane],
        op.width.value.data,
    )


def _print_vote(printer: FunctionPrinter, op: Any) -> None:
    kind = op.kind.data
    arguments = f"i32 {printer.values[op.mask]}", f"i1 {printer.values[op.predicate]}"
    result = "i32" if kind == "ballot" else "i1"
    printer.values[op.results[0]] = call_convergent(
        printer, result, f"vote.{kind}.sync", *arguments
    )


def _print_match(printer: FunctionPrinter, op: Any) -> None:
    kind, text = op.kind.data, llvm_type(op.value.type)
    require(printer, op, 70, "weft.match" if kind == "any" else "weft.match_all")
    arguments = f"i32 {printer.values[op.mask]}", f"{text} {printer.values[op.value]}"
    if kind == "any":
        found = call_convergent(printer, "i32", f"match.any.sync.{text}", *arguments)
    else:
        pair = call_convergent(printer, "{ i32, i1 }", f"match.all.sync.{text}p", *arguments)
        found = printer.let(f"extractvalue {{ i32, i1 }} {pair}, 0")
    printer.values[op.results[0]] = found


def _print_lane_id(printer: FunctionPrinter, op: Operation) -> None:
    callee = printer.module.intrinsic("llvm.nvvm.read.ptx.sreg.laneid")
    printer.define(op.results[0], f"call i32 {callee}()")


def _print_warp_id(printer: FunctionPrinter, op: Operation) -> None:
    """By the thread's number: the register of that name may change while a thread runs."""
    printer.define(op.results[0], f"lshr i32 {_thread_number(printer)}, 5")


def _thread_number(printer: FunctionPrinter) -> str:
    """The thread's number in its block, x first; sizes that are known to be 1 cost nothing."""
    sizes = [coordinate(printer, "block_dim", axis) for axis in "xyz"]
    number = ""
    for axis in (2, 1, 0):
        scaled = ""
        if number:
            scaled = printer.let(f"mul i32 {number}, {sizes[axis]}")
        if sizes[axis] == "1":
            number = scaled
            continue
        index = coordinate(printer, "thread_idx", "xyz"[axis])
        number = printer.let(f"add i32 {scaled}, {index}") if scaled else index
    return number or "0"


WARP: Final[dict[type[Operation], Callable[[FunctionPrinter, Any], None]]] = {
    LaneIdOp: _print_lane_id,
    WarpIdOp: _print_warp_id,
    ShuffleOp: _print_shuffle,
    VoteOp: _print_vote,
    MatchOp: _print_match,
}
