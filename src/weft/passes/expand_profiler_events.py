# SPDX-License-Identifier: Apache-2.0
"""Expands profilers and their events into the recorders of `language/profiling`, which are traced in their place.

In: a traced module. Out: the same without `simt.track_profiler`, `simt.tirx_profiler` and `simt.mark`. A kernel that
records into memory of its launch has an argument more, and its launches say how many words they need, where that is
known.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, Protocol

from xdsl.dialects import scf
from xdsl.dialects.builtin import IntegerAttr, f32, i32
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block
from xdsl.rewriter import InsertPoint, Rewriter

from weft.arguments.tensor import TensorKind
from weft.dialects.builder import Builder, constant_integer, source_location
from weft.dialects.flow import constant_trips, walk
from weft.dialects.simt.kernel import PROFILE_NAME, ExitOp, KernelOp, LaunchExOp, ReturnOp
from weft.dialects.simt.profiling import INIT, RECORD_KINDS, MarkOp, TirxProfilerOp, TrackProfilerOp
from weft.errors import CompileError, ValueRangeError
from weft.imports import imported
from weft.language.ir_types import ir_type_of
from weft.language.values import Scalar, Tensor
from weft.types import dtype as types
from weft.types import record_format as wire
from weft.types.dims import Dim

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from xdsl.dialects.builtin import ModuleOp
    from xdsl.ir import Attribute, Operation, SSAValue

    from weft.language.profiling.track import TrackLayout
    from weft.types.dtype import DType

_ENDS: Final = (wire.END, wire.FINALIZE)
_MOST_TRACK_WORDS: Final = 1 << 20
"""More, a few megabytes per track, are rather cut than asked for."""


class Inline(Protocol):
    """The front end's tracer: traces one of weft's own functions at a builder's place; returns its value."""

    def __call__(self, builder: Builder, function: Callable[..., Any], *arguments: Any) -> Any:
        """The value of ``function(*arguments)``."""
        ...


def expand_profiler_events(module: ModuleOp, inline: Inline) -> None:
    """Expands profilers and their marks into the recorders of `language/profiling`, traced in their place.

    Args:
        module: as it was traced.
        inline: traces the recorders.

    Raises:
        CompileError: for a kernel that records without an `init` or before it, or ends a region that it never starts.
        ValueRangeError: for a launch whose constant grid a profiler's constants do not fit.
    """
    launches = [op for op in walk(module) if isinstance(op, LaunchExOp)]
    for kernel in module.body.block.ops:
        if not isinstance(kernel, KernelOp):
            continue
        own = [op for op in launches if op.kernel.string_value() == kernel.sym_name.data]
        for op in list(kernel.body.block.ops):
            if isinstance(op, TirxProfilerOp):
                _expand_tirx(op, _Expansion(kernel, inline), own)
            elif isinstance(op, TrackProfilerOp):
                _expand_track(op, _Expansion(kernel, inline), own)


class _PlacedBuilder(Builder):
    """Inserts operations located where the operation stands that is expanded, and not from the recorder's lines."""

    __slots__ = ("place",)

    def __init__(self, entry: Block) -> None:
        super().__init__(entry)
        self.place: Attribute = super().location_attribute()

    def location_attribute(self) -> Attribute:
        """Location of the expanded operation."""
        return self.place


