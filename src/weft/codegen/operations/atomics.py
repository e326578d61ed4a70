# SPDX-License-Identifier: Apache-2.0
"""Atomic loads, stores, read-modify-write and compare-and-swap on tensors.

In: simt.atomic_load, _store, _rmw, _cas, simt.red_add. Out: LLVM's atomic instructions with order and syncscope; a
compare-and-swap loop for types without an instruction (f16, bf16, 8-bit floats, bool).
"""

from __future__ import annotations

from contextlib import nullcontext
from copy import copy
from typing import TYPE_CHECKING, Any, Final

from xdsl.dialects.builtin import i1

from weft.codegen.llvm.types import FLOAT_NAMES, llvm_type, memory_type, size_in_bytes
from weft.codegen.operations.conversions import from_f32, to_f32
from weft.codegen.operations.memory import byte_of_bool
from weft.dialects.simt.atomics import (
    AtomicCasOp,
    AtomicLoadOp,
    AtomicRmwOp,
    AtomicStoreOp,
    RedAddOp,
)
from weft.errors import REPORT_HINT, InternalCompilerError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from xdsl.ir import Attribute, Operation

    from weft.codegen.llvm.function_printer import FunctionPrinter

    AtomicInstruction = Callable[[FunctionPrinter, "AtomicAccess", str, str, str], str]
    AtomicSwap = Callable[[FunctionPrinter, "AtomicAccess", str, str, str], tuple[str, str]]
    Ordering = Callable[[FunctionPrinter, "AtomicAccess"], AbstractContextManager["AtomicAccess"]]

# The order of a failed compare-and-swap, which only reads.
_FAILURE_ORDERS: Final = {"release": "monotonic", "acq_rel": "acquire"}


class AtomicAccess:
    """An atomically accessed element of a tensor.

    Attributes:
        address: of the element; a name, or a constant expression.
        pointer_type: the address's type: `ptr addrspace(1)`.
        scope: ` syncscope("block")` or nothing.
        order: LLVM's name of the memory order.
        space: the tensor's address space.
        scope_name: the operation's scope: `block`, `device` or `system`.
    """

    __slots__ = (
        *("_instruction", "_swap", "address", "order", "pointer_type"),
        *("scope", "scope_name", "space"),
    )

    def __init__(
        self,
        printer: FunctionPrinter,
        op: Any,
        tensor: Any,
        indices: list[Any],
        instruction: AtomicInstruction,
        swap: AtomicSwap,
    ) -> None:
        value = printer.tensors[tensor]
        self.space = value.type.space.data
        if self.space == "local":
            raise InternalCompilerError(
                "CODEGEN_ATOMIC", "an atomic access to a thread's own memory", hint=REPORT_HINT
            )
        target = printer.module.target
        said = op.properties
        self.scope_name = said["scope"].data if "scope" in said else "device"
        scope = target.sync_scopes[self.scope_name]
        self.pointer_type = target.pointer(self.space)
        self.address = value.address(printer, indices)
        self.scope = f' syncscope("{scope}")' if scope else ""
        order = said["order"].data if "order" in said else "relaxed"
        self.order = "monotonic" if order == "relaxed" else order
        self._instruction = instruction
        self._swap = swap

    @property
    def pointer(self) -> str:
        """The address with its type, as an operand."""
        return f"{self.pointer_type} {self.address}"

    def changed(self, address: str = "", order: str = "") -> AtomicAccess:
        """The same access at another address or with another of LLVM's orders."""
        other = copy(self)
        other.address = address or self.address
        other.order = order or self.order
        return other

    def modify(self, printer: FunctionPrinter, operation: str, text: str, value: str) -> str:
        """One read-modify-write, by LLVM's name of the operation; returns the old value."""
        return self._instruction(printer, self, operation, text, value)

    def swap(self, printer: FunctionPrinter, bits: str, expected: str, new: str) -> tuple[str, str]:
        """One compare-and-swap of an integer: the old value, and whether it was the expected one."""
        return self._swap(printer, self, bits, expected, new)


def atomic_value(
    printer: FunctionPrinter, access: AtomicAccess, kind: str, element: Attribute, value: str
) -> str:
    """Combines the element with `value` atomically; returns the old element."""
    text = llvm_type(element)
    name = FLOAT_NAMES.get(type(element))
    if kind == "exchange":
        return _exchange(printer, access, element, value)
    if text == "i1":
        return _bool_atomic(printer, access, kind, value)
    if name is None:
        return access.modify(printer, kind, text, value)
    if name in ("f32", "f64") and kind in ("add", "sub"):
        if kind == "sub":
            value = printer.let(f"fneg {text} {value}")
        return access.modify(printer, "fadd", text, value)
    return compare_and_swap_loop(
        printer, access, element, lambda old: _combined(printer, kind, name, old, value)
    )


