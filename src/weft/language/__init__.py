# SPDX-License-Identifier: Apache-2.0
"""The table of all names of the kernel language, with their families of operations.

In: a name such as ``"thread_idx"`` or ``"math.exp"``. Out: a `LanguageName`, which loads nothing, or, for the front
end, the object it stands for.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, Final, NoReturn

from weft.errors import NameResolutionError, UnavailableError
from weft.imports import imported

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from inspect import Signature

LANGUAGE: Final[dict[str, str]] = {
    # name → module that defines it, of weft.language if not written in full
    "thread_idx": "threads.grid",
    "block_idx": "threads.grid",
    "block_dim": "threads.grid",
    "grid_dim": "threads.grid",
    "grid": "threads.grid",
    "multiprocessors": "threads.grid",
    "setmaxnreg": "threads.warp",
    "grid_dependency_wait": "threads.grid",
    "grid_dependency_launch": "threads.grid",
    "each": "threads.each",
    "local": "memory.arrays",
    "shared": "memory.arrays",
    "dynamic_shared": "memory.arrays",
    "load_element": "memory.vectors",
    "store_element": "memory.vectors",
    "load_vector": "memory.vectors",
    "store_vector": "memory.vectors",
    "packed": "memory.packed",
    "bitcast": "numbers.convert",
    "complex": "numbers.complex",
    "dp4a": "numbers.words",
    "lop3": "numbers.words",
    "prmt": "numbers.words",
    "prefetch": "memory.vectors",
    "nanosleep": "threads.grid",
    "inline_ptx": "target",
    "global_scratch": "memory.arrays",
    "scratch": "memory.arrays",
    "sync_threads": "threads.barrier",
    "sync_threads_count": "threads.barrier",
    "sync_threads_and": "threads.barrier",
    "sync_threads_or": "threads.barrier",
    "sync_warp": "threads.barrier",
    "sync_grid": "threads.barrier",
    "fence_block": "threads.barrier",
    "fence_device": "threads.barrier",
    "fence_system": "threads.barrier",
    "cluster_rank": "asynchronous.cluster",
    "cluster_shape": "asynchronous.cluster",
    "map_shared": "asynchronous.cluster",
    "sync_cluster": "asynchronous.cluster",
    "st_async": "asynchronous.mbarrier",
    "lane_id": "threads.warp",
    "warp_id": "threads.warp",
    "shfl_up": "threads.warp",
    "shfl_down": "threads.warp",
    "shfl_xor": "threads.warp",
    "shfl_idx": "threads.warp",
    "ballot": "threads.warp",
    "match": "threads.warp",
    "match_all": "threads.warp",
    "warpgroup": "threads.warp",
    "warpgroup_id": "threads.warp",
    "sync_warpgroup": "threads.warp",
    "elect_one": "threads.warp",
    "named_barrier": "threads.barrier",
    "NamedBarrier.sync": "threads.barrier",
    "NamedBarrier.arrive": "threads.barrier",
    "mbarrier": "asynchronous.mbarrier",
    "Mbarrier.arrive": "asynchronous.mbarrier",
    "Mbarrier.release": "asynchronous.mbarrier",
    "Mbarrier.wait": "asynchronous.mbarrier",
    "Mbarrier.try_wait": "asynchronous.mbarrier",
    "PipelineState": "asynchronous.mbarrier",
    "globaltimer": "threads.grid",
    "clock64": "threads.grid",
    "clock32": "threads.grid",
    "sm_id": "threads.grid",
    "atomic_load": "memory.atomics",
    "atomic_store": "memory.atomics",
    "volatile_load": "memory.atomics",
    "volatile_store": "memory.atomics",
    "atomic_add": "memory.atomics",
    "atomic_sub": "memory.atomics",
    "atomic_max": "memory.atomics",
    "atomic_min": "memory.atomics",
    "atomic_and": "memory.atomics",
    "atomic_or": "memory.atomics",
    "atomic_xor": "memory.atomics",
    "atomic_exchange": "memory.atomics",
    "atomic_cas": "memory.atomics",
    "red_add": "memory.atomics",
    "im2col_map": "asynchronous.tensor_map",
    "tensor_map": "asynchronous.tensor_map",
    "fence_proxy": "asynchronous.tma",
    "bulk_copy": "asynchronous.tma",
    "bulk_reduce": "asynchronous.tma",
    "cp_async.commit": "asynchronous.cp_async",
    "cp_async.copy": "asynchronous.cp_async",
    "cp_async.wait": "asynchronous.cp_async",
    "tma.copy_map": "asynchronous.tensor_map",
    "tma.edit_map": "asynchronous.tensor_map",
    "tma.load": "asynchronous.tma",
    "tma.map_at": "asynchronous.tensor_map",
    "tma.prefetch": "asynchronous.tma",
    "tma.reduce": "asynchronous.tma",
    "tma.store": "asynchronous.tma",
    "tma.wait": "asynchronous.tma",
    "target": "target",
    "target.has": "target",
    "assume": "debug",
    "assume_aligned": "memory.views",
    "printf": "debug",
    "profiler.CudaProfiler": "profiling.profiler",
    "profiler.Profiler": "profiling.profiler",
    "empty_like": "weft.primitives.fill",
    "full_like": "weft.primitives.fill",
    "zeros_like": "weft.primitives.fill",
    "Tensor.fill_": "weft.primitives.fill",
    "Tensor.reshape": "memory.views",
    "Tensor.zero_": "weft.primitives.fill",
    "Tensor.tile": "memory.views",
    "Tensor.view": "memory.packed",
    "Fragment.map": "matrix.fragment",
    "Fragment.rows": "matrix.fragment",
    "Fragment.cols": "matrix.fragment",
    "Fragment.to": "matrix.fragment",
    "Fragment.bitcast": "matrix.fragment",
    "Fragment.row_max": "matrix.fragment_rows",
    "Fragment.row_min": "matrix.fragment_rows",
    "Fragment.row_sum": "matrix.fragment_rows",
    "Fragment.row_reduce": "matrix.fragment_rows",
    "Fragment.quad_sum": "matrix.fragment_rows",
    "Fragment.col_sum": "matrix.fragment_rows",
    "Fragment.col_max": "matrix.fragment_rows",
    "Fragment.col_min": "matrix.fragment_rows",
    "Fragment.col_reduce": "matrix.fragment_rows",
    "Fragment.as_operand_a": "matrix.fragment",
    "Fragment.as_operand_b": "matrix.fragment",
    "Fragment.store": "matrix.fragment_memory",
    "Fragment.load": "matrix.fragment_memory",
    "Fragment.red_add": "matrix.fragment_memory",
    "mma.compress": "matrix.mma",
    "mma.from_values": "matrix.mma",
    "mma.full": "matrix.mma",
    "mma.layout": "matrix.mma",
    "mma.load_a": "matrix.mma",
    "mma.load_b": "matrix.mma",
    "mma.mma": "matrix.mma",
    "mma.zeros": "matrix.mma",
    "wgmma.accumulator": "matrix.wgmma",
    "wgmma.from_values": "matrix.wgmma",
    "wgmma.full": "matrix.wgmma",
    "wgmma.layout": "matrix.wgmma",
    "wgmma.zeros": "matrix.wgmma",
    "wgmma.mma": "matrix.wgmma",
    "wgmma.wait": "matrix.wgmma",
    "static": "control",
    "static_range": "control",
    "unroll": "control",
    "static_assert": "control",
    "ceil_div": "control",
    "where": "control",
    "math.abs": "numbers.math",
    "math.acos": "numbers.math",
    "math.acosh": "numbers.math",
    "math.angle": "numbers.math",
    "math.asin": "numbers.math",
    "math.asinh": "numbers.math",
    "math.atan": "numbers.math",
    "math.atan2": "numbers.math",
    "math.atanh": "numbers.math",
    "math.cbrt": "numbers.math",
    "math.ceil": "numbers.math",
    "math.clz": "numbers.math",
    "math.copysign": "numbers.math",
    "math.cos": "numbers.math",
    "math.cosh": "numbers.math",
    "math.ctz": "numbers.math",
    "math.divide": "numbers.math",
    "math.erf": "numbers.math",
    "math.exp": "numbers.math",
    "math.exp2": "numbers.math",
    "math.expm1": "numbers.math",
    "math.ffs": "numbers.math",
    "math.floor": "numbers.math",
    "math.fma": "numbers.math",
    "math.isfinite": "numbers.math",
    "math.isinf": "numbers.math",
    "math.isnan": "numbers.math",
    "math.log": "numbers.math",
    "math.log10": "numbers.math",
    "math.log1p": "numbers.math",
    "math.log2": "numbers.math",
    "math.max": "numbers.math",
    "math.min": "numbers.math",
    "math.mulhi": "numbers.math",
    "math.popcount": "numbers.math",
    "math.pow": "numbers.math",
    "math.round": "numbers.math",
    "math.rsqrt": "numbers.math",
    "math.sin": "numbers.math",
    "math.sinh": "numbers.math",
    "math.sqrt": "numbers.math",
    "math.tan": "numbers.math",
    "math.tanh": "numbers.math",
    "math.trunc": "numbers.math",
}

NAMESPACES: Final = (
    "Fragment",
    "Mbarrier",
    "NamedBarrier",
    "cp_async",
    "math",
    "mma",
    "tma",
    "wgmma",
)
"""Namespaces: ``weft.math.exp``; methods: ``weft.Fragment.map``."""


def _ceil_div(dividend: int, divisor: int) -> int:
    return -(-operator.index(dividend) // operator.index(divisor))


def _packed(array: Any, dtype: object) -> object:
    return imported("weft.ffi.tensor").packed(array, dtype)


def _mma_compress(dense: Any) -> object:
    return imported("weft.language.matrix.sparse").compressed(dense)


def _mma_layout(*arguments: Any, **keywords: Any) -> object:
    return imported("weft.language.matrix.mma").layout_of("mma", *arguments, **keywords)


def _wgmma_layout(*arguments: Any, **keywords: Any) -> object:
    return imported("weft.language.matrix.mma").layout_of("wgmma", *arguments, **keywords)


# Names that Python can also call: sizes of buffers and of grids of bare launches, arguments, orders of weights.
_IN_PYTHON: Final[dict[str, Callable[..., object]]] = {
    "ceil_div": _ceil_div,
    "mma.compress": _mma_compress,
    "mma.layout": _mma_layout,
    "packed": _packed,
    "wgmma.layout": _wgmma_layout,
}


class _Documentation:
    """The text for `help`: of a name, that of the object it stands for; `own` of the class and of a namespace."""

    def __init__(self, own: str | None) -> None:
        self.own = own

    def __get__(self, name: LanguageName | None, owner: type) -> str | None:
        return self.own if name is None or name.name in NAMESPACES else resolve(name.name).__doc__


class LanguageName:
    """A name of the kernel language, as Python sees it outside a kernel.

    It holds only a name, so that ``from weft import thread_idx`` loads no compiler. The front end replaces it with the
    object it stands for.

    Attributes:
        name: the name without ``weft.``, such as ``"atomic_add"`` or ``"math.exp"``.
    """

    __slots__ = ("name",)

    name: str

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"weft.{self.name}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LanguageName) and other.name == self.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __getattr__(self, attribute: str) -> LanguageName:
        if attribute.startswith("_"):
            # Copying, pickling and inspecting look these up; only kernels use others.
            raise AttributeError(attribute)
        if self.name in NAMESPACES:
            return language_name(f"{self.name}.{attribute}")
        raise self._outside(f"{self.name}.{attribute}")

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Computes in Python what needs no kernel, such as the size of a grid.

        Raises:
            UnavailableError: for everything else, which works only in code that weft compiles.
        """
        meaning = _IN_PYTHON.get(self.name)
        if meaning is None:
            raise self._outside(f"{self.name}(...)")
        return meaning(*arguments, **keywords)

    @property
    def __signature__(self) -> Signature:
        """The parameters for users, for `inspect.signature` and `help`."""
        return getattr(resolve(self.name), "__signature__")  # noqa: B009  not every name is a function

    def __getitem__(self, index: object) -> NoReturn:
        raise self._outside(f"{self.name}[...]")

    def _outside(self, use: str) -> UnavailableError:
        return outside_kernel(use)


