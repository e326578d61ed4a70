# SPDX-License-Identifier: Apache-2.0
"""A warp's tensor cores on NVIDIA's GPUs.

In: the operations of dialects/nvgpu/mma. Out: `mma.sync` and `ldmatrix`, one of each for a tile of the instruction's
size.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from weft.backends.cuda.lowering.convergent import has, require
from weft.backends.cuda.lowering.fragment import define_registers, registers
from weft.backends.cuda.lowering.lane_rows import LaneRows
from weft.backends.cuda.units import OPERANDS
from weft.codegen.llvm.types import FLOAT_NAMES, fragment_registers
from weft.dialects.nvgpu.mma import LoadMatrixOp, MmaOp
from weft.types.dtype_info import INFO

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from xdsl.ir import Attribute, Operation

    from weft.codegen.llvm.function_printer import FunctionPrinter

_LETTERS: Final = {"float": "f", "double": "d", "i32": "r"}


def _print_mma(printer: FunctionPrinter, op: MmaOp) -> None:
    kinds = op.kinds.data.split()
    if kinds[0].startswith("f8"):
        require(printer, op, "mma_f8", f"weft.mma.mma of {kinds[0]}")
    require(printer, op, "mma", "weft.mma.mma")
    types: Any = [value.type for value in op.operands]
    a, b, sums = (registers(printer, value) for value in op.operands)
    (rows, depth), (_, columns), _ = (kind.dims for kind in types)
    blocks = depth // (4 * types[0].layout.pack)
    text = fragment_registers(types[2])[0]
    instruction = _Instruction(printer, kinds, types[2], text)
    own = len(sums) // (rows // 16 * (columns // 8))
    for block in range(0, blocks, 2):
        for down in range(rows // 16):
            first = (down * blocks + block) * 2
            for across in range(columns // 8):
                other = across * blocks + block
                place = (down * (columns // 8) + across) * own
                sums[place : place + own] = instruction.print(
                    a[first : first + 4], b[other : other + 2], sums[place : place + own]
                )
    define_registers(printer, op.result, sums)


class _Instruction:
    """One tile of 16 rows, 8 columns and two blocks of K."""

    def __init__(
        self, printer: FunctionPrinter, kinds: Sequence[str], sums: Any, text: str
    ) -> None:
        self.printer, self.text = printer, text
        name = FLOAT_NAMES.get(type(cast("Attribute", sums.element_type)), "i32")
        self.sums = INFO[name].ptx
        self.a, self.b = (OPERANDS[kind] for kind in kinds)
        self.size = INFO[kinds[0]].storage_bytes(1)
        self.emulates = self.a[0] == "e" and has(printer, "mma_f8_as_f16")

    def print(self, a: Sequence[str], b: Sequence[str], sums: Sequence[str]) -> list[str]:
        """The sums' registers after it."""
        if self.size == 8:
            # The smallest instruction has 8 rows and 4 steps along K.
            halves = list(sums)
            for step in range(2):
                for half in range(2):
                    own = self._emit(
                        "m8n8k4", (a[2 * step + half],), (b[step],), halves[2 * half : 2 * half + 2]
                    )
                    halves[2 * half : 2 * half + 2] = own
            return halves
        if self.emulates:
            return self._as_f16(a, b, sums)
        return self._emit(f"m16n8k{32 // self.size}", a, b, sums)

    def _as_f16(self, a: Sequence[str], b: Sequence[str], sums: Sequence[str]) -> list[str]:
        """Two products of f16, which this machine makes of one of 8-bit floats.

        Both operands' steps along K come in the same order, whichever that is.
        """
        found = list(sums)
        for step in range(2):
            lows, highs = zip(
                *(self._halves(word, self.a) for word in a[2 * step : 2 * step + 2]), strict=True
            )
            low, high = self._halves(b[step], self.b)
            found = self._emit("m16n8k16", (*lows, *highs), (low, high), found, "f16", "f16")
        return found

    def _halves(self, word: str, kind: str) -> tuple[str, str]:
        printer = self.printer
        callee = printer.module.intrinsic(f"llvm.nvvm.{kind}x2.to.f16x2.rn")
        upper = printer.let(f"lshr i32 {word}, 16")
        found: list[str] = []
        for part in (word, upper):
            narrow = printer.let(f"trunc i32 {part} to i16")
            pair = printer.let(f"call <2 x half> {callee}(i16 {narrow})")
            found.append(printer.let(f"bitcast <2 x half> {pair} to i32"))
        return found[0], found[1]

    def _emit(
        self,
        shape: str,
        a: Sequence[str],
        b: Sequence[str],
        sums: Sequence[str],
        kind_a: str = "",
        kind_b: str = "",
    ) -> list[str]:
        printer, text = self.printer, self.text
        operand = "double" if self.size == 8 else "float" if self.a == "tf32" else "i32"
        letter = {"double": "d", "float": "r"}.get(operand, "r")
        if operand == "float":
            a = [printer.let(f"bitcast float {one} to i32") for one in a]
            b = [printer.let(f"bitcast float {one} to i32") for one in b]
            operand = "i32"
        groups = (len(sums), len(a), len(b), len(sums))
        listed: list[str] = []
        number = 0
        for count in groups:
            listed.append(f"{{{', '.join(f'${number + place}' for place in range(count))}}}")
            number += count
        types = f"{self.sums}.{kind_a or self.a}.{kind_b or self.b}.{self.sums}"
        constraints = ",".join(
            [f"={_LETTERS[text]}"] * groups[0]
            + [letter] * (groups[1] + groups[2])
            + [_LETTERS[text]] * groups[3]
        )
        values = [f"{operand} {one}" for one in (*a, *b)] + [f"{text} {one}" for one in sums]
        result = f"{{ {', '.join([text] * groups[0])} }}"
        whole = printer.let(
            f'call {result} asm "mma.sync.aligned.{shape}.row.col.{types} {", ".join(listed)};", '
            f'"{constraints}"({", ".join(values)}) convergent nounwind memory(none)',
            "product",
        )
        return [
            printer.let(f"extractvalue {result} {whole}, {place}") for place in range(groups[0])
        ]


