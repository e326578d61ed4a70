# SPDX-License-Identifier: Apache-2.0
"""The threads between two waits: a loop over a block's threads, or over a warp's lanes.

In: operations that do not wait, and the values to keep. Out: loops in which values that a thread needs from before
is loaded, or computed again if it is cheap. Kept values are arrays with one element per thread, or per lane: in scratch
memory, those of one warp on the stack.
"""

from __future__ import annotations

from contextlib import contextmanager
from math import prod
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Block

from weft.backends.cpu.lowering.affine import Group, RowAnalysis, Sharing, enclosing, is_pure
from weft.backends.cpu.lowering.loops import print_work, work_of
from weft.backends.cpu.lowering.rows import RowPrinter, counted
from weft.backends.cpu.lowering.thread_loop import thread_numbers
from weft.codegen.llvm.function_printer import TensorValue
from weft.codegen.llvm.types import size_in_bytes
from weft.dialects.flow import walk
from weft.dialects.simt.memory import AllocaOp
from weft.dialects.simt.scalar import FloorDivOp, FloorModOp
from weft.dialects.simt.threads import LaneIdOp, ThreadIdxOp, WarpIdOp
from weft.dialects.simt.types import TensorType, array_bytes
from weft.types.launch_limits import WARP_SIZE

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Sequence

    from xdsl.ir import Operation, SSAValue

    from weft.codegen.llvm.function_printer import FunctionPrinter
    from weft.dialects.simt.kernel import KernelOp


_MOST_AGAIN: Final = 12  # operations that are computed again rather than kept
_MOST_ON_STACK: Final = 4096  # bytes of one array
_ARRAY_ALIGNMENT: Final = 16
_INDICES: Final = (ThreadIdxOp, LaneIdOp, WarpIdOp)
_SLOW: Final = (arith.DivUIOp, arith.RemUIOp, FloorDivOp, FloorModOp)


class Tail(NamedTuple):
    """Runs each thread after the operations of a loop.

    Attributes:
        values: that it needs.
        user: the operation on whose behalf.
        run: prints it.
    """

    values: Sequence[SSAValue]
    user: Operation
    run: Callable[[], None]


