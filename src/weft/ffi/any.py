# SPDX-License-Identifier: Apache-2.0
"""Values of the ABI with explicit ownership: `Any` owns, `AnyView` borrows; strings encoded once and passed many times.

In: Python values, or a TVMFFIAny in memory; str and bytes, which calls also accept directly. Out: the value moved out
(`take`) or shared (`copy`); up to seven bytes are stored inline, more in an object.
"""

from __future__ import annotations

from typing import Final

from weft import _native
from weft.ffi.abi import TypeIndex

Any: Final = _native.OwnedAny
"""An FFI value that owns its content: ``Any(value)``, or ``Any.from_address(address, borrowed=...)``.

`copy()` returns the value with its own reference; `take()` moves it out, after which every use but `is_moved` raises
`ValueError`. `view()` borrows it. `type_index` and `type_key` name its type. As an argument it is passed unchanged,
without being encoded again.

Args:
    value: any argument of a foreign function that is not lent for one call only.

Raises:
    TypeError: for a lent value, at any depth: a `TensorView`, or a moved argument.
    ValueError: after `take()`.

Example:
    >>> value = Any([1, "two"])
    >>> value.type_key, value.copy(), value.take(), value.is_moved
    ('ffi.Array', (1, 'two'), (1, 'two'), True)
"""

AnyView: Final = _native.AnyView
"""A borrowed FFI value: from an `Any`, or from the caller of a callback wrapped with `views=True`.

It ends when the `Any` is taken or the callback returns; then every use raises `ValueError`. `copy()` returns the value
with its own reference, which may be kept; `to_any()` returns an owning `Any`, except for a tensor that is only lent
(`TypeError`).

Example:
    >>> value = Any([1, "two"])
    >>> view = value.view()
    >>> view.type_key, view.copy()
    ('ffi.Array', (1, 'two'))
    >>> sizes = wrap_function(lambda view: view.type_key, views=True)
    >>> sizes("a text of some length")
    'ffi.String'
"""


class String(_native.OwnedAny):
    """A string in FFI form.

    Example:
        >>> String("short").is_inline, String("longer than that").is_inline, str(String("text"))
        (True, False, 'text')
    """

    __slots__ = ()

    def __new__(cls, text: str) -> String:
        if not isinstance(text, str):
            raise TypeError(f"String: expected a str, received {type(text).__name__}")
        return super().__new__(cls, text)

    @property
    def is_inline(self) -> bool:
        """Whether the string is stored inline, without an object."""
        return self.type_index == TypeIndex.SMALL_STRING

    def __str__(self) -> str:
        return str(self.copy())

    def __len__(self) -> int:
        return len(str(self))

    def __eq__(self, other: object) -> bool:
        return str(self) == str(other) if isinstance(other, String | str) else NotImplemented

    def __hash__(self) -> int:
        return hash(str(self))

    def __repr__(self) -> str:
        return "String(moved from)" if self.is_moved else f"String({str(self)!r})"


class Bytes(_native.OwnedAny):
    """Bytes in FFI form.

    Example:
        >>> bytes(Bytes(b"abc")), len(Bytes(b"abc")), Bytes(b"abc") == b"abc"
        (b'abc', 3, True)
    """

    __slots__ = ()

    def __new__(cls, data: bytes) -> Bytes:
        if not isinstance(data, bytes):
            raise TypeError(f"Bytes: expected bytes, received {type(data).__name__}")
        return super().__new__(cls, data)

    @property
    def is_inline(self) -> bool:
        """Whether the bytes are stored inline, without an object."""
        return self.type_index == TypeIndex.SMALL_BYTES

    def __bytes__(self) -> bytes:
        return bytes(self.copy())

    def __len__(self) -> int:
        return len(bytes(self))

    def __eq__(self, other: object) -> bool:
        return bytes(self) == bytes(other) if isinstance(other, Bytes | bytes) else NotImplemented

    def __hash__(self) -> int:
        return hash(bytes(self))

    def __repr__(self) -> str:
        return "Bytes(moved from)" if self.is_moved else f"Bytes({bytes(self)!r})"
