# SPDX-License-Identifier: Apache-2.0
"""Fragments: tiles held by the threads of a warp or a warpgroup, as the tensor cores take and give them.

In: elements, other fragments. Out: `!simt.fragment<...>`, one value however many elements a thread holds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from xdsl.dialects.builtin import (
    ArrayAttr,
    FixedBitwidthType,
    IntAttr,
    StringAttr,
    i32,
)
from xdsl.ir import Attribute, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import (
    AnyAttr,
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_attr_definition,
    operand_def,
    traits_def,
    var_result_def,
)
from xdsl.traits import IsTerminator, MemoryReadEffect, MemoryWriteEffect, Pure
from xdsl.utils.exceptions import VerifyException

from weft.dialects.access import Access, Accesses
from weft.dialects.definition import (
    BaseOperation,
    flag,
    integer,
    operand,
    operands,
    operation_definition,
    result,
    single_block,
)
from weft.dialects.simt.types import TensorType
from weft.types.fragment_layout import ROLES, UNITS, FragmentLayout

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.ir import Block, SSAValue
    from xdsl.irdl import Operand
    from xdsl.parser import AttrParser
    from xdsl.printer import Printer

    from weft.dialects.definition import Body, Flag, Integer, Operands, Result


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
        """Elements of a thread."""
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


def fragment_type(value: SSAValue) -> FragmentType:
    """The type of a fragment."""
    kind = value.type
    assert isinstance(kind, FragmentType)
    return kind


@operation_definition
class FragmentFillOp(BaseOperation):
    """A fragment whose elements all are `value`."""

    name = "simt.fragment_fill"

    value: Operand = operand()
    result: Result[FragmentType] = result(FragmentType)
    traits = traits_def(Pure())
    assembly_format = "$value attr-dict `:` type($value) `->` type($result)"


@operation_definition
class FragmentValuesOp(IRDLOperation):
    """The elements that this thread holds, in the order of the fragment's layout; or its registers, as i32."""

    name = "simt.fragment_values"

    fragment = operand_def(FragmentType)
    elements = var_result_def()
    traits = traits_def(Pure())
    assembly_format = "$fragment attr-dict `:` type($fragment) `->` type($elements)"

    def __init__(self, fragment: SSAValue, *, registers: bool = False) -> None:
        kind = fragment_type(fragment)
        types = (
            [i32] * kind.layout.registers
            if registers
            else [kind.element_type] * kind.layout.elements
        )
        super().__init__(operands=[fragment], result_types=[types])

    def verify_(self) -> None:
        _check_held(fragment_type(self.fragment), [one.type for one in self.elements])


@operation_definition
class FragmentOfOp(BaseOperation):
    """A fragment from the elements that this thread holds, in the order of its layout, or from registers, as i32."""

    name = "simt.fragment_of"

    elements: Operands = operands()
    result: Result[FragmentType] = result(FragmentType)
    traits = traits_def(Pure())
    assembly_format = "$elements attr-dict `:` type($elements) `->` type($result)"

    def verify_(self) -> None:
        _check_held(self.result.type, [one.type for one in self.elements])


def _check_held(kind: FragmentType, given: Sequence[Attribute]) -> None:
    """Checks that a thread holds elements, or registers, of these types."""
    layout = kind.layout
    held = [kind.element_type] * layout.elements
    if list(given) != held and list(given) != [i32] * layout.registers:
        raise VerifyException(
            f"a thread holds {layout.elements} elements of it in {layout.registers} registers"
        )


def are_registers(kind: FragmentType, values: Sequence[SSAValue]) -> bool:
    """Whether these are a thread's registers, not its elements."""
    return [one.type for one in values] != [kind.element_type] * kind.layout.elements


@operation_definition
class FragmentBitcastOp(BaseOperation):
    """The same registers as a fragment of other elements."""

    name = "simt.fragment_bitcast"

    source: Operand = operand(FragmentType)
    result: Result[FragmentType] = result(FragmentType)
    traits = traits_def(Pure())
    assembly_format = "$source attr-dict `:` type($source) `->` type($result)"

    def verify_(self) -> None:
        one, other = fragment_type(self.source).layout, self.result.type.layout
        if one.elements * one.itemsize != other.elements * other.itemsize:
            raise VerifyException("both have the same bits")


