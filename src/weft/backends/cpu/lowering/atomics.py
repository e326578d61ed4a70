# SPDX-License-Identifier: Apache-2.0
"""Atomics on the CPU: on shared memory a load and a store, elsewhere the machine's instructions.

In: simt.atomic_rmw, simt.atomic_cas. Out: LLVM instructions. The threads of a block, and the blocks of a cluster, run
on one thread of the machine and switch only where they wait, so nothing comes between a load and a store.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from weft.codegen.llvm.types import size_in_bytes
from weft.codegen.operations.atomics import (
    AtomicAccess,
    atomic_rows,
    atomic_value,
    llvm_instruction,
    llvm_swap,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from xdsl.ir import Operation

    from weft.codegen.llvm.function_printer import FunctionPrinter

_ON_ONE_THREAD: Final = ("shared", "cluster")
_EXTREMA: Final = {"max": "smax", "min": "smin", "umax": "umax", "umin": "umin"}


def _instruction(
    printer: FunctionPrinter, access: AtomicAccess, operation: str, text: str, value: str
) -> str:
    """One read-modify-write; returns the old value."""
    if access.space not in _ON_ONE_THREAD:
        return llvm_instruction(printer, access, operation, text, value)
    alignment = size_in_bytes(text)
    old = printer.let(f"load {text}, {access.pointer}, align {alignment}", "old")
    if operation == "xchg":
        new = value
    elif operation in _EXTREMA:
        new = printer.intrinsic(f"llvm.{_EXTREMA[operation]}", text, old, value)
    else:
        new = printer.let(f"{operation} {text} {old}, {value}")
    printer.line(f"store {text} {new}, {access.pointer}, align {alignment}")
    return old


def _swap(
    printer: FunctionPrinter, access: AtomicAccess, bits: str, expected: str, new: str
) -> tuple[str, str]:
    """One compare-and-swap: the value found, and whether it was the expected one."""
    if access.space not in _ON_ONE_THREAD:
        return llvm_swap(printer, access, bits, expected, new)
    alignment = size_in_bytes(bits)
    found = printer.let(f"load {bits}, {access.pointer}, align {alignment}", "found")
    same = printer.let(f"icmp eq {bits} {found}, {expected}")
    kept = printer.let(f"select i1 {same}, {bits} {new}, {bits} {found}")
    printer.line(f"store {bits} {kept}, {access.pointer}, align {alignment}")
    return found, same


ATOMICS: Final[dict[type[Operation], Callable[[FunctionPrinter, Any], None]]] = atomic_rows(
    _instruction, atomic_value, _swap
)