class ThreadsPrinter:
    """Prints loops over threads.

    Attributes:
        slots: where the threads' values are kept.
        sharing: of the kernel's values.
        living: if threads have returned while others go on, whether each has not.
        posted: operands of collectives that are kept for nothing else.
        warp: while code of a warp is printed, the operations that each warp runs in one go.
    """

    def __init__(self, printer: FunctionPrinter, kernel: KernelOp, masks_stores: bool) -> None:
        self.printer = printer
        self.kernel = kernel
        self.sharing = Sharing(kernel)
        self.slots = Slots(printer)
        self.living: Slot | None = None
        self.warp: frozenset[Operation] = frozenset()
        self.posted: dict[Operation, Slot] = {}
        self._masks_stores = masks_stores
        self._costs: dict[SSAValue, int] = {}
        for operation in walk(kernel):
            self._note_costs(operation)
        self._arrays: dict[AllocaOp, str] = {}
        self._threads = thread_numbers(kernel)
        self._lanes: list[SSAValue] = [
            op.results[0] for op in walk(kernel) if isinstance(op, LaneIdOp)
        ]

    # ---- values

    def text(self, value: SSAValue) -> str:
        """The text of a scalar that the running threads share."""
        self.take(value)
        return self.printer.values[value]

    def has(self, value: SSAValue) -> bool:
        """Whether a value is defined where code is printed."""
        printer = self.printer
        return value in printer.values or value in printer.tensors or value in printer.fragments

    def take(self, value: SSAValue) -> None:
        """Defines a value of the running thread: loads it, or computes it again."""
        if self.has(value):
            return
        if value in self.slots:
            self.slots.load(value)
            return
        owner = value.owner
        assert not isinstance(owner, Block)
        if isinstance(owner, AllocaOp):
            self._take_array(owner)
            return
        for operand in owner.operands:
            self.take(operand)
        self.printer.print_operation(owner)

    def _take_shared(self, value: SSAValue, group: Group) -> None:
        """Defines the uniform part of a value before the loop over threads."""
        if self.sharing.of(value) <= group:
            self.take(value)
        elif not isinstance(value.owner, Block) and self.computes_again(value):
            for operand in value.owner.operands:
                self._take_shared(operand, group)

    def computes_again(self, value: SSAValue) -> bool:
        """Whether a value is computed where it is needed rather than kept: indices and addresses."""
        return self._cost(value) is not None

    def _cost(self, value: SSAValue) -> int | None:
        """The operations that compute a value again, if they are few."""
        return 0 if self.sharing.of(value) is Group.BLOCK else self._costs.get(value)

    def _note_costs(self, operation: Operation) -> None:
        """Notes the costs of an operation's results; those of its operands are known."""
        if isinstance(operation, (*_INDICES, AllocaOp)):
            self._costs[operation.results[0]] = 1
            return
        if not is_pure(operation) or (
            isinstance(operation, _SLOW) and not _has_constant_divisor(operation)
        ):
            return
        total = 1
        for operand in operation.operands:
            cost = self._cost(operand)
            if cost is None:
                return
            total += cost
        if total <= _MOST_AGAIN:
            for result in operation.results:
                if isinstance(result.type, IntegerType | TensorType):
                    self._costs[result] = total

    def _take_array(self, array: AllocaOp) -> None:
        """A thread's own array, which it keeps while others run."""
        printer, kind, size = self.printer, array.results[0].type, array_bytes_of(array)
        assert isinstance(kind, TensorType)
        if array not in self._arrays:
            self._arrays[array] = self.slots.memory(size)
        offset = printer.let(f"mul i64 {printer.coordinates['thread']}, {size}")
        place = printer.let(f"getelementptr i8, ptr {self._arrays[array]}, i64 {offset}", "local")
        printer.tensors[array.results[0]] = TensorValue(kind, place)

    @contextmanager
    def scope(self) -> Generator[None]:
        """Values defined in the `with` block are forgotten after it."""
        printer = self.printer
        outer = printer.values, printer.tensors, printer.fragments, printer.coordinates
        printer.values, printer.tensors = {**printer.values}, {**printer.tensors}
        printer.fragments, printer.coordinates = {**printer.fragments}, {**printer.coordinates}
        yield
        printer.values, printer.tensors, printer.fragments, printer.coordinates = outer

    # ---- loops

    def print_threads(
        self, operations: Sequence[Operation], group: Group, tail: Tail | None = None
    ) -> None:
        """A loop over the threads of a group; each runs the operations and the tail."""
        inside = frozenset(operations)
        kept = [
            result
            for operation in operations
            for result in operation.results
            if self._is_kept(result, inside, tail)
        ]
        for value in kept:
            self.keep(value, group)
        if not kept and tail is None and all(map(self._is_index, operations)):
            return
        row = _Row(self, operations, kept, tail, group, self._masks_stores)
        for value in row.needed:
            self._take_shared(value, group)
        sizes = self.printer.coordinates
        with self.scope():
            if group is Group.WARP:
                RowPrinter(self.printer, row).print_row()
            else:
                rows = RowPrinter(self.printer, row, splits=self.living is None)
                with (
                    counted(self.printer, sizes["block_dim.z"], "z"),
                    counted(self.printer, sizes["block_dim.y"], "y"),
                ):
                    rows.print_row()
        self.printer.place(None)
        threads, amount = (
            sizes["lanes"] if group is Group.WARP else self.count(),
            work_of(operations),
        )
        print_work(self.printer, self.printer.let(f"mul i32 {threads}, {amount}"))

    def count(self) -> str:
        """The number of the block's threads, i32."""
        if self.kernel.block_size is not None:
            return str(prod(self.kernel.block_size))
        printer, of = self.printer, self.printer.coordinates
        plane = printer.let(f"mul nuw nsw i32 {of['block_dim.x']}, {of['block_dim.y']}")
        return printer.let(f"mul nuw nsw i32 {plane}, {of['block_dim.z']}", "threads")

    def keep(self, value: SSAValue, group: Group, others: Sequence[SSAValue] = ()) -> None:
        """Makes a place to keep a value of the group's threads, and perhaps others, unless it has one."""
        if value not in self.slots:
            self.slots.make(value, self.group_of_slot([value, *others], group))

    def skip_unless_living(self, living: Slot) -> str:
        """Continues only for a thread that has not returned; returns the label to go to after its code."""
        printer = self.printer
        alive, done = printer.new_label("alive"), printer.new_label("done")
        lives = printer.let(f"load i8, ptr {living.place(printer)}")
        printer.branch_if(printer.let(f"icmp ne i8 {lives}, 0"), alive, done)
        printer.start(alive)
        return done

    def _is_index(self, operation: Operation) -> bool:
        return bool(operation.results) and all(map(self.computes_again, operation.results))

    def _is_kept(self, value: SSAValue, inside: frozenset[Operation], tail: Tail | None) -> bool:
        """Whether a thread's value is needed after the loop that defines it."""
        if self.computes_again(value):
            return False
        if value in self.slots:
            return True  # a loop's or branch's result is kept at its place
        block = value.owner.parent  # pyright: ignore[reportAttributeAccessIssue]
        assert isinstance(block, Block)
        for use in value.uses:
            if tail is not None and use.operation is tail.user and value in tail.values:
                continue
            if enclosing(use.operation, block) not in inside:
                return True
        return False

    def group_of_slot(self, values: Iterable[SSAValue], group: Group) -> Group:
        """Whose threads keep values at one place: the block's, unless only one warp's code uses them."""
        if group is Group.BLOCK:
            return group
        block = next(iter(self.warp)).parent
        assert block is not None
        uses = (use.operation for value in values for use in value.uses)
        is_inside = all(enclosing(operation, block) in self.warp for operation in uses)
        return Group.WARP if is_inside else Group.BLOCK

    # ---- where a thread is

    def place_thread(self, number: str, group: Group) -> None:
        """Defines the coordinates of a thread of a row, or of a lane of the running warp."""
        if group is Group.WARP:
            self.place_lane(number)
            return
        printer, of = self.printer, self.printer.coordinates
        of["thread_idx.x"] = linear = number
        if of["block_dim.y"] != "1" or of["block_dim.z"] != "1":
            plane = printer.let(f"mul nuw nsw i32 {of['thread_idx.z']}, {of['block_dim.y']}")
            row = printer.let(f"add nuw nsw i32 {plane}, {of['thread_idx.y']}")
            begin = printer.let(f"mul nuw nsw i32 {row}, {of['block_dim.x']}")
            linear = printer.let(f"add nuw nsw i32 {begin}, {number}")
        of["thread"] = printer.let(f"zext i32 {linear} to i64", "thread")

    def place_lane(self, lane: str) -> None:
        """Defines the coordinates of a lane of the running warp."""
        printer, of = self.printer, self.printer.coordinates
        of["lane"] = "0" if lane == "0" else printer.let(f"zext i32 {lane} to i64", "lane")
        of["lane_id"] = lane
        first = of["first"]
        linear = first if lane == "0" else printer.let(f"add nuw nsw i32 {first}, {lane}")
        of["thread"] = printer.let(f"zext i32 {linear} to i64", "thread")
        if of["block_dim.y"] == "1" and of["block_dim.z"] == "1":
            of["thread_idx.x"] = linear
            return
        sizes = self.kernel.block_size
        if sizes is not None and sizes[0] % WARP_SIZE == 0:
            # The lanes are adjacent along x.
            row, begin = printer.let(f"udiv i32 {first}, {sizes[0]}"), first
            begin = printer.let(f"urem i32 {first}, {sizes[0]}")
            of["thread_idx.x"] = printer.let(f"add nuw nsw i32 {begin}, {lane}")
        else:
            row = printer.let(f"udiv i32 {linear}, {of['block_dim.x']}")
            of["thread_idx.x"] = printer.let(f"urem i32 {linear}, {of['block_dim.x']}")
        of["thread_idx.y"] = printer.let(f"urem i32 {row}, {of['block_dim.y']}")
        of["thread_idx.z"] = printer.let(f"udiv i32 {row}, {of['block_dim.y']}")

    def indices(self, start: str, group: Group) -> dict[SSAValue, str]:
        """See `rows.Row`: what grows by one from thread to thread, at thread or lane `start`."""
        if group is Group.BLOCK:
            return dict.fromkeys(self._threads, start)
        found: dict[SSAValue, str] = dict.fromkeys(self._lanes, start)
        if self.is_along_x:
            with self.scope():
                self.place_lane(start)
                found.update(dict.fromkeys(self._threads, self.printer.coordinates["thread_idx.x"]))
        return found

    @property
    def is_along_x(self) -> bool:
        """Whether a warp's lanes are adjacent along x."""
        sizes = self.kernel.block_size
        return sizes is not None and (sizes[1:] == (1, 1) or sizes[0] % WARP_SIZE == 0)