@operation_definition
class FragmentPartOp(BaseOperation):
    """The elements of some columns, from `first` on, as a fragment of another shape or role.

    The result's columns are whole blocks of the source, so that each thread only gives some of its registers another
    name.
    """

    name = "simt.fragment_part"

    source: Operand = operand(FragmentType)
    result: Result[FragmentType] = result(FragmentType)
    first: Integer = integer(i32, default=0)
    traits = traits_def(Pure())
    assembly_format = "$source `from` $first attr-dict `:` type($source) `->` type($result)"

    @property
    def elements(self) -> list[int]:
        """The numbers of a thread's elements that the result has, in order."""
        whole, part = fragment_type(self.source).layout, self.result.type.layout
        size = part.blocks[2] * part.blocks[3]
        start = self.first.value.data // (4 * whole.pack) * size
        count, row = part.blocks[1] * size, whole.blocks[1] * size
        return [
            row * down + start + number for down in range(part.blocks[0]) for number in range(count)
        ]


@operation_definition
class FragmentYieldOp(BaseOperation):
    """The end of a region that is run for an element, or a pair of them, with its results, if any."""

    name = "simt.fragment_yield"

    elements: Operands = operands(default=())
    traits = traits_def(IsTerminator(), Pure())
    assembly_format = "($elements^ `:` type($elements))? attr-dict"


def all_yielded(block: Block) -> Sequence[SSAValue]:
    """The values of a region that computes elements."""
    end = block.last_op
    assert isinstance(end, FragmentYieldOp)
    return end.elements


def yielded(block: Block) -> SSAValue:
    """The value of a region that computes an element."""
    return all_yielded(block)[0]


@operation_definition
class FragmentMapOp(BaseOperation):
    """A fragment whose elements the region computes, one or two adjacent ones at once; it reads memory at most.

    The region's arguments are the elements of `inputs` at the same place, of roles `row` and `column` the value of
    the element's row or column; then, if the thread's `origin` (row and column of its first element) is given, the
    element's row and column. A region that yields two elements takes two of each input, one after the other, and the
    row and column of the first.
    """

    name = "simt.fragment_map"

    T: ClassVar = AnyAttr()
    inputs: Operands = operands(FragmentType)
    origin: Operands = operands(i32)
    result: Result[FragmentType] = result(FragmentType)
    body: Body = single_block()

    traits = traits_def(MemoryReadEffect())
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    assembly_format = (
        "(`of` `(` $inputs^ `:` type($inputs) `)`)? (`from` `(` $origin^ `)`)? `->` type($result) "
        "$body attr-dict"
    )

    @property
    def step(self) -> int:
        """Number of elements that the region computes."""
        return len(all_yielded(self.body.block))

    def verify_(self) -> None:
        kinds = [value.type for value in self.inputs for _ in range(self.step)]
        given = [kind.element_type for kind in kinds if isinstance(kind, FragmentType)]
        if self.step != 1 and (self.step != 2 or self.result.type.layout.blocks[3] % 2):
            raise VerifyException("the region computes an element, or two adjacent ones")
        expected = [*given, *[i32] * len(self.origin)]
        if [argument.type for argument in self.body.block.args] != expected:
            raise VerifyException("the region's arguments are not the inputs' elements")
        if len(self.origin) not in (0, 2):
            raise VerifyException("the origin is a row and a column")
        kinds = [value.type for value in all_yielded(self.body.block)]
        if kinds != [self.result.type.element_type] * self.step:
            raise VerifyException("the region does not yield the result's elements")


