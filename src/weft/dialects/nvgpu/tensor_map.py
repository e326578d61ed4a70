# SPDX-License-Identifier: Apache-2.0
"""Tensor maps: made in host functions, read by `nvgpu.tma_…`, copied and edited by kernels.

In: a tensor in global memory, a box, a swizzle. Out: a value of 128 bytes, which kernels take as a parameter; of
`nvgpu.copy_map`, a map in global memory, and its type says so.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from xdsl.dialects.builtin import ArrayAttr, FixedBitwidthType, IntAttr, StringAttr, i1
from xdsl.ir import Attribute, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import (
    IRDLOperation,
    irdl_attr_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, NoMemoryEffect
from xdsl.utils.exceptions import VerifyException

from weft.dialects.access import Access, Accesses, NeedsParts, Requires
from weft.dialects.definition import (
    BaseOperation,
    DependsOnWarps,
    operand,
    operation_definition,
    result_of,
    text_attribute,
)
from weft.dialects.simt.types import TensorType, array_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.ir import OpResult, SSAValue
    from xdsl.irdl import Operand
    from xdsl.parser import AttrParser
    from xdsl.printer import Printer


MOST_RANK: Final = 5
MOST_BOX: Final = 256
"""Most elements of one copy along each dimension."""
MOST_PIXELS: Final = 1024
"""Most pixels of one copy of an im2col map."""
SWIZZLES: Final = (0, 32, 64, 128)


@irdl_attr_definition
class TensorMapType(ParametrizedAttribute, TypeAttribute):
    """`!nvgpu.tensor_map<bf16, [128, 64], swizzle 128>`: elements, box and the swizzle's bytes, 0 for none.

    With `, im2col 4` it is of images in a tensor of rank 4, and the box is pixels by channels. With `, memory` a kernel
    has written it to global memory, else it is an argument of the launch.
    """

    name = "nvgpu.tensor_map"

    element_type: Attribute
    box_attr: ArrayAttr[IntAttr]
    swizzle_attr: IntAttr
    im2col_attr: IntAttr
    memory_attr: IntAttr

    @staticmethod
    def get(
        element_type: Attribute, box: Sequence[int], swizzle: int, im2col_rank: int = 0
    ) -> TensorMapType:
        """The type with these parameters; `im2col_rank` is 0 for a map whose boxes are parts of the tensor."""
        sizes = ArrayAttr([IntAttr(size) for size in box])
        return TensorMapType(
            element_type, sizes, IntAttr(swizzle), IntAttr(im2col_rank), IntAttr(0)
        )

    def placed_in_memory(self) -> TensorMapType:
        """The same of a map that a kernel has written."""
        return TensorMapType(
            self.element_type, self.box_attr, self.swizzle_attr, self.im2col_attr, IntAttr(1)
        )

    @property
    def in_memory(self) -> bool:
        """Whether a kernel has written the map, and may edit it."""
        return bool(self.memory_attr.data)

    @property
    def box(self) -> tuple[int, ...]:
        """Elements along each dimension, slowest first."""
        return tuple(size.data for size in self.box_attr.data)

    @property
    def swizzle(self) -> int:
        """Bytes of the swizzle, 0 for none."""
        return self.swizzle_attr.data

    @property
    def is_im2col(self) -> bool:
        """Whether boxes are pixels by channels."""
        return bool(self.im2col_attr.data)

    @property
    def rank(self) -> int:
        """Dimensions of the tensor."""
        return self.im2col_attr.data or len(self.box)

    @property
    def itemsize(self) -> int:
        """Bytes of an element in memory."""
        assert isinstance(self.element_type, FixedBitwidthType)
        return self.element_type.size

    @property
    def piece(self) -> tuple[int, ...]:
        """The box of one copy of the machine: what lies together in the tile, at most MOST_BOX along each dimension.

        A swizzled tile is copied by columns of swizzle atoms, each with all its rows; dimensions of one element are not
        rows.

        Example:
            a box of (128, 1, 128) bf16 with a swizzle of 128 is copied in two pieces of (128, 1, 64)
        """
        *outer, last = self.box
        if self.is_im2col:
            atom = self.swizzle // self.itemsize if self.swizzle else last
            return *outer, min(last, atom)
        width = min(last, self.swizzle // self.itemsize) if self.swizzle else last
        sizes = [*outer, width]
        rows = max((dimension for dimension, size in enumerate(outer) if size > 1), default=0)
        found: list[int] = []
        is_whole = True  # whether all that is further inside lies in this piece
        for dimension in reversed(range(len(sizes))):
            size = sizes[dimension]
            found.append(_largest_divisor(size) if is_whole else 1)
            is_whole = is_whole and found[-1] == size
            if self.swizzle and dimension == rows:
                is_whole = is_whole and width == last
        return tuple(reversed(found))

    @property
    def pieces(self) -> int:
        """Number of copy instructions for one box."""
        return math.prod(self.box) // math.prod(self.piece)

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> list[Attribute]:
        with parser.in_angle_brackets():
            element = parser.parse_type()
            parser.parse_punctuation(",")
            box = parser.parse_comma_separated_list(
                parser.Delimiter.SQUARE, lambda: parser.parse_integer(allow_negative=False)
            )
            parser.parse_punctuation(",")
            parser.parse_keyword("swizzle")
            swizzle = parser.parse_integer(allow_negative=False)
            rank, memory = 0, 0
            while parser.parse_optional_punctuation(",") is not None:
                if parser.parse_optional_keyword("memory") is not None:
                    memory = 1
                    break
                parser.parse_keyword("im2col")
                rank = parser.parse_integer(allow_negative=False)
        sizes = ArrayAttr([IntAttr(size) for size in box])
        return [element, sizes, IntAttr(swizzle), IntAttr(rank), IntAttr(memory)]

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_attribute(self.element_type)
            images = f", im2col {self.rank}" if self.is_im2col else ""
            sizes = ", ".join(map(str, self.box))
            memory = ", memory" if self.in_memory else ""
            printer.print_string(f", [{sizes}], swizzle {self.swizzle}{images}{memory}")

    def verify(self) -> None:
        if not 1 <= len(self.box) <= MOST_RANK or min(self.box) < 1:
            raise VerifyException(f"a box has 1 to {MOST_RANK} sizes of at least 1")
        if self.is_im2col and (len(self.box) != 2 or not 3 <= self.rank <= MOST_RANK):
            raise VerifyException("an im2col map is of rank 3 to 5, and its box pixels by channels")
        if self.swizzle not in SWIZZLES:
            raise VerifyException(f"swizzle {self.swizzle} is not one of {SWIZZLES}")


def _largest_divisor(size: int) -> int:
    return next(n for n in range(min(size, MOST_BOX), 0, -1) if size % n == 0)


@operation_definition
class MakeTensorMapOp(IRDLOperation):
    """A tensor's map, in a host function; leaves it with an error where the tensor's address or strides allow none.

    `text` is the call in the source, `tensor` the tensor's name there; `element` the map's element type, with its sign
    (a key of `driver.tensor_map.ELEMENTS`), `l2_promotion` and `fill` keys of the tables there. An im2col map has
    `corners`: for each spatial dimension the first place of a kernel's first element, the last one counted from the
    end, and the step between places.
    """

    name = "nvgpu.make_tensor_map"

    source = operand_def(TensorType)
    text = prop_def(StringAttr)
    tensor = prop_def(StringAttr)
    element = prop_def(StringAttr)
    l2_promotion = prop_def(StringAttr)
    fill = prop_def(StringAttr)
    corners = opt_prop_def(ArrayAttr[IntAttr])
    result = result_def(TensorMapType)

    traits = traits_def(NoMemoryEffect())
    assembly_format = (
        "$source $text $tensor $element $l2_promotion $fill (`corners` $corners^)? attr-dict "
        "`:` type($source) `->` type($result)"
    )

    def __init__(
        self,
        source: SSAValue,
        names: tuple[str, str],
        modes: tuple[str, str, str],
        map_type: TensorMapType,
        corners: Sequence[tuple[int, int, int]] = (),
    ) -> None:
        text, tensor = names
        element, l2_promotion, fill = map(StringAttr, modes)
        super().__init__(
            operands=[source],
            properties={
                "text": text_attribute(text),
                "tensor": text_attribute(tensor),
                "element": element,
                "l2_promotion": l2_promotion,
                "fill": fill,
                "corners": ArrayAttr(IntAttr(one) for corner in corners for one in corner)
                if corners
                else None,
            },
            result_types=[map_type],
        )

    def verify_(self) -> None:
        if not isinstance(self.source.type, TensorType) or self.source.type.space.data != "global":
            raise VerifyException("a tensor map is of a tensor in global memory")
        kind = self.result.type
        if self.source.type.rank != kind.rank:
            raise VerifyException("the box has a size for each dimension of the tensor")
        if len(self.corners or ()) != (3 * (kind.rank - 2) if kind.is_im2col else 0):
            raise VerifyException("an im2col map has three numbers for each spatial dimension")
        if self.source.type.element_type != self.result.type.element_type:
            raise VerifyException("the map's elements are the tensor's")


MAP_BYTES: Final = 128
"""Size of a map, and alignment of one that kernels write."""


def _check_place(place: SSAValue, space: str) -> None:
    """Raises VerifyException for what does not hold one map."""
    kind = place.type
    assert isinstance(kind, TensorType)
    if kind.space.data != space:
        raise VerifyException(f"{kind} is not in {space} memory")
    if -1 in kind.dims or array_bytes(kind.dims, kind.element_type) != MAP_BYTES:
        raise VerifyException(f"{kind} has not the {MAP_BYTES} bytes of a map")


def _check_type(kind: object) -> TensorMapType:
    if not isinstance(kind, TensorMapType) or not kind.in_memory:
        raise VerifyException("the map is not in memory")
    return kind


@operation_definition
class CopyMapOp(BaseOperation):
    """A warp writes a map to a place in global memory, where copies of its threads find it from then on.

    All of its threads come, and `elected` is true for the one that writes.
    """

    name = "nvgpu.copy_map"

    tensor_map: Operand = operand(TensorMapType)
    place: Operand = operand(TensorType)
    elected: Operand = operand(i1)
    result: OpResult[TensorMapType] = result_of(
        "tensor_map", TensorMapType, TensorMapType.placed_in_memory
    )

    traits = traits_def(
        MemoryReadEffect(),
        MemoryWriteEffect(),
        DependsOnWarps(),
        Accesses((Access("place", "written", "tile"),), is_required=True),
        Requires("tensormap", "tma.copy_map"),
    )
    assembly_format = (
        "$tensor_map `to` $place `by` $elected attr-dict "
        "`:` type($tensor_map) `,` type($place) `->` type($result)"
    )

    def verify_(self) -> None:
        _check_place(self.place, "global")
        kind = self.tensor_map.type
        assert isinstance(kind, TensorMapType)
        if _check_type(self.result.type) != kind.placed_in_memory():
            raise VerifyException("a copied map has the same boxes")


@operation_definition
class MapAtOp(IRDLOperation):
    """The map that some warp has written to a place before; copies of this thread find it from then on."""

    name = "nvgpu.map_at"

    place = operand_def(TensorType)
    result = result_def(TensorMapType)

    # What was written before is seen after it: neither removed nor moved.
    traits = traits_def(
        MemoryReadEffect(),
        MemoryWriteEffect(),
        Accesses((Access("place", "read", "tile"),), is_required=True),
        Requires("tensormap", "tma.map_at"),
    )
    assembly_format = "$place attr-dict `:` type($place) `->` type($result)"

    def __init__(self, place: SSAValue, kind: TensorMapType) -> None:
        super().__init__(operands=[place], result_types=[kind.placed_in_memory()])

    def verify_(self) -> None:
        _check_place(self.place, "global")
        _check_type(self.result.type)


@operation_definition
class EditMapOp(BaseOperation):
    """A warp makes a map in memory that of a tensor, in `slot`, 128 bytes of shared memory that is its own.

    Copies of its threads find the tensor from then on. All of its threads come, and `elected` is true for the one that
    writes; copies that this one has begun before find the map as it was.
    """

    name = "nvgpu.edit_map"

    tensor_map: Operand = operand(TensorMapType)
    tensor: Operand = operand(TensorType)
    slot: Operand = operand(TensorType)
    elected: Operand = operand(i1)

    traits = traits_def(
        MemoryReadEffect(),
        MemoryWriteEffect(),
        DependsOnWarps(),
        Accesses((Access("slot", "written", "tile"),), is_required=True),
        NeedsParts(pointer=True, dims="all", strides="all"),
        Requires("tensormap", "tma.edit_map"),
    )
    assembly_format = (
        "$tensor_map `to` $tensor `in` $slot `by` $elected attr-dict "
        "`:` type($tensor_map) `,` type($tensor) `,` type($slot)"
    )

    @property
    def written(self) -> tuple[SSAValue, ...]:
        """The map's place and the slot; the tensor's elements are neither read nor written."""
        owner = self.tensor_map.owner
        known = isinstance(owner, CopyMapOp | MapAtOp)
        return owner.place if known else self.tensor_map, self.slot

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return _check_type(self.tensor_map.type).itemsize

    def verify_(self) -> None:
        kind, of = _check_type(self.tensor_map.type), self.tensor.type
        assert isinstance(of, TensorType)
        if kind.is_im2col:
            raise VerifyException("maps of images are not edited")
        if of.space.data != "global" or of.element_type != kind.element_type:
            raise VerifyException("the tensor is in global memory, and its elements are the map's")
        if of.rank != kind.rank:
            raise VerifyException("the tensor's rank is the map's")
        _check_place(self.slot, "shared")