def llvm_instruction(
    printer: FunctionPrinter, access: AtomicAccess, operation: str, text: str, value: str
) -> str:
    """One `atomicrmw`; returns the old value."""
    return printer.let(
        f"atomicrmw {operation} {access.pointer}, {text} {value}{access.scope} {access.order}, "
        f"align {size_in_bytes(text)}",
        "old",
    )


def _combined(printer: FunctionPrinter, kind: str, name: str, old: str, value: str) -> str:
    """Two values combined by a float kind, in float if the type is smaller."""
    small = name not in ("f32", "f64")
    text = "double" if name == "f64" else "float"
    if small:
        old, value = to_f32(printer, old, name), to_f32(printer, value, name)
    if kind in ("add", "sub"):
        result = printer.let(f"f{kind} {text} {old}, {value}")
    elif kind in ("max", "min"):
        result = printer.intrinsic(f"llvm.{kind}num", text, old, value)
    else:
        raise InternalCompilerError(
            "CODEGEN_ATOMIC", f"atomic {kind} of {name} elements", hint=REPORT_HINT
        )
    return from_f32(printer, result, name) if small else result


def compare_and_swap_loop(
    printer: FunctionPrinter,
    access: AtomicAccess,
    element: Attribute,
    combine: Callable[[str], str],
) -> str:
    """Repeats until no other write intervenes; returns the old value."""
    text = memory_type(element)
    bits = f"i{8 * size_in_bytes(text)}"
    first = printer.let(
        f"load atomic {bits}, {access.pointer}{access.scope} monotonic, align {size_in_bytes(text)}"
    )
    entry, loop, end = printer.label, printer.new_label("retry"), printer.new_label("swapped")
    printer.branch(loop)
    printer.start(loop)
    place, expected = printer.reserve(), printer.fresh("expected")
    old = expected if bits == text else printer.let(f"bitcast {bits} {expected} to {text}", "old")
    new = combine(old)
    new_bits = new if bits == text else printer.let(f"bitcast {text} {new} to {bits}")
    found, done = access.swap(printer, bits, expected, new_bits)
    latch = printer.label
    printer.branch_if(done, end, loop)
    printer.fill(place, [f"{expected} = phi {bits} [ {first}, %{entry} ], [ {found}, %{latch} ]"])
    printer.start(end)
    return old


def llvm_swap(
    printer: FunctionPrinter, access: AtomicAccess, bits: str, expected: str, new: str
) -> tuple[str, str]:
    """One `cmpxchg`."""
    pair = printer.let(
        f"cmpxchg {access.pointer}, {bits} {expected}, {bits} {new}{access.scope} {access.order} "
        f"{_FAILURE_ORDERS.get(access.order, access.order)}, align {int(bits[1:]) // 8}"
    )
    found = printer.let(f"extractvalue {{ {bits}, i1 }} {pair}, 0", "found")
    return found, printer.let(f"extractvalue {{ {bits}, i1 }} {pair}, 1")


def _exchange(
    printer: FunctionPrinter, access: AtomicAccess, element: Attribute, value: str
) -> str:
    bits, stored = _as_bits(printer, element, value)
    old = access.modify(printer, "xchg", bits, stored)
    return _from_bits(printer, element, old)


def _as_bits(printer: FunctionPrinter, element: Attribute, value: str) -> tuple[str, str]:
    """A value as the integer in memory."""
    text = llvm_type(element)
    if text == "i1":
        return "i8", byte_of_bool(printer, value)
    bits = f"i{8 * size_in_bytes(text)}"
    return bits, value if bits == text else printer.let(f"bitcast {text} {value} to {bits}")


def _from_bits(printer: FunctionPrinter, element: Attribute, bits: str) -> str:
    text = llvm_type(element)
    if text == "i1":
        return printer.let(f"icmp ne i8 {bits}, 0")
    integer = f"i{8 * size_in_bytes(text)}"
    return bits if integer == text else printer.let(f"bitcast {integer} {bits} to {text}")


def _bool_atomic(printer: FunctionPrinter, access: AtomicAccess, kind: str, value: str) -> str:
    """and, or, xor of bools, whose bytes are 0, 1 or, if written elsewhere, any nonzero value."""
    if kind == "or":
        old = access.modify(printer, "or", "i8", byte_of_bool(printer, value))
    elif kind == "and":
        old = access.modify(printer, "and", "i8", printer.let(f"sext i1 {value} to i8"))
    elif kind == "xor":

        def flipped(byte: str) -> str:
            is_set = printer.let(f"icmp ne i8 {byte}, 0")
            return byte_of_bool(printer, printer.let(f"xor i1 {is_set}, {value}"))

        old = compare_and_swap_loop(printer, access, i1, flipped)
    else:
        raise InternalCompilerError(
            "CODEGEN_ATOMIC", f"atomic {kind} of bool elements", hint=REPORT_HINT
        )
    return printer.let(f"icmp ne i8 {old}, 0")


