# SPDX-License-Identifier: Apache-2.0
"""Containers of the ABI as Python containers: `Array` and `Map` are immutable, `List` and `Dict` mutable; `Shape`.

In: sequences and mappings of any values. Out: objects that other languages share. Calls accept tuples, lists and dicts
directly; use these classes to keep a container an object.
"""

from __future__ import annotations

import threading
from collections.abc import (
    Iterable,
    Iterator,
    Mapping,
    MutableMapping,
    MutableSequence,
    Sequence,
)
from typing import Any, ClassVar, Final, Self, SupportsIndex, cast

from weft import _native
from weft.ffi.function import standard_function
from weft.ffi.object import Object

_in_repr = threading.local()  # `addresses`: the containers that this thread is writing now


def _equal(a: object, b: object) -> bool:
    """Whether two values are equal: sequences and mappings by their contents, whichever classes they have."""
    if a is b or (isinstance(a, Object) and isinstance(b, Object) and a.same_as(b)):
        return True
    if isinstance(a, _SEQUENCES) and isinstance(b, _SEQUENCES):
        a, b = cast("Sequence[Any]", a), cast("Sequence[Any]", b)
        return len(a) == len(b) and all(map(_equal, a, b))
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        a, b = dict(cast("Mapping[Any, Any]", a)), dict(cast("Mapping[Any, Any]", b))
        return a.keys() == b.keys() and all(_equal(value, b[key]) for key, value in a.items())
    return bool(a == b)


class _Container(Object):
    """Base of all four. The library's functions are named after the kind: `ffi.ArraySize`."""

    __slots__ = ()
    _kind: ClassVar[str]

    @classmethod
    def _made_of(cls, values: Iterable[object]) -> Self:
        made = standard_function(f"ffi.{cls._kind}", "objects")(*values)
        return _native.Object.__new__(cls, made.release(), borrowed=False)

    def _call(self, function: str, *arguments: object) -> Any:
        return standard_function(f"ffi.{self._kind}{function}")(self, *arguments)

    def __len__(self) -> int:
        return self._call("Size")

    def _contents(self) -> object:
        """The items as a list or dict."""
        raise TypeError(f"{self._kind} has no contents")

    def __repr__(self) -> str:
        """The contents, in which another wrapper of the same object may stand."""
        if self.is_moved:
            return super().__repr__()
        being_written: set[int] = vars(_in_repr).setdefault("addresses", set())
        address = self.address
        if address in being_written:
            return f"{self._kind}(...)"
        being_written.add(address)
        try:
            return f"{self._kind}({self._contents()!r})"
        finally:
            being_written.discard(address)


class _Sequence(_Container, Sequence[Any]):
    """`Array` and `List`; slices and sums are new ones of the same kind."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return self._made_of(self[position] for position in range(*index.indices(len(self))))
        return self._call("GetItem", self._position(index))

    def _position(self, index: SupportsIndex) -> int:
        position, length = index.__index__(), len(self)
        if -length <= position < length:
            return position % length
        raise IndexError(f"{self._kind} index {position} is out of range for {length} elements")

    def _contents(self) -> object:
        return list(self)

    def __eq__(self, other: object) -> bool:
        return (
            _equal(self, cast("object", other)) if isinstance(other, _SEQUENCES) else NotImplemented
        )

    def __contains__(self, value: object) -> bool:
        return any(_equal(item, value) for item in self)

    def __add__(self, other: Iterable[object]) -> Self:
        return self._made_of((*self, *_items(other)))

    def __radd__(self, other: Iterable[object]) -> Self:
        return self._made_of((*_items(other), *self))


class Array(_Sequence):
    """An immutable sequence. Results arrive as tuples unless the function's `objects` says otherwise.

    Example:
        >>> array = Array([1, "two", (3, 4)])
        >>> array[1], array[-1], len(array), array == (1, "two", (3, 4))
        ('two', (3, 4), 3, True)
        >>> array[:1] + [2]
        Array([1, 2])
    """

    __slots__ = ()
    _kind = "Array"

    def __new__(cls, values: Iterable[object] = ()) -> Self:
        return cls._made_of(values)

    def __hash__(self) -> int:
        return hash(tuple(self))


class List(_Sequence, MutableSequence[Any]):
    """A mutable sequence, shared with its holders in any language.

    Example:
        >>> numbers = List([1, 2])
        >>> numbers.append("three")
        >>> numbers[0] = 10
        >>> numbers, numbers == [10, 2, "three"]
        (List([10, 2, 'three']), True)
    """

    __slots__ = ()
    _kind = "List"

    def __new__(cls, values: Iterable[object] = ()) -> Self:
        return cls._made_of(values)

    def __setitem__(self, index: Any, value: Any) -> None:
        if isinstance(index, slice):
            whole = list(self)
            whole[index] = value
            self._call("ReplaceSlice", 0, len(self), List(whole))
        else:
            self._call("SetItem", self._position(index), value)

    def __delitem__(self, index: Any) -> None:
        if isinstance(index, slice):
            for position in sorted(range(*index.indices(len(self))), reverse=True):
                self._call("Erase", position)
        else:
            self._call("Erase", self._position(index))

    def insert(self, index: int, value: object) -> None:
        """Puts a value before an index, as `list.insert` does."""
        start, _, _ = slice(index, None).indices(len(self))
        self._call("Insert", start, value)

    def clear(self) -> None:
        self._call("Clear")


class _Mapping(_Container, Mapping[Any, Any]):
    """`Map` and `Dict`."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]

    def __contains__(self, key: object) -> bool:
        try:
            self._stored_key(key)
        except KeyError:
            return False
        return True

    def __getitem__(self, key: object) -> Any:
        return self._call("GetItem", self._stored_key(key))

    def __iter__(self) -> Iterator[Any]:
        # Over a snapshot of the keys: a change meanwhile must not lead into freed memory.
        return (key for key, _ in _native.mapping_items(self, None))

    def _stored_key(self, key: object) -> object:
        """The key under which a value is stored.

        Strings, bytes and numbers are equal by value on both sides. The library compares other keys by handle, so a
        tuple is compared with the keys in Python.
        """
        if self._call("Count", key):
            return key
        if not isinstance(key, str | bytes | int | float | None):
            for stored, _ in _native.mapping_items(self, "objects"):
                if stored == key:
                    return stored
        raise KeyError(key)

    def _contents(self) -> dict[Any, Any]:
        return dict(_native.mapping_items(self, None))

    def __eq__(self, other: object) -> bool:
        return _equal(self, cast("object", other)) if isinstance(other, Mapping) else NotImplemented


