# SPDX-License-Identifier: Apache-2.0
"""The sanitizer's checks on the CPU, and its instrumentation.

In: simt.check, simt.watch and its family. Out: a branch to where what was found is recorded through the runtime table;
calls that tell the runtime of accesses. The source line and the array's name are read here, from the user's file, since
the object holds the whole report.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from xdsl.dialects import scf

from weft import _native
from weft.backends.cpu.lowering.async_copies import boxes
from weft.backends.cpu.lowering.debug import linear_thread
from weft.codegen.check_texts import array_text, places_text
from weft.codegen.llvm.types import llvm_type, memory_type, size_in_bytes
from weft.codegen.runtime_abi import call_row
from weft.dialects.builder import source_location
from weft.dialects.flow import origins, walk
from weft.dialects.nvgpu.async_copy import WatchBoxOp
from weft.dialects.nvgpu.threads import MapSharedOp
from weft.dialects.simt.debug import (
    ARITHMETIC,
    WATCH_EVENTS,
    CheckOp,
    EventOp,
    WatchCopyOp,
    WatchedAccess,
    WatchEventOp,
    WatchOp,
)
from weft.dialects.simt.kernel import kernel_of
from weft.dialects.simt.memory import SharedOp
from weft.location import UNKNOWN_LOCATION
from weft.passes.blocks import overlapping_arrays
from weft.passes.instrument_memory import CHECKS_ATTRIBUTE, SCRATCH, WATCHED

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from xdsl.ir import Operation, SSAValue

    from weft.codegen.llvm.function_printer import FunctionPrinter
    from weft.dialects.simt.kernel import KernelOp

_KINDS: Final = {name: number for number, name in enumerate(_native.CHECK_KINDS)}
_WATCHED_KIND: Final = "race"  # of the site of an access, which may turn out to be another
_FLOAT_BITS: Final = {"float": "i32", "double": "i64"}
# enum weft_launch_check
_LAUNCH_WATCHED: Final = 4
_LAUNCH_ORDERED, _LAUNCH_BLOCKS = 64, 128
_LAUNCH_WORDS: Final = {
    "continue": 8,
    "barriers": 16,
    "benign": 32,
    "trace": 256,
    SCRATCH: 512,
}


def launch_checks(kernel: KernelOp, *, has_scratch: bool) -> int:
    """The bits of enum weft_launch_check for a kernel's launches, in calls that have scratch memory or none."""
    checks = _words(kernel) - (set() if has_scratch else {SCRATCH})
    if "orders" in checks:
        ordered = _LAUNCH_ORDERED
        if not any(isinstance(op, scf.WhileOp) for op in walk(kernel)):
            ordered |= _LAUNCH_BLOCKS
    else:
        ordered = 0
    watched = _LAUNCH_WATCHED if is_watched(kernel) else 0
    return ordered | watched | sum(bit for word, bit in _LAUNCH_WORDS.items() if word in checks)


def continues(kernel: KernelOp) -> bool:
    """Whether a finding does not end a kernel's launches."""
    return "continue" in _words(kernel)


def has_orders(kernel: KernelOp) -> bool:
    """Whether the scheduler runs a kernel's threads, in the order that a test sets."""
    return "orders" in _words(kernel)


def reports_barriers(kernel: KernelOp) -> bool:
    """Whether threads that cannot continue are a finding."""
    return "barriers" in _words(kernel)


def needs_coroutines(kernel: KernelOp) -> bool:
    """Whether the threads of a kernel that waits must be able to end anywhere, or to run in any order."""
    return continues(kernel) or has_orders(kernel)


def looks_at_threads(kernel: KernelOp) -> bool:
    """Whether more is checked than each access by itself, so that reports depend on the order of the threads."""
    return bool(_words(kernel) - {"bounds", "trace"})


def is_watched(kernel: KernelOp) -> bool:
    """Whether accesses of threads are reported to the runtime."""
    return not _words(kernel).isdisjoint(WATCHED)


def print_rendezvous(printer: FunctionPrinter, kernel: KernelOp, count: str) -> None:
    """Tells the runtime that all threads of the block have met, if it watches them; `count`, i32, is how many."""
    if not is_watched(kernel):
        return
    wide = printer.let(f"zext i32 {count} to i64") if count.startswith("%") else count
    event = f"i32 {WATCH_EVENTS.index('rendezvous')}"
    block = f"i64 {printer.coordinates['block']}"
    _call(printer, "sanitizer_event", event, block, "i64 0", "ptr null", f"i64 {wide}")


def _words(kernel: KernelOp) -> frozenset[str]:
    attribute: Any = kernel.attributes.get(CHECKS_ATTRIBUTE)
    return frozenset(attribute.data.split(",")) if attribute is not None else frozenset()


