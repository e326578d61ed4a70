# SPDX-License-Identifier: Apache-2.0
"""The CPUs that host code is exported for.

In: a name. Out: the options for LLVM, and what a machine lacks to run it.
"""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Final, NamedTuple

from weft.memo import kept


class HostCpu(NamedTuple):
    """A CPU that code can be exported for.

    Attributes:
        triple, cpu, features: as LLVM names them.
        flags: as Linux names what it has beyond every CPU of its architecture.
    """

    triple: str
    cpu: str
    features: str
    flags: tuple[str, ...]


_X86: Final = "x86_64-unknown-linux-gnu"
_V2: Final = ("sse4_2", "popcnt")
_V3: Final = (*_V2, "avx2", "fma", "f16c", "bmi1", "bmi2", "abm", "movbe")
_V4: Final = (*_V3, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")
_LLVM: Final = {"sse4_2": "sse4.2", "bmi1": "bmi", "abm": "lzcnt"}


def _features(flags: tuple[str, ...]) -> str:
    return ",".join(f"+{_LLVM.get(flag, flag)}" for flag in flags)


# The levels of the x86-64 psABI, and the first version of 64-bit Arm.
HOST_CPUS: Final = {
    "x86-64-v2": HostCpu(_X86, "x86-64-v2", _features(_V2), _V2),
    "x86-64-v3": HostCpu(_X86, "x86-64-v3", _features(_V3), _V3),
    "x86-64-v4": HostCpu(_X86, "x86-64-v4", _features(_V4), _V4),
    "aarch64": HostCpu("aarch64-unknown-linux-gnu", "generic", "+neon", ()),
}
NATIVE: Final = "native"
"""The CPU of this process, with all that it has."""


def default_cpu() -> str:
    """The default CPUs of an exported library: CPUs of this architecture of the last ten years."""
    return "aarch64" if platform.machine() == "aarch64" else "x86-64-v3"


def architecture_of(cpu: str) -> str:
    """The architecture of a name of `HOST_CPUS`, or of this process, as `platform.machine` says it."""
    return HOST_CPUS[cpu].triple.partition("-")[0] if cpu in HOST_CPUS else platform.machine()


def missing_features(cpu: str) -> tuple[str, ...] | None:
    """What this machine lacks to run code for a CPU; None for an unknown CPU.

    Example:
        >>> missing_features("a digest of another machine") is None
        True
    """
    known = HOST_CPUS.get(cpu)
    if known is None:
        return None
    if architecture_of(cpu) != platform.machine():
        return (f"the architecture {architecture_of(cpu)}",)
    return tuple(flag for flag in known.flags if flag not in _flags())


@kept
def _flags() -> frozenset[str]:
    """What Linux says that this CPU has."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return frozenset()
    found = next((line for line in lines if line.startswith(("flags", "Features"))), "")
    return frozenset(found.partition(":")[2].split())
