# SPDX-License-Identifier: Apache-2.0
"""printf, assume, findings of checks and failed assertions on a GPU.

In: simt.printf, simt.assume, simt.check and, with ``--enable-assertions``, simt.assert. Out: calls of vprintf, which
make the driver print when the stream is synchronized; assumptions for LLVM; a call that writes the first finding into
memory of the host, which the next call or `weft.synchronize` reads (native/driver/devices/findings.h has its layout).
The code holds the whole text, so nothing else is kept. A thread goes on after a check, and ends after an assertion; the
context lives on. It is lost only where others would wait without end: after a check that ends the launch, and an
assertion among operations that count threads.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final

from weft import _native
from weft.codegen.check_texts import array_text, places_text
from weft.codegen.llvm.debug_info import source_position
from weft.codegen.llvm.types import llvm_type, quoted, size_in_bytes, utf8
from weft.dialects.builder import source_location
from weft.dialects.flow import walk
from weft.dialects.nvgpu.mbarrier import MbarrierTryWaitOp, MbarrierWaitOp
from weft.dialects.nvgpu.mma import WgmmaMmaOp
from weft.dialects.nvgpu.threads import NamedBarrierSyncOp, WarpgroupBarrierOp
from weft.dialects.simt.debug import AssertOp, AssumeOp, CheckOp, PrintfOp
from weft.dialects.simt.kernel import kernel_of
from weft.dialects.simt.threads import GridBarrierOp
from weft.location import UNKNOWN_LOCATION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from xdsl.ir import Operation, SSAValue

    from weft.codegen.llvm.function_printer import FunctionPrinter
    from weft.codegen.llvm.module_printer import ModulePrinter


def _print_printf(printer: FunctionPrinter, op: PrintfOp) -> None:
    """The arguments are in one buffer, each aligned to its size."""
    callee = printer.module.declare("vprintf", "i32 (ptr, ptr)")
    offsets: list[int] = []
    end = 0
    for operand in op.operands:
        size = size_in_bytes(llvm_type(operand.type))
        end = (end + size - 1) // size * size
        offsets.append(end)
        end += size
    buffer = printer.alloca(f"[{end} x i8]", 8, "arguments") if offsets else "null"
    for operand, offset in zip(op.operands, offsets, strict=True):
        slot = printer.let(f"getelementptr i8, ptr {buffer}, i64 {offset}")
        kind = llvm_type(operand.type)
        printer.line(
            f"store {kind} {printer.values[operand]}, ptr {slot}, align {size_in_bytes(kind)}"
        )
    text = printer.module.string(op.text.data)
    printer.let(f"call i32 {callee}(ptr {text}, ptr {buffer})")


def _print_assume(printer: FunctionPrinter, op: AssumeOp) -> None:
    if op.checked is not None or printer.module.enable_assertions:
        print_check(printer, op, op.condition, op.message)
        return
    if op.text is not None:
        return  # an alignment, which the tensor's type has, so that LLVM need not carry its terms along
    callee = printer.module.declare("llvm.assume", "void (i1)")
    printer.line(f"call void {callee}(i1 {printer.values[op.condition]})")


DEBUG: Final[dict[type[Operation], Callable[[FunctionPrinter, Any], None]]] = {
    PrintfOp: _print_printf,
    AssumeOp: _print_assume,
}


VARIABLE: Final = "weft_report"
"""The module's variable: the address of the host's memory (i64), and how many findings there were (i32)."""
_KINDS: Final = {name: number for number, name in enumerate(_native.CHECK_KINDS)}
_ASSERTION: Final = -1
_CALLED, _INLINED = "recorder", "recorder.inlined"
_NUMBERS: Final = struct.Struct("<iii")  # kind, rank of the array, elements accessed at once
_MOST_FINDINGS: Final = 1 << 20
"""A thread that finds more than the launch had by then is in a loop that its missing reads never end."""

_WAITS_FOR_A_NUMBER: Final = (
    MbarrierWaitOp,
    MbarrierTryWaitOp,
    NamedBarrierSyncOp,
    WarpgroupBarrierOp,
    GridBarrierOp,
)

# Offsets in the host's memory; whether it is ready is at 0.
_BLOCK, _THREAD, _VALUE_COUNT, _SITE_BYTES = 4, 16, 28, 32
_VALUES, _SITE, _SITE_CAPACITY = _native.DEVICE_REPORT_LAYOUT


def _site(printer: FunctionPrinter, numbers: tuple[int, int, int], texts: Iterable[str]) -> str:
    """A constant with all that is known at compile time; the arguments that name it: address and size."""
    module = printer.module
    data = _NUMBERS.pack(*numbers) + b"".join(utf8(text) + b"\0" for text in texts)
    data = data[:_SITE_CAPACITY]
    space = module.target.address_spaces["global"]
    name = module.add_global(
        f"private unnamed_addr addrspace({space}) constant [{len(data)} x i8] c{quoted(data)}, align 4",
        "site",
    )
    return f"{module.target.pointer('global')} {name}, i32 {len(data)}"


def _print_check(printer: FunctionPrinter, op: CheckOp) -> None:
    good, bad = printer.new_label("checked"), printer.new_label("found")
    printer.branch_if(printer.values[op.condition], good, bad)
    printer.start(bad)
    place = source_location(op.location) or UNKNOWN_LOCATION
    array = op.array.data or array_text(place.span()) or "the array"
    texts = kernel_of(op).sym_name.data, place.excerpt(), places_text(place), array, op.access.data
    numbers = _KINDS[op.kind.data], len(op.values) // 2, op.count.value.data
    site = _site(printer, numbers, texts)
    recorder = _INLINED if op.ends is not None or _multiplies(kernel_of(op)) else _CALLED
    _record(printer, recorder, site, [printer.values[value] for value in op.values])
    assert printer.exit_label is not None
    if op.ends is not None:
        _trap_once_written(printer)
    printer.branch(good if op.ends is None else printer.exit_label)
    printer.start(good)


def _print_assert(printer: FunctionPrinter, op: AssertOp) -> None:
    if printer.module.enable_assertions:
        print_check(printer, op, op.condition, op.text.data)


def print_check(printer: FunctionPrinter, op: Operation, condition: SSAValue, text: str) -> None:
    """Writes a finding and ends the thread where a condition does not hold."""
    good, bad = printer.new_label("asserted"), printer.new_label("failed")
    printer.branch_if(printer.values[condition], good, bad)
    printer.start(bad)
    position = source_position(op.location)
    place = f"{position.filename.data}:{position.line.data}" if position else ""
    kernel = kernel_of(op)
    site = _site(printer, (_ASSERTION, 0, 0), (kernel.sym_name.data, place, text))
    _record(printer, _INLINED, site, [])
    if _counts_threads(kernel):
        _trap_once_written(printer)
    assert printer.exit_label is not None
    printer.branch(printer.exit_label)
    printer.start(good)


def _trap_once_written(printer: FunctionPrinter) -> None:
    """Ends the launch if the finding is on the host; else the thread that writes it does, after that."""
    assert printer.exit_label is not None
    space = printer.module.target.pointer("global")
    known, trap = printer.new_label("known"), printer.new_label("trap")
    address = printer.let(f"load i64, {space} {_variable(printer.module)}, align 8", "address")
    printer.branch_if(printer.let(f"icmp ne i64 {address}, 0"), known, trap)
    printer.start(known)
    host = printer.let(f"inttoptr i64 {address} to ptr", "host")
    ready = printer.let(f"load volatile i32, ptr {host}, align 4", "ready")
    printer.branch_if(printer.let(f"icmp ne i32 {ready}, 0"), trap, printer.exit_label)
    printer.start(trap)
    printer.line('call void asm sideeffect "trap;", ""()')


def _record(printer: FunctionPrinter, recorder: str, site: str, values: Sequence[str]) -> None:
    """Writes a finding if it is the first one."""
    host = printer.let(
        f"call ptr {printer.module.library(recorder)}({site}, i32 {len(values)})", "host"
    )
    first, done = printer.new_label("first"), printer.new_label("recorded")
    printer.branch_if(printer.let(f"icmp ne ptr {host}, null"), first, done)
    printer.start(first)
    for number, value in enumerate(values):
        place = printer.let(f"getelementptr i8, ptr {host}, i64 {_VALUES + 8 * number}")
        printer.line(f"store i64 {value}, ptr {place}, align 8")
    printer.line("fence seq_cst")
    printer.line(f"store volatile i32 1, ptr {host}, align 4")
    printer.line("fence seq_cst")  # a trap may follow, which loses pending writes
    printer.branch(done)
    printer.start(done)


def _multiplies(kernel: Operation) -> bool:
    """Whether fragments fill a thread's registers, which a call would have to save: ptxas finds no room then."""
    return any(isinstance(op, WgmmaMmaOp) for op in walk(kernel))