@operation_definition
class FragmentReduceOp(BaseOperation):
    """One value for each row, or each column, of the elements of it that this thread holds.

    The region combines two of them. Four sums take every fourth element in turn; the first two meet, then the others,
    then both.
    """

    name = "simt.fragment_reduce"

    source: Operand = operand(FragmentType)
    result: Result[FragmentType] = result(FragmentType)
    body: Body = single_block()

    traits = traits_def(Pure())
    assembly_format = "$source `:` type($source) `->` type($result) $body attr-dict"

    def verify_(self) -> None:
        kind, source = self.result.type.element_type, fragment_type(self.source)
        if [argument.type for argument in self.body.block.args] != [kind, kind]:
            raise VerifyException("the region does not take two elements")
        if yielded(self.body.block).type != kind or source.element_type != kind:
            raise VerifyException("the region does not yield the result's elements")
        along = {"row": 0, "column": 1}.get(self.result.type.role.data)
        if along is None or self.result.type.dims != source.dims[along : along + 1]:
            raise VerifyException("the result is not one value for each row or column")


@operation_definition
class FragmentLoadOp(BaseOperation):
    """A fragment with the elements of a tensor of two dimensions, from a row and a column on; 0 outside of it.

    The region loads the element at a row and a column of the fragment. A machine may load several at once, and exchange
    elements between the threads that hold a row. `origin` and `whole` are as of `simt.fragment_store`.
    """

    name = "simt.fragment_load"

    tensor: Operand = operand(TensorType)
    indices: Operands = operands()
    origin: Operands = operands(i32)
    result: Result[FragmentType] = result(FragmentType)
    body: Body = single_block()
    whole: Flag = flag()

    traits = traits_def(MemoryReadEffect(), Accesses((Access("tensor", "read", "box"),)))
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    assembly_format = (
        "(`whole` $whole^)? $tensor `[` $indices `]` `from` `(` $origin `)` `:` type($tensor) "
        "`[` type($indices) `]` `->` type($result) $body attr-dict"
    )

    @property
    def inputs(self) -> tuple[()]:
        """As of `simt.fragment_map`, which has fragments here."""
        return ()

    def verify_(self) -> None:
        if [argument.type for argument in self.body.block.args] != [i32, i32]:
            raise VerifyException("the region takes a row and a column")
        if yielded(self.body.block).type != self.result.type.element_type:
            raise VerifyException("the region does not yield the result's elements")


class _IntoTensorOp(BaseOperation):
    """Base of what puts a fragment into a tensor of two dimensions, from a row and a column on; or into a vector."""

    fragment: Operand = operand(FragmentType)
    tensor: Operand = operand(TensorType)
    indices: Operands = operands()
    origin: Operands = operands(i32)
    body: Body = single_block()
    whole: Flag = flag()

    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    assembly_format = (
        "(`whole` $whole^)? $fragment `,` $tensor `[` $indices `]` `from` `(` $origin `)` `:` "
        "type($fragment) `,` type($tensor) `[` type($indices) `]` $body attr-dict"
    )

    def verify_(self) -> None:
        kind = fragment_type(self.fragment)
        rank = len(kind.dims)
        expected = [kind.element_type, *[i32] * rank]
        if [argument.type for argument in self.body.block.args] != expected:
            raise VerifyException("the region takes an element, its row and its column")
        if len(self.indices) != rank or len(self.origin) != rank:
            raise VerifyException("an index has a row and a column")


@operation_definition
class FragmentStoreOp(_IntoTensorOp):
    """Stores a fragment into a tensor of two dimensions, from a row and a column on.

    The region stores one element at a row and a column of the fragment, and leaves out those outside of the tensor. A
    machine may store several at once, and exchange elements between the threads that hold a row. `origin` is the row
    and column of the thread's first element. `whole`: no element lies outside. Of values of rows or columns, which
    several threads have, there is one index, and the region says which of them stores.
    """

    name = "simt.fragment_store"
    traits = traits_def(MemoryWriteEffect(), Accesses((Access("tensor", "written", "box"),)))


@operation_definition
class FragmentRedAddOp(_IntoTensorOp):
    """Adds a fragment to the elements of a tensor, each in one step; as `simt.fragment_store` for the rest.

    The region adds one element. A machine may add several at once.
    """

    name = "simt.fragment_red_add"
    traits = traits_def(
        MemoryReadEffect(), MemoryWriteEffect(), Accesses((Access("tensor", "updated", "box"),))
    )
