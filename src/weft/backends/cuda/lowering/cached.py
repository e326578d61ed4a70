# SPDX-License-Identifier: Apache-2.0
"""Loads and stores with a hint for the caches, which LLVM 22 cannot print.

In: simt.load, simt.store, simt.load_vector, simt.store_vector. Out: those of codegen, or with a hint `ld.global` and
`st.global` in words of their size, whatever the elements are. A hint that the architecture lacks is left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from weft.backends.cuda.lowering.convergent import has
from weft.codegen.llvm.types import memory_type, size_in_bytes
from weft.codegen.operations.memory import (
    byte_of_bool,
    is_bool,
    print_load,
    print_load_vector,
    print_store,
    print_store_vector,
    print_vector,
)
from weft.dialects.simt.memory import LoadOp, LoadVectorOp, ReinterpretOp, StoreOp, StoreVectorOp
from weft.types.launch_limits import VECTOR_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable

    from xdsl.ir import Operation

    from weft.codegen.llvm.function_printer import FunctionPrinter

# Hint → what PTX calls it, and the feature that it needs.
_MODIFIERS: Final = {
    "streaming": ("cs", None),
    "last_use": ("lu", None),
    "l2_only": ("cg", None),
    "no_allocate": ("L1::no_allocate", "no_allocate"),
    "evict_first": ("L2::cache_hint", "cache_policy"),
    "evict_last": ("L2::cache_hint", "cache_policy"),
}
# Bytes of a word → its type in PTX and LLVM, and the letter of its constraint; a byte comes in a register of 16 bits.
_WORDS: Final = {
    1: ("b8", "i16", "h"),
    2: ("b16", "i16", "h"),
    4: ("b32", "i32", "r"),
    8: ("b64", "i64", "l"),
}
_READS: Final = "memory(argmem: read) nounwind willreturn"
_WRITES: Final = "memory(argmem: write) nounwind willreturn"


def print_policy(printer: FunctionPrinter, name: str) -> str:
    """L2 eviction policy, as an i64; the same for all accesses of a kernel."""
    text = f'asm "createpolicy.fractional.L2::{name}.b64 $0;", "=l"()'
    return printer.let(f"call i64 {text} memory(none) nounwind willreturn", "policy")


def _modifier(printer: FunctionPrinter, op: Any) -> str | None:
    """PTX's word, if the access has a hint and the architecture the word."""
    if op.cache is None:
        return None
    word, feature = _MODIFIERS[op.cache.data]
    return word if feature is None or has(printer, feature) else None


def _words(size: int, element: int) -> tuple[int, int]:
    """Number of words of an access, and the bytes of each."""
    word = min(size, max(4, element))
    return size // word, word


def _policy(printer: FunctionPrinter, op: Any, modifier: str) -> list[str]:
    """The operand of a hint that takes one."""
    if modifier != "L2::cache_hint":
        return []
    return [f"i64 {print_policy(printer, op.cache.data)}"]


def _form(modifier: str, count: int, word: str, first: int) -> tuple[str, str]:
    """The instruction's suffix, and its data as operands from a number on."""
    listed = ", ".join(f"${first + number}" for number in range(count))
    if count == 1:
        return f"{modifier}.{word}", listed
    return f"{modifier}.v{count}.{word}", f"{{{listed}}}"


def _load(
    printer: FunctionPrinter, op: Any, modifier: str, kind: str, place: str, size: int
) -> str:
    """Reads `size` bytes as an element, a word or a vector, from an address with its type."""
    element = kind.rsplit(maxsplit=1)[-1].rstrip(">")
    count, bytes_each = _words(size, size_in_bytes(element))
    word, part, letter = _WORDS[bytes_each]
    form, data = _form(modifier, count, word, 0)
    policy = _policy(printer, op, modifier)
    where = f"[${count}]" + (f", ${count + 1}" if policy else "")
    result = part if count == 1 else f"{{ {', '.join([part] * count)} }}"
    constraints = ",".join([f"={letter}"] * count + ["l"] * (1 + len(policy)))
    loaded = printer.let(
        f'call {result} asm sideeffect "ld.global.{form} {data}, {where};", "{constraints}"'
        f"({', '.join([place, *policy])}) {_READS}",
        "loaded",
    )
    if count > 1:
        whole = "poison"
        for number in range(count):
            piece = printer.let(f"extractvalue {result} {loaded}, {number}")
            whole = printer.let(
                f"insertelement <{count} x {part}> {whole}, {part} {piece}, i32 {number}", "words"
            )
        loaded, part = whole, f"<{count} x {part}>"
    if size == 1:
        loaded, part = printer.let(f"trunc i16 {loaded} to i8"), "i8"
    return loaded if kind == part else printer.let(f"bitcast {part} {loaded} to {kind}")


