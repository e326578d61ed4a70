# SPDX-License-Identifier: Apache-2.0
"""Names of CUDA C++, numba and Triton for what weft calls otherwise, for hints.

In: a name that weft does not know. Out: weft's name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from weft.types.dtype import INFO

if TYPE_CHECKING:
    from collections.abc import Collection, Container

# In lower case, without the underscores around it and without `_sync`.
_NAMES: Final = {
    **{alias: name for name, info in INFO.items() for alias in info.aliases},
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
    **{f"warp_{name}": f"warp.{name}" for name in ("sum", "min", "max")},
    **{f"warp_{name}": f"warp.bitwise_{name}" for name in ("and", "or", "xor")},
    **{name: f"warp.{name}" for name in ("any", "all")},
    "popc": "math.popcount",
    "popcll": "math.popcount",
    "clzll": "math.clz",
    "cdiv": "ceil_div",
    "select": "where",
    "heuristics": "autotune",
    "tune": "autotune",
    "float_as_int": "bitcast",
    "float_as_uint": "bitcast",
    "int_as_float": "bitcast",
    "uint_as_float": "bitcast",
    "fmaf": "math.fma",
    "cp_async_bulk": "bulk_copy",
    "cp_reduce_async_bulk": "bulk_reduce",
    "memcpy_async": "cp_async",
    "copy_async": "cp_async",
    **dict.fromkeys(("wmma", "dot"), "mma.mma"),
    **dict.fromkeys(("ldmatrix", "load_matrix"), "mma.load_a"),
    **dict.fromkeys(("rand", "randn", "randint", "uniform", "normal"), "random.philox"),
    **dict.fromkeys(("curand", "curand_init"), "random.philox"),
    "cublas": "kernels.gemm",
    "cub": "block.reduce",
    "thrust": "kernels.reduce",
}
_MATRIX: Final = (
    "operation of this name; weft.mma and weft.wgmma multiply tiles, and weft.inline_ptx writes one"
)
_MAKERS: Final = (
    "tensors that a kernel makes; pass one, made by weft.full or weft.empty, or use weft.local"
)
# What weft does not have: names in lower case, and the text after "weft has no". A test looks them up among all of
# weft's names.
_ABSENT: Final = {
    **dict.fromkeys(("tcgen05", "stmatrix"), _MATRIX),
    **dict.fromkeys("ones ones_like arange linspace".split(), _MAKERS),
    "conv2d": "convolution of arrays; weft.im2col_map reads its tiles, and weft.wgmma multiplies them",
}
_KINDS: Final = {"float": "f", "int": "i", "uint": "u"}


def absent(name: str) -> str | None:
    """The hint for something that weft does not have, or None.

    Example:
        >>> absent("conv2d")
        'weft has no convolution of arrays; weft.im2col_map reads its tiles, and weft.wgmma multiplies them'
    """
    what = _ABSENT.get(name.strip("_").lower().removesuffix("_sync"))
    return None if what is None else f"weft has no {what}"


def namespaced(name: str, known: Collection[str]) -> list[str]:
    """Up to three names in namespaces that are `name`, or contain it as a word.

    Example:
        >>> namespaced("sort", ["kernels.sort", "block.merge_sort", "sort_of"])
        ['kernels.sort', 'block.merge_sort']
    """
    plain = name.strip("_").lower()
    lasts = {one: one.rpartition(".")[2].lower() for one in sorted(known) if "." in one}
    exact = [one for one, last in lasts.items() if last == plain]
    parts = [one for one, last in lasts.items() if plain and plain in last.split("_")]
    return list(dict.fromkeys([*exact, *parts]))[:3]


def near(name: str, known: Collection[str]) -> list[str]:
    """Up to three names that are similar to `name`, or contain it as a word.

    Example:
        >>> near("sycn_threads", ["sync_threads", "stride"]), near("sum", ["lane_sum", "sym"])
        (['sync_threads'], ['lane_sum'])
    """
    from difflib import get_close_matches  # only a mistake needs it

    last = {one.rpartition(".")[2]: one for one in sorted(known, reverse=True)}
    words = name.lower().strip("_")
    close = get_close_matches(name, last, n=3, cutoff=0.7)
    parts = [one for one in sorted(last) if words in one.lower().split("_")] if words else []
    return [last[one] for one in dict.fromkeys([*close, *parts])][:3]


def meant(name: str, known: Container[str]) -> str | None:
    """weft's name for `name`, such as ``thread_idx`` for ``threadIdx``.

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
