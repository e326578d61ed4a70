# SPDX-License-Identifier: Apache-2.0
"""Numbers given to the bridge: sizes, addresses, ordinals.

In: ints of Python, NumPy, or any class with `__index__`. Out: Python ints in range; errors name the parameter and the
received value.
"""

from __future__ import annotations

import operator
from typing import Any, Final

from weft.errors import brief

MOST: Final = 2**63 - 1  # of a 64-bit int


def as_int(value: Any, name: str, least: int = -MOST - 1, most: int = MOST) -> int:
    """An int, checked.

    Raises:
        TypeError: it is not one.
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
    """A sequence of ints, checked but for their range.

    Raises:
        TypeError: it is not one.

    Example:
        >>> as_ints([64, 64], "shape")
        (64, 64)
    """
    try:
        return tuple(map(operator.index, values))
    except TypeError:
        raise TypeError(f"{name} is {brief(values)}, expected a sequence of ints") from None
