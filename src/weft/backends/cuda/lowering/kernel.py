# SPDX-License-Identifier: Apache-2.0
"""A kernel as a PTX entry: its name, its launch bounds, its launches' attributes, its loops.

In: simt.kernel, simt.launch_ex, scf.for. Out: `define ptx_kernel void @<name>(...)`; the driver's numbers and bytes.
Short loops of known length are unrolled as a whole, others as far as their loads fit the registers: with a factor for
LLVM, whose own limits at level 2 are half of nvcc's; then another loop of the iterations that the largest factor
leaves, as short rows have no others.
"""

from __future__ import annotations

import struct
from math import inf
from typing import TYPE_CHECKING, Any, Final

from xdsl.dialects import scf
from xdsl.traits import Pure

from weft.backends.cuda.lowering.debug import VARIABLE
from weft.backends.cuda.lowering.float_pairs import pair_floats
from weft.codegen.gpu import print_kernel as print_entry
from weft.codegen.llvm.types import ascii_name
from weft.codegen.operations.control_flow import print_for, print_for_by_factors
from weft.codegen.operations.registers import register_share
from weft.dialects.access import requirement_of
from weft.dialects.builder import source_location
from weft.dialects.flow import constant_trips, unroll_factor, walk
from weft.dialects.nvgpu.mma import WgmmaMmaOp
from weft.dialects.simt.kernel import LaunchExOp
from weft.errors import UnavailableError
from weft.passes.arithmetic import has_address
from weft.passes.loads import is_long
from weft.types.capabilities import FEATURES, capabilities

if TYPE_CHECKING:
    from collections.abc import Callable

    from xdsl.dialects.builtin import ModuleOp
    from xdsl.ir import Block, Operation

    from weft.codegen.llvm.function_printer import FunctionPrinter
    from weft.codegen.llvm.module_printer import ModulePrinter
    from weft.dialects.simt.kernel import KernelOp


# Names used by PTX and by functions that kernels call; LLVM ends the process for a function named like one of its own.
_TAKEN: Final = frozenset(("_", "WARP_SZ", "vprintf", VARIABLE))
_LLVMS_OWN: Final = "__nvvm"

# CUlaunchAttributeID
_COOPERATIVE: Final = 2
_CLUSTER_DIMENSION: Final = 4
_PROGRAMMATIC_STREAM_SERIALIZATION: Final = 6


def entry_name(name: str) -> str:
    """A kernel's name in PTX, which allows only letters, digits, `_` and `$`, and reserves some names.

    Example:
        >>> entry_name("add_one"), entry_name("größe"), entry_name("WARP_SZ")
        ('add_one', 'gr$F6$$DF$e', 'WARP_SZ$')
    """
    text = ascii_name(name)
    return f"{text}$" if text in _TAKEN or text.startswith(_LLVMS_OWN) else text


def print_kernel(module: ModulePrinter, kernel: KernelOp, max_registers: int | None = None) -> None:
    """Prints one kernel; `max_registers` is the limit for kernels without one.

    Raises:
        UnavailableError: for an operation that the architecture lacks.
    """
    check_architecture(kernel, module.target.name)
    name, bounds = entry_name(kernel.sym_name.data), launch_bounds(kernel, max_registers)
    print_entry(module, kernel, name, "ptx_kernel", bounds, pair_floats)


def check_architecture(kernel: KernelOp, architecture: str) -> None:
    """Refuses a kernel with operations that the architecture lacks: LLVM would end the process.

    Raises:
        UnavailableError: with both architectures.
    """
    known = capabilities(architecture)
    if kernel.cluster is not None and not known.has("clusters"):
        raise UnavailableError(
            "ARCHITECTURE",
            f"a kernel with clusters needs {FEATURES['clusters'].needed}, "
            f"but this is compiled for {architecture}",
            hint="choose the architecture with --gpu-arch, or launch without cluster",
            location=source_location(kernel.location),
        )
    for op in walk(kernel):
        needed = requirement_of(op)
        if needed is not None and not known.has(needed.feature):
            raise UnavailableError(
                "ARCHITECTURE",
                f"weft.{needed.called} needs {FEATURES[needed.feature].needed}, "
                f"but this is compiled for {architecture}",
                hint=f"choose the architecture with --gpu-arch{needed.hint and '; '}{needed.hint}",
                location=source_location(op.location),
            )


