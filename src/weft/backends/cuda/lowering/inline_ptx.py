# SPDX-License-Identifier: Apache-2.0
"""PTX as LLVM's inline assembly: a user's own, single instructions, clocks, and times stored directly into memory.

In: nvgpu.inline_ptx, nvgpu.nanosleep, nvgpu.prefetch, simt.prmt, simt.lop3, simt.dp4a, simt.timer, simt.sm_id,
simt.record. Out: for a user's own a convergent call of `asm sideeffect` whose constraints
follow from the types: LLVM ends the process on some that do not fit. Reads of clocks have an effect, so that each stays
in place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from weft.backends.cuda.lowering.convergent import has
from weft.codegen.llvm.types import llvm_type, quoted
from weft.codegen.operations.arithmetic import INTEGER
from weft.dialects.nvgpu.inline_ptx import InlinePtxOp, NanosleepOp, PrefetchOp
from weft.dialects.simt.profiling import RecordOp, SmIdOp, TimerOp
from weft.dialects.simt.scalar import Dp4aOp, Lop3Op, PrmtOp
from weft.dialects.simt.types import TensorType

if TYPE_CHECKING:
    from collections.abc import Callable

    from xdsl.ir import Operation, SSAValue

    from weft.codegen.llvm.function_printer import FunctionPrinter


REGISTERS: Final = {"i16": "h", "i32": "r", "i64": "l", "float": "f", "double": "d"}
"""Letters of PTX's registers in inline assembly, by LLVM type."""


def _print_inline_ptx(printer: FunctionPrinter, op: InlinePtxOp) -> None:
    inputs = [_input(printer, value) for value in op.inputs]
    outputs = [llvm_type(value.type) for value in op.outputs]
    constraints = ",".join(
        [
            *(f"={REGISTERS[text]}" for text in outputs),
            *(REGISTERS[text] for text, _ in inputs),
            "~{memory}",
        ]
    )
    listed = ", ".join(f"{text} {value}" for text, value in inputs)
    returned = outputs[0] if len(outputs) == 1 else f"{{ {', '.join(outputs)} }}"
    call = (
        f"call {returned if outputs else 'void'} asm sideeffect {quoted(op.text.data)}, "
        f'"{constraints}"({listed}) convergent nounwind'
    )
    if not outputs:
        printer.line(call)
    elif len(outputs) == 1:
        printer.define(op.outputs[0], call)
    else:
        whole = printer.let(call, "ptx")
        for number, value in enumerate(op.outputs):
            printer.define(value, f"extractvalue {returned} {whole}, {number}")


def _input(printer: FunctionPrinter, value: SSAValue) -> tuple[str, str]:
    """LLVM's type and text; a tensor is its address, which has 32 bits in the shared window."""
    if not isinstance(value.type, TensorType):
        return llvm_type(value.type), printer.values[value]
    space = value.type.space.data
    integer = "i32" if space == "shared" else "i64"
    pointer = f"{printer.module.target.pointer(space)} {printer.tensors[value].pointer}"
    return integer, printer.let(f"ptrtoint {pointer} to {integer}", "address")


def _word(printer: FunctionPrinter, op: Operation, text: str) -> None:
    """One instruction of three words, which LLVM may move and drop."""
    listed = ", ".join(printer.typed(operand) for operand in op.operands)
    printer.define(
        op.results[0],
        f'call i32 asm "{text}", "=r,r,r,r"({listed}) memory(none) nounwind willreturn',
    )


def _print_permute_bytes(printer: FunctionPrinter, op: PrmtOp) -> None:
    _word(printer, op, "prmt.b32 $0, $1, $2, $3;")


def _print_lop3(printer: FunctionPrinter, op: Lop3Op) -> None:
    _word(printer, op, f"lop3.b32 $0, $1, $2, $3, {op.table.value.data};")


def _print_dot_bytes(printer: FunctionPrinter, op: Dp4aOp) -> None:
    if not has(printer, "dp4a"):
        INTEGER[Dp4aOp](printer, op)
        return
    kinds = ["u32" if flag is None else "s32" for flag in (op.first_signed, op.second_signed)]
    _word(printer, op, f"dp4a.{kinds[0]}.{kinds[1]} $0, $1, $2, $3;")


WORDS: Final[dict[type[Operation], Callable[[FunctionPrinter, Any], None]]] = {
    PrmtOp: _print_permute_bytes,
    Lop3Op: _print_lop3,
    Dp4aOp: _print_dot_bytes,
}


def _print_nanosleep(printer: FunctionPrinter, op: NanosleepOp) -> None:
    if has(printer, "nanosleep"):
        duration = printer.typed(op.duration)
        printer.line(f'call void asm sideeffect "nanosleep.u32 $0;", "r"({duration}) nounwind')


def _print_prefetch(printer: FunctionPrinter, op: PrefetchOp) -> None:
    address = printer.tensors[op.tensor].address(printer, op.indices)
    pointer = f"{printer.module.target.pointer('global')} {address}"
    condition = printer.typed(op.condition)
    printer.line(
        f'call void asm sideeffect "@$1 prefetch.global.L2 [$0];", "l,b"({pointer}, {condition}) nounwind'
    )


WAITS: Final[dict[type[Operation], Callable[[FunctionPrinter, Any], None]]] = {
    NanosleepOp: _print_nanosleep,
    PrefetchOp: _print_prefetch,
}


INLINE_PTX: Final[dict[type[Operation], Callable[[FunctionPrinter, Any], None]]] = {
    InlinePtxOp: _print_inline_ptx
}


_LOW_REGISTERS: Final = {
    "globaltimer": "globaltimer_lo",
    "clock64": "clock",
    "clock32": "clock",
}
_CLOCKS: Final = {"globaltimer": "globaltimer", "clock64": "clock64", "clock32": "clock"}


def _print_timer(printer: FunctionPrinter, op: Any) -> None:
    _read(printer, op, _CLOCKS[op.kind.data])


def _print_sm_id(printer: FunctionPrinter, op: Operation) -> None:
    _read(printer, op, "smid")


def _print_record(printer: FunctionPrinter, op: RecordOp) -> None:
    """A clock read and a predicated store as one piece of PTX: LLVM moves no memory access into or across it."""
    register = _LOW_REGISTERS[op.kind.data]
    address = printer.tensors[op.tensor].address(printer, [op.index])
    condition, tag = printer.values[op.condition], printer.values[op.tag]
    printer.line(
        'call void asm sideeffect "{ .reg .b32 %time; mov.u32 %time, %'
        f"{register}; "
        '@$0 st.global.v2.b32 [$1], {$2, %time}; }", "b,l,r,~{memory}"'
        f"(i1 {condition}, ptr addrspace(1) {address}, i32 {tag}) convergent nounwind"
    )


def _read(printer: FunctionPrinter, op: Operation, register: str) -> None:
    callee = printer.module.intrinsic(f"llvm.nvvm.read.ptx.sreg.{register}")
    printer.define(op.results[0], f"call {llvm_type(op.results[0].type)} {callee}()")


TIMING: Final[dict[type[Operation], Callable[[FunctionPrinter, Any], None]]] = {
    TimerOp: _print_timer,
    SmIdOp: _print_sm_id,
    RecordOp: _print_record,
}
