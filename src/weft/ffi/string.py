# SPDX-License-Identifier: Apache-2.0
"""Strings and bytes encoded once and passed many times.

In: str and bytes, which calls also accept directly. Out: values that need no encoding; up to seven bytes are stored
inline, more in an object.
"""

from __future__ import annotations

from weft import _native
from weft.ffi.abi import TypeIndex


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