def _print_load_matrix(printer: FunctionPrinter, op: LoadMatrixOp) -> None:
    require(printer, op, "ldmatrix", "weft.mma.load_a")
    kind: Any = op.result.type
    layout = kind.layout
    origins = [(run.row, run.column) for run in layout.runs]
    stored_rows = 0 if (layout.role == "a") != (op.transposed is not None) else 1
    rows = LaneRows(printer, op.tensor, stored_rows)
    text = fragment_registers(kind)[0]
    found: list[str] = []
    while len(found) < len(origins):
        rest = origins[len(found) :]
        words = _load(printer, rows, rest[: rows.group(rest)], op)
        found += [
            printer.let(f"bitcast i32 {word} to {text}") if text == "float" else word
            for word in words
        ]
    define_registers(printer, op.result, found)


def _load(
    printer: FunctionPrinter, rows: LaneRows, places: Sequence[tuple[int, int]], op: LoadMatrixOp
) -> list[str]:
    """A register of each matrix."""
    count = len(places)
    suffix = ".trans" if op.transposed is not None else ""
    name = f"llvm.nvvm.ldmatrix.sync.aligned.m8n8.x{count}{suffix}.b16"
    callee = printer.module.intrinsic(name, ".p3")
    result = f"{{ {', '.join(['i32'] * count)} }}" if count > 1 else "i32"
    pointer = rows.address(places)
    whole = printer.let(f"call {result} {callee}(ptr addrspace(3) {pointer}) convergent")
    if count == 1:
        return [whole]
    return [printer.let(f"extractvalue {result} {whole}, {place}") for place in range(count)]


MMA: Final[dict[type[Operation], Callable[[FunctionPrinter, Any], None]]] = {
    LoadMatrixOp: _print_load_matrix,
    MmaOp: _print_mma,
}
