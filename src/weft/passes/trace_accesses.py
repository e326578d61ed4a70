# SPDX-License-Identifier: Apache-2.0
"""Records events of memory and of barriers for `weft.testing.trace_thread`.

In: a traced module, whose statements have events. Out: `simt.event` after each access of an array, with indices and
values, after each place where threads wait for others, and after copies beside the threads begin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from xdsl.dialects.builtin import IntegerType, StringAttr
from xdsl.rewriter import InsertPoint, Rewriter

from weft.dialects.builder import ELEMENT_TYPE
from weft.dialects.flow import walk
from weft.dialects.nvgpu.bulk_copy import BulkLoadOp, BulkStoreOp
from weft.dialects.nvgpu.cluster import ClusterBarrierOp, StAsyncOp
from weft.dialects.nvgpu.cp_async import CpAsyncCopyOp, CpAsyncWaitOp
from weft.dialects.nvgpu.mbarrier import MbarrierTryWaitOp, MbarrierWaitOp
from weft.dialects.nvgpu.named_barrier import NamedBarrierSyncOp
from weft.dialects.nvgpu.tma import TmaLoadOp, TmaReduceOp, TmaStoreOp, TmaWaitOp
from weft.dialects.nvgpu.warpgroup import WarpgroupBarrierOp
from weft.dialects.nvgpu.wgmma import WgmmaWaitOp
from weft.dialects.simt.barrier import BarrierOp, BarrierReduceOp, GridBarrierOp, WarpBarrierOp
from weft.dialects.simt.event import EventOp
from weft.dialects.simt.kernel import KernelOp
from weft.dialects.simt.memory import (
    AtomicCasOp,
    AtomicLoadOp,
    AtomicRmwOp,
    AtomicStoreOp,
    LoadOp,
    StoreOp,
)
from weft.dialects.simt.reductions import RedAddOp
from weft.dialects.simt.types import TensorType
from weft.dialects.simt.views import LoadVectorOp, StoreVectorOp, ViewOp
from weft.passes.check_accesses import tensor_name

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from xdsl.dialects.builtin import ModuleOp
    from xdsl.ir import Operation, SSAValue

# The event of an access, and its values.
_ACCESSES: Final[dict[type[Operation], tuple[str, Callable[[Any], Sequence[SSAValue]]]]] = {
    LoadOp: ("read", lambda op: [op.result]),
    StoreOp: ("written", lambda op: [op.value]),
    LoadVectorOp: ("read", lambda op: op.elements),
    StoreVectorOp: ("written", lambda op: op.elements),
    AtomicLoadOp: ("read", lambda op: [op.result]),
    AtomicStoreOp: ("written", lambda op: [op.value]),
    AtomicRmwOp: ("updated", lambda op: [op.result]),
    AtomicCasOp: ("updated", lambda op: [op.result]),
    RedAddOp: ("added", lambda op: op.elements),
}
_WAITS: Final = (
    *(BarrierOp, BarrierReduceOp, GridBarrierOp, WarpBarrierOp, ClusterBarrierOp),
    *(WarpgroupBarrierOp, NamedBarrierSyncOp, MbarrierWaitOp, MbarrierTryWaitOp),
    *(CpAsyncWaitOp, TmaWaitOp, WgmmaWaitOp),
)
_COPIES: Final = (
    *(CpAsyncCopyOp, TmaLoadOp, TmaStoreOp, TmaReduceOp, BulkLoadOp, BulkStoreOp, StAsyncOp),
)


def trace_accesses(module: ModuleOp) -> None:
    """Adds the events of memory and of waiting to each kernel."""
    for kernel in module.body.block.ops:
        for op in list(walk(kernel)) if isinstance(kernel, KernelOp) else ():
            if type(op) in _ACCESSES:
                _trace_access(op)
            elif isinstance(op, _WAITS):
                _after(op, EventOp("barrier", "", "", [], []))
            elif isinstance(op, _COPIES):
                _after(op, EventOp("copy", "", "", [], []))


def _trace_access(op: Operation) -> None:
    event, values_of = _ACCESSES[type(op)]
    place = next(n for n, value in enumerate(op.operands) if isinstance(value.type, TensorType))
    tensor = op.operands[place]
    indices = op.operands[place + 1 : place + 1 + cast("TensorType", tensor.type).rank]
    values = values_of(op)
    widths = [f"index{_width(index)}" for index in indices]
    types = [*widths, *[_type_name(op, value) for value in values]]
    _after(op, EventOp(event, _name(tensor), "", types, [*indices, *values]))


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