def _swap_bool(printer: FunctionPrinter, access: AtomicAccess, expected: str, value: str) -> str:
    """Compares truth, not bytes; if it differs, the byte is written back unchanged."""
    new = byte_of_bool(printer, value)

    def chosen(byte: str) -> str:
        is_set = printer.let(f"icmp ne i8 {byte}, 0")
        differs = printer.let(f"xor i1 {is_set}, {expected}")
        return printer.let(f"select i1 {differs}, i8 {byte}, i8 {new}")

    return printer.let(f"icmp ne i8 {compare_and_swap_loop(printer, access, i1, chosen)}, 0")


def _as_it_is(printer: FunctionPrinter, access: AtomicAccess) -> nullcontext[AtomicAccess]:
    return nullcontext(access)


def _consecutive(
    printer: FunctionPrinter, op: RedAddOp, first: AtomicAccess
) -> Iterator[AtomicAccess]:
    """The elements of a sum of several, one after the other, from the first one's address."""
    element = memory_type(op.elements[0].type)
    yield first
    for number in range(1, len(op.elements)):
        step = f"getelementptr inbounds {element}, {first.pointer}, i64 {number}"
        yield first.changed(address=printer.let(step))


def atomic_rows(
    instruction: AtomicInstruction = llvm_instruction,
    special: Callable[[FunctionPrinter, AtomicAccess, str, Attribute, str], str] = atomic_value,
    swap: AtomicSwap = llvm_swap,
    ordering: Ordering = _as_it_is,
) -> dict[type[Operation], Callable[[FunctionPrinter, Any], None]]:
    """The rows of the atomic operations.

    Args:
        instruction: prints one read-modify-write of an integer or float.
        special: prints an access of any kind and type; `atomic_value`, or a function that falls back to it.
        swap: prints one compare-and-swap of an integer.
        ordering: prints code around a load or store; returns the access in between.
    """

    def print_load(printer: FunctionPrinter, op: AtomicLoadOp) -> None:
        access = AtomicAccess(printer, op, op.tensor, list(op.indices), instruction, swap)
        element = op.result.type
        size = size_in_bytes(memory_type(element))
        with ordering(printer, access) as inner:
            found = printer.let(
                f"load atomic i{8 * size}, {inner.pointer}{inner.scope} {inner.order}, align {size}"
            )
        printer.values[op.result] = _from_bits(printer, element, found)

    def print_store(printer: FunctionPrinter, op: AtomicStoreOp) -> None:
        access = AtomicAccess(printer, op, op.tensor, list(op.indices), instruction, swap)
        bits, stored = _as_bits(printer, op.value.type, printer.values[op.value])
        with ordering(printer, access) as inner:
            printer.line(
                f"store atomic {bits} {stored}, {inner.pointer}{inner.scope} {inner.order}, "
                f"align {int(bits[1:]) // 8}"
            )

    def print_modify(printer: FunctionPrinter, op: Any) -> None:
        operand, tensor, *indices = op.operands
        access = AtomicAccess(printer, op, tensor, indices, instruction, swap)
        kind = op.properties["kind"].data
        printer.values[op.results[0]] = special(
            printer, access, kind, operand.type, printer.values[operand]
        )

    def print_red_add(printer: FunctionPrinter, op: RedAddOp) -> None:
        first = AtomicAccess(printer, op, op.tensor, list(op.indices), instruction, swap)
        for operand, access in zip(op.elements, _consecutive(printer, op, first), strict=True):
            special(printer, access, "add", operand.type, printer.values[operand])

    def print_compare_and_swap(printer: FunctionPrinter, op: Any) -> None:
        """Compares bits, so a NaN equals itself and 0.0 is not -0.0."""
        expected, value, tensor, *indices = op.operands
        access = AtomicAccess(printer, op, tensor, indices, instruction, swap)
        element = expected.type
        if llvm_type(element) == "i1":
            printer.values[op.results[0]] = _swap_bool(
                printer, access, printer.values[expected], printer.values[value]
            )
            return
        bits, wanted = _as_bits(printer, element, printer.values[expected])
        _, new = _as_bits(printer, element, printer.values[value])
        found, _ = access.swap(printer, bits, wanted, new)
        printer.values[op.results[0]] = _from_bits(printer, element, found)

    return {
        AtomicLoadOp: print_load,
        AtomicStoreOp: print_store,
        AtomicRmwOp: print_modify,
        AtomicCasOp: print_compare_and_swap,
        RedAddOp: print_red_add,
    }


ATOMICS: Final[dict[type[Operation], Callable[[FunctionPrinter, Any], None]]] = atomic_rows()
