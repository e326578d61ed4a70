# SPDX-License-Identifier: Apache-2.0
"""Containers of the ABI as Python containers: `Array` and `Map` are immutable, `List` and `Dict` mutable; `Shape`.

In: sequences and mappings of any values. Out: objects that other languages share. Calls accept tuples, lists and dicts
directly; use these classes to keep a container an object.
"""

from __future__ import annotations

import threading
from collections.abc import (
    Callable,
    Iterable,
    Iterator,
    Mapping,
    MutableMapping,
    MutableSequence,
    Sequence,
)
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeVar, cast

from weft import _native
from weft.ffi.object import Object
from weft.ffi.registry import standard_function

if TYPE_CHECKING:
    from collections.abc import Iterable

_Self = TypeVar("_Self", bound=Object)
_in_repr = threading.local()  # `addresses`: the containers that this thread is writing now


def _construct(cls: type[_Self], constructor: str, values: Iterable[object]) -> _Self:
    made = standard_function(constructor, "objects")(*values)
    return _native.Object.__new__(cls, made.release(), borrowed=False)


def _position(index: SupportsIndex, length: int, kind: str) -> int:
    position = index.__index__()
    if -length <= position < length:
        return position % length if length else 0
    raise IndexError(f"{kind} index {position} is out of range for {length} elements")


def _equals(left: Sequence[Any], right: object) -> bool:
    if not isinstance(right, Array | List | tuple | list):
        return NotImplemented
    right = cast("Sequence[Any]", right)
    return len(left) == len(right) and all(a == b for a, b in zip(left, right, strict=True))


def _repr(container: Object, kind: str, contents: Callable[[], object]) -> str:
    """The repr of a container, which may contain itself through another wrapper of the same object."""
    if container.is_moved:
        return Object.__repr__(container)
    being_written: set[int] = vars(_in_repr).setdefault("addresses", set())
    address = container.address
    if address in being_written:
        return f"{kind}(...)"
    being_written.add(address)
    try:
        return f"{kind}({contents()!r})"
    finally:
        being_written.discard(address)


class Array(Object, Sequence[Any]):
    """An immutable sequence. Results arrive as tuples unless the function's `objects` says otherwise.

    Example:
        >>> array = Array([1, "two", (3, 4)])
        >>> array[1], array[-1], len(array), array == (1, "two", (3, 4))
        ('two', (3, 4), 3, True)
    """

    __slots__ = ()

    def __new__(cls, values: Iterable[object] = ()) -> Array:
        return _construct(cls, "ffi.Array", values)

    def __len__(self) -> int:
        return standard_function("ffi.ArraySize")(self)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return tuple(self[position] for position in range(*index.indices(len(self))))
        return standard_function("ffi.ArrayGetItem")(self, _position(index, len(self), "Array"))

    def __eq__(self, other: object) -> bool:
        return _equals(self, other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return _repr(self, "Array", lambda: list(self))


class List(Object, MutableSequence[Any]):
    """A mutable sequence, shared with its holders in any language.

    Example:
        >>> numbers = List([1, 2])
        >>> numbers.append("three")
        >>> numbers[0] = 10
        >>> numbers, numbers == [10, 2, "three"]
        (List([10, 2, 'three']), True)
    """

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]

    def __new__(cls, values: Iterable[object] = ()) -> List:
        return _construct(cls, "ffi.List", values)

    def __len__(self) -> int:
        return standard_function("ffi.ListSize")(self)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[position] for position in range(*index.indices(len(self)))]
        return standard_function("ffi.ListGetItem")(self, _position(index, len(self), "List"))

    def __setitem__(self, index: Any, value: Any) -> None:
        if isinstance(index, slice):
            whole = list(self)
            whole[index] = value
            standard_function("ffi.ListReplaceSlice")(self, 0, len(self), List(whole))
        else:
            position = _position(index, len(self), "List")
            standard_function("ffi.ListSetItem")(self, position, value)

    def __delitem__(self, index: Any) -> None:
        if isinstance(index, slice):
            for position in sorted(range(*index.indices(len(self))), reverse=True):
                standard_function("ffi.ListErase")(self, position)
        else:
            standard_function("ffi.ListErase")(self, _position(index, len(self), "List"))

    def insert(self, index: int, value: object) -> None:
        """Puts a value before an index, as `list.insert` does."""
        start, _, _ = slice(index, None).indices(len(self))
        standard_function("ffi.ListInsert")(self, start, value)

    def clear(self) -> None:
        standard_function("ffi.ListClear")(self)

    def __eq__(self, other: object) -> bool:
        return _equals(self, other)

    def __repr__(self) -> str:
        return _repr(self, "List", lambda: list(self))


