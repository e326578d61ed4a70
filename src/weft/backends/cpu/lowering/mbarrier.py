# SPDX-License-Identifier: Apache-2.0
"""mbarriers on the CPU: words in shared memory (native/cpu/mbarrier.h), in front of which a thread suspends.

In: the operations of dialects/nvgpu/mbarrier. Out: stores of the first phase, calls of the runtime that arrive, and a
test of the word's highest bit before each suspension.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from weft.backends.cpu.lowering.cluster import map_shared, print_cluster_barrier
from weft.backends.cpu.lowering.coroutine_printer import (
    COLLECTIVE,
    MBARRIER,
    CoroutinePrinter,
)
from weft.backends.cpu.lowering.debug import linear_thread
from weft.codegen.runtime_abi import call_row
from weft.dialects.nvgpu.mbarrier import (
    MbarrierArriveOp,
    MbarrierInitOp,
    MbarrierReleaseOp,
    MbarrierTryWaitOp,
    MbarrierWaitOp,
)
from weft.dialects.simt.types import TensorType
from weft.types.launch_limits import WARP_SIZE

if TYPE_CHECKING:
    from collections.abc import Callable

    from xdsl.ir import Operation

# enum weft_mbarrier_request
_WAIT: Final = "0"
_TRY: Final = "1"
_ARRIVALS: Final = (1 << 20) + 1  # a word of one arrival


def _print_init(printer: CoroutinePrinter, op: MbarrierInitOp) -> None:
    first, done = printer.new_label("first"), printer.new_label("initialized")
    is_first = printer.let(f"icmp eq i64 {linear_thread(printer)}, 0")
    printer.branch_if(is_first, first, done)
    printer.start(first)
    for words, arrivals in zip(op.words, op.counts, strict=True):
        kind = words.type
        assert isinstance(kind, TensorType)
        for index in range(kind.dims[0]):
            base = printer.tensors[words].pointer
            place = printer.let(f"getelementptr i8, ptr {base}, i64 {8 * index}")
            printer.line(f"store i64 {arrivals * _ARRIVALS}, ptr {place}, align 8")
    printer.branch(done)
    printer.start(done)
    print_cluster_barrier(printer, op)


def _word(printer: CoroutinePrinter, op: Any) -> str:
    return printer.tensors[op.words].address(printer, [op.index])


def _suspend(printer: CoroutinePrinter, op: Any, site: str, place: str, request: str) -> None:
    """Suspends in front of a barrier, whose word is at `place`."""
    name = op.words.name_hint or "mbarrier"
    printer.post(mask=request, pointer=place, array=printer.tensors[op.words].pointer)
    printer.suspend(MBARRIER, printer.add_site(site, op.location, barrier=name))


def _print_arrive(printer: CoroutinePrinter, op: MbarrierArriveOp) -> None:
    size = "0" if op.expect_bytes is None else printer.values[op.expect_bytes]
    _arrive(printer, op, _word(printer, op), size)


def _arrive(printer: CoroutinePrinter, op: Any, place: str, size: str) -> None:
    table = printer.let("load ptr, ptr %launch, align 8", "table")
    arguments = f"ptr {place}", "i32 1", f"i32 {size}"
    wrong = call_row(printer, table, "mbarrier_arrive", *arguments)
    refused, arrived = printer.new_label("refused"), printer.new_label("arrived")
    printer.branch_if(printer.let(f"icmp eq i32 {wrong}, 0"), arrived, refused)
    printer.start(refused)
    _suspend(printer, op, "mbarrier_arrive", place, wrong)
    printer.branch(arrived)
    printer.start(arrived)


def _print_release(printer: CoroutinePrinter, op: MbarrierReleaseOp) -> None:
    printer.post(mask="-1")
    printer.suspend(COLLECTIVE, printer.add_site("warp_barrier", op.location))
    one, done = printer.new_label("one"), printer.new_label("released")
    lane = printer.let(f"and i64 {linear_thread(printer)}, {WARP_SIZE - 1}")
    printer.branch_if(printer.let(f"icmp eq i64 {lane}, 0"), one, done)
    printer.start(one)
    place = _word(printer, op)
    for there in [map_shared(printer, op, place, rank) for rank in op.ranks] or [place]:
        _arrive(printer, op, there, "0")
    printer.branch(done)
    printer.start(done)


def _is_complete(printer: CoroutinePrinter, place: str, parity: str) -> str:
    word = printer.let(f"load i64, ptr {place}, align 8")
    current = printer.let(f"lshr i64 {word}, 63")
    other = printer.let(f"zext i32 {parity} to i64")
    return printer.let(f"icmp ne i64 {current}, {other}")


def _print_wait(printer: CoroutinePrinter, op: MbarrierWaitOp) -> None:
    place, parity = _word(printer, op), printer.values[op.parity]
    again, waits, passed = (printer.new_label(stem) for stem in ("again", "waits", "passed"))
    printer.branch(again)
    printer.start(again)
    printer.branch_if(_is_complete(printer, place, parity), passed, waits)
    printer.start(waits)
    printer.post(lane=parity)
    _suspend(printer, op, "mbarrier_wait", place, _WAIT)
    printer.branch(again)
    printer.start(passed)


def _print_try_wait(printer: CoroutinePrinter, op: MbarrierTryWaitOp) -> None:
    printer.post(lane=printer.values[op.parity])
    _suspend(printer, op, "mbarrier_wait", _word(printer, op), _TRY)
    printer.answer(op.result)


MBARRIERS: Final[dict[type[Operation], Callable[[CoroutinePrinter, Any], None]]] = {
    MbarrierInitOp: _print_init,
    MbarrierArriveOp: _print_arrive,
    MbarrierReleaseOp: _print_release,
    MbarrierWaitOp: _print_wait,
    MbarrierTryWaitOp: _print_try_wait,
}
