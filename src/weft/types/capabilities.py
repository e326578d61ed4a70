# SPDX-License-Identifier: Apache-2.0
"""Capabilities of GPU architectures: the one table of what each has, from which all other rooms choose.

In: an architecture such as ``"sm_90a"``, or a device's compute capability; a block's threads, a kernel's resources.
Out: `Capabilities`; how many warps a multiprocessor holds at once, by the rules of NVIDIA's occupancy calculator.
Sources: the target notes of the PTX ISA 9.0, the CUDA C++ Programming Guide's "Technical Specifications per Compute
Capability", ptxas.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple

from weft.types.launch_limits import WARP_SIZE


class Feature(NamedTuple):
    """Architectures with an instruction or a unit.

    Attributes:
        since: the first compute capability, such as 90.
        is_specific: whether only architectures with a suffix have it: ``sm_90a``, ``sm_100f``.
        numbers: the compute capabilities that have it; empty: all from `since` on.
        on_cpu: whether the CPU target runs operations that need it.
        text: a description.
    """

    since: int
    text: str
    is_specific: bool = False
    numbers: tuple[int, ...] = ()
    on_cpu: bool = False

    def has(self, number: int, suffix: str) -> bool:
        """Whether an architecture has it."""
        if self.is_specific and not suffix:
            return False
        return number in self.numbers if self.numbers else number >= self.since

    @property
    def needed(self) -> str:
        """The architectures, for messages: ``sm_90 or later``."""
        suffix = "a" if self.is_specific else ""
        if self.numbers:
            return ", ".join(f"sm_{number}{suffix}" for number in self.numbers)
        return f"sm_{self.since}{suffix} or later"


_TCGEN05: Final = (100, 101, 103, 110)
FEATURES: Final = {
    "atomic_add_bf16": Feature(90, "sums of bf16 by one atomic instruction"),
    "atomic_add_f16": Feature(70, "sums of f16 by one atomic instruction"),
    "atomic_order": Feature(70, "atomics with an order and a scope"),
    "atomic_scope": Feature(60, "atomics with a scope"),
    "bulk_copy": Feature(90, "`cp.async.bulk`", on_cpu=True),
    "cache_policy": Feature(80, "policies of the L2 cache"),
    "cluster_launch_control": Feature(
        100, "`clusterlaunchcontrol`: blocks that take over others' work"
    ),
    "clusters": Feature(90, "clusters of blocks and their distributed shared memory", on_cpu=True),
    "clusters_16": Feature(90, "clusters of 16 blocks", numbers=(90, 100, 101, 103, 110)),
    "copy_to_cta": Feature(100, "`cp.async.bulk` into `.shared::cta`"),
    "cp_async": Feature(80, "`cp.async`", on_cpu=True),
    "cvt_f4": Feature(100, "conversions of e2m1, e2m3, e3m2 and ue8m0", is_specific=True),
    "cvt_f8": Feature(89, "conversions of e4m3 and e5m2"),
    "dp4a": Feature(61, "`dp4a`: sums of products of four bytes"),
    "elect": Feature(90, "`elect.sync`"),
    "fma_bf16": Feature(80, "`fma.rn.bf16`"),
    "fma_f16": Feature(53, "`fma.rn.f16`"),
    "grid_sync": Feature(70, "barriers of the grid", on_cpu=True),
    "griddepcontrol": Feature(90, "programmatic dependent launches", on_cpu=True),
    "ldmatrix": Feature(75, "`ldmatrix`", on_cpu=True),
    "match": Feature(70, "`match.sync`", on_cpu=True),
    "mbarrier": Feature(90, "barriers in shared memory, with `try_wait`", on_cpu=True),
    "mma": Feature(80, "`mma.sync` of f16, bf16, tf32, f64 and i8", on_cpu=True),
    "mma_block_scale": Feature(
        120, "`mma.sync` with block scales", is_specific=True, numbers=(120, 121)
    ),
    "mma_f8": Feature(89, "`mma.sync` of e4m3 and e5m2", on_cpu=True),
    "mma_f8_as_f16": Feature(90, "`mma.sync` of 8-bit floats made of two of f16", numbers=(90,)),
    "nanosleep": Feature(70, "`nanosleep`"),
    "no_allocate": Feature(70, "loads that leave no line in the L1 cache"),
    "packed_f32x2": Feature(
        100,
        "addition, multiplication and FMA of two f32 in one instruction",
        numbers=(100, 103),
    ),
    "red_f16x2": Feature(60, "sums of two f16 into memory"),
    "red_vectors": Feature(90, "sums of 16 bytes into global memory"),
    "redux": Feature(80, "`redux.sync` of integers"),
    "redux_f32": Feature(100, "`redux.sync` of f32", is_specific=True, numbers=_TCGEN05),
    "setmaxnreg": Feature(90, "registers moved between warpgroups", is_specific=True, on_cpu=True),
    "stmatrix": Feature(90, "`stmatrix`"),
    "tanh": Feature(75, "`tanh.approx`"),
    "tcgen05": Feature(
        100, "fifth-generation tensor cores and tensor memory", is_specific=True, numbers=_TCGEN05
    ),
    "tensormap": Feature(90, "edits of tensor maps on the device", is_specific=True, on_cpu=True),
    "tma": Feature(90, "copies of tensor boxes by the TMA unit", on_cpu=True),
    "tma_gather": Feature(100, "loads of rows by index by the TMA unit", on_cpu=True),
    "tma_scatter": Feature(
        100,
        "stores of rows by index by the TMA unit",
        is_specific=True,
        numbers=_TCGEN05,
        on_cpu=True,
    ),
    "tma_multicast": Feature(
        90, "copies of a box to several blocks", numbers=(90, 100, 101, 103, 110), on_cpu=True
    ),
    "vectors_32": Feature(100, "loads and stores of 32 bytes of global memory"),
    "wgmma": Feature(90, "warpgroup MMA", is_specific=True, numbers=(90,), on_cpu=True),
}
"""Name → the architectures that have it; also the fields of `Capabilities`."""

# The lowest PTX version that LLVM writes for each architecture, at least 8.0 (CUDA 12.0). LLVM prints a line on stderr
# for an unknown name and continues with another, so names are checked here.
PTX_VERSIONS: Final = {
    **dict.fromkeys(
        ("sm_50", "sm_52", "sm_53", "sm_60", "sm_61", "sm_62", "sm_70", "sm_72", "sm_75", "sm_80"),
        80,
    ),
    **dict.fromkeys(("sm_86", "sm_87"), 80),
    "sm_90": 81,  # for sums of vectors into memory
    # For MMAs of 8-bit floats, and of signed and unsigned integers.
    **dict.fromkeys(("sm_89", "sm_90a"), 84),
    **dict.fromkeys(("sm_100", "sm_100a", "sm_101", "sm_101a"), 86),
    **dict.fromkeys(("sm_120", "sm_120a"), 87),
    **dict.fromkeys(("sm_100f", "sm_103", "sm_103a", "sm_103f", "sm_120f"), 88),
    **dict.fromkeys(("sm_121", "sm_121a", "sm_121f"), 88),
    **dict.fromkeys(("sm_88", "sm_110", "sm_110a", "sm_110f"), 90),
}


class Multiprocessor(NamedTuple):
    """Room in one multiprocessor.

    Attributes:
        warps, blocks: of all kernels together.
        shared: memory for blocks, in kB.
        reserved: bytes of it that each block takes beside its own.
    """

    warps: int
    blocks: int
    shared: int
    reserved: int = 1024


# Compute capability → its multiprocessor, and the most shared memory of one block in kB; one that is not listed is like
# the next older one.
_MULTIPROCESSORS: Final = {
    50: (Multiprocessor(64, 32, 64, 0), 48),
    52: (Multiprocessor(64, 32, 96, 0), 48),
    60: (Multiprocessor(64, 32, 64, 0), 48),
    61: (Multiprocessor(64, 32, 96, 0), 48),
    70: (Multiprocessor(64, 32, 96, 0), 96),
    75: (Multiprocessor(32, 16, 64, 0), 64),
    80: (Multiprocessor(64, 32, 164), 163),
    86: (Multiprocessor(48, 16, 100), 99),
    87: (Multiprocessor(48, 16, 164), 163),
    88: (Multiprocessor(48, 16, 164), 163),
    89: (Multiprocessor(48, 24, 100), 99),
    90: (Multiprocessor(64, 32, 228), 227),
    110: (Multiprocessor(48, 24, 228), 227),
    120: (Multiprocessor(48, 24, 100), 99),
}
_NAME: Final = re.compile(r"sm_(\d{2,3})([af]?)")


class Capabilities:
    """One architecture, or the CPU target.

    Each name of `FEATURES` is an attribute: ``capabilities("sm_90a").wgmma`` is True.

    Attributes:
        arch: its name, such as ``"sm_90a"``; ``"cpu"``.
        number: compute capability, such as 90; 0 for the CPU, and for other GPUs, which have no feature.
        suffix: ``"a"``, ``"f"`` or empty.
        max_shared: most bytes of shared memory of a block.
        multiprocessor: room in a multiprocessor.
    """

    __slots__ = ("arch", "max_shared", "multiprocessor", "number", "suffix")

    def __init__(self, arch: str) -> None:
        match = _NAME.fullmatch(arch)
        self.arch = arch
        self.number = 0 if match is None else int(match[1])
        self.suffix = "" if match is None else match[2]
        like = max((one for one in _MULTIPROCESSORS if one <= self.number), default=50)
        self.multiprocessor, kilobytes = _MULTIPROCESSORS[90 if arch == "cpu" else like]
        self.max_shared = kilobytes << 10

    def __repr__(self) -> str:
        return f"capabilities({self.arch!r})"

    def has(self, name: str) -> bool:
        """Whether it has a feature.

        Raises:
            ValueError: for an unknown name; the message lists all.
        """
        feature = FEATURES.get(name)
        if feature is None:
            raise ValueError(f"no feature is called {name!r}; there are: {', '.join(FEATURES)}")
        return feature.on_cpu if self.arch == "cpu" else feature.has(self.number, self.suffix)

    def __getattr__(self, name: str) -> bool:
        if name not in FEATURES:
            raise AttributeError(name)
        return self.has(name)


@lru_cache(None)
def capabilities(arch: str) -> Capabilities:
    """The capabilities of an architecture; ones newer than this table have what their predecessors have.

    Example:
        >>> capabilities("sm_90a").wgmma, capabilities("sm_90").wgmma, capabilities("sm_120a").max_shared
        (True, False, 101376)
    """
    return Capabilities(arch)


def capabilities_of(version: tuple[int, int]) -> Capabilities:
    """The capabilities of a device, compiled for by its own architecture; (0, 0) is the CPU.

    Example:
        >>> capabilities_of((9, 0)).arch, capabilities_of((8, 6)).arch
        ('sm_90a', 'sm_86')
    """
    number = version[0] * 10 + version[1]
    suffix = "a" if number >= FEATURES["setmaxnreg"].since else ""
    return capabilities(f"sm_{number}{suffix}" if number else "cpu")


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
