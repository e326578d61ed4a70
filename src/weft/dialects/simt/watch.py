# SPDX-License-Identifier: Apache-2.0
"""Calls of the sanitizer in a kernel: `simt.watch`, `simt.watch_copy`, `simt.watch_event`.

In: accesses of memory, and what orders them. Out: nothing, or a report. Only passes make them, never the front end;
each stands before what it is about, or after it where it tells that something has ended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from xdsl.dialects.builtin import IntegerAttr, StringAttr, i32, i64
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    operand_def,
    opt_operand_def,
    prop_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException

from weft.dialects.definition import operation_definition
from weft.dialects.simt.check import ACCESSES
from weft.dialects.simt.types import TensorType

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from xdsl.ir import SSAValue

ACCESS_FLAGS: Final = {
    word: 1 << bit
    for bit, word in enumerate(
        (
            *("reads", "writes", "atomic", "acquires", "releases", "block", "awaited"),
            *("shared", "local", "races", "uninit", "async"),
            *("elements", "phase", "store", "product", "publishes", "scratch"),
        )
    )
}
"""Words for the bits of enum weft_access_flag."""
EVENTS: Final = (
    *("fence", "arrive", "wait", "declare", "proxy_fence"),
    *("commit", "elements", "stores", "product", "products", "rendezvous", "end"),
    *("store", "stores_read", "iteration"),
)
"""Words for enum weft_race_event."""


class WatchedAccess(IRDLOperation):
    """Base: `how` are words of `ACCESS_FLAGS`; `array` and `access` are as of `simt.check`."""

    how = prop_def(StringAttr)
    array = prop_def(StringAttr)
    access = prop_def(StringAttr)

    # They write no memory of the program, but stay where they are.
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    @property
    def flags(self) -> int:
        """The bits of `how`."""
        return sum(ACCESS_FLAGS[word] for word in self.how.data.split())

    @property
    def written(self) -> tuple[SSAValue, ...]:
        """No memory."""
        return ()

    def verify_(self) -> None:
        unknown = set(self.how.data.split()) - ACCESS_FLAGS.keys()
        if unknown:
            raise VerifyException(f"{sorted(unknown)} are not among {tuple(ACCESS_FLAGS)}")
        if self.access.data not in ACCESSES:
            raise VerifyException(f"access {self.access.data!r} is not one of {ACCESSES}")


def access_properties(
    how: Iterable[str], array: str, access: str
) -> dict[str, StringAttr | IntegerAttr | None]:
    """The properties of a `WatchedAccess`."""
    ordered = [word for word in ACCESS_FLAGS if word in set(how)]
    return {
        "how": StringAttr(" ".join(ordered)),
        "array": StringAttr(array),
        "access": StringAttr(access),
    }


@operation_definition
class WatchOp(WatchedAccess):
    """The thread is about to access `count` consecutive elements from an element on; `sizes` are the tensor's dims."""

    name = "simt.watch"

    tensor = operand_def(TensorType)
    indices = var_operand_def()
    sizes = var_operand_def()
    count = prop_def(IntegerAttr.constr(i32))

    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    assembly_format = (
        "$how $array $access $count $tensor `[` $indices `:` type($indices) `]` "
        "`sizes` `(` $sizes `:` type($sizes) `)` attr-dict `:` type($tensor)"
    )

    def __init__(
        self,
        how: Iterable[str],
        array: str,
        access: str,
        count: int,
        tensor: SSAValue,
        indices: Sequence[SSAValue],
        sizes: Sequence[SSAValue],
    ) -> None:
        super().__init__(
            operands=[tensor, indices, sizes],
            properties={**access_properties(how, array, access), "count": IntegerAttr(count, i32)},
        )


@operation_definition
class WatchCopyOp(WatchedAccess):
    """`size` bytes, `offset` bytes after an element, are about to be accessed beside the threads.

    `words` and `index` are the barrier whose phase ends that, for how ``"phase"``. The array's name is that argument of
    the call in the source, or `array` if `argument` is negative.
    """

    name = "simt.watch_copy"

    tensor = operand_def(TensorType)
    indices = var_operand_def()
    size = operand_def(i64)
    words = opt_operand_def(TensorType)
    index = opt_operand_def(i32)
    offset = prop_def(IntegerAttr.constr(i64))
    argument = prop_def(IntegerAttr.constr(i32))

    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    assembly_format = (
        "$how $array $argument $access $size `at` $tensor `[` $indices `:` type($indices) `]` `plus` $offset "
        "(`for` $words^ `[` $index `]` `:` type($words))? attr-dict `:` type($tensor)"
    )

    def __init__(
        self,
        how: Iterable[str],
        array: str,
        access: str,
        place: tuple[SSAValue, Sequence[SSAValue], int],
        size: SSAValue,
        barrier: tuple[SSAValue, SSAValue] | None,
        argument: int = -1,
    ) -> None:
        tensor, indices, offset = place
        super().__init__(
            operands=[
                tensor,
                indices,
                size,
                *([[one] for one in barrier] if barrier else [[], []]),
            ],
            properties={
                **access_properties(how, array, access),
                "offset": IntegerAttr(offset, i64),
                "argument": IntegerAttr(argument, i32),
            },
        )


@operation_definition
class WatchEventOp(IRDLOperation):
    """What else orders accesses, one of `EVENTS`; `tensor` and `index` are a barrier, or the array that begins."""

    name = "simt.watch_event"

    event = prop_def(StringAttr)
    amount = prop_def(IntegerAttr.constr(i64))
    tensor = opt_operand_def(TensorType)
    index = opt_operand_def(i32)

    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    assembly_format = (
        "$event $amount (`at` $tensor^ `:` type($tensor))? (`index` $index^)? attr-dict"
    )

    def __init__(
        self,
        event: str,
        amount: int = 0,
        tensor: SSAValue | None = None,
        index: SSAValue | None = None,
    ) -> None:
        super().__init__(
            operands=[[tensor] if tensor else [], [index] if index else []],
            properties={"event": StringAttr(event), "amount": IntegerAttr(amount, i64)},
        )

    @property
    def written(self) -> tuple[SSAValue, ...]:
        """No memory."""
        return ()

    def verify_(self) -> None:
        if self.event.data not in EVENTS:
            raise VerifyException(f"event {self.event.data!r} is not one of {EVENTS}")
