# SPDX-License-Identifier: Apache-2.0
"""The table of every name that a kernel can use, and which family of operations it belongs to.

In: a name such as ``"thread_idx"`` or ``"math.exp"``. Out: a `LanguageName`, which loads nothing, or, for the
front end, the object that it stands for. Next: operation, then one file per family.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, Final, NoReturn

from weft.errors import NameResolutionError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

LANGUAGE: Final[dict[str, str]] = {
    # name → module of weft.language that holds an object of that name
    "thread_idx": "grid",
    "block_idx": "grid",
    "block_dim": "grid",
    "grid_dim": "grid",
    "local": "memory",
    "shared": "shared",
    "dynamic_shared": "shared",
    "load_vector": "vectors",
    "store_vector": "vectors",
    "bitcast": "bitcast",
    "inline_ptx": "inline_asm",
    "global_scratch": "scratch",
    "sync_threads": "barrier",
    "sync_threads_count": "barrier",
    "sync_threads_and": "barrier",
    "sync_threads_or": "barrier",
    "sync_warp": "barrier",
    "sync_grid": "barrier",
    "fence_block": "barrier",
    "fence_device": "barrier",
    "fence_system": "barrier",
    "lane_id": "warp",
    "warp_id": "warp",
    "shfl_up": "warp",
    "shfl_down": "warp",
    "shfl_xor": "warp",
    "shfl_idx": "warp",
    "ballot": "warp",
    "any": "warp",
    "all": "warp",
    "match": "warp",
    "match_all": "warp",
    "warp_sum": "warp",
    "warp_min": "warp",
    "warp_max": "warp",
    "warp_and": "warp",
    "warp_or": "warp",
    "warp_xor": "warp",
    "globaltimer": "timing",
    "clock64": "timing",
    "clock32": "timing",
    "sm_id": "timing",
    "atomic_add": "atomics",
    "atomic_sub": "atomics",
    "atomic_max": "atomics",
    "atomic_min": "atomics",
    "atomic_and": "atomics",
    "atomic_or": "atomics",
    "atomic_xor": "atomics",
    "atomic_exchange": "atomics",
    "atomic_cas": "atomics",
    "printf": "debug",
    "profiler.CudaProfiler": "profiler",
    "profiler.Profiler": "profiler",
    "static_range": "control",
    "static_assert": "control",
    "ceil_div": "control",
    "select": "control",
    "where": "control",
    "math.abs": "math",
    "math.acos": "math",
    "math.acosh": "math",
    "math.asin": "math",
    "math.asinh": "math",
    "math.atan": "math",
    "math.atan2": "math",
    "math.atanh": "math",
    "math.cbrt": "math",
    "math.ceil": "math",
    "math.clz": "math",
    "math.copysign": "math",
    "math.cos": "math",
    "math.cosh": "math",
    "math.ctz": "math",
    "math.erf": "math",
    "math.exp": "math",
    "math.exp2": "math",
    "math.expm1": "math",
    "math.ffs": "math",
    "math.floor": "math",
    "math.fma": "math",
    "math.isfinite": "math",
    "math.isinf": "math",
    "math.isnan": "math",
    "math.log": "math",
    "math.log10": "math",
    "math.log1p": "math",
    "math.log2": "math",
    "math.max": "math",
    "math.min": "math",
    "math.mulhi": "math",
    "math.popcount": "math",
    "math.pow": "math",
    "math.round": "math",
    "math.rsqrt": "math",
    "math.sin": "math",
    "math.sinh": "math",
    "math.sqrt": "math",
    "math.tan": "math",
    "math.tanh": "math",
    "math.trunc": "math",
}

NAMESPACES: Final = ("math",)
"""Names that only hold other names: ``weft.math.exp``."""


def _ceil_div(dividend: int, divisor: int) -> int:
    return -(-operator.index(dividend) // operator.index(divisor))


# Names that also mean something where Python runs: the sizes of buffers and of grids of bare launches.
_IN_PYTHON: Final[dict[str, Callable[..., object]]] = {"ceil_div": _ceil_div}


class LanguageName:
    """A name of the kernel language, as Python sees it outside a kernel.

    It holds a name and nothing else, so that ``from weft import thread_idx`` loads no compiler. The front
    end replaces it by what it stands for.

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
        if attribute.startswith("__"):
            # Copying, pickling and inspecting ask for special methods; only a kernel asks for the others.
            raise AttributeError(attribute)
        if self.name in NAMESPACES:
            return language_name(f"{self.name}.{attribute}")
        raise self._outside(f"{self.name}.{attribute}")

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """What Python itself can compute of the language, such as the size of a grid.

        Raises:
            UnavailableError: for everything else, which has a meaning only in code that weft compiles.
        """
        meaning = _IN_PYTHON.get(self.name)
        if meaning is None:
            raise self._outside(f"{self.name}(...)")
        return meaning(*arguments, **keywords)

    def __getitem__(self, index: object) -> NoReturn:
        raise self._outside(f"{self.name}[...]")

    def _outside(self, use: str) -> UnavailableError:
        return outside_kernel(use)


def outside_kernel(use: str) -> UnavailableError:
    """The error for a language name used where Python runs instead of weft."""
    return UnavailableError(
        "OUTSIDE_KERNEL",
        f"weft.{use} has a meaning only in code that weft compiles, and Python ran it",
        hint="use it in a function decorated with @weft.kernel, or in a function that such a one calls",
    )


def language_name(name: str) -> LanguageName:
    """The name, which ``weft.<name>`` evaluates to.

    Raises:
        AttributeError: if the language has no such name, which is what Python expects of a module.

    Example:
        >>> language_name("math.exp")
        weft.math.exp
    """
    if name in LANGUAGE or name in NAMESPACES:
        return LanguageName(name)
    raise AttributeError(f"weft has no {name!r}")


def hint_for(name: str, known: Collection[str] = (), near: Collection[str] | None = None) -> str:
    """What to write for a name that weft does not have, or an empty string; only a mistake asks for it.

    CUDA's, numba's and Triton's names for what weft has come first, then what weft has not, then misspellings.

    Args:
        name: as written, without ``weft.``.
        known: names besides those of the language.
        near: the names that it may be misspelt for; all, unless it is given.
    """
    from weft.language import other_names
    from weft.types.dtype import DTYPES

    names = {*LANGUAGE, *known}
    meant = other_names.meant(name, {*names, "ceil_div", *(dtype.name for dtype in DTYPES)})
    absent = other_names.absent(name)
    if meant is None and absent is not None:
        return absent
    found = [meant] if meant else other_names.near(name, names if near is None else near)
    return f"did you mean {' or '.join(f'weft.{one}' for one in found)}?" if found else ""


def resolve(name: str) -> object:
    """What a name stands for in compiled code: an `Operation`, or an object such as `thread_idx`.

    Loads the family's module, and with it the compiler's IR.

    Raises:
        NameResolutionError: for a name that does not exist, or holds only other names.
    """
    family = LANGUAGE.get(name)
    if family is None:
        raise NameResolutionError(
            "UNKNOWN_NAME",
            f"weft.{name} is no operation",
            hint=hint_for(name) or "docs/reference/language.md lists the names that there are",
        )
    from importlib import import_module

    # A row of the table above, so this loads one of our own files and never a name that a user typed.
    return getattr(import_module(f"weft.language.{family}"), name.rpartition(".")[2])