class _Row:
    """See `rows.Row`: threads of a row of the block, or the lanes of a warp."""

    def __init__(
        self,
        threads: ThreadsPrinter,
        operations: Sequence[Operation],
        kept: Sequence[SSAValue],
        tail: Tail | None,
        group: Group,
        masks_stores: bool,
    ) -> None:
        self._threads, self._kept, self._tail, self._group = threads, kept, tail, group
        self.operations = operations
        self.analysis: RowAnalysis = _Analysis(threads, group)
        names = threads.printer.coordinates
        self.size = names["block_dim.x"] if group is Group.BLOCK else names["lanes"]
        self.masks_stores = masks_stores
        self.keeps = bool(kept) or tail is not None
        self.needed = needed_values(operations) + _own_arrays(operations)
        if tail is not None:
            defined = {result for operation in operations for result in operation.results}
            self.needed += [value for value in tail.values if value not in defined]

    def indices(self, start: str) -> dict[SSAValue, str]:
        return self._threads.indices(start, self._group)

    def print_thread(self, number: str, known: dict[SSAValue, str]) -> None:
        threads, printer = self._threads, self._threads.printer
        with threads.scope():
            printer.values.update(known)
            threads.place_thread(number, self._group)
            done = self._skip_returned()
            for value in self.needed:
                threads.take(value)
            for operation in self.operations:
                if not operation.results or not all(map(threads.has, operation.results)):
                    printer.print_operation(operation)
            printer.place(None)
            texts = [printer.parts([value]) for value in self._kept]
            for value, parts in zip(self._kept, texts, strict=True):
                threads.slots.store(value, parts)
            if self._tail is not None:
                for value in self._tail.values:
                    threads.take(value)
                self._tail.run()
            if done:
                printer.branch(done)
                printer.start(done)

    def _skip_returned(self) -> str:
        """Leaves out threads that have returned; a warp's return together. Returns the label after the thread."""
        living = self._threads.living
        if living is None or self._group is Group.WARP:
            return ""
        return self._threads.skip_unless_living(living)


