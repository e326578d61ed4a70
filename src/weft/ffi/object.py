# SPDX-License-Identifier: Apache-2.0
"""Objects of the ABI: a handle with one reference, given back when the wrapper goes.

In: an address and whose reference it is. Out: a wrapper whose attributes are the object's reflected fields and methods,
in the class of its type. Next: function.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

from weft import _native
from weft.ffi.abi import TypeIndex

if TYPE_CHECKING:
    from collections.abc import Callable

# The classes of the standard types. Every other type has the class of its nearest ancestor.
STANDARD_CLASSES: Final = {
    TypeIndex.OBJECT: ("weft.ffi.object", "Object"),
    TypeIndex.ERROR: ("weft.ffi.error", "Error"),
    TypeIndex.TENSOR: ("weft.ffi.tensor", "Tensor"),
    TypeIndex.ARRAY: ("weft.ffi.container", "Array"),
    TypeIndex.MAP: ("weft.ffi.container", "Map"),
    TypeIndex.MODULE: ("weft.ffi.module", "Module"),
    TypeIndex.LIST: ("weft.ffi.container", "List"),
    TypeIndex.DICT: ("weft.ffi.container", "Dict"),
}


def standard_class(type_index: int) -> type[_native.Object] | None:
    """The class of a standard type, or None. Asked by the extension when it first meets a type."""
    if type_index not in STANDARD_CLASSES:
        return None
    from importlib import import_module

    module, name = STANDARD_CLASSES[type_index]
    return getattr(import_module(module), name)


class Object(_native.Object):
    """Owns one reference to an FFI object, and gives it back when it goes, on whatever thread.

    Args:
        handle: the object's address.
        borrowed: True adds a reference: the caller keeps its own. False takes over the caller's. There
            is no default, because a wrong guess frees memory that is in use, or never frees it.

    Two wrappers of one object are equal. Fields and methods that the type has registered are attributes.

    Raises:
        ValueError: if the handle is null, or on any use after `release()` gave the reference away.

    Example:
        >>> import weft.ffi
        >>> array = weft.ffi.Array([1, 2])
        >>> same = weft.ffi.Object(array.address, borrowed=True)
        >>> same == array, array.reference_count
        (True, 2)
    """

    __slots__ = ()

    def move(self) -> _native.Moved:
        """The object for a callee that may take it over: ``function(array.move())``.

        A callee that takes its parameter as a rvalue gets the reference, and can change an array in place
        that nobody else holds; this wrapper is empty then. Otherwise it keeps what it had.
        """
        return _native.Moved(self)

    def is_instance(self, type_key: str) -> bool:
        """Whether the object's type is that type or derives from it.

        Raises:
            TypeError: if `type_key` is no text.
            ValueError: if the object has been moved from.
        """
        if not isinstance(type_key, str):
            raise TypeError(f"is_instance: expected a type's key as str, received {type_key!r}")
        from weft.ffi.reflection import type_and_ancestors

        return any(info.key == type_key for info in type_and_ancestors(self.type_index))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        from weft.ffi.reflection import get_member

        return get_member(self, name)

    def __setattr__(self, name: str, value: object) -> None:
        from weft.ffi.reflection import set_field

        if not set_field(self, name, value):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        from weft.ffi.reflection import member_names

        return sorted({*super().__dir__(), *member_names(self.type_index)})


_Class = TypeVar("_Class", bound=type[Object])


def register_object(type_key: str) -> Callable[[_Class], _Class]:
    """Makes a class the one that objects of a registered type, and of types derived from it, arrive as.

    Calling the class constructs an object, unless the class has a `__new__` of its own.

    Raises:
        ValueError: if no type has that key.
        TypeError: if the class does not derive from `Object`.

    Example:
        >>> @register_object("ffi.Module")
        ... class PluginModule(Object):
        ...     __slots__ = ()
        Traceback (most recent call last):
        ...
        ValueError: 'ffi.Module' is a standard type, whose class is weft.ffi.Module
    """

    def register(object_class: _Class) -> _Class:
        index = _native.type_key_to_index(type_key)
        if index is None:
            raise ValueError(f"no FFI type is registered as {type_key!r}")
        if index in STANDARD_CLASSES:
            name = ".".join(("weft.ffi", STANDARD_CLASSES[index][1]))
            raise ValueError(f"{type_key!r} is a standard type, whose class is {name}")
        _native.set_object_class(index, object_class)
        if "__new__" not in vars(object_class):
            object_class.__new__ = _constructor(type_key)
        return object_class

    return register


def _constructor(type_key: str) -> Any:
    def construct(cls: type[Object], *arguments: object, **fields: object) -> Object:
        if set(fields) == {"borrowed"} and len(arguments) == 1:
            return _native.Object.__new__(cls, *arguments, **fields)  # type: ignore[arg-type]
        from weft.ffi.reflection import create_object

        made = create_object(type_key, *arguments, **fields)
        return _native.Object.__new__(cls, made.release(), borrowed=False)

    return construct
