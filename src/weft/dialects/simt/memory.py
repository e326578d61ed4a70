# SPDX-License-Identifier: Apache-2.0
"""Tensors in memory: elements, sizes, views, vectors, shared memory, scratch.

In: a tensor and one signed index (i32 or i64) per dimension. Out: elements, or a tensor over the same memory.
Addresses are computed when LLVM text is printed, so that an access stays one operation with its shape. Shared arrays
lie in the block's one dynamic buffer: first the kernel's own, laid out by a pass, then the launch's bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from xdsl.dialects.builtin import (
    FixedBitwidthType,
    IntegerAttr,
    IntegerType,
    StringAttr,
    UnitAttr,
    i1,
    i32,
    i64,
)
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    ParsePropInAttrDict,
    operand_def,
    opt_prop_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, Pure
from xdsl.utils.exceptions import VerifyException

from weft.dialects.access import Access, Accesses, NeedsParts, OwnMemory
from weft.dialects.definition import (
    BaseOperation,
    fixed_result,
    flag,
    integer,
    integers,
    operand,
    operands,
    operation_definition,
    opt_integer,
    opt_operand,
    opt_string,
    result,
    result_of,
    string,
)
from weft.dialects.simt.types import DYNAMIC, StreamType, TensorType, array_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.ir import Attribute, OpResult, SSAValue
    from xdsl.irdl import Operand, OptOperand

    from weft.dialects.definition import (
        Flag,
        Integer,
        Integers,
        Operands,
        OptInteger,
        OptString,
        Result,
        String,
    )


LOAD_CACHES: Final = (
    *("streaming", "last_use", "l2_only", "no_allocate"),
    *("evict_first", "evict_last"),
)
STORE_CACHES: Final = tuple(cache for cache in LOAD_CACHES if cache != "last_use")


def tensor_type_of(value: SSAValue) -> TensorType:
    """Returns a value's type, which must be a tensor's."""
    if not isinstance(value.type, TensorType):
        raise VerifyException(f"expected a !simt.tensor, received {value.type}")
    return value.type


def check_indices(tensor: SSAValue, indices: Sequence[SSAValue]) -> TensorType:
    """The tensor's type, once there is one i32 or i64 per dimension."""
    tensor_type = tensor_type_of(tensor)
    if len(indices) != tensor_type.rank:
        raise VerifyException(f"{len(indices)} indices for a tensor of rank {tensor_type.rank}")
    for index in indices:
        if index.type not in (i32, i64):
            raise VerifyException(f"an index is i32 or i64, not {index.type}")
    return tensor_type


def check_cache(tensor: SSAValue, cache: StringAttr | None, allowed: tuple[str, ...]) -> None:
    """An access of global memory may say what caches do with it."""
    if cache is not None:
        if cache.data not in allowed:
            raise VerifyException(f"cache {cache.data!r} is not one of {allowed}")
        if tensor_type_of(tensor).space.data != "global":
            raise VerifyException("only global memory has caches")


@operation_definition
class LoadOp(BaseOperation):
    """Reads one element. An i1 takes one byte in memory: any nonzero byte is true.

    A `volatile` load is never dropped, moved or combined. `cache` is a hint, which a target may leave out.
    """

    name = "simt.load"

    tensor: Operand = operand(TensorType)
    indices: Operands = operands()
    volatile: Flag = flag(default=False)
    cache: OptString = opt_string(default=None)
    result: OpResult = result_of("tensor", kind=lambda kind: kind.element_type)

    traits = traits_def(
        MemoryReadEffect(), Accesses((Access("tensor", "read", elements="result"),))
    )
    assembly_format = (
        "(`volatile` $volatile^)? (`cache` $cache^)? $tensor `[` ($indices^ `:` type($indices))? `]` attr-dict "
        "`:` type($tensor) `->` type($result)"
    )

    def verify_(self) -> None:
        if check_indices(self.tensor, self.indices).element_type != self.result.type:
            raise VerifyException("the result's type differs from the elements'")
        check_cache(self.tensor, self.cache, LOAD_CACHES)


