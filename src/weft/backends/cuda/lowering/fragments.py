# SPDX-License-Identifier: Apache-2.0
"""Fragments on NVIDIA's GPUs: registers, small elements packed.

In: operations on fragments. Out: LLVM text; a function of elements once for each of them, conversions to small floats
by pairs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import Float32Type

from weft.backends.cuda.fast_math import BYTE_PAIRS
from weft.backends.cuda.lowering.convergent import has
from weft.backends.cuda.lowering.float_pairs import is_computed_in_twos, print_for_two
from weft.codegen.llvm.types import (
    FLOAT_NAMES,
    fragment_registers,
    memory_type,
    size_in_bytes,
)
from weft.codegen.operations.arithmetic import flags_of
from weft.codegen.operations.conversions import has_arithmetic
from weft.codegen.operations.memory import as_value, fragment_rows, in_memory, print_region
from weft.dialects.simt.fragment import (
    FragmentBitcastOp,
    FragmentFillOp,
    FragmentLoadOp,
    FragmentMapOp,
    FragmentPartOp,
    FragmentType,
    FragmentYieldOp,
    all_yielded,
    yielded,
)
from weft.dialects.simt.types import FLOAT_TYPES
from weft.types.dtype import INFO

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from xdsl.ir import Attribute, Operation, SSAValue

    from weft.codegen.llvm.function_printer import FunctionPrinter


_NATIVE_PAIRS: Final[dict[type[Attribute], str]] = {
    FLOAT_TYPES[name]: info.llvm_float for name, info in INFO.items() if info.llvm_float
}
_BYTE_PAIRS: Final[dict[type[Attribute], str]] = {
    FLOAT_TYPES[name]: pair for name, pair in BYTE_PAIRS.items()
}


def registers(printer: FunctionPrinter, fragment: SSAValue) -> list[str]:
    """The registers of a fragment."""
    return [*printer.fragments[fragment]]


def define_registers(printer: FunctionPrinter, result: SSAValue, texts: Sequence[str]) -> None:
    """Defines a fragment as these registers."""
    printer.fragments[result] = [*texts]


def _words(printer: FunctionPrinter, fragment: SSAValue) -> list[str]:
    """The registers of a fragment as i32."""
    kind: Any = fragment.type
    return _as(printer, registers(printer, fragment), fragment_registers(kind)[0], "i32")


def _define_words(printer: FunctionPrinter, result: SSAValue, texts: Sequence[str]) -> None:
    """Defines a fragment as registers of i32."""
    kind: Any = result.type
    define_registers(printer, result, _as(printer, texts, "i32", fragment_registers(kind)[0]))


def _as(printer: FunctionPrinter, texts: Sequence[str], one: str, other: str) -> list[str]:
    """The bits of values of one type as another."""
    if one == other:
        return [*texts]
    return [printer.let(f"bitcast {one} {text} to {other}") for text in texts]


def _print_bitcast(printer: FunctionPrinter, op: FragmentBitcastOp) -> None:
    kinds: Any = op.source.type, op.result.type
    texts = (fragment_registers(kind)[0] for kind in kinds)
    define_registers(printer, op.result, _as(printer, registers(printer, op.source), *texts))


def elements(printer: FunctionPrinter, fragment: SSAValue) -> list[str]:
    """A thread's elements, unpacked."""
    kind: Any = fragment.type
    found = registers(printer, fragment)
    text, size = _element(kind)
    if size >= 4:
        return found
    unpacked: list[str] = []
    for number in range(kind.layout.elements):
        register, place = found[number * size // 4], number * size % 4
        shifted = printer.let(f"lshr i32 {register}, {8 * place}") if place else register
        part = printer.let(f"trunc i32 {shifted} to {text}")
        unpacked.append(as_value(printer, part, kind.element_type))
    return unpacked


def define_elements(printer: FunctionPrinter, result: SSAValue, texts: Sequence[str]) -> None:
    """Defines a fragment as these elements."""
    kind: Any = result.type
    size = _element(kind)[1]
    if size >= 4:
        define_registers(printer, result, texts)
        return
    each = 4 // size
    words = [
        _packed(printer, texts[first : first + each], kind) for first in range(0, len(texts), each)
    ]
    define_registers(printer, result, words)


def _packed(printer: FunctionPrinter, texts: Sequence[str], kind: FragmentType) -> str:
    """A register of small elements, the first one lowest."""
    text, size = _element(kind)
    word = "0"
    for place, one in enumerate(texts):
        held = in_memory(printer, one, kind.element_type)
        wide = printer.let(f"zext {text} {held} to i32")
        if place:
            wide = printer.let(f"shl i32 {wide}, {8 * size * place}")
        word = wide if word == "0" else printer.let(f"or i32 {word}, {wide}")
    return word


def _element(kind: FragmentType) -> tuple[str, int]:
    text = memory_type(kind.element_type)
    return text, size_in_bytes(text)


def _print_fill(printer: FunctionPrinter, op: FragmentFillOp) -> None:
    kind: Any = op.result.type
    size, value = _element(kind)[1], printer.values[op.value]
    register = value if size >= 4 else _packed(printer, [value] * (4 // size), kind)
    define_registers(printer, op.result, [register] * fragment_registers(kind)[1])


def _print_part(printer: FunctionPrinter, op: FragmentPartOp) -> None:
    """Whole registers: a block has at least 32 bits of a thread's elements."""
    kind: Any = op.source.type
    found = registers(printer, op.source)
    step = max(1, 4 // _element(kind)[1])
    define_registers(printer, op.result, [found[number // step] for number in op.elements[::step]])


def print_map(printer: FunctionPrinter, op: FragmentMapOp | FragmentLoadOp) -> None:
    """A function of elements, once for each."""
    if isinstance(op, FragmentMapOp) and _computes_pairs(printer, op):
        _print_map_of_pairs(printer, op)
        return
    kind: Any = op.result.type
    layout = kind.layout
    inputs: list[tuple[Any, list[str]]] = [
        (value.type, elements(printer, value)) for value in op.inputs
    ]
    origin = [printer.values[value] for value in op.origin]
    coordinates: dict[tuple[str, int], str] = {}
    narrowed = _narrowed(printer, op)
    results: list[str] = []
    step = op.step if isinstance(op, FragmentMapOp) else 1

    def arguments_of(number: int) -> list[str]:
        place = layout.place(number)
        arguments: list[str] = []
        for of, texts in inputs:
            for one in range(number, number + step):
                own = layout.place(one)
                of_vector = own.of_row if of.layout.role == "row" else own.of_column
                arguments.append(texts[one if of.layout.role == layout.role else of_vector])
        for start, distance in zip(origin, place[:2], strict=False):
            if (start, distance) not in coordinates:
                coordinates[start, distance] = (
                    printer.let(f"add nuw nsw i32 {start}, {distance}") if distance else start
                )
            arguments.append(coordinates[start, distance])
        return arguments

    block = op.body.block
    if step == 1 and layout.elements % 2 == 0 and is_computed_in_twos(printer, block):
        for number in range(0, layout.elements, 2):
            both = [arguments_of(number), arguments_of(number + 1)]
            for found in print_for_two(printer, block, both, narrowed or all_yielded(block)):
                results += found
    else:
        for number in range(0, layout.elements, step):
            values = print_region(printer, block, arguments_of(number))
            results += [printer.values[one] for one in narrowed] or values
    if narrowed:
        words = _pairs(printer, kind.element_type, results)
        define_registers(printer, op.result, words)
    else:
        define_elements(printer, op.result, results)


_PACKED_ARITHMETIC: Final[dict[type[Operation], str]] = {
    arith.AddfOp: "fadd",
    arith.SubfOp: "fsub",
    arith.MulfOp: "fmul",
    arith.NegfOp: "fneg",
}
_PACKED_INTRINSICS: Final[dict[type[Operation], str]] = {
    arith.MaxnumfOp: "llvm.maxnum",
    arith.MinnumfOp: "llvm.minnum",
    math.FmaOp: "llvm.fma",
}


def _computes_pairs(printer: FunctionPrinter, op: FragmentMapOp) -> bool:
    """Whether a function of 16-bit floats is one of pairs, which the machine computes at once."""
    kind: Any = op.result.type
    element: Attribute = kind.element_type
    if not has_arithmetic(printer, FLOAT_NAMES.get(type(element), "")) or op.origin or op.step != 1:
        return False
    if kind.layout.elements % 2:
        return False
    for one in op.inputs:
        of: Any = one.type
        if of.element_type != element:
            return False
    *body, last = op.body.block.ops
    values = [value for inner in (*body, last) for value in inner.operands]
    known = (arith.ConstantOp, *_PACKED_ARITHMETIC, *_PACKED_INTRINSICS)
    name = FLOAT_NAMES[type(element)]
    return (
        all(value.type == element for value in values)
        and all(isinstance(inner, known) for inner in body)
        and (
            not any(isinstance(inner, math.FmaOp) for inner in body) or has(printer, f"fma_{name}")
        )
    )


def _print_map_of_pairs(printer: FunctionPrinter, op: FragmentMapOp) -> None:
    kind: Any = op.result.type
    layout, block = kind.layout, op.body.block
    vector = f"<2 x {_NATIVE_PAIRS[type(kind.element_type)]}>"
    splats: dict[SSAValue | tuple[SSAValue, int], str] = {}

    def splat(key: SSAValue | tuple[SSAValue, int], text: str) -> str:
        if key not in splats:
            word = _packed(printer, [text] * 2, kind)
            splats[key] = printer.let(f"bitcast i32 {word} to {vector}")
        return splats[key]

    inputs: list[tuple[SSAValue, Any, list[str], list[str]]] = []
    for one in op.inputs:
        of: Any = one.type
        is_row = of.layout.role == "row" != layout.role
        pairs = [printer.let(f"bitcast i32 {word} to {vector}") for word in registers(printer, one)]
        inputs.append((one, of, pairs, elements(printer, one) if is_row else []))
    words: list[str] = []
    for number in range(0, layout.elements, 2):
        place = layout.place(number)
        values: dict[SSAValue, str] = {}
        for argument, (one, of, pairs, texts) in zip(block.args, inputs, strict=True):
            if texts:
                row: int = place.of_row
                values[argument] = splat((one, row), texts[row])
            else:
                same = of.layout.role == layout.role
                values[argument] = pairs[(number if same else place.of_column) // 2]

        def pair(value: SSAValue, values: dict[SSAValue, str] = values) -> str:
            return values[value] if value in values else splat(value, printer.values[value])

        for inner in block.ops:
            if isinstance(inner, FragmentYieldOp):
                break
            if isinstance(inner, arith.ConstantOp):
                printer.print_operation(inner)
                continue
            printer.place(inner.location)
            given = [pair(operand) for operand in inner.operands]
            values[inner.results[0]] = _packed_operation(printer, inner, vector, given)
        word = pair(yielded(block))
        words.append(printer.let(f"bitcast {vector} {word} to i32"))
    define_registers(printer, op.result, words)


def _packed_operation(
    printer: FunctionPrinter, op: Operation, vector: str, operands: Sequence[str]
) -> str:
    """An operation of pairs."""
    name = _PACKED_INTRINSICS.get(type(op))
    if name is None:
        name = f"{_PACKED_ARITHMETIC[type(op)]}{flags_of(op)}"
        return printer.let(f"{name} {vector} {', '.join(operands)}")
    suffix = f".v2{'bf16' if 'bfloat' in vector else 'f16'}"
    callee = printer.module.intrinsic(name, suffix)
    listed = ", ".join(f"{vector} {operand}" for operand in operands)
    return printer.let(f"call {vector} {callee}({listed})")


def _narrowed(printer: FunctionPrinter, op: FragmentMapOp | FragmentLoadOp) -> list[SSAValue]:
    """The floats that end a function by a conversion to small ones, if the machine converts pairs."""
    kind = type(yielded(op.body.block).type)
    if kind not in _NATIVE_PAIRS and not (kind in _BYTE_PAIRS and has(printer, "cvt_f8")):
        return []
    found: list[SSAValue] = []
    for value in all_yielded(op.body.block):
        last = value.owner
        if not isinstance(last, arith.TruncFOp) or last.parent is not op.body.block:
            return []
        if not isinstance(last.operands[0].type, Float32Type):
            return []
        found.append(last.operands[0])
    return found


def _pairs(printer: FunctionPrinter, kind: Attribute, floats: Sequence[str]) -> list[str]:
    """Registers of small floats, rounded from `floats` two at a time."""
    bytes_pair = _BYTE_PAIRS.get(type(kind))
    texts = [*floats, *["0.0"] * (-len(floats) % (4 if bytes_pair else 2))]
    words: list[str] = []
    for low, high in zip(texts[::2], texts[1::2], strict=True):
        if bytes_pair is None:
            native = _NATIVE_PAIRS[type(kind)]
            pair = printer.let(f"insertelement <2 x float> poison, float {low}, i32 0")
            pair = printer.let(f"insertelement <2 x float> {pair}, float {high}, i32 1")
            pair = printer.let(f"fptrunc <2 x float> {pair} to <2 x {native}>")
            words.append(printer.let(f"bitcast <2 x {native}> {pair} to i32"))
            continue
        callee = printer.module.intrinsic(f"llvm.nvvm.ff.to.{bytes_pair}.rn")
        half = printer.let(f"call i16 {callee}(float {high}, float {low})")
        words.append(printer.let(f"zext i16 {half} to i32"))
    if bytes_pair is None:
        return words
    joined: list[str] = []
    for low, high in zip(words[::2], words[1::2], strict=True):
        moved = printer.let(f"shl i32 {high}, 16")
        joined.append(printer.let(f"or i32 {low}, {moved}"))
    return joined


FRAGMENTS: Final[dict[type[Operation], Callable[[FunctionPrinter, Any], None]]] = {
    **fragment_rows(elements, define_elements, _words, _define_words),
    FragmentBitcastOp: _print_bitcast,
    FragmentFillOp: _print_fill,
    FragmentPartOp: _print_part,
    FragmentMapOp: print_map,
}
