# SPDX-License-Identifier: Apache-2.0
"""Records events of memory and of barriers for `weft.testing.trace_thread`.

In: a traced module, whose statements have events. Out: `simt.event` after each access of an array, with indices and
values, after each place where threads wait for others, and after copies beside the threads begin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from xdsl.dialects.builtin import IntegerType, StringAttr
from xdsl.rewriter import InsertPoint, Rewriter

from weft.dialects.access import StartsAsync, Synchronizes, accesses_of, trait_of
from weft.dialects.builder import ELEMENT_TYPE
from weft.dialects.flow import walk
from weft.dialects.simt.debug import EventOp
from weft.dialects.simt.kernel import KernelOp
from weft.dialects.simt.memory import ViewOp
from weft.passes.check_accesses import tensor_name

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.ir import Operation, SSAValue


def trace_accesses(module: ModuleOp) -> None:
    """Adds the events of memory and of waiting to each kernel."""
    for kernel in module.body.block.ops:
        for op in list(walk(kernel)) if isinstance(kernel, KernelOp) else ():
            started = trait_of(op, StartsAsync)
            if trait_of(op, Synchronizes) is not None:
                _after(op, EventOp("barrier", "", "", [], []))
            elif started is None:
                _trace_accesses(op)
            elif started.completion != "product":
                _after(op, EventOp("copy", "", "", [], []))


def _trace_accesses(op: Operation) -> None:
    for access in accesses_of(op):
        if access.extent == "elements":
            # A reduction returns nothing of what was there.
            event = "added" if access.kind == "updated" and not op.results else access.kind
            indices, values = access.indices, access.elements
            widths = [f"index{_width(index)}" for index in indices]
            types = [*widths, *[_type_name(op, value) for value in values]]
            _after(op, EventOp(event, _name(access.tensor), "", types, [*indices, *values]))


def _name(tensor: SSAValue) -> str:
    """An array's name; of a view, whose part it is."""
    if not isinstance(tensor.owner, ViewOp):
        return tensor_name(tensor)
    while isinstance(view := tensor.owner, ViewOp):
        tensor = view.source
    return f"part of {tensor_name(tensor)}"


def _type_name(op: Operation, value: SSAValue) -> str:
    """The type of an element; without a sign where nothing says which."""
    known = op.attributes.get(ELEMENT_TYPE)
    if isinstance(known, StringAttr):
        return known.data
    if isinstance(value.type, IntegerType):
        return f"i{_width(value)}"
    return str(value.type).lower().removesuffix("fn")


def _width(value: SSAValue) -> int:
    return cast("IntegerType", value.type).width.data


def _after(op: Operation, event: EventOp) -> None:
    event.location = op.location  # pyright: ignore[reportAttributeAccessIssue]
    Rewriter.insert_op(event, InsertPoint.after(op))
