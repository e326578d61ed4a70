# SPDX-License-Identifier: Apache-2.0
"""Objects of the ABI: a handle with one reference, released with the wrapper.

In: an address and whose reference it is. Out: a wrapper of its type's class, with the type's registered fields and
methods as attributes; descriptions of types; new objects.
"""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from weft import _native
from weft.ffi.abi import TypeIndex
from weft.imports import imported
from weft.types.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Callable

# The classes of the standard types. Other types use that of their nearest ancestor.
STANDARD_CLASSES: Final = {
    TypeIndex.OBJECT: ("weft.ffi.object", "Object"),
    TypeIndex.ERROR: ("weft.ffi.error", "Error"),
    TypeIndex.TENSOR: ("weft.ffi.tensor", "Tensor"),
    TypeIndex.ARRAY: ("weft.ffi.container", "Array"),
    TypeIndex.MAP: ("weft.ffi.container", "Map"),
    TypeIndex.MODULE: ("weft.ffi.function", "Module"),
    TypeIndex.LIST: ("weft.ffi.container", "List"),
    TypeIndex.DICT: ("weft.ffi.container", "Dict"),
}


# TVMFFIFieldFlagBitMask.
_WRITABLE: Final = 1 << 0
_HAS_DEFAULT: Final = 1 << 1
_STATIC_METHOD: Final = 1 << 2


def standard_class(type_index: int) -> type[_native.Object] | None:
    """The class of a standard type, or None. The extension calls it when it first meets a type."""
    if type_index not in STANDARD_CLASSES:
        return None
    module, name = STANDARD_CLASSES[type_index]
    return getattr(imported(module), name)


class Object(_native.Object):
    """Owns one reference to an FFI object and releases it, on whichever thread.

    Args:
        handle: the object's address.
        borrowed: True adds a reference: the caller keeps its own. False takes over the caller's. There is no default: a
            wrong guess frees memory in use, or leaks it.

    Wrappers of the same object are equal. The type's registered fields and methods are attributes.

    Raises:
        ValueError: if the handle is null, or on any use after `release()`.

    Example:
        >>> import weft.ffi
        >>> array = weft.ffi.Array([1, 2])
        >>> same = weft.ffi.Object(array.address, borrowed=True)
        >>> same == array, array.reference_count
        (True, 2)
    """

    __slots__ = ()

    def move(self) -> _native.Moved:
        """Lets a callee take over the object: ``function(array.move())``.

        A callee with an rvalue parameter receives the reference, and can change an unshared array in place; this
        wrapper is then empty. Otherwise the wrapper keeps its reference.
        """
        return _native.Moved(self)

    def is_instance(self, type_key: str) -> bool:
        """Whether the object's type is this type or derives from it.

        Raises:
            TypeError: if `type_key` is not a string.
            ValueError: if the object has been moved from.
        """
        if not isinstance(type_key, str):
            raise TypeError(f"is_instance: expected a type's key as str, received {type_key!r}")
        return any(info.key == type_key for info in type_and_ancestors(self.type_index))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return get_member(self, name)

    def __setattr__(self, name: str, value: object) -> None:
        if not set_field(self, name, value):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *member_names(self.type_index)})


_Class = TypeVar("_Class", bound=type[Object])