class _Expansion:
    """Traces functions into a function of the IR, in front of operations or in their place."""

    def __init__(self, function: KernelOp | FuncOp, inline: Inline) -> None:
        self.function = function
        self.builder = _PlacedBuilder(function.body.block)
        self.inline = inline
        self.templates: dict[tuple[Any, ...], tuple[Block, Any]] = {}

    def constant(self, value: int) -> Scalar:
        """A u32 that a template is given when the kernel runs."""
        return Scalar(self.builder.constant(i32, value), types.u32)

    def before(
        self, op: Operation, function: Callable[..., Any], *arguments: Any, place: Attribute
    ) -> Any:
        """The value of a call in front of an operation."""
        builder, block = self.builder, Block()
        builder.place = place
        with builder.at(block):
            value = self.inline(builder, function, *arguments)
        Rewriter.inline_block(block, InsertPoint.before(op))
        return value

    def replace(self, op: Operation, function: Callable[..., Any], *arguments: Any) -> None:
        """Puts a call in an operation's place."""
        self.before(op, function, *arguments, place=op.location)
        Rewriter.erase_op(op)

    def copy(self, op: Operation, function: Callable[..., Any], *arguments: Any) -> None:
        """The same for a call that many operations make, with a value: traced once per kinds of its arguments."""
        key = tuple(a.dtype if isinstance(a, Scalar) else a for a in arguments)
        if key not in self.templates:
            self.templates[key] = self._template(function, arguments)
        block, value = self.templates[key]
        staged = [a.ssa for a in arguments if isinstance(a, Scalar)]
        values: dict[SSAValue, SSAValue] = dict(zip(block.args, staged, strict=True))
        copies = [own.clone(values) for own in block.ops]
        for inner in (inner for made in copies for inner in walk(made)):
            inner.location = op.location  # pyright: ignore[reportAttributeAccessIssue]
        Rewriter.replace_op(op, copies, [values.get(value, value)] if op.results else [])

    def _template(
        self, function: Callable[..., Any], arguments: Sequence[Any]
    ) -> tuple[Block, Any]:
        """A call traced with parameters instead of its staged arguments, and its value."""
        block = Block(arg_types=[a.ssa.type for a in arguments if isinstance(a, Scalar)])
        given = iter(block.args)
        inner = [Scalar(next(given), a.dtype) if isinstance(a, Scalar) else a for a in arguments]
        with self.builder.at(block):
            value = self.inline(self.builder, function, *inner)
        return block, None if value is None else value.ssa

    def marks(self, profiler: SSAValue, what: str, name_of: Callable[[int], str]) -> list[MarkOp]:
        """A profiler's marks, in the order of the text, checked."""
        found = [
            op for op in walk(self.function) if isinstance(op, MarkOp) and op.profiler is profiler
        ]
        _check_initialized(found, what)
        _check_pairs(found, name_of)
        return found


def _value(operand: SSAValue | None, dtype: DType) -> Any:
    """An operand as the language has it: a constant as Python's, None for none."""
    if operand is None:
        return None
    found = Scalar(operand, dtype)
    return found if found.constant is None else found.constant


def _switch(operand: SSAValue | None) -> Any:
    return True if operand is None else _value(operand, types.bool_)


# ---- tirx


def _expand_tirx(op: TirxProfilerOp, to: _Expansion, launches: Iterable[LaunchExOp]) -> None:
    local = imported("weft.language.memory.arrays").local
    tirx = imported("weft.language.profiling.tirx")
    buffer = Tensor(op.buffer, types.u64, op.buffer.name_hint or "the buffer")
    stride, groups = _value(op.stride, types.i64), _value(op.groups, types.i64)
    for launch in launches:
        _check_launch(launch, buffer, stride, groups)
    leader = _value(op.leader, types.bool_)
    state = local.emit(to.builder, len(tirx.STATE), types.u32)
    recorder = tirx.TirxRecorder(
        buffer, state, stride, groups, leader, _switch(op.enabled), op.fence is not None
    )
    marks = to.marks(op.profiler, "CudaProfiler", lambda event: f"event {event}")
    for mark in marks:
        if mark.kind.data == INIT:
            to.replace(mark, recorder.init, _value(mark.group, types.i64))
        else:
            kind, event = _kind_and_event(mark)
            leads = leader if mark.leader is None else _value(mark.leader, types.bool_)
            bits = to.constant(event << wire.TIRX_EVENT_SHIFT | kind)
            to.copy(mark, recorder.mark, bits, leads, kind == wire.START, kind in _ENDS)
    to.replace(op, recorder.begin)


