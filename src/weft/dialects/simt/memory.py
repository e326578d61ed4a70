# SPDX-License-Identifier: Apache-2.0
"""Tensors in memory: `simt.load`, `simt.store`, `simt.dim`, `simt.stride`, `simt.alloca`, scratch, atomics.

In: a tensor and one signed index (i32 or i64) per dimension. Out: elements. Addresses are computed when LLVM text is
printed, so that an access stays one operation with its shape.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from xdsl.dialects.builtin import IntegerAttr, IntegerType, StringAttr, UnitAttr, i32, i64
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, Pure
from xdsl.utils.exceptions import VerifyException

from weft.dialects.access import Access, Accesses, NeedsParts, OwnMemory
from weft.dialects.definition import operation_definition
from weft.dialects.simt.types import DYNAMIC, StreamType, TensorType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.ir import Attribute, SSAValue

I32Attr = IntegerAttr.constr(i32)

ATOMIC_KINDS: Final = ("add", "sub", "max", "min", "umax", "umin", "and", "or", "xor", "exchange")
MEMORY_ORDERS: Final = ("relaxed", "acquire", "release", "acq_rel", "seq_cst")
LOAD_ORDERS: Final = ("relaxed", "acquire", "seq_cst")
STORE_ORDERS: Final = ("relaxed", "release", "seq_cst")
MEMORY_SCOPES: Final = ("block", "device", "system")
LOAD_CACHES: Final = (
    *("streaming", "last_use", "l2_only", "no_allocate"),
    *("evict_first", "evict_last"),
)
STORE_CACHES: Final = tuple(cache for cache in LOAD_CACHES if cache != "last_use")


def _tensor_type(value: SSAValue) -> TensorType:
    if not isinstance(value.type, TensorType):
        raise VerifyException(f"expected a !simt.tensor, received {value.type}")
    return value.type


def check_indices(tensor: SSAValue, indices: Sequence[SSAValue]) -> TensorType:
    """The tensor's type, once there is one i32 or i64 per dimension."""
    tensor_type = _tensor_type(tensor)
    if len(indices) != tensor_type.rank:
        raise VerifyException(f"{len(indices)} indices for a tensor of rank {tensor_type.rank}")
    for index in indices:
        if index.type not in (i32, i64):
            raise VerifyException(f"an index is i32 or i64, not {index.type}")
    return tensor_type


def _how(*, volatile: bool, cache: str | None) -> dict[str, Attribute | None]:
    return {
        "volatile": UnitAttr() if volatile else None,
        "cache": StringAttr(cache) if cache else None,
    }


def check_cache(tensor: SSAValue, cache: StringAttr | None, allowed: tuple[str, ...]) -> None:
    """An access of global memory may say what caches do with it."""
    if cache is not None:
        if cache.data not in allowed:
            raise VerifyException(f"cache {cache.data!r} is not one of {allowed}")
        if _tensor_type(tensor).space.data != "global":
            raise VerifyException("only global memory has caches")


@operation_definition
class LoadOp(IRDLOperation):
    """Reads one element. An i1 takes one byte in memory: any nonzero byte is true.

    A `volatile` load is never dropped, moved or combined. `cache` is a hint, which a target may leave out.
    """

    name = "simt.load"

    volatile = opt_prop_def(UnitAttr)
    cache = opt_prop_def(StringAttr)
    tensor = operand_def(TensorType)
    indices = var_operand_def()
    result = result_def()

    traits = traits_def(
        MemoryReadEffect(), Accesses((Access("tensor", "read", elements="result"),))
    )
    assembly_format = (
        "(`volatile` $volatile^)? (`cache` $cache^)? $tensor `[` ($indices^ `:` type($indices))? `]` attr-dict "
        "`:` type($tensor) `->` type($result)"
    )

    def __init__(
        self,
        tensor: SSAValue,
        indices: Sequence[SSAValue],
        *,
        volatile: bool = False,
        cache: str | None = None,
    ) -> None:
        super().__init__(
            operands=[tensor, indices],
            properties=_how(volatile=volatile, cache=cache),
            result_types=[_tensor_type(tensor).element_type],
        )

    def verify_(self) -> None:
        if check_indices(self.tensor, self.indices).element_type != self.result.type:
            raise VerifyException("the result's type differs from the elements'")
        check_cache(self.tensor, self.cache, LOAD_CACHES)


