# SPDX-License-Identifier: Apache-2.0
"""The machine that this process runs on, and what every backend prints into its host object.

In: LLVM's view of the CPU; func.func and ffi.func. Out: a `Target` for printing, LLVM's machine for emission, the
table of what stands at the top of a host module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import llvmlite.binding as llvm
from xdsl.dialects import func

from weft.codegen.llvm.optimize import initialize
from weft.codegen.llvm.target import Target
from weft.codegen.operations.host_function import print_host_function
from weft.codegen.wrapper.function import print_wrapper
from weft.dialects import ffi
from weft.memo import kept

if TYPE_CHECKING:
    from llvmlite.binding import TargetMachine
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.ir import Operation

    from weft.codegen.llvm.module_printer import SymbolPrinter

# What LLVM expands inline, or turns into a call of libm, on every 64-bit CPU.
INTRINSICS: Final = frozenset(
    f"llvm.{name}"
    for name in (
        "abs ceil copysign ctlz ctpop cttz fabs floor fma fptosi.sat fptoui.sat fshl maxnum minnum "
        "roundeven sadd.with.overflow smax smin sqrt ssub.sat trunc umax umin"
    ).split()
)


class HostMachine:
    """One CPU to compile for.

    Attributes:
        target: for printing.
        machine: LLVM's target machine, position-independent, small code model.
        masks_stores: the CPU writes parts of a vector without a penalty (AVX-512).
    """

    def __init__(self, cpu: str, features: str) -> None:
        triple = llvm.get_process_triple()
        # Level 1: for weft's code the same speed as 3, in half the time.
        self.machine: TargetMachine = llvm.Target.from_triple(triple).create_target_machine(
            cpu=cpu, features=features, opt=1, reloc="pic", codemodel="small"
        )
        enabled = set(features.split(","))
        self.masks_stores = "+avx512f" in enabled
        self.target = Target(
            name="cpu",
            triple=triple,
            data_layout=str(self.machine.target_data),
            intrinsics=INTRINSICS,
            native_small_floats=False,
            half_conversions="+f16c" in enabled,
        )


@kept
def host_machine() -> HostMachine:
    """The CPU of this process, with all that it can do."""
    initialize("native")
    return HostMachine(llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten())


@kept
def machine_of(cpu: str, features: str) -> HostMachine:
    """Another CPU, for looking at code; such code may not run here."""
    initialize("native")
    return HostMachine(cpu, features)


HOST_SYMBOLS: Final[dict[type[Operation], SymbolPrinter]] = {
    func.FuncOp: print_host_function,
    ffi.FuncOp: print_wrapper,
}


def entry_symbols(module: ModuleOp) -> tuple[str, ...]:
    """The functions that a host object exports: the wrappers, by name."""
    return tuple(
        operation.sym_name.data
        for operation in module.body.block.ops
        if isinstance(operation, ffi.FuncOp)
    )
