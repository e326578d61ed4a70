# SPDX-License-Identifier: Apache-2.0
"""A kernel as a PTX entry: its name, its launch bounds, its launches' attributes.

In: simt.kernel, simt.launch_ex. Out: `define ptx_kernel void @<name>(...)`; the driver's numbers and bytes.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from weft.backends.cuda.lowering.reports import VARIABLE
from weft.codegen.gpu.kernel import print_kernel as print_entry
from weft.codegen.llvm.names import ascii_name
from weft.codegen.operations.registers import register_share
from weft.dialects.builder import source_location
from weft.dialects.flow import walk
from weft.dialects.simt.kernel import LaunchExOp
from weft.errors import UnavailableError
from weft.types.capabilities import FEATURES, capabilities

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

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
        UnavailableError: for clusters, where the architecture has none: LLVM would end the process.
    """
    target = module.target
    if kernel.cluster is not None and not capabilities(target.name).has("clusters"):
        raise UnavailableError(
            "ARCHITECTURE",
            f"a kernel with clusters needs {FEATURES['clusters'].needed}, "
            f"but this is compiled for {target.name}",
            hint="choose the architecture with --gpu-arch, or launch without cluster",
            location=source_location(kernel.location),
        )
    name, bounds = entry_name(kernel.sym_name.data), launch_bounds(kernel, max_registers)
    print_entry(module, kernel, name, "ptx_kernel", bounds)


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