def _flatten(values: Mapping[Any, Any] | Iterable[tuple[Any, Any]]) -> list[object]:
    pairs = dict(values).items()
    return [part for pair in pairs for part in pair]


def _stored_key(mapping: Map | Dict, key: object, kind: str) -> object:
    """The key under which a value is stored.

    Strings, bytes and numbers are equal by value on both sides. The library compares other keys by handle, so a tuple
    is compared with the keys in Python.
    """
    if standard_function(f"ffi.{kind}Count")(mapping, key):
        return key
    if not isinstance(key, str | bytes | int | float | None):
        for stored, _ in _native.mapping_items(mapping, "objects"):
            if stored == key:
                return stored
    raise KeyError(key)


def _contains(mapping: Map | Dict, key: object, kind: str) -> bool:
    try:
        _stored_key(mapping, key, kind)
    except KeyError:
        return False
    return True


def _as_dict(mapping: Map | Dict) -> dict[Any, Any]:
    return dict(_native.mapping_items(mapping, None))


class Map(Object, Mapping[Any, Any]):
    """An immutable mapping. Results arrive as dicts unless the function's `objects` says otherwise.

    Example:
        >>> options = Map({"depth": 3})
        >>> options["depth"], dict(options), options == {"depth": 3}
        (3, {'depth': 3}, True)
    """

    __slots__ = ()

    def __new__(cls, values: Mapping[Any, Any] | Iterable[tuple[Any, Any]] = ()) -> Map:
        return _construct(cls, "ffi.Map", _flatten(values))

    def __len__(self) -> int:
        return standard_function("ffi.MapSize")(self)

    def __contains__(self, key: object) -> bool:
        return _contains(self, key, "Map")

    def __getitem__(self, key: object) -> Any:
        return standard_function("ffi.MapGetItem")(self, _stored_key(self, key, "Map"))

    def __iter__(self) -> Iterator[Any]:
        return (key for key, _ in _native.mapping_items(self, None))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Mapping):
            return NotImplemented
        return _as_dict(self) == dict(cast("Mapping[Any, Any]", other))

    def __hash__(self) -> int:
        return hash(frozenset(self.items()))

    def __repr__(self) -> str:
        return _repr(self, "Map", lambda: _as_dict(self))


class Dict(Object, MutableMapping[Any, Any]):
    """A mutable mapping, shared with its holders in any language.

    Example:
        >>> counts = Dict({"a": 1})
        >>> counts["b"] = 2
        >>> del counts["a"]
        >>> counts
        Dict({'b': 2})
    """

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]

    def __new__(cls, values: Mapping[Any, Any] | Iterable[tuple[Any, Any]] = ()) -> Dict:
        return _construct(cls, "ffi.Dict", _flatten(values))

    def __len__(self) -> int:
        return standard_function("ffi.DictSize")(self)

    def __contains__(self, key: object) -> bool:
        return _contains(self, key, "Dict")

    def __getitem__(self, key: object) -> Any:
        return standard_function("ffi.DictGetItem")(self, _stored_key(self, key, "Dict"))

    def __setitem__(self, key: object, value: object) -> None:
        stored = _stored_key(self, key, "Dict") if key in self else key
        standard_function("ffi.DictSetItem")(self, stored, value)

    def __delitem__(self, key: object) -> None:
        standard_function("ffi.DictErase")(self, _stored_key(self, key, "Dict"))

    def clear(self) -> None:
        standard_function("ffi.DictClear")(self)

    def __iter__(self) -> Iterator[Any]:
        # Over a snapshot of the keys: a change meanwhile must not lead into freed memory.
        return (key for key, _ in _native.mapping_items(self, None))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Mapping):
            return NotImplemented
        return _as_dict(self) == dict(cast("Mapping[Any, Any]", other))

    def __repr__(self) -> str:
        return _repr(self, "Dict", lambda: _as_dict(self))


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
