# SPDX-License-Identifier: Apache-2.0
"""The `simt` dialect, which every target prints: one file per family.

Out: `SIMT`, which a context loads.
"""

from __future__ import annotations

from typing import Final

from weft.dialects.definition import dialect_of
from weft.dialects.simt import (
    atomics,
    debug,
    fragment,
    kernel,
    memory,
    profiling,
    scalar,
    threads,
    types,
)

SIMT: Final = dialect_of(
    "simt", atomics, debug, fragment, kernel, memory, profiling, scalar, threads, types
)