def _check_launch(launch: LaunchExOp, buffer: Tensor, stride: object, groups: object) -> None:
    """Refuses a launch with a constant grid that the constants of the profiler do not fit.

    Raises:
        ValueRangeError: with both.
    """
    grid = [constant_integer(size) for size in launch.grid]
    if None in grid or not isinstance(groups, int):
        return
    blocks = math.prod(size for size in grid if size is not None)
    tracks = blocks * groups
    made = f"this launch has {blocks} x {groups} = {tracks} tracks (blocks x num_groups)"
    place = source_location(launch.location)
    if tracks > wire.TIRX_MOST_TRACKS:
        raise ValueRangeError(
            "PROFILER_RANGE",
            f"CudaProfiler: {made}; the format tells {wire.TIRX_MOST_TRACKS} apart",
            hint="launch fewer blocks, or use weft.profiler.Profiler, which records blocks=range(...) alone",
            location=place,
        )
    if isinstance(stride, int) and stride < tracks:
        raise ValueRangeError(
            "PROFILER_STRIDE",
            f"CudaProfiler: write_stride is {stride}, and {made}, which would overwrite each other",
            hint=f"write write_stride={tracks}",
            location=place,
        )
    length = buffer.type.dims[0]
    if 0 <= length <= tracks:
        raise ValueRangeError(
            "PROFILER_BUFFER",
            f"CudaProfiler: '{buffer.name}' has {length} words, and {made}, which need {tracks + 1} "
            "for one record each",
            hint="it holds 1 word, and then one per record of every track",
            location=place,
        )


# ---- track


def _expand_track(op: TrackProfilerOp, to: _Expansion, launches: Iterable[LaunchExOp]) -> None:
    local = imported("weft.language.memory.arrays").local
    track = imported("weft.language.profiling.track")
    names = [name.data for name in op.events]
    kernel, builder = to.function, to.builder
    assert isinstance(kernel, KernelOp)

    def name_of(event: int) -> str:
        return names[event] if event < len(names) and names[event] else f"event {event}"

    marks = to.marks(op.profiler, "Profiler", name_of)
    layout = _layout(op, names, marks)
    buffer = _buffer(op, kernel)
    # As wide as the buffer's offsets: a conversion in each record would cost more than it is worth.
    wide = buffer.type.offset_bits.data == 64
    recorder = track.TrackRecorder(
        layout,
        buffer,
        local.emit(builder, len(track.STATE), types.u32),
        local.emit(builder, 1, types.i64 if wide else types.i32),
        None if op.records is None else op.records.value.data,
        is_ring=op.ring is not None,
        enabled=_switch(op.enabled),
    )
    for mark in marks:
        if mark.kind.data == INIT:
            leader = op.leader if mark.leader is None else mark.leader
            group, leads = _value(mark.group, types.i64), _value(leader, types.bool_)
            to.replace(mark, recorder.init, group, leads)
        elif mark.kind.data == "finalize":
            to.replace(mark, recorder.finalize)
        else:
            kind, event = _kind_and_event(mark)
            tag = kind | event << wire.TRACK_EVENT_SHIFT
            tag |= wire.TRACK_HAS_PAYLOAD if mark.payload else 0
            payload = mark.payload and Scalar(mark.payload, types.u32)
            anchor = mark.anchor and _anchor(mark.anchor)
            is_long = mark.long is not None
            to.copy(
                mark, recorder.mark, to.constant(tag), payload, is_long, anchor, kind == wire.END
            )
    to.replace(op, recorder.begin)
    # Wherever a thread leaves, its track ends.
    for end in list(walk(kernel)):
        if isinstance(end, ReturnOp | ExitOp):
            to.before(end, recorder.finalize, place=kernel.location)
    if op.buffer is None and layout.capacity is not None:
        for launch in launches:
            _tell_words(launch, layout, to)


def _layout(op: TrackProfilerOp, names: Sequence[str], marks: Iterable[MarkOp]) -> TrackLayout:
    make = imported("weft.language.profiling.track").TrackLayout
    words = 1 if op.wide is None else 2
    groups = [name.data for name in op.groups]
    bounds = None if op.blocks is None else op.blocks.get_values()
    described: dict[str, Any] = {"kernel": op.kernel.data, "events": names, "groups": groups}
    if bounds is not None:
        described["blocks"] = [bounds[0], bounds[2]]
        bounds = range(*(min(int(part), wire.TRACK_MOST_WORDS - 1) for part in bounds))
    # A ring, and a track that the user limits, hold what they hold.
    is_open = op.ring is None and op.records is None
    capacity = _most_words(marks, words) if is_open else None
    return make(len(groups), bounds, words, capacity, described)


