# SPDX-License-Identifier: Apache-2.0
"""`setmaxnreg` on NVIDIA's GPUs: up or down from the share that a launch gives each thread.

In: the operations of dialects/nvgpu/registers, kernels. Out: an instruction; the share as the kernel's limit, without
which ptxas ignores the instruction.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, Final

from weft.backends.cuda.lowering.convergent import call_convergent
from weft.dialects.builder import source_location
from weft.dialects.flow import walk
from weft.dialects.nvgpu.registers import SetmaxnregOp
from weft.dialects.simt.kernel import kernel_of
from weft.errors import UnavailableError, ValueRangeError

if TYPE_CHECKING:
    from collections.abc import Callable

    from xdsl.ir import Operation

    from weft.codegen.llvm.function_printer import FunctionPrinter
    from weft.dialects.simt.kernel import KernelOp

_FILE: Final = 65536  # registers of a multiprocessor
_UNIT: Final = 8
_MOST: Final = 255


def register_share(kernel: KernelOp) -> int | None:
    """Registers of each thread at the launch of a kernel that hands them around; None for any other kernel.

    Raises:
        UnavailableError: if the size of its blocks is not known.
        ValueRangeError: if it asks for more and never for fewer.
    """
    found = [op for op in walk(kernel) if isinstance(op, SetmaxnregOp)]
    if not found:
        return None
    threads = kernel.max_threads if kernel.block_size is None else prod(kernel.block_size)
    if threads is None:
        raise UnavailableError(
            "REGISTER_SHARE",
            f"setmaxnreg: the threads of a block of '{kernel.sym_name.data}' are known only at the launch, and so is "
            "their share of registers",
            hint="write @weft.kernel(max_threads=...), or launch it with a constant block everywhere",
            location=source_location(found[0].location),
        )
    blocks = kernel.min_blocks or 1
    share = kernel.max_registers or min(_FILE // (threads * blocks), _MOST)
    share -= share % _UNIT
    counts = [op.count.value.data for op in found]
    if max(counts) > share and min(counts) >= share:
        raise ValueRangeError(
            "REGISTER_SHARE",
            f"setmaxnreg({max(counts)}): each of {threads} threads has {share} registers at first, and no warpgroup of "
            f"'{kernel.sym_name.data}' gives some back, so that it would wait forever",
            hint="lower another warpgroup first, such as weft.setmaxnreg(40) where it only copies",
            location=source_location(found[counts.index(max(counts))].location),
        )
    return share


def _print_setmaxnreg(printer: FunctionPrinter, op: SetmaxnregOp) -> None:
    target = printer.module.target
    if (
        not target.name.startswith("sm_")
        or target.name[-1] not in "af"
        or target.compute_capability < 90
    ):
        raise UnavailableError(
            "ARCHITECTURE",
            f"weft.setmaxnreg needs sm_90a or later, but this is compiled for {target.name}",
            hint="choose the architecture with --gpu-arch",
            location=source_location(op.location),
        )
    share = register_share(kernel_of(op))
    count = op.count.value.data
    direction = "inc" if share is not None and count > share else "dec"
    call_convergent(printer, "void", f"setmaxnreg.{direction}.sync.aligned.u32", f"i32 {count}")


REGISTERS: Final[dict[type[Operation], Callable[[FunctionPrinter, Any], None]]] = {
    SetmaxnregOp: _print_setmaxnreg,
}
