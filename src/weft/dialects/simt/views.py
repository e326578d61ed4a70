# SPDX-License-Identifier: Apache-2.0
"""Views of tensors: `simt.view`; vector accesses: `simt.load_vector`, `simt.store_vector`.

In: a tensor, a start, sizes. Out: a tensor over the same memory; several elements.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from xdsl.dialects.builtin import DenseArrayBase, IntegerType, StringAttr, UnitAttr, i1, i32, i64
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, Pure
from xdsl.utils.exceptions import VerifyException

from weft.dialects.access import Access, Accesses
from weft.dialects.definition import operation_definition
from weft.dialects.simt.memory import LOAD_CACHES, STORE_CACHES, check_cache, check_indices
from weft.dialects.simt.types import DYNAMIC, TensorType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.ir import SSAValue

VECTOR_BYTES = 16
"""Most bytes of one access."""

WORD_BYTES = 4
"""Of what is read where shorter elements are not aligned as a vector."""


@operation_definition
class ViewOp(IRDLOperation):
    """A tensor over part of another's memory; reads nothing.

    `starts` is the element that the view begins with, one index per dimension of `source`. Dimension i of
    the view runs along dimension `kept[i]` of `source`, `steps[i]` elements at a time; the others are dropped.
    `sizes` holds one integer for each `?` of the result's type.
    """

    name = "simt.view"

    source = operand_def(TensorType)
    starts = var_operand_def()
    sizes = var_operand_def()
    kept = prop_def(DenseArrayBase.constr(i64))
    steps = prop_def(DenseArrayBase.constr(i64))
    result = result_def(TensorType)

    traits = traits_def(Pure())
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    assembly_format = (
        "$source `[` $starts `:` type($starts) `]` `keeps` $kept `steps` $steps "
        "(`sizes` `(` $sizes^ `:` type($sizes) `)`)? attr-dict `:` type($source) `->` type($result)"
    )

    def __init__(
        self,
        source: SSAValue,
        starts: Sequence[SSAValue],
        sizes: Sequence[SSAValue],
        kept: Sequence[int],
        steps: Sequence[int],
        result_type: TensorType,
    ) -> None:
        super().__init__(
            operands=[source, starts, sizes],
            properties={
                "kept": DenseArrayBase.from_list(i64, kept),
                "steps": DenseArrayBase.from_list(i64, steps),
            },
            result_types=[result_type],
        )

    @property
    def dimensions(self) -> list[tuple[int, int]]:
        """Per dimension of the view: the source's dimension, and the step along it."""
        return list(zip(self.kept.get_values(), self.steps.get_values(), strict=True))

    def size(self, dimension: int) -> SSAValue:
        """The operand with the size of a dimension unknown to the type."""
        before = self.result_type.dims[:dimension]
        return self.sizes[before.count(DYNAMIC)]

    @property
    def result_type(self) -> TensorType:
        """The view's type."""
        return self.result.type

    def verify_(self) -> None:
        source = check_indices(self.source, self.starts)
        view = self.result_type
        kept, steps = self.kept.get_values(), self.steps.get_values()
        if len(kept) != view.rank or len(steps) != view.rank:
            raise VerifyException(f"{len(kept)} dimensions and {len(steps)} steps for {view}")
        if any(not 0 <= int(dimension) < source.rank for dimension in kept) or 0 in steps:
            raise VerifyException(f"dimensions {kept} in steps of {steps} of {source}")
        if view.dims.count(DYNAMIC) != len(self.sizes):
            raise VerifyException(f"{len(self.sizes)} sizes for {view}")
        wanted = i32 if view.dim_bits.data == 32 else i64
        if any(size.type != wanted for size in self.sizes):
            raise VerifyException(f"the sizes of {view} are {wanted}")
        if (source.element_type, source.space) != (view.element_type, view.space):
            raise VerifyException("a view has its source's elements and address space")


@operation_definition
class ReinterpretOp(IRDLOperation):
    """The same memory as elements of another width; reads nothing.

    The last dimension, whose stride is 1, has as many elements as fit; the others are the source's. `sizes` holds
    one integer for each `?` of the result's type.
    """

    name = "simt.reinterpret"

    source = operand_def(TensorType)
    sizes = var_operand_def()
    result = result_def(TensorType)

    traits = traits_def(Pure())
    assembly_format = (
        "$source (`sizes` `(` $sizes^ `:` type($sizes) `)`)? attr-dict "
        "`:` type($source) `->` type($result)"
    )

    def __init__(
        self, source: SSAValue, sizes: Sequence[SSAValue], result_type: TensorType
    ) -> None:
        super().__init__(operands=[source, sizes], result_types=[result_type])

    def size(self, dimension: int) -> SSAValue:
        """The operand with the size of a dimension unknown to the type."""
        return self.sizes[self.result_type.dims[:dimension].count(DYNAMIC)]

    @property
    def result_type(self) -> TensorType:
        """The type of the result."""
        return self.result.type

    @property
    def bits(self) -> tuple[int, int]:
        """Of an element of the source, and of the result."""
        kinds = (cast("TensorType", self.source.type), self.result_type)
        before, after = (cast("IntegerType", kind.element_type).width.data for kind in kinds)
        return before, after

    def verify_(self) -> None:
        source, result = cast("TensorType", self.source.type), self.result_type
        for kind in (source, result):
            element = kind.element_type
            if not isinstance(element, IntegerType) or element == i1:
                raise VerifyException(f"{element} is not an integer of two bits or more")
        if source.rank == 0 or source.dims[:-1] != result.dims[:-1]:
            raise VerifyException(f"{source} and {result} differ in more than the last dimension")
        if result.dims.count(DYNAMIC) != len(self.sizes):
            raise VerifyException(f"{len(self.sizes)} sizes for {result}")
        if source.layout.data not in ("contiguous", "inner") or source.layout != result.layout:
            raise VerifyException(f"{source} and {result} are not contiguous or inner, both")
        if source.space != result.space:
            raise VerifyException("the memory is in one address space")