def _flatten(values: Mapping[Any, Any] | Iterable[tuple[Any, Any]]) -> list[object]:
    pairs = dict(values).items()
    return [part for pair in pairs for part in pair]


_SEQUENCES: Final = (_Sequence, tuple, list)


def _items(added: Iterable[object]) -> Iterable[object]:
    if isinstance(added, Iterable) and not isinstance(added, str | bytes | Mapping):
        return added
    raise TypeError(f"can only add a sequence to an Array or a List, received {added!r}")


class Map(_Mapping):
    """An immutable mapping. Results arrive as dicts unless the function's `objects` says otherwise.

    Example:
        >>> options = Map({"depth": 3})
        >>> options["depth"], dict(options), options == {"depth": 3}
        (3, {'depth': 3}, True)
    """

    __slots__ = ()
    _kind = "Map"

    def __new__(cls, values: Mapping[Any, Any] | Iterable[tuple[Any, Any]] = ()) -> Self:
        return cls._made_of(_flatten(values))

    def __hash__(self) -> int:
        return hash(frozenset(self.items()))


class Dict(_Mapping, MutableMapping[Any, Any]):
    """A mutable mapping, shared with its holders in any language.

    Example:
        >>> counts = Dict({"a": 1})
        >>> counts["b"] = 2
        >>> del counts["a"]
        >>> counts
        Dict({'b': 2})
    """

    __slots__ = ()
    _kind = "Dict"

    def __new__(cls, values: Mapping[Any, Any] | Iterable[tuple[Any, Any]] = ()) -> Self:
        return cls._made_of(_flatten(values))

    def __setitem__(self, key: object, value: object) -> None:
        self._call("SetItem", self._stored_key(key) if key in self else key, value)

    def __delitem__(self, key: object) -> None:
        self._call("Erase", self._stored_key(key))

    def clear(self) -> None:
        self._call("Clear")


def _dim(dim: SupportsIndex) -> int:
    if isinstance(dim, bool) or not hasattr(dim, "__index__"):
        raise TypeError(f"Shape: expected dims as ints, received {dim!r}")
    number = dim.__index__()
    if not -(1 << 63) <= number < 1 << 63:
        raise OverflowError(f"Shape: expected dims of at most 64 bits, received {number}")
    return number


class Shape(tuple[int, ...]):
    """Dims of a tensor. Equal to the tuple of the same dims.

    Raises:
        TypeError: if a dim is not an integer.
        OverflowError: if a dim has more than 64 bits.

    Example:
        >>> Shape((2, 3)) == (2, 3), Shape([4])
        (True, Shape((4,)))
    """

    __slots__ = ()

    def __new__(cls, dims: Iterable[SupportsIndex] = ()) -> Shape:
        if not hasattr(dims, "__iter__"):
            raise TypeError(f"Shape: expected a sequence of dims, received {dims!r}")
        return super().__new__(cls, [_dim(dim) for dim in dims])

    def __tvm_ffi_object__(self) -> object:
        """The same shape in the tvm_ffi package."""
        made: Any = standard_function("ffi.Shape", "tvm_ffi")(*self)
        return made._tvm_ffi_cached_object  # of that package's Shape, which is a tuple

    def __repr__(self) -> str:
        return f"Shape({super().__repr__()})"
