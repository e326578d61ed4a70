# SPDX-License-Identifier: Apache-2.0
"""How many warps a multiprocessor of an NVIDIA GPU holds at once.

In: an architecture, a block's threads, what a kernel takes. Out: warps, by the rules of NVIDIA's occupancy calculator.
The numbers are the table "Technical Specifications per Compute Capability" of the CUDA C++ Programming Guide.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from weft.types.launch_limits import WARP_SIZE

_REGISTERS: Final = 65536
_REGISTER_UNIT: Final = 256  # of a warp
_SCHEDULERS: Final = 4
_SHARED_UNIT: Final = 128


class Multiprocessor(NamedTuple):
    """What one multiprocessor has room for.

    Attributes:
        warps, blocks: of all kernels together.
        shared: memory for blocks, in kB.
        reserved: bytes of it that each block takes beside its own.
    """

    warps: int
    blocks: int
    shared: int
    reserved: int = 1024


# Compute capability → its multiprocessor; one that is not listed is like the next older one.
_KINDS: Final = {
    50: Multiprocessor(64, 32, 64, 0),
    52: Multiprocessor(64, 32, 96, 0),
    60: Multiprocessor(64, 32, 64, 0),
    61: Multiprocessor(64, 32, 96, 0),
    70: Multiprocessor(64, 32, 96, 0),
    75: Multiprocessor(32, 16, 64, 0),
    80: Multiprocessor(64, 32, 164),
    86: Multiprocessor(48, 16, 100),
    87: Multiprocessor(48, 16, 164),
    89: Multiprocessor(48, 24, 100),
    90: Multiprocessor(64, 32, 228),
    110: Multiprocessor(48, 24, 228),
    120: Multiprocessor(48, 24, 100),
}


def multiprocessor(architecture: str) -> Multiprocessor:
    """That of an architecture such as ``"sm_90a"``."""
    number = int(re.sub(r"\D", "", architecture))
    return _KINDS[max((known for known in _KINDS if known <= number), default=50)]


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
