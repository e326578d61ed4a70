# SPDX-License-Identifier: Apache-2.0
"""Calls that threads make together, and instructions that an architecture lacks.

In: an intrinsic's name and its arguments. Out: a call marked convergent, so that LLVM neither duplicates it into
branches nor moves it out of them; an error if the architecture lacks the instruction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.dialects.builder import source_location
from weft.errors import UnavailableError

if TYPE_CHECKING:
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


def require(printer: FunctionPrinter, op: Operation, least: int, what: str) -> None:
    """Refuses an operation that the architecture has no instruction for.

    Args:
        printer: knows the architecture.
        op: has the source location.
        least: compute capability of the first architecture that has it, such as 70.
        what: its name for users: ``"weft.match"``.
    Raises:
        UnavailableError: with both architectures.
    """
    target = printer.module.target
    if target.compute_capability < least:
        raise UnavailableError(
            "ARCHITECTURE",
            f"{what} needs sm_{least} or later, but this is compiled for {target.name}",
            hint="choose the architecture with --gpu-arch",
            location=source_location(op.location),
        )


def require_specific(printer: FunctionPrinter, op: Operation, what: str) -> None:
    """Refuses an operation that only architectures of their own have, such as sm_90a and sm_100a.

    Raises:
        UnavailableError: with both architectures.
    """
    target = printer.module.target
    is_specific = target.name.startswith("sm_") and target.name[-1] in "af"
    if not is_specific or target.compute_capability < 90:
        raise UnavailableError(
            "ARCHITECTURE",
            f"{what} needs sm_90a or later, but this is compiled for {target.name}",
            hint="choose the architecture with --gpu-arch",
            location=source_location(op.location),
        )