@operation_definition
class StoreOp(BaseOperation):
    """Writes one element, a bool as the byte 0 or 1; `volatile` and `cache` as for `simt.load`."""

    name = "simt.store"

    value: Operand = operand()
    tensor: Operand = operand(TensorType)
    indices: Operands = operands()
    volatile: Flag = flag(default=False)
    cache: OptString = opt_string(default=None)

    traits = traits_def(
        MemoryWriteEffect(), Accesses((Access("tensor", "written", elements="value"),))
    )
    assembly_format = (
        "(`volatile` $volatile^)? (`cache` $cache^)? $value `,` $tensor "
        "`[` ($indices^ `:` type($indices))? `]` attr-dict "
        "`:` type($value) `,` type($tensor)"
    )

    def verify_(self) -> None:
        if check_indices(self.tensor, self.indices).element_type != self.value.type:
            raise VerifyException("the value's type differs from the elements'")
        check_cache(self.tensor, self.cache, STORE_CACHES)


class _TensorFactOp(BaseOperation):
    """Base of `simt.dim` and `simt.stride`: a tensor and a constant dimension."""

    tensor: Operand = operand(TensorType)
    dimension: Integer = integer(i32)

    def verify_(self) -> None:
        rank = tensor_type_of(self.tensor).rank
        dimension = self.dimension.value.data
        if not 0 <= dimension < rank:
            raise VerifyException(f"dimension {dimension} of a tensor of rank {rank}")


@operation_definition
class DimOp(_TensorFactOp):
    """One dimension of a tensor, in elements; its width is the tensor type's (`dims 32`).

    Attributes:
        multiple: a power of two that divides it, passed to LLVM; None if none is known.
    """

    name = "simt.dim"

    multiple = opt_prop_def(IntegerAttr.constr(i32))
    result = result_def(IntegerType)
    traits = traits_def(Pure(), NeedsParts(pointer=False, dims="one"))
    assembly_format = (
        "$tensor `[` $dimension `]` (`multiple` $multiple^)? attr-dict "
        "`:` type($tensor) `->` type($result)"
    )

    def __init__(self, tensor: SSAValue, dimension: int, multiple: int = 1) -> None:
        bits = tensor_type_of(tensor).dim_bits.data
        properties = {"dimension": IntegerAttr(dimension, i32)}
        if multiple > 1:
            properties["multiple"] = IntegerAttr(multiple, i32)
        IRDLOperation.__init__(
            self,
            operands=[tensor],
            properties=properties,
            result_types=[i32 if bits == 32 else i64],
        )


@operation_definition
class StrideOp(_TensorFactOp):
    """One stride of a tensor, in elements; i64, may be zero or negative."""

    name = "simt.stride"

    result = fixed_result(i64)
    traits = traits_def(Pure(), NeedsParts(pointer=False, strides="one"))
    assembly_format = "$tensor `[` $dimension `]` attr-dict `:` type($tensor) `->` type($result)"


@operation_definition
class AddressOp(BaseOperation):
    """The address of an element, in bytes, as an i64; reads nothing."""

    name = "simt.address"

    tensor: Operand = operand(TensorType)
    indices: Operands = operands()
    result = fixed_result(i64)

    traits = traits_def(Pure())
    assembly_format = "$tensor `[` ($indices^ `:` type($indices))? `]` attr-dict `:` type($tensor) `->` type($result)"

    def verify_(self) -> None:
        check_indices(self.tensor, self.indices)


@operation_definition
class ArgumentNumberOp(BaseOperation):
    """Index of a tensor among a host function's arguments; only for one chosen by control flow."""

    name = "simt.argument_number"

    tensor: Operand = operand(TensorType)
    result = fixed_result(i32)
    traits = traits_def(Pure())
    assembly_format = "$tensor attr-dict `:` type($tensor) `->` type($result)"


@operation_definition
class AllocaOp(BaseOperation):
    """A tensor of static shape in the thread's own memory, uninitialized."""

    name = "simt.alloca"

    traits = traits_def(OwnMemory())

    result: Result[TensorType] = result(TensorType)
    assembly_format = "attr-dict `:` type($result)"

    def verify_(self) -> None:
        tensor_type = tensor_type_of(self.result)
        if tensor_type.space.data != "local" or any(dim < 0 for dim in tensor_type.dims):
            raise VerifyException("simt.alloca makes a local tensor of static shape")


@operation_definition
class TableOp(BaseOperation):
    """A constant tensor of static shape in global memory, part of the code; `data` holds its bytes in hexadecimal."""

    name = "simt.table"

    data: String = string()
    result: Result[TensorType] = result(TensorType)

    traits = traits_def(Pure(), OwnMemory())
    assembly_format = "$data attr-dict `:` type($result)"

    def verify_(self) -> None:
        kind = tensor_type_of(self.result)
        if (kind.space.data, kind.layout.data) != ("global", "contiguous") or DYNAMIC in kind.dims:
            raise VerifyException("simt.table makes a contiguous global tensor of static shape")
        if len(self.data.data) != 2 * array_bytes(kind.dims, kind.element_type):
            raise VerifyException(f"{len(self.data.data)} hexadecimal digits for {kind}")


