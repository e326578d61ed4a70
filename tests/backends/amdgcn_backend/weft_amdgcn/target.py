# SPDX-License-Identifier: Apache-2.0
"""The GPUs: what printing has to know of each, and LLVM's machine.

In: an architecture. Out: a `Target`, `TargetMachine`, the shared memory that a block may have.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import llvmlite.binding as llvm

from weft.codegen.llvm.module_printer import COMMON_INTRINSICS, Target
from weft.codegen.llvm.optimize import initialize
from weft.memo import kept

if TYPE_CHECKING:
    from llvmlite.binding import TargetMachine

TRIPLE: Final = "amdgcn-amd-amdhsa"
SHARED_MEMORY_BYTES: Final = 64 << 10

_WARP_SIZES: Final = {"gfx90a": 64, "gfx942": 64, "gfx1100": 32}
_COORDINATES: Final = {
    "thread_idx": "llvm.amdgcn.workitem.id",
    "block_idx": "llvm.amdgcn.workgroup.id",
}
_OTHERS: Final = "ballot ds.bpermute implicitarg.ptr mbcnt.lo s.barrier wave.barrier"


class AmdMachine:
    """One architecture: how it is printed for, and LLVM's machine."""

    def __init__(self, architecture: str) -> None:
        self.machine: TargetMachine = llvm.Target.from_triple(TRIPLE).create_target_machine(
            cpu=architecture, opt=3, reloc="pic"
        )
        self.target = Target(
            name=architecture,
            triple=TRIPLE,
            data_layout=str(self.machine.target_data),
            intrinsics=COMMON_INTRINSICS.union(
                (f"{stem}.{axis}" for stem in _COORDINATES.values() for axis in "xyz"),
                (f"llvm.amdgcn.{name}" for name in _OTHERS.split()),
            ),
            native_small_floats=False,
            address_spaces={"global": 1, "shared": 3, "local": 5, "constant": 4},
            sync_scopes={"block": "workgroup", "device": "agent", "system": ""},
            coordinates=_COORDINATES,
            warp_size=_WARP_SIZES[architecture],
        )


@kept
def amd_machine(architecture: str) -> AmdMachine:
    """The machine of an architecture."""
    initialize("amdgcn")
    return AmdMachine(architecture)