@operation_definition
class StoreOp(IRDLOperation):
    """Writes one element, a bool as the byte 0 or 1; `volatile` and `cache` as for `simt.load`."""

    name = "simt.store"

    volatile = opt_prop_def(UnitAttr)
    cache = opt_prop_def(StringAttr)
    value = operand_def()
    tensor = operand_def(TensorType)
    indices = var_operand_def()

    traits = traits_def(
        MemoryWriteEffect(), Accesses((Access("tensor", "written", elements="value"),))
    )
    assembly_format = (
        "(`volatile` $volatile^)? (`cache` $cache^)? $value `,` $tensor "
        "`[` ($indices^ `:` type($indices))? `]` attr-dict "
        "`:` type($value) `,` type($tensor)"
    )

    def __init__(
        self,
        value: SSAValue,
        tensor: SSAValue,
        indices: Sequence[SSAValue],
        *,
        volatile: bool = False,
        cache: str | None = None,
    ) -> None:
        super().__init__(
            operands=[value, tensor, indices],
            properties=_how(volatile=volatile, cache=cache),
        )

    def verify_(self) -> None:
        if check_indices(self.tensor, self.indices).element_type != self.value.type:
            raise VerifyException("the value's type differs from the elements'")
        check_cache(self.tensor, self.cache, STORE_CACHES)


class _TensorFactOp(IRDLOperation):
    """Base of `simt.dim` and `simt.stride`: a tensor and a constant dimension."""

    tensor = operand_def(TensorType)
    dimension = prop_def(I32Attr)

    def verify_(self) -> None:
        rank = _tensor_type(self.tensor).rank
        dimension = self.dimension.value.data
        if not 0 <= dimension < rank:
            raise VerifyException(f"dimension {dimension} of a tensor of rank {rank}")


@operation_definition
class DimOp(_TensorFactOp):
    """One dimension of a tensor, in elements; its width is the tensor type's (`dims 32`).

    Attributes:
        multiple: a power of two that divides it, which LLVM is told; None if none is known.
    """

    name = "simt.dim"

    multiple = opt_prop_def(I32Attr)
    result = result_def(IntegerType)
    traits = traits_def(Pure(), NeedsParts(pointer=False, dims="one"))
    assembly_format = (
        "$tensor `[` $dimension `]` (`multiple` $multiple^)? attr-dict "
        "`:` type($tensor) `->` type($result)"
    )

    def __init__(self, tensor: SSAValue, dimension: int, multiple: int = 1) -> None:
        bits = _tensor_type(tensor).dim_bits.data
        properties = {"dimension": IntegerAttr(dimension, i32)}
        if multiple > 1:
            properties["multiple"] = IntegerAttr(multiple, i32)
        super().__init__(
            operands=[tensor],
            properties=properties,
            result_types=[i32 if bits == 32 else i64],
        )


@operation_definition
class StrideOp(_TensorFactOp):
    """One stride of a tensor, in elements; i64, may be zero or negative."""

    name = "simt.stride"

    result = result_def(i64)
    traits = traits_def(Pure(), NeedsParts(pointer=False, strides="one"))
    assembly_format = "$tensor `[` $dimension `]` attr-dict `:` type($tensor) `->` type($result)"

    def __init__(self, tensor: SSAValue, dimension: int) -> None:
        super().__init__(
            operands=[tensor],
            properties={"dimension": IntegerAttr(dimension, i32)},
            result_types=[i64],
        )


@operation_definition
class AddressOp(IRDLOperation):
    """The address of an element, in bytes, as an i64; reads nothing."""

    name = "simt.address"

    tensor = operand_def(TensorType)
    indices = var_operand_def()
    result = result_def(i64)

    traits = traits_def(Pure())
    assembly_format = "$tensor `[` ($indices^ `:` type($indices))? `]` attr-dict `:` type($tensor) `->` type($result)"

    def __init__(self, tensor: SSAValue, indices: Sequence[SSAValue]) -> None:
        super().__init__(operands=[tensor, indices], result_types=[i64])

    def verify_(self) -> None:
        check_indices(self.tensor, self.indices)


@operation_definition
class ArgumentNumberOp(IRDLOperation):
    """Which of a host function's arguments a tensor is; only for one that control flow chose among them."""

    name = "simt.argument_number"

    tensor = operand_def(TensorType)
    result = result_def(i32)
    traits = traits_def(Pure())
    assembly_format = "$tensor attr-dict `:` type($tensor) `->` type($result)"

    def __init__(self, tensor: SSAValue) -> None:
        super().__init__(operands=[tensor], result_types=[i32])


