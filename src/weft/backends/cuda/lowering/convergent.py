# SPDX-License-Identifier: Apache-2.0
"""Calls that threads make together: collectives of a warp.

In: an intrinsic's name and its arguments; operations on a warp. Out: a call marked convergent, so that LLVM neither
duplicates it into branches nor moves it out of them, such as `shfl.sync`, `vote.sync`, `match.sync`, and `redux.sync`
where the architecture has it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from weft.codegen.gpu import Warp, halves, joined, warp_rows
from weft.codegen.llvm.types import llvm_type
from weft.dialects.simt.threads import LaneIdOp, MatchOp, VoteOp
from weft.types.launch_limits import WARP_SIZE

if TYPE_CHECKING:
    from collections.abc import Callable

    from xdsl.ir import Operation

    from weft.codegen.llvm.function_printer import FunctionPrinter


def call_convergent(
    printer: FunctionPrinter, result_type: str, intrinsic: str, *arguments: str, suffix: str = ""
) -> str:
    """Calls an NVVM intrinsic that several threads execute together.

    Args:
        printer: where the call goes.
        result_type: LLVM's, or ``"void"``.
        intrinsic: name after ``llvm.nvvm.``.
        *arguments: with their types.
        suffix: of the intrinsic's name, beyond its entry in the list of selectable ones.
    Returns:
        The name of the result; an empty string for void.
    """
    callee = printer.module.intrinsic(f"llvm.nvvm.{intrinsic}", suffix)
    text = f"call {result_type} {callee}({', '.join(arguments)}) convergent"
    if result_type == "void":
        printer.line(text)
        return ""
    return printer.let(text)


def has(printer: FunctionPrinter, feature: str) -> bool:
    """Whether the architecture has a feature of `weft.types.capabilities`."""
    target = printer.module.target.capabilities
    assert target is not None
    return target.has(feature)


_MODES: Final = {"xor": "bfly"}


class _CudaWarp(Warp):
    def exchange(self, kind: str, mask: str, register: str, lane: str, width: int) -> str:
        # The last operand: which bits of a lane are its group's, and up to where it may read.
        bound = (WARP_SIZE - width) << 8 | (0 if kind == "up" else WARP_SIZE - 1)
        arguments = (f"i32 {argument}" for argument in (mask, register, lane, bound))
        name = f"shfl.sync.{_MODES.get(kind, kind)}.i32"
        return call_convergent(self.printer, "i32", name, *arguments)

    def present(self) -> str:
        arguments = f"i32 {self.mask}", "i1 true"
        return call_convergent(self.printer, "i32", "vote.ballot.sync", *arguments)

    def lanes_after(self) -> str:
        register = self.printer.module.intrinsic("llvm.nvvm.read.ptx.sreg.lanemask.gt")
        return self.printer.let(f"call i32 {register}()")

    def reduced(self) -> str:
        if has(self.printer, "redux"):
            if self.text == "i32":
                return self._redux(self.value)
            if self.text == "i64" and self.kind in ("and", "or", "xor"):
                parts = (self._redux(half) for half in halves(self.printer, self.value))
                return joined(self.printer, *parts)
        return super().reduced()

    def _redux(self, value: str) -> str:
        arguments = f"i32 {value}", f"i32 {self.mask}"
        return call_convergent(self.printer, "i32", f"redux.sync.{self.kind}", *arguments)


def _print_vote(printer: FunctionPrinter, op: Any) -> None:
    kind = op.kind.data
    arguments = f"i32 {printer.values[op.mask]}", f"i1 {printer.values[op.predicate]}"
    result = "i32" if kind == "ballot" else "i1"
    printer.values[op.results[0]] = call_convergent(
        printer, result, f"vote.{kind}.sync", *arguments
    )


def _print_match(printer: FunctionPrinter, op: Any) -> None:
    kind, text = op.kind.data, llvm_type(op.value.type)
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


WARP: Final[dict[type[Operation], Callable[[FunctionPrinter, Any], None]]] = {
    **warp_rows(_CudaWarp),
    LaneIdOp: _print_lane_id,
    VoteOp: _print_vote,
    MatchOp: _print_match,
}
