# SPDX-License-Identifier: Apache-2.0
"""Instruments a kernel's memory accesses for the sanitizer: races, uninitialized memory, asynchronous copies.

In: a traced module. Out: `simt.watch` before each access, `simt.watch_copy` before each copy beside the threads, and
`simt.watch_event` at synchronization; and on the kernel how its launches are checked. Only functions compiled with
``--sanitize`` pass here.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import FixedBitwidthType, StringAttr, i1, i64
from xdsl.rewriter import InsertPoint, Rewriter

from weft.dialects.access import (
    Accesses,
    Orders,
    StartsAsync,
    Synchronizes,
    accesses_of,
    barrier_of,
    trait_of,
)
from weft.dialects.builder import source_location
from weft.dialects.flow import walk
from weft.dialects.nvgpu.async_copy import (
    FenceProxyOp,
    TmaLoadOp,
    TmaReduceOp,
    TmaStoreOp,
    TmaWaitOp,
    WatchBoxOp,
)
from weft.dialects.nvgpu.mbarrier import MbarrierArriveOp, MbarrierReleaseOp
from weft.dialects.nvgpu.mma import WgmmaAccumulatorOp, WgmmaHoldsSumsOp, WgmmaMmaOp
from weft.dialects.nvgpu.threads import MapSharedOp
from weft.dialects.simt.debug import CheckOp, WatchCopyOp, WatchEventOp, WatchOp
from weft.dialects.simt.fragment import FragmentType
from weft.dialects.simt.kernel import ExitOp, KernelOp, ReturnOp
from weft.dialects.simt.memory import AllocaOp, DimOp, GlobalScratchOp, ScratchOp, StoreOp
from weft.dialects.simt.threads import EachOp
from weft.dialects.simt.types import DYNAMIC, TensorType
from weft.passes.check_accesses import tensor_name
from weft.passes.check_fragments import CARRIERS
from weft.passes.loads import awaited_loads

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from xdsl.dialects.builtin import ModuleOp
    from xdsl.ir import Attribute, Operation, SSAValue

    from weft.dialects.access import FoundAccess
    from weft.dialects.builder import OperationT

WATCHED: Final = ("races", "uninit", "async")
"""The checks for which memory is watched."""
SCRATCH: Final = "scratch"
"""A word of `CHECKS_ATTRIBUTE`: unwritten memory of `weft.scratch` and `weft.global_scratch` is looked for."""
CHECKS_ATTRIBUTE: Final = "weft.checks"
"""Attribute of a kernel: the checks and modes, as in the option."""
_SUMS: Final = ("wgmma", "c")
_HOW: Final[dict[str, tuple[str, ...]]] = {
    "read": ("reads",),
    "written": ("writes",),
    "updated": ("reads", "writes"),
}
_ORDERS: Final = {
    "acquire": ("acquires",),
    "release": ("releases",),
    "acq_rel": ("acquires", "releases"),
    "seq_cst": ("acquires", "releases"),
}


class _Range(NamedTuple):
    """Bytes of a tensor: from an element on, `offset` bytes after it."""

    tensor: SSAValue
    indices: Sequence[SSAValue]
    offset: int
    size: SSAValue | int


def instrument_memory(module: ModuleOp, checks: str) -> None:
    """Watches each kernel.

    Args:
        module: traced.
        checks: words of the option ``--sanitize``, separated by commas.
    """
    if "uninit" in checks.split(",") and _knows_scratch(module):
        checks += f",{SCRATCH}"
    wanted = frozenset(checks.split(","))
    for kernel in module.body.block.ops:
        if isinstance(kernel, KernelOp):
            kernel.attributes[CHECKS_ATTRIBUTE] = StringAttr(checks)
            if not wanted.isdisjoint(WATCHED):
                _Watcher(kernel, wanted).watch()


def is_watched(op: Operation | type[Operation]) -> bool:
    """Whether accesses of an operation are watched."""
    declared = trait_of(op, Accesses)
    found = () if declared is None else declared.accesses
    is_async = trait_of(op, StartsAsync) is not None
    return is_async or any(access.extent == "elements" for access in found)


def reaches_others(op: Operation) -> bool:
    """Whether an operation writes or reads shared memory of other blocks."""
    if isinstance(op, MbarrierReleaseOp | TmaLoadOp):
        return bool(op.ranks)
    return isinstance(op, MapSharedOp)


def _knows_scratch(module: ModuleOp) -> bool:
    """Whether calls have scratch memory, all of whose writes are watched."""
    return any(isinstance(op, ScratchOp | GlobalScratchOp) for op in walk(module))


class _Watcher:
    """Instruments one kernel."""

    def __init__(self, kernel: KernelOp, wanted: frozenset[str]) -> None:
        self._operations = list(walk(kernel))
        self._awaited = set(awaited_loads(kernel))
        has_copies = any(trait_of(op, StartsAsync) is not None for op in self._operations)
        self._is_reached = "races" in wanted and any(map(reaches_others, self._operations))
        self._wanted = wanted if has_copies else wanted - {"async"}

    def watch(self) -> None:
        """In text order."""
        may_be_empty = any(isinstance(op, WgmmaAccumulatorOp) for op in self._operations)
        for op in self._operations:
            if may_be_empty and "uninit" in self._wanted and not isinstance(op, CARRIERS):
                self._check_fragments(op)
            started = trait_of(op, StartsAsync)
            if started is not None:
                self._watch_async(op, started)
            else:
                for access in accesses_of(op):
                    if access.extent == "elements":
                        self._watch_access(op, access)
                self._watch_event(op)

    def _check_fragments(self, op: Operation) -> None:
        """Fragments hold something when they are read, or added to."""
        for value in op.operands:
            kind = value.type
            if not isinstance(kind, FragmentType) or (kind.unit.data, kind.role.data) != _SUMS:
                continue
            holds = self._before(op, WgmmaHoldsSumsOp(value)).result
            word = "read"
            if isinstance(op, WgmmaMmaOp) and value is op.acc:
                word = "updated"
                if op.accumulate is not None:
                    true = self._before(op, arith.ConstantOp.from_int_and_width(1, i1)).result
                    anew = self._before(op, arith.XOrIOp(op.accumulate, true)).result
                    holds = self._before(op, arith.OrIOp(holds, anew)).result
            self._before(op, CheckOp(holds, "uninitialized", "the accumulator", word, 1, []))

    def _checks(self, kind: TensorType) -> list[str]:
        """The checks of an access, and the memory it is in; empty if there is nothing to look for."""
        space = kind.space.data
        found = sorted(self._wanted & {"races", "async"}) if space != "local" else []
        if "uninit" in self._wanted and (space != "global" or SCRATCH in self._wanted):
            found.append("uninit")
        if not found:
            return []
        in_global = [SCRATCH] if "uninit" in found else []
        return [*found, *({"local": ["local"], "global": in_global}.get(space, ["shared"]))]

    def _watch_access(self, op: Operation, access: FoundAccess) -> None:
        tensor, kind = access.tensor, cast("TensorType", access.tensor.type)
        checks = self._checks(kind)
        if not checks:
            return
        how = (*_HOW[access.kind], *checks, *self._order(op, is_atomic=access.is_atomic))
        sizes = [] if kind.is_pointer else [self._size(op, tensor, n) for n in range(kind.rank)]
        indices = list(access.indices)
        self._before(op, WatchOp(how, "", access.kind, access.length, tensor, indices, sizes))

    def _order(self, op: Operation, *, is_atomic: bool) -> Iterator[str]:
        """Yields the memory order of an access: that of the operation's properties `order` and `scope`, if any."""
        if is_atomic or getattr(op, "volatile", None) is not None:
            yield "atomic"
            order, scope = getattr(op, "order", None), getattr(op, "scope", None)
            if order is not None:
                yield from _ORDERS.get(order.data, ())
            if scope is not None and scope.data == "block":
                yield "block"
        elif op in self._awaited:
            yield "awaited"
        elif isinstance(op, StoreOp) and self._awaited:
            yield "publishes"

    def _size(self, op: Operation, tensor: SSAValue, number: int) -> SSAValue:
        size = cast("TensorType", tensor.type).dims[number]
        if size == DYNAMIC:
            return self._before(op, DimOp(tensor, number)).result
        return self._before(op, arith.ConstantOp.from_int_and_width(size, i64)).result

    def _watch_async(self, op: Operation, started: StartsAsync) -> None:
        accesses = [access for access in accesses_of(op) if access.extent != "barrier"]
        if started.completion == "store":  # its group begins with its reads
            accesses.sort(key=lambda access: access.kind != "read")
        barrier = barrier_of(op)
        ranks: Sequence[SSAValue | None] = tuple(getattr(op, "ranks", ())) or (None,)
        for rank in ranks:
            words = None if barrier is None else self._mapped(op, barrier[0], rank)
            place = None if words is None or barrier is None else (words, barrier[1])
            for access in accesses:
                self._watch_part(op, started, access, rank, place)
        if started.completion == "mma":
            self._before(op, WatchEventOp("wgmma"))
        elif started.completion == "store":
            self._before(op, WatchEventOp("store"))

    def _watch_part(
        self,
        op: Operation,
        started: StartsAsync,
        access: FoundAccess,
        rank: SSAValue | None,
        barrier: tuple[SSAValue, SSAValue] | None,
    ) -> None:
        """Watches an asynchronous access, of the block with this rank."""
        what = (started.completion, *_HOW[access.kind])
        if access.extent == "mapped":
            assert isinstance(op, TmaLoadOp | TmaStoreOp | TmaReduceOp)
            self._box(op, (*what, "atomic") if access.is_atomic else what, barrier)
            return
        if not isinstance(access.tensor.type, TensorType):
            return  # an operand in registers
        tensor = self._mapped(op, access.tensor, rank)
        if access.size is not None:
            parts = [_Range(tensor, [], 0, access.size)]
        elif access.extent == "elements":
            size = access.length * _element_bytes(tensor)
            parts = [_Range(tensor, list(access.indices), 0, size)]
        else:
            parts = list(_ranges(tensor))
        for part in parts:
            self._copy(op, what, part, access.argument, barrier)

    def _box(
        self,
        op: TmaLoadOp | TmaStoreOp | TmaReduceOp,
        what: tuple[str, ...],
        barrier: tuple[SSAValue, SSAValue] | None = None,
    ) -> None:
        """The elements of the tensor; a load may read some of scratch memory that no one has written, nor uses."""
        checks = sorted(self._wanted & {"races", "async"})
        if SCRATCH in self._wanted and "writes" in what:
            checks += ["uninit", SCRATCH]
        if checks:
            word = "read" if "reads" in what else "written"
            self._before(op, WatchBoxOp((*what, *checks), word, op, barrier))

    def _mapped(self, op: Operation, tensor: SSAValue, rank: SSAValue | None) -> SSAValue:
        if rank is None:
            return tensor
        mapped = self._before(op, MapSharedOp(tensor, rank)).result
        mapped.name_hint = tensor.name_hint
        return mapped

    def _copy(
        self,
        op: Operation,
        what: tuple[str, ...],
        part: _Range,
        argument: int,
        barrier: tuple[SSAValue, SSAValue] | None,
    ) -> None:
        kind = cast("TensorType", part.tensor.type)
        checks = self._checks(kind)
        if not checks:
            return
        if isinstance(part.size, int):
            constant = arith.ConstantOp.from_int_and_width(part.size, i64)
            size = self._before(op, constant).result
        else:
            size = self._before(op, arith.ExtUIOp(part.size, i64)).result
        name, word = tensor_name(part.tensor), "read" if "reads" in what else "written"
        place = part.tensor, part.indices, part.offset
        added = WatchCopyOp((*what, *checks), name, word, place, size, barrier, argument)
        self._before(op, added)

    def _watch_event(self, op: Operation) -> None:
        ordered, waits = trait_of(op, Orders), trait_of(op, Synchronizes)
        barrier = barrier_of(op)
        if ordered is not None:
            self._before(op, WatchEventOp(ordered.event))
        elif isinstance(op, FenceProxyOp):
            self._before(op, WatchEventOp("proxy_fence", int(op.is_global is not None)))
        elif waits is not None and waits.awaited:
            has_read = isinstance(op, TmaWaitOp) and op.read is not None
            event = "stores_read" if has_read else waits.awaited
            pending: Any = getattr(op, "pending")  # noqa: B009
            self._after(op, WatchEventOp(event, pending.value.data))
        elif waits is not None and barrier is not None:
            self._after(op, WatchEventOp("wait", 0, *barrier))
        elif isinstance(op, MbarrierArriveOp):
            self._before(op, WatchEventOp("arrive", 0, op.words, op.index))
        elif isinstance(op, MbarrierReleaseOp):
            words = [self._mapped(op, op.words, rank) for rank in op.ranks] or [op.words]
            for one in words:
                if op.ranks and "races" in self._wanted:  # the other block's memory is there
                    self._watch_word(op, one)
                self._before(op, WatchEventOp("arrive", 0, one, op.index))
        elif isinstance(op, EachOp) and "races" in self._wanted:
            self._insert(op, WatchEventOp("iteration", 1), InsertPoint.at_start(op.body.block))
            self._after(op, WatchEventOp("iteration"))
        elif isinstance(op, ExitOp | ReturnOp) and self._is_reached:
            self._before(op, WatchEventOp("end")).location = _end(op)  # pyright: ignore
        elif isinstance(op, AllocaOp) and "uninit" in self._wanted:
            kind = op.result.type
            size = math.prod(kind.dims) * _element_bytes(op.result)
            self._after(op, WatchEventOp("declare", size, op.result))

    def _watch_word(self, op: MbarrierReleaseOp, words: SSAValue) -> None:
        how = (*_HOW["updated"], "atomic", "shared", "races")
        sizes = [self._size(op, words, 0)]
        self._before(op, WatchOp(how, "the barrier", "updated", 1, words, [op.index], sizes))

    def _before(self, op: Operation, added: OperationT) -> OperationT:
        return self._insert(op, added, InsertPoint.before(op))

    def _after(self, op: Operation, added: OperationT) -> OperationT:
        return self._insert(op, added, InsertPoint.after(op))

    def _insert(self, op: Operation, added: OperationT, where: InsertPoint) -> OperationT:
        added.location = op.location  # pyright: ignore[reportAttributeAccessIssue]
        Rewriter.insert_op(added, where)
        return added


