# SPDX-License-Identifier: Apache-2.0
"""Types of the `simt` dialect: tensor and stream.

In: an element type and the facts of a signature. Out: `!simt.tensor<...>`, `!simt.stream`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from xdsl.dialects import builtin
from xdsl.dialects.builtin import (
    ArrayAttr,
    FixedBitwidthType,
    IntAttr,
    NoneAttr,
    StringAttr,
)
from xdsl.ir import Attribute, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.utils.exceptions import VerifyException

from weft.types.dims import MAX_RANK
from weft.types.dtype import INFO

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.dialects.builtin import AnyFloat
    from xdsl.parser import AttrParser
    from xdsl.printer import Printer

_BY_MLIR: Final[dict[str, Any]] = {kind.name: kind for kind in builtin.Builtin.attributes}
FLOAT_TYPES: Final[dict[str, type[AnyFloat]]] = {
    name: _BY_MLIR[info.mlir] for name, info in INFO.items() if info.format is not None
}
"""The classes of the float types in the IR, by users' names."""

DYNAMIC: Final = -1
"""A dimension known only at run time; prints as `?`."""

UNBOUNDED: Final = (1 << 63) - 1
"""The only dimension of a pointer, unbounded; prints as `*`."""

LAYOUT_CLASSES: Final = ("contiguous", "inner", "strided", "swizzled")
"""contiguous: strides follow from dims; inner: the last stride is 1; strided: any strides, including 0 and negative;
swizzled: the last two dims lie in swizzle atoms (`Swizzle`)."""

SWIZZLES: Final = (32, 64, 128)
"""Bytes of an atom's row."""

SWIZZLED_ALIGNMENT: Final = 1024
"""Alignment of swizzled arrays: eight rows of the widest atom, after which all patterns repeat."""

TILE_ALIGNMENT: Final = 128
"""Alignment of other shared arrays of at least as many bytes: that of copies through TMA."""

ADDRESS_SPACES: Final = ("global", "shared", "cluster", "local")
"""shared: the block's own memory; cluster: that of a block of the same cluster, which may be another one."""


def packed_bits(value_type: Attribute) -> int:
    """Bits of a packed element, fewer than 8; 0 for a type whose elements take whole bytes."""
    if not isinstance(value_type, FixedBitwidthType):
        return 0
    width = value_type.bitwidth
    return width if 1 < width < 8 else 0


@irdl_attr_definition
class Swizzle(ParametrizedAttribute):
    """Swizzled layout of a shared array's last two dims: `128 atoms 8192`, `128 atoms 8192 transposed`.

    Swizzle atoms of 8 rows of `row_bytes` are stored below each other; the next column of atoms
    begins `atom_stride` elements after the one before. The address so found is the linear one. The element lies where
    the 16-byte chunk's number is xored with the row's: `linear ^ (linear >> 3 & mask)`, with the absolute address in
    shared memory. So do TMA's copies and wgmma's operands lie (PTX ISA, "Shared memory matrix layout").

    `transposed` tells that the dims of the type are columns, rows.
    """

    name = "simt.swizzle"

    row_bytes: IntAttr
    atom_stride: IntAttr
    is_transposed: IntAttr

    @staticmethod
    def get(row_bytes: int, atom_stride: int, *, is_transposed: bool = False) -> Swizzle:
        """The swizzle with these parameters."""
        return Swizzle(IntAttr(row_bytes), IntAttr(atom_stride), IntAttr(int(is_transposed)))

    @property
    def mask(self) -> int:
        """The bits of an address that are xored."""
        return self.row_bytes.data - 16

    @property
    def alignment_bytes(self) -> int:
        """The pattern repeats after as many bytes; operands of copies and MMAs begin at a multiple."""
        return 8 * self.row_bytes.data

    @property
    def transposed(self) -> Swizzle:
        """The same memory with rows and columns exchanged."""
        return Swizzle.get(
            self.row_bytes.data,
            self.atom_stride.data,
            is_transposed=not self.is_transposed.data,
        )

    @property
    def text(self) -> str:
        """As in the type."""
        suffix = " transposed" if self.is_transposed.data else ""
        return f"{self.row_bytes.data} atoms {self.atom_stride.data}{suffix}"


