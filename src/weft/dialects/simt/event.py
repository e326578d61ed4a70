# SPDX-License-Identifier: Apache-2.0
"""Events of a thread, statement by statement, for its trace: `simt.event`.

In: statements, variables and values, where someone asked for them. Out: nothing; the runtime keeps the events of one
thread, which `weft.testing.trace_thread` shows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from xdsl.dialects.builtin import StringAttr
from xdsl.irdl import IRDLOperation, prop_def, traits_def, var_operand_def
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException

from weft.dialects.definition import operation_definition

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.ir import SSAValue

EVENTS: Final = (
    *("line", "assigned", "called", "returned", "branch", "round", "end"),
    *("read", "written", "updated", "added", "copy", "barrier"),
)
"""Of statements, which the front end tells; then of memory and of waiting, which a pass adds."""


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
        if self.event.data not in EVENTS:
            raise VerifyException(f"event {self.event.data!r} is not one of {EVENTS}")
        if len(self.types.data.split()) != len(self.values):
            raise VerifyException(f"{len(self.values)} values of the types {self.types.data!r}")