@operation_definition
class GlobalScratchOp(BaseOperation):
    """A tensor of static shape in global memory that the block's threads share, uninitialized; each block has its own.

    Launches allocate it: the pass add_scratch_arguments makes an argument of it.
    """

    name = "simt.global_scratch"

    result: Result[TensorType] = result(TensorType)
    assembly_format = "attr-dict `:` type($result)"

    def verify_(self) -> None:
        tensor_type = tensor_type_of(self.result)
        if tensor_type.space.data != "global" or any(dim < 0 for dim in tensor_type.dims):
            raise VerifyException("simt.global_scratch makes a global tensor of static shape")


@operation_definition
class ScratchOp(BaseOperation):
    """An uninitialized tensor that the launches of a host function share; the call has it until it ends.

    `sizes` holds one integer for each `?` of the result's type; a negative one fails the call. The memory is in the
    order of `stream`, without it of the call's. `text` is the user's source text. With `kept`, the name
    of an element type, it is a tensor of the caller's allocator, which the host function may return.
    """

    name = "simt.scratch"

    traits = traits_def(OwnMemory())

    text: String = string()
    sizes: Operands = operands()
    stream: OptOperand = opt_operand(StreamType)
    result: Result[TensorType] = result(TensorType)
    kept: OptString = opt_string(default=None)

    irdl_options = (AttrSizedOperandSegments(as_property=True), ParsePropInAttrDict())
    assembly_format = (
        "$text (`sizes` `(` $sizes^ `:` type($sizes) `)`)? (`stream` $stream^)? attr-dict "
        "`:` type($result)"
    )

    def size(self, dimension: int) -> SSAValue:
        """The operand with the size of a dimension unknown to the type."""
        return self.sizes[tensor_type_of(self.result).dims[:dimension].count(DYNAMIC)]

    def verify_(self) -> None:
        kind = tensor_type_of(self.result)
        if (kind.space.data, kind.layout.data) != ("global", "contiguous"):
            raise VerifyException("simt.scratch makes a contiguous global tensor")
        if self.kept is not None and self.stream is not None:
            raise VerifyException(
                "a tensor of the caller's allocator is in the order of the caller's stream"
            )
        if kind.dims.count(DYNAMIC) != len(self.sizes):
            raise VerifyException(f"{len(self.sizes)} sizes for {kind}")
        wanted = i32 if kind.dim_bits.data == 32 else i64
        if any(size.type != wanted for size in self.sizes):
            raise VerifyException(f"the sizes of {kind} are {wanted}")


@operation_definition
class CheckDistinctOp(BaseOperation):
    """Leaves a host function with an error where the memory of two tensors overlaps: from the first to the last byte.

    `argument` and `other` are their names in the kernel that is launched, `kernel` that kernel's.
    """

    name = "simt.check_distinct"

    first: Operand = operand(TensorType)
    second: Operand = operand(TensorType)
    kernel: String = string()
    argument: String = string()
    other: String = string()

    traits = traits_def(MemoryWriteEffect(), Accesses())
    assembly_format = (
        "$first `,` $second $kernel $argument $other attr-dict `:` type($first) `,` type($second)"
    )


def _check_shared(value: SSAValue) -> TensorType:
    tensor_type = value.type
    if not isinstance(tensor_type, TensorType) or tensor_type.space.data != "shared":
        raise VerifyException(
            f"expected a !simt.tensor in the shared space, received {tensor_type}"
        )
    return tensor_type