def _print_check(printer: FunctionPrinter, op: CheckOp) -> None:
    good, bad = printer.new_label("checked"), printer.new_label("found")
    printer.branch_if(printer.values[op.condition], good, bad)
    printer.start(bad)
    values = [printer.values[value] for value in op.values]
    is_element = op.kind.data not in ARITHMETIC
    site = _Site(op, op.kind.data, op.array.data, op.access.data)
    rank = len(values) // 2 if is_element else len(values)
    text = site.print(printer, rank, op.count.value.data)
    # A thread cannot go on with an element that does not exist.
    may_go_on = op.kind.data != "out_of_bounds"
    goes_on = good if may_go_on else printer.end_label or good
    _print_finding(printer, op, text, values, goes_on)
    printer.start(good)


def _print_finding(
    printer: FunctionPrinter, op: Operation, site: str, values: Sequence[str], goes_on: str
) -> None:
    """Records what was found: ends the launch, or branches to `goes_on` where it continues."""
    memory = printer.at_entry(f"alloca [{len(values) or 1} x i64], align 8", "values")
    for number, value in enumerate(values):
        place = (
            printer.let(f"getelementptr i8, ptr {memory}, i64 {8 * number}") if number else memory
        )
        printer.line(f"store i64 {value}, ptr {place}, align 8")
    code = _call(printer, "sanitizer_fail", f"ptr {site}", *_thread(printer), f"ptr {memory}")
    assert printer.failure_label is not None
    if continues(kernel_of(op)) or isinstance(op, WatchedAccess):
        ended = printer.let(f"icmp ne i32 {code}, 0")
        printer.branch_if(ended, printer.failure_label, goes_on)
    else:
        printer.branch(printer.failure_label)


def _call(printer: FunctionPrinter, row: str, *arguments: str) -> str:
    table = printer.let("load ptr, ptr %launch, align 8", "table")
    return call_row(printer, table, row, "ptr %launch", *arguments)


def _thread(printer: FunctionPrinter) -> tuple[str, str]:
    """The block and the thread, as arguments."""
    return f"i64 {printer.coordinates['block']}", f"i64 {linear_thread(printer)}"


def _print_watch(printer: FunctionPrinter, op: WatchOp) -> None:
    tensor = printer.tensors[op.tensor]
    what = op.array.data, op.access.data, op.flags, _bytes(op.tensor)
    site = _Site(op, _WATCHED_KIND, *what, sharer=_sharer(op.tensor))
    text = site.print(printer, len(op.indices), op.count.value.data)
    address = tensor.address(printer, op.indices)
    code = _call(printer, "sanitizer_access", f"ptr {text}", *_thread(printer), f"ptr {address}")
    good, bad = printer.new_label("watched"), printer.new_label("found")
    printer.branch_if(printer.let(f"icmp eq i32 {code}, 0"), good, bad)
    printer.start(bad)
    values = [_wide(printer, value) for value in op.indices]
    values += [_wide(printer, value) for value in op.sizes] or ["-1"] * len(values)
    _print_finding(printer, op, text, values, good)
    printer.start(good)


def _print_watch_copy(printer: FunctionPrinter, op: WatchCopyOp) -> None:
    argument = op.argument.value.data
    place = source_location(op.location) or UNKNOWN_LOCATION
    array = op.array.data if argument < 0 else array_text(place.span(), argument)
    site = _Site(
        op,
        _WATCHED_KIND,
        array or "shared memory",
        op.access.data,
        op.flags,
        _bytes(op.tensor),
        sharer=_sharer(op.tensor),
    )
    text = site.print(printer, 0, 1)
    address = printer.tensors[op.tensor].address(printer, op.indices)
    offset = op.offset.value.data
    if offset:
        address = printer.let(f"getelementptr i8, ptr {address}, i64 {offset}")
    word = "null"
    if op.words is not None and op.index is not None:
        word = printer.tensors[op.words].address(printer, [op.index])
    range_arguments = f"ptr {address}", f"i64 {printer.values[op.size]}", f"ptr {word}"
    code = _call(printer, "sanitizer_copy", f"ptr {text}", *_thread(printer), *range_arguments)
    _print_found(printer, op, text, code)


def _print_watch_box(printer: FunctionPrinter, op: WatchBoxOp) -> None:
    place = source_location(op.location) or UNKNOWN_LOCATION
    array = array_text(place.span(), 0) or "the tensor"
    kind: Any = op.tensor_map.type
    site = _Site(op, _WATCHED_KIND, array, op.access.data, op.flags, kind.itemsize)
    text = site.print(printer, 0, 1)
    word = "null"
    if op.words is not None and op.index is not None:
        word = printer.tensors[op.words].address(printer, [op.index])
    for box, _ in boxes(printer, op):
        code = _call(
            printer, "sanitizer_box", f"ptr {text}", *_thread(printer), *box, f"ptr {word}"
        )
        _print_found(printer, op, text, code)


