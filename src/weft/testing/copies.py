# SPDX-License-Identifier: Apache-2.0
"""Copies of a function's arguments, on which it does what it does on the arguments themselves.

In: arguments. Out: copies, of which those share memory that shared it before. torch's tensors are copied so anyway;
NumPy's views would each become an array of its own.
"""

from __future__ import annotations

import copy
import sys
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np


def tensors_of(value: Any) -> Iterator[Any]:
    """The arrays of any library in a value."""
    if isinstance(value, dict):
        value = list(cast("dict[Any, Any]", value).values())
    if isinstance(value, list | tuple):
        for item in cast("Sequence[Any]", value):
            yield from tensors_of(item)
    elif hasattr(value, "__dlpack__"):
        yield value


def copied(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Deep copies of arguments."""
    copies: dict[int, Any] = {}
    if "numpy" in sys.modules:
        views: dict[int, list[np.ndarray[Any, Any]]] = {}
        kind: Any = sys.modules["numpy"].ndarray
        for array in {id(one): one for one in tensors_of(args) if type(one) is kind}.values():
            views.setdefault(id(_owner(array)), []).append(array)
        for sharing in views.values():
            if len(sharing) > 1:
                copies.update(_views_of_a_copy(sharing))
    return copy.deepcopy(args, copies)


def _owner(array: Any) -> Any:
    """The array whose memory another one is a view of."""
    while type(array.base) is type(array):
        array = array.base
    return array


def _views_of_a_copy(sharing: list[Any]) -> dict[int, Any]:
    """The same views of a copy of their owner's memory, by their numbers; none if that has gaps."""
    owner = _owner(sharing[0])
    if not owner.flags.c_contiguous and not owner.flags.f_contiguous:
        return {}
    memory = owner.copy(order="K").reshape(-1, order="A")
    begin = owner.__array_interface__["data"][0]
    made: dict[int, Any] = {}
    for array in sharing:
        place = array.__array_interface__["data"][0] - begin
        view = type(owner)(array.shape, array.dtype, memory, place, array.strides)
        view.flags.writeable = array.flags.writeable
        made[id(array)] = view
    return made
