# SPDX-License-Identifier: Apache-2.0
"""A kernel as an entry of a GPU's program: parameters, where a thread is, fences, the way out.

In: simt.kernel. Out: `define ptx_kernel void @<name>(...)`, or the like. Pointers are in the global address space and
never marked noalias or readonly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from weft.codegen.llvm.function_printer import FunctionPrinter
from weft.codegen.llvm.names import local_stem
from weft.codegen.operations.kernel_parameters import (
    MAP,
    MAP_ALIGNMENT,
    MAP_BYTES,
    kernel_parameters,
    take_parameters,
)
from weft.dialects.simt.kernel import DIM, POINTER, STRIDE, KernelOp, ReturnOp
from weft.dialects.simt.threads import (
    BlockDimOp,
    BlockIdxOp,
    CoordinateOp,
    FenceOp,
    GridDimOp,
    ThreadIdxOp,
    WarpIdOp,
)
from weft.types.launch_limits import WARP_SIZE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from xdsl.ir import Operation

    from weft.codegen.llvm.module_printer import ModulePrinter


# The host checks a dim before it launches. Knowing it, LLVM multiplies indices as 32 x 32 to 64 bits.
_NOT_NEGATIVE: Final = {f"i{bits}": f"range(i{bits} 0, {-(1 << (bits - 1))})" for bits in (32, 64)}

# Copies read the launch's own parameter, which nothing changes.
_MAP: Final = f'ptr byval([{MAP_BYTES} x i8]) align {MAP_ALIGNMENT} "nvvm.grid_constant"'


def print_kernel(
    module: ModulePrinter,
    kernel: KernelOp,
    name: str,
    convention: str,
    attributes: Mapping[str, str],
    begin: Callable[[FunctionPrinter, KernelOp], None] | None = None,
) -> None:
    """Prints one kernel.

    Args:
        module: what is printed into.
        kernel: after all passes.
        name: its symbol in the machine code.
        convention: LLVM's calling convention of entries: ``"ptx_kernel"``.
        attributes: LLVM's, of the function: what a launch promises and demands.
        begin: prints what comes before the kernel's own code, such as reads of `printer.coordinates`.
    """
    scope = module.debug.subprogram(kernel.sym_name.data, kernel.location) if module.debug else None
    printer = FunctionPrinter(module, scope)
    listed = _print_parameters(printer, kernel)
    for axis, size in zip("xyz", kernel.block_size or (), strict=False):
        printer.coordinates[f"block_dim.{axis}"] = str(size)
    if begin is not None:
        begin(printer, kernel)
    printer.exit_label = "exit"
    printer.print_block(kernel.body.block)
    said = "".join(f' "{key}"="{value}"' for key, value in attributes.items())
    module.add_function(
        f"define {convention} void @{name}({', '.join(listed)}) convergent nounwind{said}"
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
            name = f"{name}{parameter.dimension}"
        if parameter.part == POINTER:
            kind = printer.module.target.pointer("global")
        elif parameter.part == DIM:
            kind = f"{kind} {_NOT_NEGATIVE[kind]}"
        elif parameter.part == MAP:
            kind = _MAP
        listed.append(f"{kind} {name}")
        names.append(name)
    take_parameters(printer, kernel, names)
    return listed


def coordinate(printer: FunctionPrinter, name: str, axis: str) -> str:
    """A register's value as an i32, or what `printer.coordinates` knows.

    Args:
        printer: where the read goes.
        name: ``"thread_idx"``, ``"block_idx"``, ``"block_dim"`` or ``"grid_dim"``.
        axis: ``"x"``, ``"y"`` or ``"z"``.
    """
    known = printer.coordinates.get(f"{name}.{axis}")
    if known is not None:
        return known
    callee = printer.module.intrinsic(f"{printer.module.target.coordinates[name]}.{axis}")
    return printer.let(f"call i32 {callee}()", f"{name}_{axis}")


def thread_number(printer: FunctionPrinter) -> str:
    """The thread's number in its block, x first, an i32; sizes that are known to be 1 cost nothing."""
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


def _print_coordinate(printer: FunctionPrinter, op: CoordinateOp) -> None:
    name = op.name.partition(".")[2]
    printer.values[op.results[0]] = coordinate(printer, name, op.dimension.data)


def _print_warp_id(printer: FunctionPrinter, op: Operation) -> None:
    shift = WARP_SIZE.bit_length() - 1
    printer.define(op.results[0], f"lshr i32 {thread_number(printer)}, {shift}")


def _print_fence(printer: FunctionPrinter, op: Any) -> None:
    scope = printer.module.target.sync_scopes[op.scope.data]
    printer.line(f'fence syncscope("{scope}") seq_cst' if scope else "fence seq_cst")


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
    WarpIdOp: _print_warp_id,
    FenceOp: _print_fence,
    ReturnOp: _print_return,
}