setattr(LanguageName, "__doc__", _Documentation(LanguageName.__doc__))  # noqa: B010  a descriptor


def outside_kernel(use: str) -> UnavailableError:
    """The error for a language name used where Python runs instead of weft."""
    return UnavailableError(
        "OUTSIDE_KERNEL",
        f"weft.{use} works only in code that weft compiles, but Python ran it",
        hint="use it in a @weft.kernel function, or in a function that a kernel calls",
    )


def language_name(name: str) -> LanguageName:
    """The name, which ``weft.<name>`` evaluates to.

    Raises:
        AttributeError: if the language has no such name, as Python expects of a module.

    Example:
        >>> language_name("math.exp")
        weft.math.exp
    """
    if name in LANGUAGE or name in NAMESPACES:
        return LanguageName(name)
    raise AttributeError(f"weft has no {name!r}")


def hint_for(name: str, known: Collection[str] = (), near: Collection[str] | None = None) -> str:
    """A suggestion for a name that weft does not have, or an empty string.

    CUDA's, numba's and Triton's names for existing operations come first, then functions of that name in weft's
    namespaces, then missing features, then misspellings.

    Args:
        name: as written, without ``weft.``.
        known: names besides those of the language, such as ``kernels.sort``.
        near: candidates for a misspelling; all if omitted.
    """
    other_names, types = (
        imported("weft.language.other_names"),
        imported("weft.types.dtype").INFO,
    )
    names = {*LANGUAGE, *known}
    meant = other_names.meant(name, {*names, "ceil_div", *types})
    found = [meant] if meant else other_names.namespaced(name, known)
    absent = other_names.absent(name)
    if not found and absent is not None:
        return absent
    found = found or other_names.near(name, names if near is None else near)
    return f"did you mean {' or '.join(f'weft.{one}' for one in found)}?" if found else ""


def resolve(name: str) -> object:
    """The object of a name in compiled code: an `Operation`, or one such as `thread_idx`.

    Loads the family's module, and with it the compiler's IR.

    Raises:
        NameResolutionError: for an unknown name, or a namespace.
    """
    family = LANGUAGE.get(name)
    if family is None:
        raise NameResolutionError(
            "UNKNOWN_NAME",
            f"weft has no operation {name}",
            hint=hint_for(name) or "docs/reference/language.md lists all names",
        )
    # A row of the table above, so this only ever loads weft's own modules.
    module = family if family.startswith("weft.") else f"weft.language.{family}"
    return getattr(imported(module), name.rpartition(".")[2])