@operation_definition
class AllocaOp(IRDLOperation):
    """A tensor of static shape in the thread's own memory, uninitialized."""

    name = "simt.alloca"

    traits = traits_def(OwnMemory())

    result = result_def(TensorType)
    assembly_format = "attr-dict `:` type($result)"

    def __init__(self, tensor_type: TensorType) -> None:
        super().__init__(result_types=[tensor_type])

    def verify_(self) -> None:
        tensor_type = _tensor_type(self.result)
        if tensor_type.space.data != "local" or any(dim < 0 for dim in tensor_type.dims):
            raise VerifyException("simt.alloca makes a local tensor of static shape")


@operation_definition
class GlobalScratchOp(IRDLOperation):
    """A tensor of static shape in global memory that the block's threads share, uninitialized; each block has its own.

    Launches allocate it: the pass add_scratch_arguments makes an argument of it.
    """

    name = "simt.global_scratch"

    result = result_def(TensorType)
    assembly_format = "attr-dict `:` type($result)"

    def __init__(self, tensor_type: TensorType) -> None:
        super().__init__(result_types=[tensor_type])

    def verify_(self) -> None:
        tensor_type = _tensor_type(self.result)
        if tensor_type.space.data != "global" or any(dim < 0 for dim in tensor_type.dims):
            raise VerifyException("simt.global_scratch makes a global tensor of static shape")


@operation_definition
class ScratchOp(IRDLOperation):
    """An uninitialized tensor that the launches of a host function share; the call has it until it ends.

    `sizes` holds one integer for each `?` of the result's type; a negative one fails the call. The memory is in the
    order of `stream`, without it of the call's. `text` is what the user wrote.
    """

    name = "simt.scratch"

    traits = traits_def(OwnMemory())

    text = prop_def(StringAttr)
    sizes = var_operand_def()
    stream = opt_operand_def(StreamType)
    result = result_def(TensorType)

    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    assembly_format = (
        "$text (`sizes` `(` $sizes^ `:` type($sizes) `)`)? (`stream` $stream^)? attr-dict "
        "`:` type($result)"
    )

    def __init__(
        self, text: str, sizes: Sequence[SSAValue], stream: SSAValue | None, tensor_type: TensorType
    ) -> None:
        super().__init__(
            operands=[sizes, stream],
            properties={"text": StringAttr(text)},
            result_types=[tensor_type],
        )

    def size(self, dimension: int) -> SSAValue:
        """The operand with the size of a dimension unknown to the type."""
        return self.sizes[_tensor_type(self.result).dims[:dimension].count(DYNAMIC)]

    def verify_(self) -> None:
        kind = _tensor_type(self.result)
        if (kind.space.data, kind.layout.data) != ("global", "contiguous"):
            raise VerifyException("simt.scratch makes a contiguous global tensor")
        if kind.dims.count(DYNAMIC) != len(self.sizes):
            raise VerifyException(f"{len(self.sizes)} sizes for {kind}")
        wanted = i32 if kind.dim_bits.data == 32 else i64
        if any(size.type != wanted for size in self.sizes):
            raise VerifyException(f"the sizes of {kind} are {wanted}")


def _check_order_and_scope(order: str, scope: str, orders: tuple[str, ...] = MEMORY_ORDERS) -> None:
    if order not in orders:
        raise VerifyException(f"memory order {order!r} is not one of {orders}")
    if scope not in MEMORY_SCOPES:
        raise VerifyException(f"memory scope {scope!r} is not one of {MEMORY_SCOPES}")


@operation_definition
class AtomicLoadOp(IRDLOperation):
    """Reads an element atomically, with `order` and `scope`."""

    name = "simt.atomic_load"

    order = prop_def(StringAttr)
    scope = prop_def(StringAttr)
    tensor = operand_def(TensorType)
    indices = var_operand_def()
    result = result_def()

    traits = traits_def(
        MemoryReadEffect(), Accesses((Access("tensor", "read", elements="result", is_atomic=True),))
    )
    assembly_format = (
        "$order $scope $tensor `[` ($indices^ `:` type($indices))? `]` attr-dict "
        "`:` type($tensor) `->` type($result)"
    )

    def __init__(
        self, tensor: SSAValue, indices: Sequence[SSAValue], order: str, scope: str
    ) -> None:
        super().__init__(
            operands=[tensor, indices],
            properties={"order": StringAttr(order), "scope": StringAttr(scope)},
            result_types=[_tensor_type(tensor).element_type],
        )

    def verify_(self) -> None:
        _check_order_and_scope(self.order.data, self.scope.data, LOAD_ORDERS)
        if check_indices(self.tensor, self.indices).element_type != self.result.type:
            raise VerifyException("the result's type differs from the elements'")


