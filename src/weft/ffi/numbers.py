# SPDX-License-Identifier: Apache-2.0
"""Values of the ABI that are a few small numbers.

They resemble tuples but are not: other bindings would take a tuple for an array. In: ints. Out: the base of `Device`
and `DataType`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, overload

if TYPE_CHECKING:
    from collections.abc import Iterator


class Numbers:
    """Fixed numbers that compare, hash and unpack like a tuple."""

    __slots__ = ("_numbers",)
    _numbers: tuple[int, ...]

    def __len__(self) -> int:
        return len(self._numbers)

    def __iter__(self) -> Iterator[int]:
        return iter(self._numbers)

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[int, ...]: ...
    def __getitem__(self, index: int | slice) -> int | tuple[int, ...]:
        return self._numbers[index]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Numbers):
            return self._numbers == other._numbers
        return self._numbers == other if isinstance(other, tuple) else NotImplemented

    def __lt__(self, other: tuple[int, ...] | Numbers) -> bool:
        return self._numbers < tuple(other)

    def __hash__(self) -> int:
        return hash(self._numbers)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__} cannot be changed")

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), self._numbers)


def set_numbers(made: Numbers, numbers: tuple[int, ...]) -> None:
    """Fills a new value."""
    object.__setattr__(made, "_numbers", numbers)
