# SPDX-License-Identifier: Apache-2.0
"""What printing needs to know about a machine, as plain data.

Out: `Target`, filled in once per backend.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Target:
    """A machine that LLVM text is printed for.

    Attributes:
        name: what users call it, such as ``"sm_90a"`` or ``"cpu"``; for messages.
        triple: LLVM's target triple.
        data_layout: LLVM's data layout string.
        intrinsics: names of LLVM intrinsics that this machine selects, without their type suffix. LLVM ends
            the process on an intrinsic that it cannot select, so nothing else is printed.
        native_small_floats: LLVM may be given arithmetic and conversions of half and bfloat; otherwise they
            are done in float, with conversions in integer code where the machine has none.
        half_conversions: the machine converts between half and float itself, without a library call.
        address_spaces: LLVM's number of the spaces `global`, `shared` and `local`.
        compute_capability: of a GPU, such as 90 for sm_90a; 0 for any other machine.
        sync_scopes: LLVM's syncscope of the memory scopes `block`, `device` and `system`.
    """

    name: str
    triple: str
    data_layout: str
    intrinsics: frozenset[str]
    native_small_floats: bool = True
    half_conversions: bool = True
    address_spaces: dict[str, int] = field(
        default_factory=lambda: {"global": 0, "shared": 0, "local": 0}
    )
    sync_scopes: dict[str, str] = field(
        default_factory=lambda: {"block": "", "device": "", "system": ""}
    )
    compute_capability: int = 0

    def pointer(self, space: str) -> str:
        """LLVM's type of a pointer into an address space."""
        number = self.address_spaces[space]
        return f"ptr addrspace({number})" if number else "ptr"
