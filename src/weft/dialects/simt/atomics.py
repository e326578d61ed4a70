# SPDX-License-Identifier: Apache-2.0
"""Atomics: `simt.atomic_load`, `_store`, `_rmw` and `_cas`, and sums into memory without a result, `simt.red_add`.

In: a tensor, an index for each dimension, an order and a scope. Out: elements as they were before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from xdsl.dialects.builtin import i1
from xdsl.irdl import (
    AttrSizedOperandSegments,
    traits_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException

from weft.dialects.access import Access, Accesses
from weft.dialects.definition import (
    BaseOperation,
    operand,
    operands,
    operation_definition,
    result_of,
    string,
)
from weft.dialects.simt.memory import check_indices, check_vector
from weft.dialects.simt.types import TensorType

if TYPE_CHECKING:
    from xdsl.ir import OpResult
    from xdsl.irdl import Operand

    from weft.dialects.definition import Operands, String


ATOMIC_KINDS: Final = ("add", "sub", "max", "min", "umax", "umin", "and", "or", "xor", "exchange")
MEMORY_ORDERS: Final = ("relaxed", "acquire", "release", "acq_rel", "seq_cst")
LOAD_ORDERS: Final = ("relaxed", "acquire", "seq_cst")
STORE_ORDERS: Final = ("relaxed", "release", "seq_cst")
MEMORY_SCOPES: Final = ("block", "device", "system")


def _check_order_and_scope(order: str, scope: str, orders: tuple[str, ...] = MEMORY_ORDERS) -> None:
    if order not in orders:
        raise VerifyException(f"memory order {order!r} is not one of {orders}")
    if scope not in MEMORY_SCOPES:
        raise VerifyException(f"memory scope {scope!r} is not one of {MEMORY_SCOPES}")


@operation_definition
class AtomicLoadOp(BaseOperation):
    """Reads an element atomically, with `order` and `scope`."""

    name = "simt.atomic_load"

    tensor: Operand = operand(TensorType)
    indices: Operands = operands()
    order: String = string()
    scope: String = string()
    result: OpResult = result_of("tensor", kind=lambda kind: kind.element_type)

    traits = traits_def(
        MemoryReadEffect(), Accesses((Access("tensor", "read", elements="result", is_atomic=True),))
    )
    assembly_format = (
        "$order $scope $tensor `[` ($indices^ `:` type($indices))? `]` attr-dict "
        "`:` type($tensor) `->` type($result)"
    )

    def verify_(self) -> None:
        _check_order_and_scope(self.order.data, self.scope.data, LOAD_ORDERS)
        if check_indices(self.tensor, self.indices).element_type != self.result.type:
            raise VerifyException("the result's type differs from the elements'")


@operation_definition
class AtomicStoreOp(BaseOperation):
    """Writes an element atomically, with `order` and `scope`."""

    name = "simt.atomic_store"

    value: Operand = operand()
    tensor: Operand = operand(TensorType)
    indices: Operands = operands()
    order: String = string()
    scope: String = string()

    traits = traits_def(
        MemoryWriteEffect(),
        Accesses((Access("tensor", "written", elements="value", is_atomic=True),)),
    )
    assembly_format = (
        "$order $scope $value `,` $tensor `[` ($indices^ `:` type($indices))? `]` attr-dict "
        "`:` type($value) `,` type($tensor)"
    )

    def verify_(self) -> None:
        _check_order_and_scope(self.order.data, self.scope.data, STORE_ORDERS)
        if check_indices(self.tensor, self.indices).element_type != self.value.type:
            raise VerifyException("the value's type differs from the elements'")


@operation_definition
class AtomicRmwOp(BaseOperation):
    """Atomically reads an element, combines it with `value` and writes it back; yields the old element.

    `umax` and `umin` compare as unsigned; `add`, `sub`, `max` and `min` also take floats.
    """

    name = "simt.atomic_rmw"

    kind: String = string()
    value: Operand = operand()
    tensor: Operand = operand(TensorType)
    indices: Operands = operands()
    order: String = string(default="relaxed")
    scope: String = string(default="device")
    result: OpResult = result_of("value")

    traits = traits_def(
        MemoryReadEffect(),
        MemoryWriteEffect(),
        Accesses((Access("tensor", "updated", elements="result", is_atomic=True),)),
    )
    assembly_format = (
        "$kind $order $scope $value `,` $tensor `[` ($indices^ `:` type($indices))? `]` attr-dict "
        "`:` type($value) `,` type($tensor) `->` type($result)"
    )

    def verify_(self) -> None:
        if self.kind.data not in ATOMIC_KINDS:
            raise VerifyException(f"atomic {self.kind.data!r} is not one of {ATOMIC_KINDS}")
        _check_order_and_scope(self.order.data, self.scope.data)
        element = check_indices(self.tensor, self.indices).element_type
        if element != self.value.type or element != self.result.type:
            raise VerifyException("value, elements and result have one type")


@operation_definition
class AtomicCasOp(BaseOperation):
    """Writes `value` if the element equals `expected` bit for bit; yields the old element."""

    name = "simt.atomic_cas"

    expected: Operand = operand()
    value: Operand = operand()
    tensor: Operand = operand(TensorType)
    indices: Operands = operands()
    order: String = string(default="relaxed")
    scope: String = string(default="device")
    result: OpResult = result_of("value")

    traits = traits_def(
        MemoryReadEffect(),
        MemoryWriteEffect(),
        Accesses((Access("tensor", "updated", elements="result", is_atomic=True),)),
    )
    assembly_format = (
        "$order $scope $expected `,` $value `,` $tensor `[` ($indices^ `:` type($indices))? `]` attr-dict "
        "`:` type($expected) `,` type($value) `,` type($tensor) `->` type($result)"
    )

    def verify_(self) -> None:
        _check_order_and_scope(self.order.data, self.scope.data)
        element = check_indices(self.tensor, self.indices).element_type
        if {element, self.expected.type, self.value.type, self.result.type} != {element}:
            raise VerifyException("expected, value, elements and result have one type")


@operation_definition
class RedAddOp(BaseOperation):
    """Adds values to consecutive elements along the last dimension, each in one step, relaxed and for the whole device.

    The vector as a whole is not one step: another thread may see some of its sums and not yet the others.
    """

    name = "simt.red_add"

    elements: Operands = operands()
    tensor: Operand = operand(TensorType)
    indices: Operands = operands()

    traits = traits_def(
        MemoryReadEffect(),
        MemoryWriteEffect(),
        Accesses((Access("tensor", "updated", elements="elements", is_atomic=True),)),
    )
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    assembly_format = (
        "$elements `:` type($elements) `into` $tensor `[` $indices `:` type($indices) `]` attr-dict "
        "`:` type($tensor)"
    )

    def verify_(self) -> None:
        kind = check_vector(self.tensor, self.indices, self.elements)
        if kind.space.data == "local":
            raise VerifyException("no other thread reaches a thread's own memory")
        if kind.element_type == i1:
            raise VerifyException("bools have no sum")
