# SPDX-License-Identifier: Apache-2.0
"""Facts about a machine for printing, as plain data.

Out: `Target`, filled in once per backend.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from weft.types.capabilities import Capabilities
from weft.types.launch_limits import WARP_SIZE

# What LLVM expands inline on every machine that weft has met, GPUs and 64-bit CPUs.
COMMON_INTRINSICS: Final = frozenset(
    f"llvm.{name}"
    for name in (
        "abs ceil copysign ctlz ctpop cttz fabs floor fma fptosi.sat fptoui.sat fshl fshr maxnum minnum "
        "roundeven smax smin sqrt trunc umax umin"
    ).split()
)


@dataclass(frozen=True)
class Target:
    """A target machine of LLVM text.

    Attributes:
        name: its name for users, such as ``"sm_90a"`` or ``"cpu"``; for messages.
        triple: LLVM's target triple.
        data_layout: LLVM's data layout string.
        intrinsics: names of LLVM intrinsics that this machine selects, without their type suffix. LLVM ends
            the process on an intrinsic that it cannot select, so nothing else is printed.
        native_small_floats: LLVM may be given arithmetic and conversions of half and bfloat; otherwise they
            are done in float, with conversions in integer code where the machine has none.
        half_conversions: the machine converts between half and float itself, without a library call.
        address_spaces: LLVM's number of the spaces `global`, `shared`, `cluster`, `local` (the stack's) and
            `constant`.
        sync_scopes: LLVM's syncscope of the memory scopes `block`, `device` and `system`.
        coordinates: of a GPU, the intrinsics that read `thread_idx` and the others, without the axis.
        pointer_copy: assembly that copies a pointer into a register, if constant addresses are worth keeping in one.
        warp_size: threads that it issues together. The language's warps have 32.
        capabilities: of NVIDIA's GPUs; None for any other machine.
    """

    name: str
    triple: str
    data_layout: str
    intrinsics: frozenset[str]
    native_small_floats: bool = True
    half_conversions: bool = True
    address_spaces: dict[str, int] = field(
        default_factory=lambda: {"global": 0, "shared": 0, "cluster": 0, "local": 0, "constant": 0}
    )
    sync_scopes: dict[str, str] = field(
        default_factory=lambda: {"block": "", "device": "", "system": ""}
    )
    coordinates: dict[str, str] = field(default_factory=dict[str, str])
    pointer_copy: str = ""
    warp_size: int = WARP_SIZE
    capabilities: Capabilities | None = None

    def pointer(self, space: str) -> str:
        """LLVM's type of a pointer into an address space."""
        number = self.address_spaces[space]
        return f"ptr addrspace({number})" if number else "ptr"