class _Analysis(RowAnalysis):
    """Facts about values along a row, where those that the whole group shares are known to be the same."""

    def __init__(self, threads: ThreadsPrinter, group: Group) -> None:
        super().__init__()
        self._threads, self._group = threads, group

    def varies(self, value: SSAValue) -> bool:
        return self._threads.sharing.of(value) > self._group and super().varies(value)

    def _compute_varies(self, value: SSAValue) -> bool:
        owner = value.owner
        if isinstance(owner, LaneIdOp | WarpIdOp):
            return True
        if self._group is Group.WARP and isinstance(owner, ThreadIdxOp):
            return True
        return super()._compute_varies(value)

    def growth(self, value: SSAValue, checkpoints: list[Any]) -> int | None:
        owner = value.owner
        if self.varies(value) and self._group is Group.WARP:
            if isinstance(owner, LaneIdOp):
                return 1
            if isinstance(owner, ThreadIdxOp):
                is_next = self._threads.is_along_x and owner.dimension.data == "x"
                return 1 if is_next else None
        return super().growth(value, checkpoints)


def needed_values(operations: Sequence[Operation]) -> list[SSAValue]:
    """The values from outside that operations use, in the order of their uses."""
    inside: set[SSAValue] = set()
    found: dict[SSAValue, None] = {}
    for operation in operations:
        for inner in walk(operation):
            inside.update(inner.results)
            for region in inner.regions:
                for block in region.blocks:
                    inside.update(block.args)
    for operation in operations:
        for inner in walk(operation):
            found.update(dict.fromkeys(value for value in inner.operands if value not in inside))
    return list(found)


def _own_arrays(operations: Sequence[Operation]) -> list[SSAValue]:
    """The arrays among operations, or inside, that are too large for the stack, or used after the operations."""
    found: list[SSAValue] = []
    for operation in operations:
        for inner in walk(operation):
            if not isinstance(inner, AllocaOp):
                continue
            block = operation.parent
            assert block is not None
            is_over = inner is operation and any(
                enclosing(use.operation, block) not in operations for use in inner.results[0].uses
            )
            if is_over or array_bytes_of(inner) > _MOST_ON_STACK:
                found.append(inner.results[0])
    return found


