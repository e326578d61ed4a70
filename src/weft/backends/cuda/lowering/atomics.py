# SPDX-License-Identifier: Apache-2.0
"""Atomics on a GPU: orders and scopes that LLVM drops, float extrema without a loop, sums of small floats and vectors.

In: simt.atomic_load, _store, _rmw, _cas, simt.red_add. Out: atomicrmw where relaxed and at most device-wide, all that
LLVM 22 prints for PTX; else PTX with `.sem.scope`, or fences before sm_70. cmpxchg keeps both since sm_70. The sum of a
vector is one `red` of up to 16 bytes where the architecture has it: f32, f16 and bf16 in global memory from sm_90 on,
and before pairs of f16; else one element after the other.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from weft.backends.cuda.lowering.convergent import has
from weft.backends.cuda.lowering.inline_ptx import REGISTERS
from weft.codegen.llvm.types import FLOAT_NAMES, llvm_type, size_in_bytes
from weft.codegen.operations.atomics import (
    AtomicAccess,
    atomic_rows,
    atomic_value,
    llvm_instruction,
    llvm_swap,
)
from weft.codegen.operations.memory import print_vector
from weft.dialects.simt.atomics import RedAddOp
from weft.types.dtype import INFO

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from xdsl.ir import Attribute, Operation

    from weft.codegen.llvm.function_printer import FunctionPrinter


_PTX_SCOPES: Final = {"block": "cta", "device": "gpu", "system": "sys"}
# LLVM's order → PTX's, where they differ; a sequentially consistent fence goes before the last.
_PTX_ORDERS: Final = {"monotonic": "relaxed", "seq_cst": "acquire"}
# LLVM's operation → PTX's, and the letter of its type; "" takes the type of the value.
_PTX_OPERATIONS: Final = {
    "add": ("add", "u"),
    "max": ("max", "s"),
    "min": ("min", "s"),
    "umax": ("max", "u"),
    "umin": ("min", "u"),
    "and": ("and", "b"),
    "or": ("or", "b"),
    "xor": ("xor", "b"),
    "xchg": ("exch", "b"),
    "fadd": ("add", "f"),
}
# The bits of a smaller integer in a word.
_NARROW_BITS: Final = {"i8": 0xFF, "i16": 0xFFFF}
# Small float → the first architecture whose PTX adds it. The hardware adds only pairs, so ptxas makes a
# compare-and-swap loop, but one that knows the word around the element.


def _instruction(
    printer: FunctionPrinter, access: AtomicAccess, operation: str, text: str, value: str
) -> str:
    """One read-modify-write with its order and scope."""
    if text in _NARROW_BITS:
        return _narrow(printer, access, operation, text, value)
    system = access.scope_name == "system"
    if access.order == "monotonic" and not system:
        return llvm_instruction(printer, access, operation, text, value)
    if operation == "sub":
        operation, value = "add", printer.let(f"sub {text} 0, {value}")
    register, bits = REGISTERS[text], 8 * size_in_bytes(text)
    name, letter = _PTX_OPERATIONS[operation]
    form = f"{name}.{letter}{bits}"
    if has(printer, "atomic_order"):
        return _ordered(printer, access, form, text, register, value)
    with _fenced(printer, access) as relaxed:
        if system and has(printer, "atomic_scope"):
            return _ptx(printer, relaxed, ".sys", form, text, register, value)
        return llvm_instruction(printer, relaxed, operation, text, value)


def _narrow(
    printer: FunctionPrinter, access: AtomicAccess, operation: str, text: str, value: str
) -> str:
    """An element of 8 or 16 bits, part of a 32-bit word.

    Bitwise operations are one instruction on the word that leaves the other bits alone. The others become a
    compare-and-swap loop on the word in LLVM, which keeps order and scope since sm_70.
    """
    if operation not in ("and", "or", "xor"):
        if has(printer, "atomic_order"):
            return llvm_instruction(printer, access, operation, text, value)
        with _fenced(printer, access) as relaxed:
            return llvm_instruction(printer, relaxed, operation, text, value)
    kind, pointer = access.pointer_type, access.pointer
    space = printer.module.target.address_spaces[access.space]
    mask = printer.module.intrinsic("llvm.ptrmask", f".p{space}.i64")
    word = printer.let(f"call {kind} {mask}({pointer}, i64 -4)", "word")
    address = printer.let(f"ptrtoint {pointer} to i64")
    byte = printer.let(f"trunc i64 {address} to i32")
    place = printer.let(f"shl i32 {printer.let(f'and i32 {byte}, 3')}, 3", "place")
    moved = printer.let(f"shl i32 {printer.let(f'zext {text} {value} to i32')}, {place}")
    if operation == "and":
        ones = printer.let(f"shl i32 {_NARROW_BITS[text]}, {place}")
        moved = printer.let(f"or i32 {moved}, {printer.let(f'xor i32 {ones}, -1')}")
    old = access.changed(address=word).modify(printer, operation, "i32", moved)
    return printer.let(f"trunc i32 {printer.let(f'lshr i32 {old}, {place}')} to {text}", "old")


def _swap(
    printer: FunctionPrinter, access: AtomicAccess, bits: str, expected: str, new: str
) -> tuple[str, str]:
    """One compare-and-swap; LLVM keeps its order and scope since sm_70."""
    if has(printer, "atomic_order"):
        return llvm_swap(printer, access, bits, expected, new)
    with _fenced(printer, access) as relaxed:
        return llvm_swap(printer, relaxed, bits, expected, new)


@contextmanager
def _fenced(printer: FunctionPrinter, access: AtomicAccess) -> Generator[AtomicAccess]:
    """Before sm_70: fences around a relaxed access, according to its order."""
    if access.order not in ("monotonic", "acquire"):
        _fence(printer, access)
    yield access.changed(order="monotonic")
    if access.order not in ("monotonic", "release"):
        _fence(printer, access)


@contextmanager
def _ordered_access(printer: FunctionPrinter, access: AtomicAccess) -> Generator[AtomicAccess]:
    """A load or a store: LLVM prints order and scope since sm_70."""
    if has(printer, "atomic_order"):
        yield access
        return
    with _fenced(printer, access) as relaxed:
        yield relaxed


def _fence(printer: FunctionPrinter, access: AtomicAccess) -> None:
    printer.line(f"fence{access.scope} seq_cst")


def _ordered(
    printer: FunctionPrinter,
    access: AtomicAccess,
    form: str,
    text: str,
    register: str,
    value: str,
) -> str:
    """One instruction with order and scope in its name."""
    if access.order == "seq_cst":
        _fence(printer, access)
    qualifiers = f".{_PTX_ORDERS.get(access.order, access.order)}.{_PTX_SCOPES[access.scope_name]}"
    return _ptx(printer, access, qualifiers, form, text, register, value)


def _ptx(
    printer: FunctionPrinter,
    access: AtomicAccess,
    qualifiers: str,
    form: str,
    text: str,
    register: str,
    value: str,
) -> str:
    """Inline PTX; convergent, so that it is never moved into or out of branches.

    Args:
        printer, access: where, and on which element.
        qualifiers: order and scope: `.acquire.cta`.
        form: operation and type: `add.u32`.
        text, register: the value's type in LLVM, and the letter of its constraint.
        value: the operand.
    """
    space = "shared::cluster" if access.space == "cluster" else access.space
    return printer.let(
        f'call {text} asm sideeffect "atom{qualifiers}.{space}.{form} $0, [$1], $2;", '
        f'"={register},l,{register},~{{memory}}"({access.pointer}, {text} {value}) '
        "convergent nounwind",
        "old",
    )


def _value(
    printer: FunctionPrinter, access: AtomicAccess, kind: str, element: Attribute, value: str
) -> str:
    text, name = llvm_type(element), FLOAT_NAMES.get(type(element), "")
    if kind in ("max", "min") and text in ("float", "double"):
        return _float_extremum(printer, access, kind, text, value)
    if kind == "add" and name in ("f16", "bf16") and has(printer, f"atomic_add_{name}"):
        return _ordered(printer, access, f"add.noftz.{name}", text, "h", value)
    return atomic_value(printer, access, kind, element, value)


def _float_extremum(
    printer: FunctionPrinter, access: AtomicAccess, kind: str, text: str, value: str
) -> str:
    """Positive floats order as signed integers, negative ones in reverse as unsigned integers.

    A NaN is ignored (as by C's fmax): it is replaced by the neutral value.
    """
    bits = "i32" if text == "float" else "i64"
    is_nan = printer.let(f"fcmp uno {text} {value}, 0.0")
    neutral = "0xFFF0000000000000" if kind == "max" else "0x7FF0000000000000"
    candidate = printer.let(f"select i1 {is_nan}, {text} {neutral}, {text} {value}")
    integer = printer.let(f"bitcast {text} {candidate} to {bits}")
    negative = printer.let(f"icmp slt {bits} {integer}, 0")
    below, above, end = (printer.new_label(stem) for stem in ("negative", "positive", "merged"))
    printer.branch_if(negative, below, above)
    printer.start(below)
    old_below = access.modify(printer, "umin" if kind == "max" else "umax", bits, integer)
    printer.branch(end)
    printer.start(above)
    old_above = access.modify(printer, kind, bits, integer)
    printer.branch(end)
    printer.start(end)
    old = printer.phi(bits, [(old_below, below), (old_above, above)], "old")
    return printer.let(f"bitcast {bits} {old} to {text}")


ATOMICS: Final[dict[type[Operation], Callable[[FunctionPrinter, Any], None]]] = atomic_rows(
    _instruction, _value, _swap, _ordered_access
)


# Element → PTX's type of a register, and how many elements it has.
PACKED: Final = {
    "f32": ("f32", 1),
    **{name: (INFO[name].ptx_pair, 2) for name in ("f16", "bf16")},
}


def red_add(element: str, registers: int) -> str:
    """The instruction that adds registers to global memory: `red.relaxed.gpu.global.add.noftz.v4.f16x2`."""
    flush = "" if element == "f32" else ".noftz"
    many = f".v{registers}" if registers > 1 else ""
    return f"red.relaxed.gpu.global.add{flush}{many}.{element}"


def _print_red_add(printer: FunctionPrinter, op: RedAddOp) -> None:
    tensor = printer.tensors[op.tensor].type
    name = FLOAT_NAMES.get(type(tensor.element_type), "")
    is_global = tensor.space.data == "global"
    if is_global and name in PACKED and has(printer, "red_vectors"):
        _print_vector(printer, op, name, len(op.elements) // PACKED[name][1])
    elif is_global and name == "f16" and has(printer, "red_f16x2"):
        _print_vector(printer, op, name, 1)
    else:
        ATOMICS[RedAddOp](printer, op)


def _print_vector(printer: FunctionPrinter, op: RedAddOp, name: str, together: int) -> None:
    """The elements as registers, that many in an instruction."""
    element, each = PACKED[name]
    vector, place, _ = print_vector(printer, op)
    count = len(op.elements) // each
    register, letter = ("float", "f") if name == "f32" else ("i32", "r")
    whole = f"<{count} x {register}>"
    if not vector.startswith(whole):
        vector = f"{whole} {printer.let(f'bitcast {vector} to {whole}')}"
    parts = [printer.let(f"extractelement {vector}, i32 {number}") for number in range(count)]
    for first in range(0, count, together):
        given = parts[first : first + together]
        listed = ", ".join(f"${1 + number}" for number in range(together))
        listed = f"{{{listed}}}" if together > 1 else listed
        address = f"[$0+{4 * first}]" if first else "[$0]"
        printer.line(
            f'call void asm sideeffect "{red_add(element, together)} {address}, {listed};", '
            f'"l{f",{letter}" * together},~{{memory}}"'
            f"({place}, {', '.join(f'{register} {part}' for part in given)}) convergent nounwind"
        )


REDUCTIONS: Final[dict[type[Operation], Callable[[FunctionPrinter, Any], None]]] = {
    RedAddOp: _print_red_add,
}
