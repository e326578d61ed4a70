# SPDX-License-Identifier: Apache-2.0
"""Types, constants, names and address arithmetic in LLVM text.

In: xDSL types, Python numbers, users' names and texts of any letters and length. Out: `i32`, `float`,
`0x3FF0000000000000`; floats are written as bits, without loss; those below 32 bits are integers with their bits. Names
and texts valid in LLVM. Products and sums of integers, names or constants, with the instructions that they need, which
leave out zeros and ones; where elements of swizzled arrays lie.
"""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING, Final, Protocol

from xdsl.dialects.builtin import Float32Type, Float64Type, IndexType, IntegerType

from weft.dialects.nvgpu.tensor_map import TensorMapType
from weft.dialects.simt.types import FLOAT_TYPES, StreamType
from weft.errors import REPORT_HINT, InternalCompilerError
from weft.types.dtype import INFO

if TYPE_CHECKING:
    from xdsl.ir import Attribute, SSAValue

    from weft.dialects.simt.fragment import FragmentType


# A small float is represented by its bits; only an operation's own instructions see LLVM's half or bfloat. On machines
# without these types, LLVM carries them between blocks as floats, and converts back by calling functions that no C
# library has, or with instructions that flush subnormals to zero.
_TEXTS: Final[dict[type[Attribute], str]] = {
    **{kind: INFO[name].llvm for name, kind in FLOAT_TYPES.items()},
    IndexType: "i64",
    StreamType: "ptr",
    TensorMapType: "ptr",
}

# Users' names of the float types, also used in names of conversion functions.
FLOAT_NAMES: Final[dict[type[Attribute], str]] = {kind: name for name, kind in FLOAT_TYPES.items()}

_BYTES: Final = {"float": 4, "double": 8, "ptr": 8}


def llvm_type(value_type: Attribute) -> str:
    """The type of an SSA value; a bool is `i1`, a small float an integer of its width."""
    text = _TEXTS.get(type(value_type))
    if text is not None:
        return text
    if isinstance(value_type, IntegerType):
        return f"i{value_type.width.data}"  # pyright: ignore[reportUnknownMemberType]
    raise InternalCompilerError(
        "CODEGEN_TYPE", f"no LLVM type for a value of type {value_type}", hint=REPORT_HINT
    )


def memory_type(value_type: Attribute) -> str:
    """The type of an element in memory or of a parameter: as `llvm_type`, but a bool is one byte."""
    text = llvm_type(value_type)
    return "i8" if text == "i1" else text


_CHUNK_BYTES: Final = 32  # as coroutines' frames are aligned


def fragment_registers(kind: FragmentType) -> tuple[str, int]:
    """Registers of a fragment in a GPU's thread: their type and number; small elements are packed."""
    text, count = memory_type(kind.element_type), kind.layout.elements
    size = size_in_bytes(text)
    return (text, count) if size >= 4 else ("i32", -(-count * size // 4))


def fragment_chunks(kind: FragmentType) -> list[tuple[int, str]]:
    """A fragment on the CPU: vectors of adjacent elements, each with the number of its first element."""
    text, count = memory_type(kind.element_type), kind.layout.elements
    most = _CHUNK_BYTES // size_in_bytes(text)
    return [(first, f"<{min(most, count - first)} x {text}>") for first in range(0, count, most)]


def size_in_bytes(text: str) -> int:
    """Bytes of a value of an LLVM scalar type in memory; also its natural alignment."""
    known = _BYTES.get(text)
    return known if known is not None else (int(text[1:]) + 7) // 8


def integer_text(value: int, bits: int) -> str:
    """A constant of an integer type, signed or unsigned, wrapped to its width."""
    if bits == 1:
        return "true" if value & 1 else "false"
    value &= (1 << bits) - 1
    return str(value - (1 << bits) if value >> (bits - 1) else value)


def float_text(value: float, value_type: Attribute) -> str:
    """A constant of a float type, as the bits of its nearest value in that type."""
    kind = type(value_type)
    if kind is Float64Type:
        return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"
    if kind is Float32Type:
        return f32_text(value)
    info = INFO[FLOAT_NAMES[kind]]
    assert info.format is not None
    return integer_text(info.format.bits_of(value), info.bits)


def f32_text(value: float) -> str:
    """A float constant: written as the bits of the equal double."""
    try:
        rounded = struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        rounded = float("inf") if value > 0 else float("-inf")
    return f"0x{struct.unpack('<Q', struct.pack('<d', rounded))[0]:016X}"


def f64_text(value: float) -> str:
    """A double constant."""
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


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


class Printer(Protocol):
    """A function's printer, as far as this file needs it."""

    def let(self, expression: str, stem: str = "v") -> str:
        """Adds an instruction and returns the name of its result."""
        ...


def widened(printer: Printer, text: str, from_bits: int, to_bits: int) -> str:
    """A signed integer in another width; constants stay constants."""
    if from_bits == to_bits or not text.startswith("%"):
        return text
    instruction = "sext" if from_bits < to_bits else "trunc"
    return printer.let(f"{instruction} i{from_bits} {text} to i{to_bits}")


def swizzled(printer: Printer, linear: str, mask: int, pointer: str) -> str:
    """Location of an element of a swizzled array: bits 4 to 6 of its linear address, xored with bits 7 to 9.

    Shared addresses have 32 bits on GPUs; on the CPU they are the process's.
    """
    bits = 64 if pointer == "ptr" else 32
    address = printer.let(f"ptrtoint {pointer} {linear} to i{bits}")
    row = printer.let(f"lshr i{bits} {address}, 3")
    chunk = printer.let(f"and i{bits} {row}, {mask}")
    place = printer.let(f"xor i{bits} {address}, {chunk}")
    return printer.let(f"inttoptr i{bits} {place} to {pointer}", "at")


def divided(printer: Printer, text: str, width: int, bits: int) -> tuple[str, str]:
    """Quotient and rest of an index by a power of two."""
    if not text.startswith("%"):
        return str(int(text) // width), str(int(text) % width)
    quotient = printer.let(f"lshr i{bits} {text}, {width.bit_length() - 1}")
    return quotient, printer.let(f"and i{bits} {text}, {width - 1}")


def shifted(printer: Printer, text: str, width: int, bits: int) -> str:
    """An offset, which may be negative, divided by a power of two that divides it."""
    if not text.startswith("%"):
        return str(int(text) // width)
    return printer.let(f"ashr exact i{bits} {text}, {width.bit_length() - 1}")


def times(printer: Printer, lhs: str, rhs: str, kind: str) -> str:
    """A multiplication; `kind` is its type, with flags: ``nsw i32``."""
    if "0" in (lhs, rhs):
        return "0"
    if lhs == "1":
        return rhs
    return lhs if rhs == "1" else printer.let(f"mul {kind} {lhs}, {rhs}")


def plus(printer: Printer, lhs: str, rhs: str, kind: str) -> str:
    """A sum; `kind` as for `times`."""
    if lhs == "0":
        return rhs
    return lhs if rhs == "0" else printer.let(f"add {kind} {lhs}, {rhs}")
