# SPDX-License-Identifier: Apache-2.0
"""Output, assertions, and instrumentation by the sanitizer and traces.

In: a format with arguments, a condition with its text, an access, a statement. Out: text on standard output, an error
that names file, line, block and thread, a race report, an event. Kernels make `simt.printf`, `simt.assert` and
`simt.assume`; only passes make `simt.check`, `simt.watch`, `simt.watch_copy` and `simt.watch_event`. The front end
makes `simt.event` for `weft.testing.trace_thread`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from xdsl.dialects.builtin import IntegerAttr, StringAttr, i1, i32, i64
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

from weft import _native
from weft.dialects.definition import (
    BaseOperation,
    flag,
    integer,
    operand,
    operands,
    operation_definition,
    opt_operand,
    opt_string,
    string,
)
from weft.dialects.simt.types import TensorType

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from xdsl.ir import SSAValue
    from xdsl.irdl import Operand, OptOperand

    from weft.dialects.definition import Flag, Integer, Operands, OptString, String

UNDEFINES: Final = "weft.undefines"
"""Attribute of the stores, and their barrier, by which the CPU shows that the elements of an array are undefined."""


@operation_definition
class PrintfOp(BaseOperation):
    """C's printf; arguments are i32, i64 and f64 only, as a variadic C call would pass them."""

    name = "simt.printf"

    text: String = string()
    args: Operands = operands()

    traits = traits_def(MemoryWriteEffect())
    assembly_format = "$text (`(` $args^ `:` type($args) `)`)? attr-dict"


@operation_definition
class AssertOp(BaseOperation):
    """Stops the launch with an error where `condition` is false; the location is the assert's."""

    name = "simt.assert"

    condition: Operand = operand(i1)
    text: String = string()

    traits = traits_def(MemoryWriteEffect())
    assembly_format = "$condition `,` $text attr-dict"


PROMISE: Final = "weft.assume, which promises this"


@operation_definition
class AssumeOp(BaseOperation):
    """Promises that `condition` holds here: on a GPU code is made for that case alone, unless it is `checked` there.

    The CPU and host functions check it always. `text` is that of the error, if it is not `PROMISE`.
    """

    name = "simt.assume"

    condition: Operand = operand(i1)
    text: OptString = opt_string(default=None)
    checked: Flag = flag(default=False)

    traits = traits_def(MemoryWriteEffect())
    assembly_format = "(`checked` $checked^)? $condition (`,` $text^)? attr-dict"

    @property
    def message(self) -> str:
        """The text of the error where it does not hold."""
        return PROMISE if self.text is None else self.text.data


CHECKS: Final = _native.CHECK_KINDS
"""The kinds, named as in `WEFT_CHECK_KINDS`."""
ARITHMETIC: Final = CHECKS[CHECKS.index("overflow") :]
"""Those that are about numbers."""
ACCESSES: Final = ("read", "written", "updated")


@operation_definition
class CheckOp(BaseOperation):
    """Stops the launch with a report where `condition` is false; the location is that of the access.

    `array` is its name, empty where the source has it; `count` consecutive elements are accessed at once. The values
    are the indices and then the sizes of all dimensions. In arithmetic, `array` is a type and `access` an operator or a
    function, and the values are its operands: floats as the bits of a double.

    `ends`: the launch ends in any case. Otherwise a target may leave out the access that follows.
    """

    name = "simt.check"

    condition: Operand = operand(i1)
    kind: String = string()
    array: String = string()
    access: String = string()
    count: Integer = integer(i32)
    values: Operands = operands(i64)
    ends: Flag = flag(default=False)

    traits = traits_def(MemoryWriteEffect())
    assembly_format = "(`ends` $ends^)? $condition `,` $kind $array $access $count `values` `(` $values `)` attr-dict"

    def verify_(self) -> None:
        if self.kind.data not in CHECKS:
            raise VerifyException(f"check {self.kind.data!r} is not one of {CHECKS}")
        if self.kind.data in ARITHMETIC:
            return
        if self.access.data not in ACCESSES:
            raise VerifyException(f"access {self.access.data!r} is not one of {ACCESSES}")
        if len(self.values) % 2:
            raise VerifyException(f"{len(self.values)} values: expected indices and as many sizes")


ACCESS_FLAGS: Final = {
    word: 1 << bit
    for bit, word in enumerate(
        (
            *("reads", "writes", "atomic", "acquires", "releases", "block", "awaited"),
            *("shared", "local", "races", "uninit", "async"),
            *("elements", "phase", "store", "mma", "publishes", "scratch"),
        )
    )
}
"""Words for the bits of enum weft_access_flag."""
WATCH_EVENTS: Final = (
    *("fence", "arrive", "wait", "declare", "proxy_fence"),
    *("commit", "elements", "stores", "wgmma", "wgmma_wait", "rendezvous", "end"),
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
class WatchEventOp(BaseOperation):
    """Orders accesses otherwise, by of `WATCH_EVENTS`; `tensor`, `index`: a barrier, or the array that begins."""

    name = "simt.watch_event"

    event: String = string()
    amount: Integer = integer(i64, default=0)
    tensor: OptOperand = opt_operand(TensorType, default=None)
    index: OptOperand = opt_operand(i32, default=None)

    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    assembly_format = (
        "$event $amount (`at` $tensor^ `:` type($tensor))? (`index` $index^)? attr-dict"
    )

    @property
    def written(self) -> tuple[SSAValue, ...]:
        """No memory."""
        return ()

    def verify_(self) -> None:
        if self.event.data not in WATCH_EVENTS:
            raise VerifyException(f"event {self.event.data!r} is not one of {WATCH_EVENTS}")


TRACE_EVENTS: Final = (
    *("line", "assigned", "called", "returned", "branch", "iteration", "end"),
    *("read", "written", "updated", "added", "copy", "barrier"),
)
"""Events of statements, from the front end; then of memory and of waiting, from a pass."""


@operation_definition
class EventOp(IRDLOperation):
    """The thread has come here: to a statement, an assignment, an access, ...; the location is that of it.

    `text` is the variable's name, or the array's; `types` has a word for each value: ``index``, or weft's name of a
    type. `shown` is the text of a value in which ``{}`` stands for each of the numbers.
    """

    name = "simt.event"

    event = prop_def(StringAttr)
    text = prop_def(StringAttr)
    shown = prop_def(StringAttr)
    types = prop_def(StringAttr)
    values = var_operand_def()

    # It writes no memory of the program, but stays where it is.
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = "$event $text $shown $types (`(` $values^ `:` type($values) `)`)? attr-dict"

    def __init__(
        self, event: str, text: str, shown: str, types: Sequence[str], values: Sequence[SSAValue]
    ) -> None:
        super().__init__(
            operands=[values],
            properties={
                "event": StringAttr(event),
                "text": StringAttr(text),
                "shown": StringAttr(shown),
                "types": StringAttr(" ".join(types)),
            },
        )

    @property
    def written(self) -> tuple[SSAValue, ...]:
        """No memory."""
        return ()

    def verify_(self) -> None:
        if self.event.data not in TRACE_EVENTS:
            raise VerifyException(f"event {self.event.data!r} is not one of {TRACE_EVENTS}")
        if len(self.types.data.split()) != len(self.values):
            raise VerifyException(f"{len(self.values)} values of the types {self.types.data!r}")
