# SPDX-License-Identifier: Apache-2.0
"""Numbers that a caller gives to the bridge: sizes, addresses, ordinals.

In: ints of Python, NumPy, or any class with `__index__`. Out: Python's own, within what is allowed; an error
names the parameter and what was received.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, Final

from weft.errors import brief

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST: Final = 2**63 - 1  # what an int of 64 bits holds


def as_int(value: Any, name: str, least: int = -MOST - 1, most: int = MOST) -> int:
    """An int, checked.

    Raises:
        TypeError: it is none.
        ValueError: it is out of range.

    Example:
        >>> as_int(128, "threads", 1, 1024)
        128
    """
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is {brief(value)}, expected an int") from None
    if not least <= number <= most:
        raise ValueError(f"{name} is {number}, expected {least} to {most}")
    return number


def as_ints(values: Any, name: str) -> tuple[int, ...]:
    """A sequence of ints, checked; their range is for the reader.

    Raises:
        TypeError: it is none.

    Example:
        >>> as_ints([64, 64], "shape")
        (64, 64)
    """
    try:
        return tuple(map(operator.index, values))
    except TypeError:
        raise TypeError(f"{name} is {brief(values)}, expected a sequence of ints") from None


def as_triple(value: int | Sequence[int], name: str) -> tuple[int, int, int]:
    """One to three sizes as (x, y, z), ones where they are missing.

    Raises:
        TypeError: it is neither an int nor one to three of them.

    Example:
        >>> as_triple(4, "grid"), as_triple((4, 2), "grid")
        ((4, 1, 1), (4, 2, 1))
    """
    given: Any = value if isinstance(value, tuple | list) else (value,)
    try:
        sizes = tuple(map(operator.index, given))
    except TypeError:
        sizes = ()
    if not 1 <= len(sizes) <= 3:
        raise TypeError(f"{name} is {brief(value)}, expected an int or one to three of them")
    x, y, z = (*sizes, 1, 1)[:3]
    return x, y, z
