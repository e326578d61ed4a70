# SPDX-License-Identifier: Apache-2.0
"""Users' names and texts in LLVM text.

In: a name or text of any letters and length. Out: a name or text valid in LLVM.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from xdsl.ir import SSAValue

_PLAIN: Final = re.compile(r"[A-Za-z0-9_.$-]+")
_NO_LETTERS: Final = re.compile(r"[^A-Za-z0-9_.$-]+")
# All printable characters except quotation mark and backslash.
_OTHER_BYTE: Final = re.compile(rb"[^ !#-\[\]-~]")
# LLVM cuts names of local values at 1,024 characters, which may make them equal.
_LONGEST: Final = 200


def local_stem(value: SSAValue, otherwise: str = "v") -> str:
    """A value's name in LLVM text, before the number that makes it unique.

    Args:
        value: with the user's name, if any.
        otherwise: for a value without a name.
    """
    name = value.name_hint
    return otherwise if name is None else path_stem(name)


def path_stem(path: str) -> str:
    """The same for a parameter's name, or a path to one of its items.

    Example:
        >>> path_stem("pair[1].x"), path_stem("größe"), len(path_stem("n" * 5000))
        ('pair_1_.x', 'gr$F6$$DF$e', 200)
    """
    if _PLAIN.fullmatch(path) is None:
        path = _NO_LETTERS.sub("_", ascii_name(path)).strip("_")
    return path if len(path) <= _LONGEST else path[:_LONGEST]


def ascii_name(name: str) -> str:
    """A name with non-ASCII letters as code points between `$`.

    Example:
        >>> ascii_name("add_one"), ascii_name("größe")
        ('add_one', 'gr$F6$$DF$e')
    """
    if name.isascii():
        return name
    return "".join(letter if letter.isascii() else f"${ord(letter):X}$" for letter in name)


def global_name(name: str) -> str:
    r"""The name of a function or variable of an LLVM module, quoted if necessary.

    Example:
        >>> global_name("weft.host.scale"), global_name("größe")
        ('@weft.host.scale', '@"gr\\C3\\B6\\C3\\9Fe"')
    """
    return f"@{name}" if _PLAIN.fullmatch(name) else f"@{quoted(name)}"


def utf8(text: str) -> bytes:
    r"""A text as UTF-8; code points without UTF-8 (lone surrogates) as Python shows them.

    Example:
        >>> utf8("größe"), utf8("caf\udce9")
        (b'gr\xc3\xb6\xc3\x9fe', b'caf\\udce9')
    """
    return text.encode(errors="backslashreplace")


def quoted(text: str | bytes) -> str:
    r"""Text or bytes as an LLVM string: unusual characters as two hexadecimal digits.

    Example:
        >>> quoted('say "hi"'), quoted(b"a\0")
        ('"say \\22hi\\22"', '"a\\00"')
    """
    data = utf8(text) if isinstance(text, str) else text
    body = _OTHER_BYTE.sub(lambda found: b"\\%02X" % found[0][0], data)
    return f'"{body.decode()}"'
