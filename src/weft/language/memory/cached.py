# SPDX-License-Identifier: Apache-2.0
"""Loads and stores that say what the caches do with an element: ``load_element``, ``store_element``.

In: a tensor in global memory, an index, a hint. Out: a load or a store with the hint.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.dialects.simt.memory import LOAD_CACHES, STORE_CACHES
from weft.errors import TypeMismatchError, ValueRangeError
from weft.language.memory import access
from weft.language.operation import operation
from weft.language.values import Scalar, Tensor, describe

if TYPE_CHECKING:
    from weft.dialects.builder import Builder


@operation
def load_element(
    builder: Builder, tensor: object, index: object, *, cache: object = None
) -> Scalar:
    """``tensor[index]``, with a hint for a GPU's caches.

    A hint never changes a value. The CPU leaves it out, and so does a GPU without it: `no_allocate` is of sm_70 and
    later, `evict_first` and `evict_last` of sm_80 and later. In `each`, elements are read 16 bytes at a time as ever.

    Args:
        tensor: in global memory.
        index: an integer, or a tuple with one per dimension.
        cache: ``"streaming"``: read once, so it leaves the caches first. ``"last_use"``: not read again, so it need
            not be written back. ``"l2_only"``: not in the multiprocessor's L1 cache. ``"no_allocate"``: it displaces
            nothing in the L1 cache. ``"evict_first"``, ``"evict_last"``: the first or last to leave the L2 cache. None:
            as ever.

    Raises:
        TypeMismatchError: for a non-tensor, a tensor elsewhere, or a wrong index.
        ValueRangeError: for another `cache`, or a constant index out of range.

    Example:
        ``x = weft.load_element(a, i, cache="streaming")``
    """
    found = _tensor("load_element", tensor)
    hint = cache_hint("load_element", found, cache, LOAD_CACHES)
    return access.load(builder, found, index, cache=hint)


@operation
def store_element(
    builder: Builder, tensor: object, index: object, value: object, *, cache: object = None
) -> None:
    """``tensor[index] = value``, with a hint for a GPU's caches; the counterpart of `load_element`.

    Args:
        tensor, index: as for `load_element`.
        value: a number that must convert to the element type without loss.
        cache: as for `load_element`, but not ``"last_use"``.

    Raises:
        TypeMismatchError: as `load_element`; or for a value that needs an explicit conversion.
        ValueRangeError: as `load_element`; or for a constant that does not fit.

    Example:
        ``weft.store_element(a, i, 0.0, cache="evict_first")``
    """
    found = _tensor("store_element", tensor)
    hint = cache_hint("store_element", found, cache, STORE_CACHES)
    access.store(builder, found, index, value, cache=hint)


def cache_hint(name: str, tensor: Tensor, cache: object, allowed: tuple[str, ...]) -> str | None:
    """A hint for an access of the tensor, or None.

    Raises:
        TypeMismatchError: for a tensor that is not in global memory.
        ValueRangeError: for a hint that is not allowed.
    """
    if cache is None:
        return None
    if not isinstance(cache, str) or cache not in allowed:
        listed = ", ".join(map(repr, allowed[:-1]))
        raise ValueRangeError(
            "CACHE_HINT",
            f"{name}: cache is {describe(cache)}; expected None, {listed} or {allowed[-1]!r}",
        )
    space = tensor.type.space.data
    if space != "global":
        owner = "in the thread's own memory" if space == "local" else "in shared memory"
        raise TypeMismatchError(
            "CACHE_SPACE",
            f"{name}: {tensor.name} is {owner}; cache= is for tensors in global memory",
            hint="leave out cache=",
        )
    return cache


def _tensor(name: str, tensor: object) -> Tensor:
    if not isinstance(tensor, Tensor):
        raise TypeMismatchError(
            "CACHE_TENSOR",
            f"{name}: the first argument must be a tensor, received {describe(tensor)}",
            hint=f"write {name}(tensor, index, ...), not {name}(tensor[index], ...)",
        )
    return tensor