def _buffer(op: TrackProfilerOp, kernel: KernelOp) -> Tensor:
    """Memory for records: the user's, or an argument that every launch of the kernel is given besides its own."""
    if op.buffer is not None:
        return Tensor(op.buffer, types.u64)
    # Fewer than 2³¹ words, so that 32-bit cursors reach all of them.
    kind = TensorKind(types.u64, (Dim(f"{PROFILE_NAME}_words"),))
    words = ir_type_of(kind)
    assert words is not None
    argument = kernel.add_argument(PROFILE_NAME, words)
    kernel.profile_argument_attr = IntegerAttr(argument.index, i32)
    return Tensor(argument, types.u64, PROFILE_NAME)


def _tell_words(launch: LaunchExOp, layout: TrackLayout, to: _Expansion) -> None:
    """Computes in the host function how many words hold all records of a launch.

    Sizes of a grid that no device accepts are refused with the launch, after the allocation.
    """
    host = launch.parent_op()
    while not isinstance(host, FuncOp):
        assert host is not None
        host = host.parent_op()
    grid = [Scalar(size, types.i64) for size in launch.grid]
    within = _Expansion(host, to.inline)
    words = within.before(launch, layout.launch_words, *grid, place=launch.location)
    launch.set_record_words(words.ssa)


def _anchor(value: SSAValue) -> Scalar:
    return Scalar(value, types.f32 if value.type == f32 else types.u32)


# ---- facts from all markers of a kernel


def _kind_and_event(mark: MarkOp) -> tuple[int, int]:
    return RECORD_KINDS.index(mark.kind.data), mark.event.value.data if mark.event else 0


def _check_pairs(marks: Iterable[MarkOp], name_of: Callable[[int], str]) -> None:
    """Raises if an event is ended that the kernel never starts.

    Raises:
        CompileError: at the first such `end`.
    """
    found = [(mark, *_kind_and_event(mark)) for mark in marks if mark.kind.data != INIT]
    started = {event for _, kind, event in found if kind == wire.START}
    for mark, kind, event in found:
        if kind == wire.END and event not in started:
            raise CompileError(
                "PROFILER_PAIR",
                f"end({name_of(event)}) stands in a kernel that has no start of it",
                hint="start and end take the same event",
                location=source_location(mark.location),
            )


def _check_initialized(marks: Sequence[MarkOp], what: str) -> None:
    """Raises if there are records and no `init`, or a record that always comes before it.

    Raises:
        CompileError: at the first such record.
    """
    first = next((mark for mark in marks if mark.kind.data == INIT), None)
    if marks and first is None:
        raise CompileError(
            "PROFILER_INIT",
            f"this kernel records with {what} and never calls its init()",
            hint="call p.init(group_id) before the first start",
            location=source_location(marks[0].location),
        )
    # In the text's order; a later iteration of a loop around both comes after its first iteration's init.
    early = next((mark for mark in marks if mark.kind.data not in (INIT, "finalize")), None)
    if first is None or early is None or marks.index(first) < marks.index(early):
        return
    if not any(loop.is_ancestor(first) for loop in _loops_around(early)):
        raise CompileError(
            "PROFILER_INIT",
            "this record is made before init(), which names the thread's track: it would be lost",
            hint="call p.init(group_id) before the first start",
            location=source_location(early.location),
        )


def _most_words(marks: Iterable[MarkOp], words: int) -> int | None:
    """Words that a track can need at most; None where only the run can tell."""
    total = words  # for the record that ends them
    for mark in marks:
        if mark.kind.data in (INIT, "finalize"):
            continue
        trips = [constant_trips(loop) for loop in _loops_around(mark)]
        if None in trips:
            return None
        times = math.prod(count for count in trips if count is not None)
        total += times * (words + (words == 1 and mark.long is not None))
    return total if total - words <= _MOST_TRACK_WORDS else None


def _loops_around(op: Operation) -> Iterable[scf.ForOp | scf.WhileOp]:
    parent = op.parent_op()
    while parent is not None:
        if isinstance(parent, scf.ForOp | scf.WhileOp):
            yield parent
        parent = parent.parent_op()