def _store(
    printer: FunctionPrinter, op: Any, modifier: str, place: str, data: str, size: int, element: int
) -> None:
    """Writes `size` bytes; `data` has its type."""
    count, bytes_each = _words(size, element)
    word, kind, letter = _WORDS[bytes_each]
    given, value = data.rsplit(" ", 1)
    whole = kind if count == 1 else f"<{count} x {kind}>"
    if size == 1:
        value = value if given == "i8" else printer.let(f"bitcast {data} to i8")
        value = printer.let(f"zext i8 {value} to i16")
    elif given != whole:
        value = printer.let(f"bitcast {data} to {whole}")
    parts = [value]
    if count > 1:
        parts = [
            printer.let(f"extractelement {whole} {value}, i32 {number}") for number in range(count)
        ]
    form, listed = _form(modifier, count, word, 1)
    policy = _policy(printer, op, modifier)
    last = f", ${count + 1}" if policy else ""
    constraints = ",".join(["l", *[letter] * count, *["l"] * len(policy)])
    operands = ", ".join([place, *(f"{kind} {part}" for part in parts), *policy])
    printer.line(
        f'call void asm sideeffect "st.global.{form} [$0], {listed}{last};", "{constraints}"'
        f"({operands}) {_WRITES}"
    )


def _print_load(printer: FunctionPrinter, op: LoadOp) -> None:
    modifier = _modifier(printer, op)
    if modifier is None:
        print_load(printer, op)
        return
    tensor = printer.tensors[op.tensor]
    element = memory_type(tensor.type.element_type)
    place = f"{printer.module.target.pointer('global')} {tensor.address(printer, op.indices)}"
    loaded = _load(printer, op, modifier, element, place, size_in_bytes(element))
    if is_bool(tensor.type):
        loaded = printer.let(f"icmp ne i8 {loaded}, 0")
    printer.values[op.result] = loaded


def _print_store(printer: FunctionPrinter, op: StoreOp) -> None:
    modifier = _modifier(printer, op)
    if modifier is None:
        print_store(printer, op)
        return
    tensor = printer.tensors[op.tensor]
    element = memory_type(tensor.type.element_type)
    place = f"{printer.module.target.pointer('global')} {tensor.address(printer, op.indices)}"
    text = printer.values[op.value]
    if is_bool(tensor.type):
        text = byte_of_bool(printer, text)
    size = size_in_bytes(element)
    _store(printer, op, modifier, place, f"{element} {text}", size, size)


def _print_load_vector(printer: FunctionPrinter, op: LoadVectorOp) -> None:
    modifier = _modifier(printer, op)
    if modifier is None:
        print_load_vector(printer, op)
        _keep_words(printer, op)
        return

    def load(printer: FunctionPrinter, kind: str, place: str, size: int) -> str:
        if size <= VECTOR_BYTES:
            return _load(printer, op, modifier, kind, place, size)
        count = len(op.elements)
        half = f"<{count // 2} x {kind.rsplit(maxsplit=1)[-1]}"
        parts = [
            _load(printer, op, modifier, half, one, VECTOR_BYTES) for one in _halves(printer, place)
        ]
        order = ", ".join(f"i32 {number}" for number in range(count))
        both = ", ".join(f"{half} {part}" for part in parts)
        return printer.let(f"shufflevector {both}, <{count} x i32> <{order}>")

    print_load_vector(printer, op, load)


def _halves(printer: FunctionPrinter, place: str) -> tuple[str, str]:
    """The addresses, with their type, of both halves of 32 bytes: hints are for accesses of 16."""
    space = place.rsplit(maxsplit=1)[0]
    return place, f"{space} {printer.let(f'getelementptr i8, {place}, i64 {VECTOR_BYTES}')}"


def _keep_words(printer: FunctionPrinter, op: LoadVectorOp) -> None:
    """Hides words of packed elements from LLVM, which would load each 16 bits that are used by themselves."""
    words = op.tensor.owner
    if not isinstance(words, ReinterpretOp) or words.bits[0] >= 8:
        return
    for word in op.elements:
        text = f'call i32 asm "mov.b32 $0, $1;", "=r,r"(i32 {printer.values[word]})'
        printer.values[word] = printer.let(f"{text} memory(none) nounwind willreturn", "word")


def _print_store_vector(printer: FunctionPrinter, op: StoreVectorOp) -> None:
    modifier = _modifier(printer, op)
    if modifier is None:
        print_store_vector(printer, op)
        return
    vector, place, size = print_vector(printer, op)
    count = len(op.elements)
    if size <= VECTOR_BYTES:
        _store(printer, op, modifier, place, vector, size, size // count)
        return
    kind = vector.rsplit(" ", 1)[0]
    half = f"<{count // 2} x {kind.rsplit(maxsplit=1)[-1]}"
    for number, one in enumerate(_halves(printer, place)):
        order = ", ".join(f"i32 {count // 2 * number + lane}" for lane in range(count // 2))
        mask = f"<{count // 2} x i32> <{order}>"
        part = printer.let(f"shufflevector {vector}, {kind} poison, {mask}")
        _store(printer, op, modifier, one, f"{half} {part}", VECTOR_BYTES, size // count)


CACHED: Final[dict[type[Operation], Callable[[FunctionPrinter, Any], None]]] = {
    LoadOp: _print_load,
    StoreOp: _print_store,
    LoadVectorOp: _print_load_vector,
    StoreVectorOp: _print_store_vector,
}
