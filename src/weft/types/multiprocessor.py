# SPDX-License-Identifier: Apache-2.0
"""How many warps a multiprocessor of an NVIDIA GPU holds at once.

In: an architecture, a block's threads, what a kernel takes. Out: warps, by the rules of NVIDIA's occupancy calculator.
The numbers are the table "Technical Specifications per Compute Capability" of the CUDA C++ Programming Guide.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from weft.types.capabilities import capabilities
from weft.types.launch_limits import WARP_SIZE

if TYPE_CHECKING:
    from weft.types.capabilities import Multiprocessor

_REGISTERS: Final = 65536
_REGISTER_UNIT: Final = 256  # of a warp
_SCHEDULERS: Final = 4
_SHARED_UNIT: Final = 128


def multiprocessor(architecture: str) -> Multiprocessor:
    """That of an architecture such as ``"sm_90a"``."""
    return capabilities(architecture).multiprocessor


def resident_warps(architecture: str, threads: int, registers: int, shared_bytes: int) -> int:
    """Warps of a kernel that a multiprocessor holds at once; 0 if a block does not fit.

    Args:
        architecture: such as ``"sm_90a"``.
        threads: of a block, at least 1.
        registers: of a thread.
        shared_bytes: of a block.
    Example:
        >>> resident_warps("sm_90a", 256, 32, 0), resident_warps("sm_90a", 256, 128, 0)
        (64, 16)
    """
    room = multiprocessor(architecture)
    warps = -(-threads // WARP_SIZE)
    of_warp = -(-max(registers, 1) * WARP_SIZE // _REGISTER_UNIT) * _REGISTER_UNIT
    by_registers = _REGISTERS // of_warp // _SCHEDULERS * _SCHEDULERS
    of_block = -(-shared_bytes // _SHARED_UNIT) * _SHARED_UNIT + room.reserved
    by_shared = room.shared * 1024 // of_block if of_block else room.blocks
    return min(room.warps // warps, room.blocks, by_registers // warps, by_shared) * warps