@operation_definition
class SharedOp(BaseOperation):
    """An array of static shape that the block's threads share, uninitialized.

    `offset` counts bytes from the start of the block's buffer; the pass lay_out_shared_memory sets it. With
    `per_thread` only that many elements per thread of a block are used: the array's size is that of the largest
    block there is, and its memory that of the kernel's. An array that `reuses` others lies in their memory.
    """

    name = "simt.shared"

    traits = traits_def(OwnMemory())

    offset = opt_prop_def(IntegerAttr.constr(i64))
    result: Result[TensorType] = result(TensorType)
    per_thread: OptInteger = opt_integer(i64, default=None)
    reused: Operands = operands(TensorType, default=())

    assembly_format = (
        "(`at` $offset^)? (`per_thread` $per_thread^)? (`reuses` `(` $reused^ `:` type($reused) `)`)? "
        "attr-dict `:` type($result)"
    )

    @property
    def reused_arrays(self) -> list[SharedOp]:
        """Those in whose memory it lies."""
        return [array.owner for array in self.reused if isinstance(array.owner, SharedOp)]

    def verify_(self) -> None:
        tensor_type = _check_shared(self.result)
        if len(self.reused_arrays) != len(self.reused):
            raise VerifyException("an array reuses the memory of arrays of simt.shared")
        if DYNAMIC in tensor_type.dims:
            raise VerifyException("simt.shared makes an array of static shape")
        if tensor_type.layout.data not in ("contiguous", "swizzled"):
            raise VerifyException("shared arrays are contiguous or swizzled")


@operation_definition
class DynamicSharedOp(BaseOperation):
    """A view of the bytes that the launch requested with `shared_memory_bytes`.

    `offset` counts bytes from their start; `dims` holds one i32 or i64 for each `?` of the type. Nothing
    checks that the bytes are there.
    """

    name = "simt.dynamic_shared"

    offset: Operand = operand(i64)
    dims: Operands = operands()
    result: Result[TensorType] = result(TensorType)

    traits = traits_def(Pure(), OwnMemory())
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    assembly_format = "$offset (`dims` `(` $dims^ `:` type($dims) `)`)? attr-dict `:` type($result)"

    def verify_(self) -> None:
        tensor_type = _check_shared(self.result)
        if tensor_type.layout.data not in ("contiguous", "swizzled"):
            raise VerifyException("shared arrays are contiguous or swizzled")
        if tensor_type.dims.count(DYNAMIC) != len(self.dims):
            raise VerifyException(f"{len(self.dims)} dims for {tensor_type}")
        wanted = i32 if tensor_type.dim_bits.data == 32 else i64
        if any(dim.type != wanted for dim in self.dims):
            raise VerifyException(f"the dims of {tensor_type} are {wanted}")


WORD_BYTES = 4
"""Words to read where shorter elements are not aligned as a vector."""