@irdl_attr_definition
class TensorType(ParametrizedAttribute, TypeAttribute):
    """`!simt.tensor<f32, [?, 4], contiguous, global, dims 32, offsets 64, align 4>`.

    The element type is a builtin one (`i1` for bool, `f8E4M3FN`, `f8E5M2`). `dims` is the width of the
    integers that `simt.dim` yields; `offsets` is the width of element offsets: 32 only where the wrapper proves that
    every offset fits. `align` is the data pointer's alignment in bytes, guaranteed by the wrapper. After the layout
    class `swizzled` comes the `Swizzle`: `swizzled 128 atoms 8192`.
    """

    name = "simt.tensor"

    element_type: Attribute
    shape: ArrayAttr[IntAttr]
    layout: StringAttr
    space: StringAttr
    dim_bits: IntAttr
    offset_bits: IntAttr
    alignment_bytes: IntAttr
    swizzle: Swizzle | NoneAttr

    @staticmethod
    def get(
        element_type: Attribute,
        shape: Sequence[int],
        layout: str = "contiguous",
        space: str = "global",
        dim_bits: int = 32,
        offset_bits: int = 64,
        alignment_bytes: int = 1,
        swizzle: Swizzle | None = None,
    ) -> TensorType:
        """The type with these parameters; `shape` holds DYNAMIC for a run-time dimension.

        A swizzle is one of the layout class `swizzled`.
        """
        return TensorType(
            element_type,
            ArrayAttr([IntAttr(dim) for dim in shape]),
            StringAttr(layout if swizzle is None else "swizzled"),
            StringAttr(space),
            IntAttr(dim_bits),
            IntAttr(offset_bits),
            IntAttr(alignment_bytes),
            swizzle or NoneAttr(),
        )

    @property
    def rank(self) -> int:
        return len(self.shape.data)

    @property
    def dims(self) -> tuple[int, ...]:
        return tuple(dim.data for dim in self.shape.data)

    @property
    def is_pointer(self) -> bool:
        """Whether it is a bare address: one unbounded dimension."""
        return self.dims == (UNBOUNDED,)

    @property
    def swizzle_atoms(self) -> Swizzle | None:
        """Swizzle atoms of the last two dims; None for any other layout."""
        return self.swizzle if isinstance(self.swizzle, Swizzle) else None

    @property
    def atom_columns(self) -> int:
        """Elements in a row of an atom."""
        swizzle, element = self.swizzle_atoms, self.element_type
        assert swizzle is not None
        assert isinstance(element, FixedBitwidthType)
        return swizzle.row_bytes.data // element.size

    @property
    def open_strides(self) -> int:
        """Number of strides, from the first on, that the layout class leaves open."""
        closed = {"contiguous": self.rank, "inner": min(self.rank, 1), "swizzled": self.rank}
        return self.rank - closed.get(self.layout.data, 0)

    def static_stride(self, dimension: int) -> int | None:
        """A stride fixed by the type, in elements; None if known only at run time.

        Those of the last two dims of a swizzled array are those within an atom.
        """
        layout, after = self.layout.data, self.dims[dimension + 1 :]
        if (swizzle := self.swizzle_atoms) is not None:
            if len(after) >= 2:
                return math.prod(after)
            return 1 if bool(after) == bool(swizzle.is_transposed.data) else self.atom_columns
        if layout == "strided" or (after and layout != "contiguous") or DYNAMIC in after:
            return None
        return math.prod(after)

    def advanced(self) -> TensorType:
        """The type of `simt.advance` of a tensor: offsets are exact, and nothing is known of the address."""
        assert self.swizzle_atoms is None
        return TensorType.get(
            self.element_type, self.dims, self.layout.data, self.space.data, self.dim_bits.data
        )

    def in_space(self, space: str) -> TensorType:
        """The same type of another address space."""
        return TensorType.get(
            self.element_type,
            self.dims,
            self.layout.data,
            space,
            self.dim_bits.data,
            self.offset_bits.data,
            self.alignment_bytes.data,
            self.swizzle_atoms,
        )

    def joined(self, other: TensorType) -> TensorType | None:
        """The common type of tensors of two types, with the facts that hold for both; None if there is none.

        Elements, rank, layout class and address space must agree; dims that differ are only known at run time.
        """
        pairs = list(zip(self.dims, other.dims, strict=False))
        if (self.element_type, self.rank, self.layout, self.space, self.is_pointer) != (
            *(other.element_type, other.rank, other.layout, other.space, other.is_pointer),
        ):
            return None
        if self.swizzle != other.swizzle or (
            self.swizzle_atoms is not None and self.dims != other.dims
        ):
            return None
        return TensorType.get(
            self.element_type,
            [one if one == two else DYNAMIC for one, two in pairs],
            layout=self.layout.data,
            space=self.space.data,
            dim_bits=max(self.dim_bits.data, other.dim_bits.data),
            offset_bits=max(self.offset_bits.data, other.offset_bits.data),
            alignment_bytes=min(self.alignment_bytes.data, other.alignment_bytes.data),
            swizzle=self.swizzle_atoms,
        )

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> list[Attribute]:
        with parser.in_angle_brackets():
            element = parser.parse_type()
            parser.parse_punctuation(",")
            shape = parser.parse_comma_separated_list(
                parser.Delimiter.SQUARE, lambda: _parse_dim(parser)
            )
            parser.parse_punctuation(",")
            layout = parser.parse_identifier()
            swizzle = _parse_swizzle(parser) if layout == "swizzled" else NoneAttr()
            parser.parse_punctuation(",")
            space = parser.parse_identifier()
            numbers: list[int] = []
            for keyword in ("dims", "offsets", "align"):
                parser.parse_punctuation(",")
                parser.parse_keyword(keyword)
                numbers.append(parser.parse_integer())
        return [
            element,
            ArrayAttr([IntAttr(dim) for dim in shape]),
            StringAttr(layout),
            StringAttr(space),
            *(IntAttr(number) for number in numbers),
            swizzle,
        ]

    def print_parameters(self, printer: Printer) -> None:
        words = {DYNAMIC: "?", UNBOUNDED: "*"}
        dims = ", ".join(words.get(dim) or str(dim) for dim in self.dims)
        layout = self.layout.data + (
            f" {self.swizzle_atoms.text}" if self.swizzle_atoms is not None else ""
        )
        with printer.in_angle_brackets():
            printer.print_attribute(self.element_type)
            printer.print_string(
                f", [{dims}], {layout}, {self.space.data}, dims {self.dim_bits.data}, "
                f"offsets {self.offset_bits.data}, align {self.alignment_bytes.data}"
            )

    def verify(self) -> None:
        if self.rank > MAX_RANK:
            raise VerifyException(f"rank {self.rank} is above {MAX_RANK}")
        if any(dim < DYNAMIC for dim in self.dims):
            raise VerifyException(f"negative dimension in {self.dims}")
        if self.layout.data not in LAYOUT_CLASSES:
            raise VerifyException(f"layout {self.layout.data!r} is not one of {LAYOUT_CLASSES}")
        if self.space.data not in ADDRESS_SPACES:
            raise VerifyException(
                f"address space {self.space.data!r} is not one of {ADDRESS_SPACES}"
            )
        for bits in (self.dim_bits.data, self.offset_bits.data):
            if bits not in (32, 64):
                raise VerifyException(f"{bits} is neither 32 nor 64 bits")
        alignment = self.alignment_bytes.data
        if alignment < 1 or alignment & (alignment - 1):
            raise VerifyException(f"alignment of {alignment} bytes is not a power of two")
        self._verify_atoms()

    def _verify_atoms(self) -> None:
        swizzle = self.swizzle_atoms
        if (swizzle is not None) != (self.layout.data == "swizzled"):
            raise VerifyException("the layout class swizzled comes with its atoms")
        if swizzle is None:
            return
        if swizzle.row_bytes.data not in SWIZZLES:
            raise VerifyException(
                f"an atom's row of {swizzle.row_bytes.data} bytes is not one of {SWIZZLES}"
            )
        if self.space.data not in ("shared", "cluster") or self.rank < 2 or DYNAMIC in self.dims:
            raise VerifyException(
                "a swizzled array has constant dims, two or more, and is in the shared space"
            )


def array_bytes(dims: Sequence[int], element: Attribute) -> int:
    """Bytes of an array of static shape; a bool takes one byte.

    Example:
        >>> from xdsl.dialects.builtin import f32, i1
        >>> array_bytes((8, 4), f32), array_bytes((3,), i1)
        (128, 3)
    """
    assert isinstance(element, FixedBitwidthType)
    return math.prod(dims) * element.size


def _parse_swizzle(parser: AttrParser) -> Swizzle:
    row_bytes = parser.parse_integer()
    parser.parse_keyword("atoms")
    atom_stride = parser.parse_integer()
    is_transposed = parser.parse_optional_keyword("transposed") is not None
    return Swizzle.get(row_bytes, atom_stride, is_transposed=is_transposed)


def _parse_dim(parser: AttrParser) -> int:
    if parser.parse_optional_punctuation("?") is not None:
        return DYNAMIC
    if parser.parse_optional_punctuation("*") is not None:
        return UNBOUNDED
    return parser.parse_integer(allow_negative=False)


@irdl_attr_definition
class StreamType(ParametrizedAttribute, TypeAttribute):
    """`!simt.stream`: a CUstream handle; ignored on the CPU."""

    name = "simt.stream"
