# SPDX-License-Identifier: Apache-2.0
"""What CUDA C++, numba and Triton call what weft has under another name, for the hints of errors.

In: a name that weft does not know. Out: the one that was meant. Next: nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Container

# In lower case, without the underscores around it and without `_sync`.
_NAMES: Final = {
    "threadidx": "thread_idx",
    "blockidx": "block_idx",
    "blockdim": "block_dim",
    "griddim": "grid_dim",
    "laneid": "lane_id",
    "warpid": "warp_id",
    "program_id": "block_idx",
    "num_programs": "grid_dim",
    "syncthreads": "sync_threads",
    "syncwarp": "sync_warp",
    "barrier": "sync_threads",
    "syncthreads_count": "sync_threads_count",
    "syncthreads_and": "sync_threads_and",
    "syncthreads_or": "sync_threads_or",
    "threadfence": "fence_device",
    "threadfence_block": "fence_block",
    "threadfence_system": "fence_system",
    "shfl": "shfl_idx",
    "popc": "math.popcount",
    "popcll": "math.popcount",
    "clzll": "math.clz",
    "cdiv": "ceil_div",
    "float_as_int": "bitcast",
    "float_as_uint": "bitcast",
    "int_as_float": "bitcast",
    "uint_as_float": "bitcast",
    "fmaf": "math.fma",
    "half": "f16",
    "bfloat16": "bf16",
    "nv_bfloat16": "bf16",
    "double": "f64",
    "float8_e4m3fn": "f8e4m3",
    "float8e4nv": "f8e4m3",
    "float8_e5m2": "f8e5m2",
    "float8e5": "f8e5m2",
    "uchar": "u8",
}
_KINDS: Final = {"float": "f", "int": "i", "uint": "u"}


def meant(name: str, known: Container[str]) -> str | None:
    """The name of weft's that someone meant who wrote `name`, such as ``thread_idx`` for ``threadIdx``.

    Args:
        name: as written.
        known: a container of weft's names, without ``weft.``.

    Example:
        >>> meant("__syncthreads", ["sync_threads"]), meant("powf", ["math.pow"])
        ('sync_threads', 'math.pow')
    """
    plain = name.strip("_").lower().removesuffix("_sync")
    candidates = [_NAMES.get(plain, ""), f"math.{plain}", f"math.{plain.removesuffix('f')}"]
    candidates += [plain, f"math.{plain.removesuffix('ll')}"]
    for kind, letter in _KINDS.items():
        width = plain.removeprefix(kind)
        candidates += [f"{letter}{width}"] if width != plain else []
    if plain.startswith("atomic"):
        candidates.append(
            f"atomic_{plain.removeprefix('atomic').strip('_').replace('exch', 'exchange')}"
        )
    return next((one for one in candidates if one and one in known), None)