def _print_found(printer: FunctionPrinter, op: Operation, text: str, code: str) -> None:
    good, bad = printer.new_label("watched"), printer.new_label("found")
    printer.branch_if(printer.let(f"icmp eq i32 {code}, 0"), good, bad)
    printer.start(bad)
    _print_finding(printer, op, text, [], good)
    printer.start(good)


def _print_watch_event(printer: FunctionPrinter, op: WatchEventOp) -> None:
    address = "null"
    if op.tensor is not None:
        address = printer.tensors[op.tensor].address(printer, [op.index] if op.index else [])
    if op.event.data == "end":
        address = _Site(op, _WATCHED_KIND, "the block", "ended").print(printer, 0, 1)
    event, amount = WATCH_EVENTS.index(op.event.data), op.amount.value.data
    arguments = f"ptr {address}", f"i64 {amount}"
    _call(printer, "sanitizer_event", f"i32 {event}", *_thread(printer), *arguments)


def _print_event(printer: FunctionPrinter, op: EventOp) -> None:
    """Tells the runtime the bits of each value; `weft.testing` knows their types."""
    memory = "null"
    if op.values:
        size = f"[{len(op.values)} x i64]"
        memory = printer.at_entry(f"alloca {size}, align 8", "values")
    for number, value in enumerate(op.values):
        place = printer.let(f"getelementptr i8, ptr {memory}, i64 {8 * number}")
        printer.line(f"store i64 {_bits(printer, value)}, ptr {place}, align 8")
    place = source_location(op.location) or UNKNOWN_LOCATION
    texts = op.event.data, op.text.data, op.shown.data, op.types.data, places_text(place)
    text = printer.module.string("\n".join(texts))
    arguments = *_thread(printer), f"ptr {memory}", f"i32 {len(op.values)}"
    _call(printer, "thread_event", f"ptr {text}", *arguments)


def _bits(printer: FunctionPrinter, value: SSAValue) -> str:
    """A number's bits in an i64."""
    text, kind = printer.values[value], llvm_type(value.type)
    if kind in _FLOAT_BITS:
        text = printer.let(f"bitcast {kind} {text} to {_FLOAT_BITS[kind]}")
        kind = _FLOAT_BITS[kind]
    if kind == "i128":  # of a c128 the real part
        return printer.let(f"trunc i128 {text} to i64")
    return text if kind == "i64" else printer.let(f"zext {kind} {text} to i64")


def _bytes(tensor: SSAValue) -> int:
    kind: Any = tensor.type
    return size_in_bytes(memory_type(kind.element_type))


def _sharer(tensor: SSAValue) -> int:
    """The number of a shared array among those that lie in each other's memory; 0 for any other, and where unknown."""
    found = origins(tensor)
    array = found.pop().owner if len(found) == 1 else None
    if isinstance(array, MapSharedOp):
        return _sharer(array.tensor)
    if not isinstance(array, SharedOp):
        return 0
    arrays = overlapping_arrays(kernel_of(array))
    return arrays.index(array) + 1 if array in arrays else 0


def _wide(printer: FunctionPrinter, value: SSAValue) -> str:
    kind: Any = value.type
    text = printer.values[value]
    return text if kind.width.data == 64 else printer.let(f"sext i32 {text} to i64")


class _Site:
    """A `weft_check_site` of an operation; an array without a name has that of the source."""

    def __init__(
        self,
        op: Operation,
        kind: str,
        array: str,
        access: str,
        flags: int = 0,
        size: int = 0,
        *,
        sharer: int = 0,
    ) -> None:
        place = source_location(op.location) or UNKNOWN_LOCATION
        self._texts = place.excerpt(), places_text(place)
        self._kind = _KINDS[kind]
        self._array = array or array_text(place.span()) or "the array"
        self._access, self._flags, self._size = access, flags, size
        self._sharer = sharer

    def print(self, printer: FunctionPrinter, rank: int, count: int) -> str:
        """Defines the constant; returns its name."""
        module = printer.module
        texts = *self._texts, self._array, self._access
        pointers = ", ".join(f"ptr {module.string(text)}" for text in texts)
        numbers = (self._kind, rank, count, self._size, self._flags, self._sharer)
        return module.add_global(
            "private unnamed_addr constant { ptr, ptr, ptr, ptr, i32, i32, i32, i32, i32, i32 } { "
            f"{pointers}, {', '.join(f'i32 {number}' for number in numbers)} }}, align 8",
            "site",
        )


CHECKS: Final[dict[type[Operation], Callable[[FunctionPrinter, Any], None]]] = {
    CheckOp: _print_check,
    WatchOp: _print_watch,
    WatchCopyOp: _print_watch_copy,
    WatchBoxOp: _print_watch_box,
    WatchEventOp: _print_watch_event,
    EventOp: _print_event,
}