def launch_bounds(kernel: KernelOp, max_registers: int | None = None) -> dict[str, str]:
    """LLVM attributes for the kernel's launch bounds.

    Args:
        kernel: with the user's attributes.
        max_registers: registers per thread, if the kernel has no limit.
    """
    bounds: dict[str, str] = {}
    if kernel.block_size is not None:
        bounds["nvvm.reqntid"] = ",".join(map(str, kernel.block_size))
    elif kernel.max_threads is not None:
        bounds["nvvm.maxntid"] = str(kernel.max_threads)
    if kernel.min_blocks is not None:
        bounds["nvvm.minctasm"] = str(kernel.min_blocks)
    registers = max_registers if kernel.max_registers is None else kernel.max_registers
    registers = register_share(kernel) or registers
    if registers is not None:
        bounds["nvvm.maxnreg"] = str(registers)
    if kernel.cluster is not None:
        bounds["nvvm.cluster_dim"] = ",".join(map(str, kernel.cluster))
    return bounds


def launch_attributes(op: LaunchExOp) -> list[tuple[int, bytes]]:
    """(id, value of at most 64 bytes) of a launch's attributes, all constants."""
    found: list[tuple[int, bytes]] = []
    if op.cluster is not None:
        found.append((_CLUSTER_DIMENSION, struct.pack("<3I", *op.cluster)))
    if op.is_cooperative:
        found.append((_COOPERATIVE, struct.pack("<i", 1)))
    if op.is_programmatic:
        found.append((_PROGRAMMATIC_STREAM_SERIALIZATION, struct.pack("<i", 1)))
    found += [(row.number.data, row.value.data) for row in op.launch_attributes]
    return found


def refuse_clusters(module: ModuleOp, name: str) -> None:
    """Checks that no launch forms clusters if the architecture has none.

    Args:
        module: with the launches.
        name: of the architecture.
    Raises:
        UnavailableError: with the place of the first such launch.
    """
    if capabilities(name).has("clusters"):
        return
    for op in walk(module):
        if isinstance(op, LaunchExOp) and op.cluster is not None:
            raise UnavailableError(
                "ARCHITECTURE",
                f"a launch with a cluster needs {FEATURES['clusters'].needed}, "
                f"but this is compiled for {name}",
                hint="choose the architecture with --gpu-arch, or launch without cluster",
                location=source_location(op.location),
            )


_WHOLE: Final = 512  # operations of a loop that is unrolled as a whole
_FACTORS: Final = (8, 4, 2)
_REST: Final = 4  # of the iterations that remain after the largest one
_UNROLLED: Final = 96  # operations in an iteration of an unrolled loop; a third are loads, at most, of a register each
_CALL: Final = 12  # operations that a division or function of mathematics counts as


def _factor(loop: scf.ForOp) -> int | None:
    """Unroll factor of a loop; None leaves it to LLVM."""
    if any(isinstance(operation, WgmmaMmaOp) for operation in walk(loop)):
        return 1  # ptxas takes seconds for eight iterations of MMAs, without a speedup
    operations, trips = _operations(loop.body.block), constant_trips(loop)
    if trips and trips * operations <= _WHOLE:
        return trips
    fitting = [factor for factor in _FACTORS if factor * operations <= _UNROLLED]
    return next((factor for factor in fitting if (trips or 0) % factor == 0), None)


def _operations(block: Block) -> float:
    """Operations of one run through a block, without end if it has a loop that stays one."""
    total = 0.0
    for operation in block.ops:
        inside = sum(_operations(region.block) for region in operation.regions if region.blocks)
        if isinstance(operation, scf.ForOp | scf.WhileOp):
            trips = constant_trips(operation)
            total += inf if trips is None or unroll_factor(operation) else trips * inside
        else:
            total += inside + (_CALL if is_long(operation) else 1)
    return total


def _print_for(printer: FunctionPrinter, op: scf.ForOp) -> None:
    factor = _factor(op)
    is_short = factor == _FACTORS[0] and not unroll_factor(op) and not constant_trips(op)
    if is_short and all(map(_is_plain, op.body.block.ops)):
        print_for_by_factors(printer, op, (_FACTORS[0], _REST))
    else:
        print_for(printer, op, factor=factor)


def _is_plain(operation: Operation) -> bool:
    """Whether an operation computes, or accesses memory, without a branch or a wait."""
    is_pure = not operation.regions and operation.has_trait(Pure)
    return is_pure or isinstance(operation, scf.YieldOp) or has_address(operation)


LOOPS: Final[dict[type[Operation], Callable[[FunctionPrinter, Any], None]]] = {
    scf.ForOp: _print_for,
}