def _counts_threads(kernel: Operation) -> bool:
    """Whether something in a kernel waits for a number of threads, which one that leaves would be missing from.

    Barriers of the block, warps and clusters do without threads that have left.
    """
    return any(isinstance(op, _WAITS_FOR_A_NUMBER) for op in walk(kernel))


def _recorder(module: ModulePrinter, name: str, attribute: str) -> str:
    """A function of the constant and the number of values: null, or for the first thread where the values go.

    It has written where that thread is, and the constant. The word that the host polls is written after the values.
    """
    here, variable = module.target.pointer("global"), _variable(module)
    stores: list[str] = []
    for offset, kind in ((_BLOCK, "block_idx"), (_THREAD, "thread_idx")):
        for axis, letter in enumerate("xyz"):
            at = offset + 4 * axis
            callee = module.intrinsic(f"{module.target.coordinates[kind]}.{letter}")
            stores += [f"%c{at} = call i32 {callee}()", *_store(at, f"%c{at}")]
    stores += [*_store(_VALUE_COUNT, "%count"), *_store(_SITE_BYTES, "%bytes")]
    lines = "".join(f"  {line}\n" for line in stores)
    return f"""define internal ptr @weft.{name}({here} %site, i32 %bytes, i32 %count) {attribute} cold nounwind {{
entry:
  %counter = getelementptr i8, {here} {variable}, i64 8
  %before = atomicrmw add {here} %counter, i32 1 syncscope("device") monotonic, align 4
  %is_first = icmp eq i32 %before, 0
  br i1 %is_first, label %first, label %later
later:
  %is_endless = icmp ugt i32 %before, {_MOST_FINDINGS}
  br i1 %is_endless, label %leave, label %done
leave:
  call void asm sideeffect "exit;", ""()
  unreachable
first:
  %address = load i64, {here} {variable}, align 8
  %host = inttoptr i64 %address to ptr
  %is_known = icmp ne i64 %address, 0
  br i1 %is_known, label %write, label %done
write:
{lines}  %to = getelementptr i8, ptr %host, i64 {_SITE}
  br label %copy
copy:
  %n = phi i32 [ 0, %write ], [ %next, %copy ]
  %source = getelementptr i8, {here} %site, i32 %n
  %letter = load i8, {here} %source, align 1
  %target = getelementptr i8, ptr %to, i32 %n
  store i8 %letter, ptr %target, align 1
  %next = add i32 %n, 1
  %is_rest = icmp slt i32 %next, %bytes
  br i1 %is_rest, label %copy, label %done
done:
  %result = phi ptr [ null, %later ], [ null, %first ], [ %host, %copy ]
  ret ptr %result
}}
"""


def _variable(module: ModulePrinter) -> str:
    space = module.target.address_spaces["global"]
    definition = f"addrspace({space}) global [2 x i64] zeroinitializer, align 8"
    return module.declare_global(VARIABLE, definition)


def _store(offset: int, value: str) -> list[str]:
    return [
        f"%p{offset} = getelementptr i8, ptr %host, i64 {offset}",
        f"store i32 {value}, ptr %p{offset}, align 4",
    ]


RECORDERS: Final[dict[str, Callable[[ModulePrinter], str]]] = {
    _CALLED: lambda module: _recorder(module, _CALLED, "noinline"),
    _INLINED: lambda module: _recorder(module, _INLINED, "alwaysinline"),
}
REPORTS: Final[dict[type[Operation], Callable[[FunctionPrinter, Any], None]]] = {
    CheckOp: _print_check,
    AssertOp: _print_assert,
}
