# SPDX-License-Identifier: Apache-2.0
"""A kernel as a PTX entry: parameters, launch bounds, special registers.

In: simt.kernel. Out: `define ptx_kernel void @<name>(...)`. Pointers are in the global address space and never
marked noalias or readonly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from weft.codegen.llvm.function_printer import FunctionPrinter
from weft.codegen.llvm.names import ascii_name, local_stem
from weft.codegen.operations.kernel_parameters import kernel_parameters, take_parameters
from weft.dialects.simt.grid import (
    BlockDimOp,
    BlockIdxOp,
    CoordinateOp,
    GridDimOp,
    ThreadIdxOp,
)
from weft.dialects.simt.kernel import DIM, POINTER, STRIDE, KernelOp, ReturnOp

if TYPE_CHECKING:
    from collections.abc import Callable

    from xdsl.ir import Operation

    from weft.codegen.llvm.module_printer import ModulePrinter


# The host checks a dim before it launches. Knowing it, LLVM multiplies indices as 32 x 32 to 64 bits.
_NOT_NEGATIVE: Final = {f"i{bits}": f"range(i{bits} 0, {-(1 << (bits - 1))})" for bits in (32, 64)}


# Names of PTX and of the functions that kernels call; LLVM ends the process for a function with a name of its own.
_TAKEN: Final = frozenset(("_", "WARP_SZ", "vprintf", "__assertfail"))
_LLVMS_OWN: Final = "__nvvm"


def entry_name(name: str) -> str:
    """A kernel's name in PTX, which has letters, digits, `_` and `$` only, and some names of its own.

    Example:
        >>> entry_name("add_one"), entry_name("größe"), entry_name("WARP_SZ")
        ('add_one', 'gr$F6$$DF$e', 'WARP_SZ$')
    """
    text = ascii_name(name)
    return f"{text}$" if text in _TAKEN or text.startswith(_LLVMS_OWN) else text


def print_kernel(module: ModulePrinter, kernel: KernelOp, max_registers: int | None = None) -> None:
    """Prints one kernel; `max_registers` is the limit where it has none of its own."""
    name = entry_name(kernel.sym_name.data)
    scope = module.debug.subprogram(kernel.sym_name.data, kernel.location) if module.debug else None
    printer = FunctionPrinter(module, scope)
    listed = _print_parameters(printer, kernel)
    for axis, size in zip("xyz", kernel.block_size or (), strict=False):
        printer.coordinates[f"block_dim.{axis}"] = str(size)
    printer.exit_label = "exit"
    printer.print_block(kernel.body.block)
    bounds = launch_bounds(kernel, max_registers)
    attributes = "".join(f' "{key}"="{value}"' for key, value in bounds.items())
    module.add_function(
        f"define ptx_kernel void @{name}({', '.join(listed)}) convergent nounwind{attributes}"
        f"{printer.scope_suffix()} {{\n{printer.body()}\n}}\n"
    )


def _stems(kernel: KernelOp) -> list[str]:
    """A name for each argument; items of one container are called alike, so the later ones get a number."""
    stems: dict[str, None] = {}
    for index, argument in enumerate(kernel.body.block.args):
        stem = local_stem(argument, f"a{index}")
        stems[f"{stem}.{index}" if stem in stems else stem] = None
    return list(stems)


def _print_parameters(printer: FunctionPrinter, kernel: KernelOp) -> list[str]:
    """The parameter list; gives parameters to the kernel's arguments."""
    stems = _stems(kernel)
    listed: list[str] = []
    names: list[str] = []
    for parameter in kernel_parameters(kernel):
        name, kind = f"%{stems[parameter.argument]}.{parameter.part}", parameter.llvm_type
        if parameter.part in (DIM, STRIDE):
            name = f"{name}.{parameter.dimension}"
        if parameter.part == POINTER:
            kind = printer.module.target.pointer("global")
        elif parameter.part == DIM:
            kind = f"{kind} {_NOT_NEGATIVE[kind]}"
        listed.append(f"{kind} {name}")
        names.append(name)
    take_parameters(printer, kernel, names)
    return listed


def launch_bounds(kernel: KernelOp, max_registers: int | None = None) -> dict[str, str]:
    """LLVM attributes for what a launch of the kernel promises and demands.

    Args:
        kernel: its attributes are what the user asked for.
        max_registers: registers per thread, where the kernel itself has no limit.
    """
    bounds: dict[str, str] = {}
    if kernel.block_size is not None:
        bounds["nvvm.reqntid"] = ",".join(map(str, kernel.block_size))
    elif kernel.max_threads is not None:
        bounds["nvvm.maxntid"] = str(kernel.max_threads)
    if kernel.min_blocks is not None:
        bounds["nvvm.minctasm"] = str(kernel.min_blocks)
    registers = max_registers if kernel.max_registers is None else kernel.max_registers
    if registers is not None:
        bounds["nvvm.maxnreg"] = str(registers)
    if kernel.cluster is not None:
        bounds["nvvm.cluster_dim"] = ",".join(map(str, kernel.cluster))
    return bounds


# Special register of each coordinate.
_REGISTERS: Final = {
    "thread_idx": "tid",
    "block_idx": "ctaid",
    "block_dim": "ntid",
    "grid_dim": "nctaid",
}


def coordinate(printer: FunctionPrinter, name: str, axis: str) -> str:
    """A special register's value as an i32, or the constant that is known when compiling.

    Args:
        printer: where the read goes.
        name: ``"thread_idx"``, ``"block_idx"``, ``"block_dim"`` or ``"grid_dim"``.
        axis: ``"x"``, ``"y"`` or ``"z"``.
    """
    known = printer.coordinates.get(f"{name}.{axis}")
    if known is not None:
        return known
    callee = printer.module.intrinsic(f"llvm.nvvm.read.ptx.sreg.{_REGISTERS[name]}.{axis}")
    return printer.let(f"call i32 {callee}()", f"{name}_{axis}")


def _print_coordinate(printer: FunctionPrinter, op: CoordinateOp) -> None:
    name = op.name.partition(".")[2]
    printer.values[op.results[0]] = coordinate(printer, name, op.dimension.data)


def _print_return(printer: FunctionPrinter, op: Operation) -> None:
    """All that has returned before comes here too, straight from where it did."""
    assert printer.exit_label is not None
    printer.branch(printer.exit_label)
    printer.start(printer.exit_label)
    printer.line("ret void")


KERNEL_OPERATIONS: Final[dict[type[Operation], Callable[[FunctionPrinter, Any], None]]] = {
    ThreadIdxOp: _print_coordinate,
    BlockIdxOp: _print_coordinate,
    BlockDimOp: _print_coordinate,
    GridDimOp: _print_coordinate,
    ReturnOp: _print_return,
}
