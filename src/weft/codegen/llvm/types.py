# SPDX-License-Identifier: Apache-2.0
"""Types and constants in LLVM text.

In: xDSL types and Python numbers. Out: `i32`, `float`, `0x3FF0000000000000`. Floats are written as bits, without loss;
those below 32 bits are integers with their bits.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from xdsl.dialects.builtin import Float32Type, Float64Type, IndexType, IntegerType

from weft.dialects.nvgpu.tensor_map import TensorMapType
from weft.dialects.simt.types import FLOAT_TYPES, StreamType
from weft.errors import REPORT_HINT, InternalCompilerError
from weft.types.dtype_info import INFO

if TYPE_CHECKING:
    from xdsl.ir import Attribute

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
    """How a GPU's thread holds a fragment: the type of its registers, and their number; small elements are packed."""
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