def register_object(type_key: str) -> Callable[[_Class], _Class]:
    """Registers a class for the objects of a registered type and of types derived from it.

    Calling the class constructs an object, unless the class has a `__new__` of its own.

    Raises:
        ValueError: if no type has that key.
        TypeError: if the class is not derived from `Object`.

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
        made = create_object(type_key, *arguments, **fields)
        return _native.Object.__new__(cls, made.release(), borrowed=False)

    return construct


class Field(Frozen):
    """A field of a type: its place and its use."""

    type_index: int
    number: int
    name: str
    doc: str
    metadata: str
    flags: int
    offset: int
    size: int

    @property
    def is_writable(self) -> bool:
        """Whether it is writable."""
        return bool(self.flags & _WRITABLE)

    @property
    def has_default(self) -> bool:
        """Whether the constructor may omit it."""
        return bool(self.flags & _HAS_DEFAULT)

    def __repr__(self) -> str:
        return f"<weft.ffi field {self.name!r}{'' if self.is_writable else ', read-only'}>"


class Method(Frozen):
    """A method of a type."""

    type_index: int
    number: int
    name: str
    doc: str
    metadata: str
    flags: int

    @property
    def is_static(self) -> bool:
        """Whether it takes no object."""
        return bool(self.flags & _STATIC_METHOD)

    def function(self) -> _native.Function:
        """The method as a function; it takes the object first unless it is static."""
        return _native.get_method(self.type_index, self.number)

    def __repr__(self) -> str:
        return f"<weft.ffi method {self.name!r}{', static' if self.is_static else ''}>"


class TypeInfo:
    """A type of the ABI as registered now; see `type_info`.

    Attributes:
        index: its type index in this process.
        key: its name.
        ancestors: the type indices of its bases, the root first.
        fields: its own, each with `name`, `doc`, `is_writable` and `has_default`.
        methods: its own, each with `name`, `doc` and `is_static`.
        doc: its documentation.
        size: bytes of an object.

    Example:
        >>> info = type_info("ffi.Module")
        >>> info.key, [type_info(index).key for index in info.ancestors]
        ('ffi.Module', ['ffi.Object'])
    """

    def __init__(self, row: tuple[Any, ...]) -> None:
        index, self.key, self.doc, self.ancestors, fields, methods, self.size = row
        self.index: int = index
        self.fields = tuple(Field(index, n, *field) for n, field in enumerate(fields))
        self.methods = tuple(Method(index, n, *method) for n, method in enumerate(methods))

    def __repr__(self) -> str:
        return f"<weft.ffi type {self.key}, {len(self.fields)} fields, {len(self.methods)} methods>"


def type_info(type: int | str | _native.Object) -> TypeInfo:
    """The description of a type.

    Args:
        type: its key, its index, or an object of it.

    Raises:
        KeyError: if no type has that key.
        ValueError: if no type has that index.
        TypeError: if it is not one of the above.

    Example:
        >>> type_info("ffi.Array").index
        71
    """
    if isinstance(type, str):
        index = _native.type_key_to_index(type)
        if index is None:
            raise KeyError(f"no FFI type is registered as {type!r}")
    elif isinstance(type, int | _native.Object):
        index = type if isinstance(type, int) else type.type_index
    else:
        raise TypeError(f"type_info: expected a type's key, index or object, received {type!r}")
    return TypeInfo(_native.type_info(index))


def create_object(type_key: str, *arguments: object, **fields: object) -> Object:
    """A new object of a registered type, made by the type's constructor.

    Args:
        type_key: of the type.
        arguments: of the constructor, in order.
        fields: by name, for types whose constructor takes names.

    Raises:
        KeyError: if no type has that key.
        TypeError: if the type has no constructor, or the arguments do not fit it.

    Example:
        >>> from weft.ffi import load_module
        >>> from weft.ffi.library import find_ffi_library
        >>> path = find_ffi_library().replace("libtvm_ffi", "libtvm_ffi_testing")
        >>> library = load_module(path)  # registers its types
        >>> pair = create_object("testing.TestIntPair", 3, 4)
        >>> pair.a, pair.b, pair.sum()
        (3, 4, 7)
    """
    if not isinstance(type_key, str):
        raise TypeError(f"create_object: expected a type's key as str, received {type_key!r}")
    info = type_info(type_key)
    for method in info.methods:
        if method.name == "__ffi_init__":
            constructor = method.function()
            break
    else:
        constructor = _native.type_attribute(info.index, "__ffi_init__")
        if constructor is None:
            raise TypeError(f"FFI type {type_key!r} has no constructor")
    if not fields:
        return constructor(*arguments)
    marker = imported("weft.ffi.function").standard_function("ffi.GetKwargsObject", "objects")()
    named = [part for pair in fields.items() for part in pair]
    return constructor(*arguments, marker, *named)


@cache
def _find_member(type_index: int, name: str) -> Field | Method:
    # Only successes are remembered: a library loaded later may register more.
    owners = type_and_ancestors(type_index)
    for owner in owners:
        for member in (*owner.fields, *owner.methods):
            if member.name == name:
                return member
    key = repr(owners[0].key) if owners else f"unregistered index {type_index}"
    raise AttributeError(f"FFI object of type {key} has no attribute {name!r}")


def type_and_ancestors(type_index: int) -> list[TypeInfo]:
    """The type and its ancestors, the nearest first; empty for an unregistered type."""
    try:
        info = type_info(type_index)
    except ValueError:
        return []
    return [info, *(type_info(index) for index in reversed(info.ancestors))]


def member_names(type_index: int) -> list[str]:
    """The names of all fields and methods, inherited ones included."""
    owners = type_and_ancestors(type_index)
    return [member.name for owner in owners for member in (*owner.fields, *owner.methods)]


def get_member(object: _native.Object, name: str) -> Any:
    """The value of a field, or a method bound to the object.

    Raises:
        AttributeError: if the object's type has neither.
    """
    member = _find_member(object.type_index, name)
    if isinstance(member, Field):
        return _native.get_field(object, member.type_index, member.number)
    return member.function() if member.is_static else partial(member.function(), object)


def set_field(object: _native.Object, name: str, value: object) -> bool:
    """Sets a field; False if the type has no such field.

    Raises:
        AttributeError: if the field is read-only.
    """
    try:
        member = _find_member(object.type_index, name)
    except AttributeError:
        return False
    if isinstance(member, Method):
        raise AttributeError(f"{name!r} is a method and cannot be set")
    _native.set_field(object, member.type_index, member.number, value)
    return True