@operation_definition
class ViewOp(BaseOperation):
    """A tensor over part of another's memory; reads nothing.

    `starts` is the element that the view begins with, one index per dimension of `source`. Dimension i of
    the view runs along dimension `kept[i]` of `source`, `steps[i]` elements at a time; the others are dropped.
    `sizes` holds one integer for each `?` of the result's type.
    """

    name = "simt.view"

    source: Operand = operand(TensorType)
    starts: Operands = operands()
    sizes: Operands = operands()
    kept: Integers = integers(i64)
    steps: Integers = integers(i64)
    result: Result[TensorType] = result(TensorType)

    traits = traits_def(Pure())
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    assembly_format = (
        "$source `[` $starts `:` type($starts) `]` `keeps` $kept `steps` $steps "
        "(`sizes` `(` $sizes^ `:` type($sizes) `)`)? attr-dict `:` type($source) `->` type($result)"
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


def _bits(element: Attribute) -> int:
    """Bits of an element in memory."""
    assert isinstance(element, FixedBitwidthType)
    return element.bitwidth


@operation_definition
class ReshapeOp(BaseOperation):
    """The same elements, contiguous and in the same order, with other dimensions; reads nothing.

    `sizes` holds one integer for each `?` of the result's type; their product is that of the source's.
    """

    name = "simt.reshape"

    source: Operand = operand(TensorType)
    sizes: Operands = operands()
    result: Result[TensorType] = result(TensorType)

    traits = traits_def(Pure())
    assembly_format = (
        "$source (`sizes` `(` $sizes^ `:` type($sizes) `)`)? attr-dict "
        "`:` type($source) `->` type($result)"
    )

    def size(self, dimension: int) -> SSAValue:
        """The operand with the size of a dimension unknown to the type."""
        return self.sizes[self.result_type.dims[:dimension].count(DYNAMIC)]

    @property
    def result_type(self) -> TensorType:
        """The type of the result."""
        return self.result.type

    def verify_(self) -> None:
        source, made = cast("TensorType", self.source.type), self.result_type
        if {source.layout.data, made.layout.data} != {"contiguous"}:
            raise VerifyException(f"{source} and {made} are not contiguous, both")
        if made.dims.count(DYNAMIC) != len(self.sizes):
            raise VerifyException(f"{len(self.sizes)} sizes for {made}")
        wanted = i32 if made.dim_bits.data == 32 else i64
        if any(size.type != wanted for size in self.sizes):
            raise VerifyException(f"the sizes of {made} are {wanted}")
        if (source.element_type, source.space) != (made.element_type, made.space):
            raise VerifyException("a reshaped tensor has its source's elements and address space")


@operation_definition
class ReinterpretOp(BaseOperation):
    """The same memory as elements of another type; reads nothing.

    The last dimension, whose stride is 1, has as many elements as fit; the others are the source's. `sizes` holds
    one integer for each `?` of the result's type.
    """

    name = "simt.reinterpret"

    source: Operand = operand(TensorType)
    sizes: Operands = operands()
    result: Result[TensorType] = result(TensorType)

    traits = traits_def(Pure())
    assembly_format = (
        "$source (`sizes` `(` $sizes^ `:` type($sizes) `)`)? attr-dict "
        "`:` type($source) `->` type($result)"
    )

    def size(self, dimension: int) -> SSAValue:
        """The operand with the size of a dimension unknown to the type."""
        return self.sizes[self.result_type.dims[:dimension].count(DYNAMIC)]

    @property
    def result_type(self) -> TensorType:
        """The type of the result."""
        return self.result.type

    @property
    def bits(self) -> tuple[int, int]:
        """Widths of an element of the source, and of the result."""
        kinds = (cast("TensorType", self.source.type), self.result_type)
        before, after = (_bits(kind.element_type) for kind in kinds)
        return before, after

    def verify_(self) -> None:
        source, result = cast("TensorType", self.source.type), self.result_type
        for kind in (source, result):
            element = kind.element_type
            if not isinstance(element, FixedBitwidthType) or element == i1:
                raise VerifyException(f"{element} is not a number of two bits or more")
        if source.rank == 0 or source.dims[:-1] != result.dims[:-1]:
            raise VerifyException(f"{source} and {result} differ in more than the last dimension")
        if result.dims.count(DYNAMIC) != len(self.sizes):
            raise VerifyException(f"{len(self.sizes)} sizes for {result}")
        kinds = ("contiguous", "inner", "swizzled")
        if source.layout.data not in kinds or source.layout != result.layout:
            raise VerifyException(
                f"{source} and {result} are not contiguous, inner or swizzled, both"
            )
        if source.space != result.space:
            raise VerifyException("the memory is in one address space")


@operation_definition
class AdvanceOp(BaseOperation):
    """A tensor of the same strides that begins at another element, which need not exist; reads nothing.

    The result's dims mean nothing but its strides, and its address may lie outside of all memory.
    """

    name = "simt.advance"

    source: Operand = operand(TensorType)
    indices: Operands = operands()
    result: OpResult[TensorType] = result_of("source", TensorType, TensorType.advanced)

    traits = traits_def(Pure())
    assembly_format = (
        "$source `[` $indices `:` type($indices) `]` attr-dict `:` type($source) `->` type($result)"
    )

    def verify_(self) -> None:
        if check_indices(self.source, self.indices).advanced() != self.result.type:
            raise VerifyException(f"{self.source.type} advances to {self.result.type}")


def check_vector(
    tensor: SSAValue, indices: Sequence[SSAValue], values: Sequence[SSAValue]
) -> TensorType:
    """The tensor's type, once an access may have as many values."""
    tensor_type = check_indices(tensor, indices)
    if len(values) not in (2, 4, 8, 16, 32):
        raise VerifyException(f"a vector of {len(values)} elements")
    if any(value.type != tensor_type.element_type for value in values):
        raise VerifyException("the values' type differs from the elements'")
    atoms = tensor_type.swizzle_atoms
    is_transposed = atoms is not None and atoms.is_transposed.data
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
class StoreVectorOp(BaseOperation):
    """Writes consecutive elements along the last dimension in one aligned access; `cache` as for `simt.load`."""

    name = "simt.store_vector"

    elements: Operands = operands()
    tensor: Operand = operand(TensorType)
    indices: Operands = operands()
    cache: OptString = opt_string(default=None)

    traits = traits_def(
        MemoryWriteEffect(), Accesses((Access("tensor", "written", elements="elements"),))
    )
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    assembly_format = (
        "(`cache` $cache^)? $elements `:` type($elements) `into` $tensor `[` $indices `:` type($indices) `]` attr-dict "
        "`:` type($tensor)"
    )

    def verify_(self) -> None:
        check_cache(self.tensor, self.cache, STORE_CACHES)
        check_vector(self.tensor, self.indices, self.elements)
