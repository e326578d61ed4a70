# SPDX-License-Identifier: Apache-2.0
"""Fragments: tiles held by the threads of a warp or a warpgroup, as the tensor cores take and give them.

In: elements, other fragments. Out: `!simt.fragment<...>`, one value however many elements a thread holds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from xdsl.dialects.builtin import ArrayAttr, FixedBitwidthType, IntAttr, StringAttr, i32
from xdsl.ir import Attribute, ParametrizedAttribute, Region, TypeAttribute
from xdsl.irdl import (
    AnyAttr,
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_attr_definition,
    operand_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import IsTerminator, MemoryReadEffect, Pure
from xdsl.utils.exceptions import VerifyException

from weft.dialects.definition import operation_definition
from weft.types.fragment_layout import ROLES, UNITS, FragmentLayout

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.ir import Block, SSAValue
    from xdsl.parser import AttrParser
    from xdsl.printer import Printer


@irdl_attr_definition
class FragmentType(ParametrizedAttribute, TypeAttribute):
    """`!simt.fragment<[64, 256], f32, wgmma c>`: a tile, its elements, who multiplies, and as what.

    `weft.types.fragment_layout` says which elements a thread holds.
    """

    name = "simt.fragment"

    shape: ArrayAttr[IntAttr]
    element_type: Attribute
    unit: StringAttr
    role: StringAttr

    @staticmethod
    def get(shape: Sequence[int], element_type: Attribute, unit: str, role: str) -> FragmentType:
        """The type with these parameters."""
        dims = ArrayAttr([IntAttr(dim) for dim in shape])
        return FragmentType(dims, element_type, StringAttr(unit), StringAttr(role))

    @property
    def dims(self) -> tuple[int, ...]:
        return tuple(dim.data for dim in self.shape.data)

    @property
    def layout(self) -> FragmentLayout:
        """Which elements a thread holds."""
        assert isinstance(self.element_type, FixedBitwidthType)
        return FragmentLayout(self.dims, self.element_type.size, self.unit.data, self.role.data)

    def of(self, element_type: Attribute) -> FragmentType:
        """The same of other elements."""
        return FragmentType(self.shape, element_type, self.unit, self.role)

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> list[Attribute]:
        with parser.in_angle_brackets():
            dims = parser.parse_comma_separated_list(
                parser.Delimiter.SQUARE, lambda: parser.parse_integer(allow_negative=False)
            )
            parser.parse_punctuation(",")
            element = parser.parse_type()
            parser.parse_punctuation(",")
            unit, role = parser.parse_identifier(), parser.parse_identifier()
        shape = ArrayAttr([IntAttr(dim) for dim in dims])
        return [shape, element, StringAttr(unit), StringAttr(role)]

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(f"[{', '.join(map(str, self.dims))}], ")
            printer.print_attribute(self.element_type)
            printer.print_string(f", {self.unit.data} {self.role.data}")

    def verify(self) -> None:
        for word, known in ((self.unit.data, UNITS), (self.role.data, ROLES)):
            if word not in known:
                raise VerifyException(f"{word!r} is not one of {known}")
        if len(self.dims) != (1 if self.role.data in ("row", "column") else 2):
            raise VerifyException(f"a {self.role.data} fragment of shape {self.dims}")


@operation_definition
class FragmentFillOp(IRDLOperation):
    """A fragment of which every element is `value`."""

    name = "simt.fragment_fill"

    value = operand_def()
    result = result_def(FragmentType)
    traits = traits_def(Pure())
    assembly_format = "$value attr-dict `:` type($value) `->` type($result)"

    def __init__(self, value: SSAValue, result_type: FragmentType) -> None:
        super().__init__(operands=[value], result_types=[result_type])


@operation_definition
class FragmentValuesOp(IRDLOperation):
    """The elements that this thread holds, in the order of the fragment's layout."""

    name = "simt.fragment_values"

    fragment = operand_def(FragmentType)
    elements = var_result_def()
    traits = traits_def(Pure())
    assembly_format = "$fragment attr-dict `:` type($fragment) `->` type($elements)"

    def __init__(self, fragment: SSAValue) -> None:
        kind = fragment.type
        assert isinstance(kind, FragmentType)
        super().__init__(
            operands=[fragment], result_types=[[kind.element_type] * kind.layout.elements]
        )


@operation_definition
class FragmentYieldOp(IRDLOperation):
    """The element that one run of a `simt.fragment_map`'s region makes."""

    name = "simt.fragment_yield"

    value = operand_def()
    traits = traits_def(IsTerminator(), Pure())
    assembly_format = "$value attr-dict `:` type($value)"

    def __init__(self, value: SSAValue) -> None:
        super().__init__(operands=[value])


def yielded(block: Block) -> SSAValue:
    """The value of a region that computes an element."""
    end = block.last_op
    assert isinstance(end, FragmentYieldOp)
    return end.value


@operation_definition
class FragmentMapOp(IRDLOperation):
    """A fragment of which the region computes each element; it reads memory at most.

    The region's arguments are the elements of `inputs` at the same place, of roles `row` and `column` the value of
    the element's row or column; then, if the thread's `origin` (row and column of its first element) is given, the
    element's row and column.
    """

    name = "simt.fragment_map"

    T: ClassVar = AnyAttr()
    inputs = var_operand_def(FragmentType)
    origin = var_operand_def(i32)
    result = result_def(FragmentType)
    body = region_def("single_block")

    traits = traits_def(MemoryReadEffect())
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    assembly_format = (
        "(`of` `(` $inputs^ `:` type($inputs) `)`)? (`from` `(` $origin^ `)`)? `->` type($result) "
        "$body attr-dict"
    )

    def __init__(
        self,
        inputs: Sequence[SSAValue],
        origin: Sequence[SSAValue],
        result_type: FragmentType,
        body: Block,
    ) -> None:
        super().__init__(
            operands=[inputs, origin], result_types=[result_type], regions=[Region(body)]
        )

    def verify_(self) -> None:
        kinds = [value.type for value in self.inputs]
        given = [kind.element_type for kind in kinds if isinstance(kind, FragmentType)]
        expected = [*given, *[i32] * len(self.origin)]
        if [argument.type for argument in self.body.block.args] != expected:
            raise VerifyException("the region's arguments are not the inputs' elements")
        if len(self.origin) not in (0, 2):
            raise VerifyException("the origin is a row and a column")
        if yielded(self.body.block).type != self.result.type.element_type:
            raise VerifyException("the region does not yield the result's elements")
