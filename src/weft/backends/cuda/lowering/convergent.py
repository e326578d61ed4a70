# SPDX-License-Identifier: Apache-2.0
"""Calls that threads make together, and instructions that an architecture lacks.

In: an intrinsic's name and its arguments. Out: a call marked convergent, so that LLVM neither duplicates it into
branches nor moves it out of them; an error if the architecture lacks the instruction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.dialects.builder import source_location
from weft.errors import UnavailableError
from weft.types.capabilities import FEATURES

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


def has(printer: FunctionPrinter, feature: str) -> bool:
    """Whether the architecture has a feature of `weft.types.capabilities`."""
    target = printer.module.target.capabilities
    assert target is not None
    return target.has(feature)


def require(
    printer: FunctionPrinter, op: Operation, feature: str, what: str, hint: str = ""
) -> None:
    """Refuses an operation that the architecture has no instruction for.

    Args:
        printer: knows the architecture.
        op: has the source location.
        feature: of `weft.types.capabilities`.
        what: its name for users: ``"weft.match"``.
        hint: beyond the choice of another architecture.
    Raises:
        UnavailableError: with both architectures.
    """
    if not has(printer, feature):
        raise UnavailableError(
            "ARCHITECTURE",
            f"{what} needs {FEATURES[feature].needed}, but this is compiled for {printer.module.target.name}",
            hint=f"choose the architecture with --gpu-arch{hint and '; '}{hint}",
            location=source_location(op.location),
        )
