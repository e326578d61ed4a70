# SPDX-License-Identifier: Apache-2.0
"""The reference's arrays: elements, who touched them, and atomics on them.

In: reads and writes of threads. Out: `Value`s; `UnspecifiedError` for an index out of range, an element not
written yet, and two threads that meet at one element without a barrier between them.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from tools.fuzz.functions import bitcast, larger, smaller
from tools.fuzz.values import BOOL, I32, UnspecifiedError, Value, arithmetic, convert, tick

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tools.fuzz.values import Number, Type

MANY = -1


class Place(NamedTuple):
    """Which launch, block, stretch between barriers and thread is running."""

    launch: int
    block: int
    stretch: int
    thread: int


class Here:
    """Where the machine is; shared by all arrays of one run."""

    place = Place(0, 0, 0, 0)


class Array:
    """A tensor of one or more dimensions. Only its thread touches one that is `private`."""

    def __init__(
        self,
        here: Here,
        dtype: Type,
        shape: Sequence[int],
        numbers: Sequence[Number] | None = None,
        private: bool = False,
    ) -> None:
        self.here, self.dtype, self.private = here, dtype, private
        self.dims = tuple(int(dim) for dim in shape)
        self.numbers: list[Number | None] = list(numbers or [None] * math.prod(self.dims))
        self._touched: dict[int, tuple[Place, str]] = {}

    @property
    def shape(self) -> tuple[Value, ...]:
        """The dims, as i32."""
        return tuple(Value(I32, dim) for dim in self.dims)

    def __len__(self) -> int:
        return self.dims[0]

    def _position(self, index: Any) -> int:
        parts = index if isinstance(index, tuple) else (index,)
        if len(parts) != len(self.dims):
            raise UnspecifiedError("an index per dimension")
        position = 0
        for part, dim in zip(parts, self.dims, strict=True):
            number = part.__index__()
            if not 0 <= number < dim:
                raise UnspecifiedError(f"index {number} of {dim}")
            position = position * dim + number
        return position

    def _touch(self, position: int, how: str) -> None:
        """Notes an access: "r", "w" or "a" for atomic; refuses two of different threads that have no order."""
        tick()
        if self.private:
            return
        now = self.here.place
        before, earlier = self._touched.get(position, (now, how))
        if before.launch == now.launch:
            together = before[:3] == now[:3]
            if before.block != now.block or (together and before.thread != now.thread):
                if earlier != how or how == "w":
                    raise UnspecifiedError("two threads meet at one element")
                now = now._replace(thread=MANY)
            elif together and earlier != how:
                how = "w"
        self._touched[position] = (now, how)

    def __getitem__(self, index: Any) -> Value:
        position = self._position(index)
        self._touch(position, "r")
        return self._value(position)

    def _value(self, position: int) -> Value:
        number = self.numbers[position]
        if number is None:
            raise UnspecifiedError("an element not written yet")
        return Value(self.dtype, number)

    def __setitem__(self, index: Any, value: object) -> None:
        position = self._position(index)
        self._touch(position, "w")
        self.numbers[position] = convert(value, self.dtype).number

    def view(self, dtype: Type) -> View:
        """Its elements as another type of their width."""
        if dtype.bits != self.dtype.bits:
            raise UnspecifiedError("a view of another width")
        return View(self, dtype)

    def exchange(self, index: Any, change: Callable[[Value], Value]) -> Value:
        """Replaces an element as one step; what it was before."""
        position = self._position(index)
        self._touch(position, "a")
        before = self._value(position)
        self.numbers[position] = convert(change(before), self.dtype).number
        return before


class View:
    """An array's elements as numbers of another type of their width."""

    def __init__(self, array: Array, dtype: Type) -> None:
        self._array, self.dtype = array, dtype

    def __getitem__(self, index: Any) -> Value:
        return bitcast(self._array[index], self.dtype)

    def __setitem__(self, index: Any, value: object) -> None:
        self._array[index] = bitcast(convert(value, self.dtype), self._array.dtype)


def _combine(sign: str) -> Callable[[Array, Any, object], Value]:
    return lambda array, index, value: array.exchange(
        index, lambda before: arithmetic(sign, before, convert(value, array.dtype))
    )


def _extreme(chosen: Callable[..., Value]) -> Callable[[Array, Any, object], Value]:
    return lambda array, index, value: array.exchange(
        index, lambda before: chosen(before, convert(value, array.dtype))
    )


def _replace(array: Array, index: Any, value: object) -> Value:
    return array.exchange(index, lambda _: convert(value, array.dtype))


def _alike(first: Value, second: Value) -> bool:
    """Whether two values of one type have the same bits."""
    if first.type == BOOL:
        return bool(first) == bool(second)
    a, b = first.number, second.number
    if a != a or b != b:
        raise UnspecifiedError("the bits of a NaN")
    return a == b and math.copysign(1, a) == math.copysign(1, b)


def _compare(array: Array, index: Any, expected: object, value: object) -> Value:
    wanted, new = convert(expected, array.dtype), convert(value, array.dtype)
    return array.exchange(index, lambda before: new if _alike(before, wanted) else before)


ATOMICS: dict[str, Callable[..., Value]] = {
    "atomic_add": _combine("+"),
    "atomic_sub": _combine("-"),
    "atomic_and": _combine("&"),
    "atomic_or": _combine("|"),
    "atomic_xor": _combine("^"),
    "atomic_max": _extreme(larger),
    "atomic_min": _extreme(smaller),
    "atomic_exchange": _replace,
    "atomic_cas": _compare,
}