@operation_definition
class AdvanceOp(IRDLOperation):
    """A tensor of the same strides that begins at another element, which need not exist; reads nothing.

    The result's dims mean nothing but its strides, and its address may lie outside of all memory.
    """

    name = "simt.advance"

    source = operand_def(TensorType)
    indices = var_operand_def()
    result = result_def(TensorType)

    traits = traits_def(Pure())
    assembly_format = (
        "$source `[` $indices `:` type($indices) `]` attr-dict `:` type($source) `->` type($result)"
    )

    def __init__(self, source: SSAValue, indices: Sequence[SSAValue]) -> None:
        kind = cast("TensorType", source.type)
        super().__init__(operands=[source, indices], result_types=[kind.advanced()])

    def verify_(self) -> None:
        if check_indices(self.source, self.indices).advanced() != self.result.type:
            raise VerifyException(f"{self.source.type} advances to {self.result.type}")


def check_vector(
    tensor: SSAValue, indices: Sequence[SSAValue], values: Sequence[SSAValue]
) -> TensorType:
    """The tensor's type, once an access may have as many values."""
    tensor_type = check_indices(tensor, indices)
    if len(values) not in (2, 4, 8, 16):
        raise VerifyException(f"a vector of {len(values)} elements")
    if any(value.type != tensor_type.element_type for value in values):
        raise VerifyException("the values' type differs from the elements'")
    panels = tensor_type.panels
    is_transposed = panels is not None and panels.is_transposed.data
    if tensor_type.rank == 0 or is_transposed or tensor_type.layout.data == "strided":
        raise VerifyException("a vector lies along a last dimension of stride 1")
    return tensor_type


@operation_definition
class LoadVectorOp(IRDLOperation):
    """Reads consecutive elements along the last dimension in one aligned access; `cache` as for `simt.load`.

    An `unaligned` one has the address of any element, and reads whole words of `WORD_BYTES` of shorter elements: those
    that a run finds in no aligned vector, and one more.
    """

    name = "simt.load_vector"

    unaligned = opt_prop_def(UnitAttr)
    cache = opt_prop_def(StringAttr)
    tensor = operand_def(TensorType)
    indices = var_operand_def()
    elements = var_result_def()

    traits = traits_def(
        MemoryReadEffect(), Accesses((Access("tensor", "read", elements="elements"),))
    )
    assembly_format = (
        "(`unaligned` $unaligned^)? (`cache` $cache^)? $tensor `[` $indices `:` type($indices) `]` attr-dict "
        "`:` type($tensor) `->` type($elements)"
    )

    def __init__(
        self,
        tensor: SSAValue,
        indices: Sequence[SSAValue],
        count: int,
        cache: StringAttr | None = None,
        *,
        unaligned: bool = False,
    ) -> None:
        element = cast("TensorType", tensor.type).element_type
        super().__init__(
            operands=[tensor, indices],
            properties={"cache": cache, "unaligned": UnitAttr() if unaligned else None},
            result_types=[[element] * count],
        )

    def verify_(self) -> None:
        check_cache(self.tensor, self.cache, LOAD_CACHES)
        check_vector(self.tensor, self.indices, self.elements)


@operation_definition
class StoreVectorOp(IRDLOperation):
    """Writes consecutive elements along the last dimension in one aligned access; `cache` as for `simt.load`."""

    name = "simt.store_vector"

    cache = opt_prop_def(StringAttr)
    elements = var_operand_def()
    tensor = operand_def(TensorType)
    indices = var_operand_def()

    traits = traits_def(
        MemoryWriteEffect(), Accesses((Access("tensor", "written", elements="elements"),))
    )
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    assembly_format = (
        "(`cache` $cache^)? $elements `:` type($elements) `into` $tensor `[` $indices `:` type($indices) `]` attr-dict "
        "`:` type($tensor)"
    )

    def __init__(
        self,
        elements: Sequence[SSAValue],
        tensor: SSAValue,
        indices: Sequence[SSAValue],
        cache: StringAttr | None = None,
    ) -> None:
        super().__init__(operands=[elements, tensor, indices], properties={"cache": cache})

    def verify_(self) -> None:
        check_cache(self.tensor, self.cache, STORE_CACHES)
        check_vector(self.tensor, self.indices, self.elements)