def _end(op: ExitOp | ReturnOp) -> Attribute | None:
    """The place where a thread returns: its last operation in the region, or the branch that led there."""
    before = op.prev_op
    while before is not None and source_location(before.location) is None:
        before = before.prev_op
    last = before or op.parent_op()
    return last.location if last is not None else None


def _element_bytes(tensor: SSAValue) -> int:
    element = cast("TensorType", tensor.type).element_type
    return cast("FixedBitwidthType", element).size


def _ranges(tile: SSAValue) -> Iterator[_Range]:
    """The memory of a tile: one range, or one for each column of swizzle atoms."""
    kind = cast("TensorType", tile.type)
    size = math.prod(kind.dims) * _element_bytes(tile)
    atoms = kind.swizzle_atoms
    if atoms is None:
        yield _Range(tile, [], 0, size)
        return
    rows, columns = kind.dims[-2:][:: -1 if atoms.is_transposed.data else 1]
    stride = atoms.atom_stride.data * _element_bytes(tile)
    atom = rows * atoms.row_bytes.data
    count = -(-columns * _element_bytes(tile) // atoms.row_bytes.data)
    outer = math.prod(kind.dims[:-2])
    if stride == atom or count == 1:
        yield _Range(tile, [], 0, size)
        return
    for number in range(count * outer):
        yield _Range(tile, [], number * stride, atom)