def array_bytes_of(array: AllocaOp) -> int:
    """Bytes of a thread's own array, a multiple of 16."""
    kind = array.results[0].type
    assert isinstance(kind, TensorType)
    size = array_bytes(kind.dims, kind.element_type)
    return -(-size // _ARRAY_ALIGNMENT) * _ARRAY_ALIGNMENT


def _has_constant_divisor(owner: Operation) -> bool:
    return isinstance(owner.operands[1].owner, arith.ConstantOp)


ALIGNMENT: Final = 64  # of each array
_MOST_OF_WARP_ON_STACK: Final = 16 * 1024  # bytes of all arrays of a warp
_PLACES: Final = {Group.BLOCK: "thread", Group.WARP: "lane"}


class Slot(NamedTuple):
    """An array of one part of a value.

    Attributes:
        pointer: its name.
        kind: of an element, LLVM text; an i1 is kept as i8.
        group: whose threads have an element each: a block's or a warp's.
    """

    pointer: str
    kind: str
    group: Group

    def place(self, printer: FunctionPrinter) -> str:
        """The address of the running thread's element."""
        index = printer.coordinates[_PLACES[self.group]]
        return printer.let(
            f"getelementptr inbounds {self.kind}, ptr {self.pointer}, i64 {index}", "kept"
        )

    def store(self, printer: FunctionPrinter, kind: str, text: str) -> None:
        """Keeps a value of an LLVM type for the running thread."""
        if kind == "i1":
            text = {"true": "1", "false": "0"}.get(text) or printer.let(f"zext i1 {text} to i8")
        printer.line(f"store {self.kind} {text}, ptr {self.place(printer)}")


class Slots:
    """The arrays of a kernel."""

    def __init__(self, printer: FunctionPrinter) -> None:
        self._printer = printer
        self._slots: dict[SSAValue, list[Slot]] = {}
        self._stack_bytes = 0
        # Names and bytes per thread of the block's arrays, in order: parameters of the block's function.
        self.arrays: list[tuple[str, int]] = []

    def __contains__(self, value: SSAValue) -> bool:
        return value in self._slots

    def __getitem__(self, value: SSAValue) -> list[Slot]:
        return self._slots[value]

    def make(self, value: SSAValue, group: Group) -> None:
        """Makes the arrays of a value."""
        kinds = [kind for kind, _ in self._printer.part_types([value])]
        self._slots[value] = [self.array(kind, group) for kind in kinds]

    def share(self, value: SSAValue, other: SSAValue) -> None:
        """Keeps a value where another is kept."""
        self._slots[value] = self._slots[other]

    def are_same(self, value: SSAValue, other: SSAValue) -> bool:
        """Whether two values are kept at one place."""
        return self._slots.get(value) is not None and self._slots[value] == self._slots.get(other)

    def array(self, kind: str, group: Group) -> Slot:
        """A new array; a warp's is the block's if the stack has many already."""
        kept = "i8" if kind == "i1" else kind
        size = WARP_SIZE * _bytes(kept)
        if group is Group.WARP and self._stack_bytes + size <= _MOST_OF_WARP_ON_STACK:
            self._stack_bytes += size
            pointer = self._printer.alloca(f"[{WARP_SIZE} x {kept}]", ALIGNMENT, "lanes")
            return Slot(pointer, kept, group)
        return Slot(self.memory(_bytes(kept)), kept, Group.BLOCK)

    def memory(self, bytes_per_thread: int) -> str:
        """Allocates memory of the block, that many bytes per thread; returns its name."""
        name = self._printer.fresh("kept")
        self.arrays.append((name, bytes_per_thread))
        return name

    def store(self, value: SSAValue, parts: list[str]) -> None:
        """Keeps the parts of a value for the running thread."""
        printer = self._printer
        for slot, part, (kind, _) in zip(
            self._slots[value], parts, printer.part_types([value]), strict=True
        ):
            slot.store(printer, kind, part)

    def load(self, value: SSAValue) -> None:
        """Defines a value as the one that the running thread has kept."""
        printer = self._printer
        parts: list[str] = []
        for slot, (kind, stem) in zip(self._slots[value], printer.part_types([value]), strict=True):
            part = printer.let(f"load {slot.kind}, ptr {slot.place(printer)}", stem)
            parts.append(printer.let(f"icmp ne i8 {part}, 0", stem) if kind == "i1" else part)
        printer.take([value], parts)


def _bytes(kind: str) -> int:
    """Bytes of an element, a scalar or a vector such as `<4 x float>`."""
    if not kind.startswith("<"):
        return size_in_bytes(kind)
    count, _, element = kind[1:-1].partition(" x ")
    return int(count) * size_in_bytes(element)