@operation_definition
class AtomicStoreOp(IRDLOperation):
    """Writes an element atomically, with `order` and `scope`."""

    name = "simt.atomic_store"

    order = prop_def(StringAttr)
    scope = prop_def(StringAttr)
    value = operand_def()
    tensor = operand_def(TensorType)
    indices = var_operand_def()

    traits = traits_def(
        MemoryWriteEffect(),
        Accesses((Access("tensor", "written", elements="value", is_atomic=True),)),
    )
    assembly_format = (
        "$order $scope $value `,` $tensor `[` ($indices^ `:` type($indices))? `]` attr-dict "
        "`:` type($value) `,` type($tensor)"
    )

    def __init__(
        self,
        value: SSAValue,
        tensor: SSAValue,
        indices: Sequence[SSAValue],
        order: str,
        scope: str,
    ) -> None:
        super().__init__(
            operands=[value, tensor, indices],
            properties={"order": StringAttr(order), "scope": StringAttr(scope)},
        )

    def verify_(self) -> None:
        _check_order_and_scope(self.order.data, self.scope.data, STORE_ORDERS)
        if check_indices(self.tensor, self.indices).element_type != self.value.type:
            raise VerifyException("the value's type differs from the elements'")


@operation_definition
class AtomicRmwOp(IRDLOperation):
    """Atomically reads an element, combines it with `value` and writes it back; yields the old element.

    `umax` and `umin` compare as unsigned; `add`, `sub`, `max` and `min` also take floats.
    """

    name = "simt.atomic_rmw"

    kind = prop_def(StringAttr)
    order = prop_def(StringAttr)
    scope = prop_def(StringAttr)
    value = operand_def()
    tensor = operand_def(TensorType)
    indices = var_operand_def()
    result = result_def()

    traits = traits_def(
        MemoryReadEffect(),
        MemoryWriteEffect(),
        Accesses((Access("tensor", "updated", elements="result", is_atomic=True),)),
    )
    assembly_format = (
        "$kind $order $scope $value `,` $tensor `[` ($indices^ `:` type($indices))? `]` attr-dict "
        "`:` type($value) `,` type($tensor) `->` type($result)"
    )

    def __init__(
        self,
        kind: str,
        value: SSAValue,
        tensor: SSAValue,
        indices: Sequence[SSAValue],
        order: str = "relaxed",
        scope: str = "device",
    ) -> None:
        properties: dict[str, Attribute | None] = {
            "kind": StringAttr(kind),
            "order": StringAttr(order),
            "scope": StringAttr(scope),
        }
        super().__init__(
            operands=[value, tensor, indices], properties=properties, result_types=[value.type]
        )

    def verify_(self) -> None:
        if self.kind.data not in ATOMIC_KINDS:
            raise VerifyException(f"atomic {self.kind.data!r} is not one of {ATOMIC_KINDS}")
        _check_order_and_scope(self.order.data, self.scope.data)
        element = check_indices(self.tensor, self.indices).element_type
        if element != self.value.type or element != self.result.type:
            raise VerifyException("value, elements and result have one type")


@operation_definition
class AtomicCasOp(IRDLOperation):
    """Writes `value` if the element equals `expected` bit for bit; yields the old element."""

    name = "simt.atomic_cas"

    order = prop_def(StringAttr)
    scope = prop_def(StringAttr)
    expected = operand_def()
    value = operand_def()
    tensor = operand_def(TensorType)
    indices = var_operand_def()
    result = result_def()

    traits = traits_def(
        MemoryReadEffect(),
        MemoryWriteEffect(),
        Accesses((Access("tensor", "updated", elements="result", is_atomic=True),)),
    )
    assembly_format = (
        "$order $scope $expected `,` $value `,` $tensor `[` ($indices^ `:` type($indices))? `]` attr-dict "
        "`:` type($expected) `,` type($value) `,` type($tensor) `->` type($result)"
    )

    def __init__(
        self,
        expected: SSAValue,
        value: SSAValue,
        tensor: SSAValue,
        indices: Sequence[SSAValue],
        order: str = "relaxed",
        scope: str = "device",
    ) -> None:
        super().__init__(
            operands=[expected, value, tensor, indices],
            properties={"order": StringAttr(order), "scope": StringAttr(scope)},
            result_types=[value.type],
        )

    def verify_(self) -> None:
        _check_order_and_scope(self.order.data, self.scope.data)
        element = check_indices(self.tensor, self.indices).element_type
        if {element, self.expected.type, self.value.type, self.result.type} != {element}:
            raise VerifyException("expected, value, elements and result have one type")
