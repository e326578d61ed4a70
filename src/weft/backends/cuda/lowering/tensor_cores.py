# SPDX-License-Identifier: Apache-2.0
"""Tensor cores on NVIDIA's GPUs: `mma.sync` for a warp, `wgmma` for a warpgroup, and operations of a warpgroup.

In: operations of MMAs and warpgroups. Out: `mma.sync` and `ldmatrix`, one of each for a tile of the instruction's
size; one `asm sideeffect` for each group of `wgmma` and each wait, with the fragments' registers tied, so that they
stay where they are; descriptors made from linear addresses. Warpgroups: a shuffle, which makes a number uniform;
`elect.sync`; a named barrier for each, the last eight of a block's sixteen; `setmaxnreg`, with the share that a launch
gives each thread as the kernel's limit, without which ptxas ignores the instruction.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from weft.backends.cuda.fast_math import OPERANDS
from weft.backends.cuda.lowering.convergent import call_convergent, has
from weft.backends.cuda.lowering.fragment_memory import LaneRows
from weft.backends.cuda.lowering.fragments import define_registers, registers
from weft.codegen.gpu import thread_number
from weft.codegen.llvm.types import FLOAT_NAMES, fragment_registers
from weft.codegen.operations.registers import register_share
from weft.dialects.builder import constant_integer
from weft.dialects.nvgpu.mma import (
    ROWS,
    LoadMatrixOp,
    MmaOp,
    WgmmaAccumulatorOp,
    WgmmaMmaOp,
    WgmmaWaitOp,
)
from weft.dialects.nvgpu.threads import ElectOneOp, SetmaxnregOp, WarpgroupBarrierOp, WarpgroupIdOp
from weft.dialects.simt.fragment import FragmentMapOp, FragmentType
from weft.dialects.simt.kernel import kernel_of
from weft.types.dtype import INFO
from weft.types.launch_limits import WARP_SIZE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from xdsl.ir import Attribute, Operation, SSAValue

    from weft.codegen.llvm.function_printer import FunctionPrinter


_MMA_LETTERS: Final = {"float": "f", "double": "d", "i32": "r"}


def _print_mma(printer: FunctionPrinter, op: MmaOp) -> None:
    kinds = op.kinds.data.split()
    operands = (op.a, op.b, op.c)
    types: Any = [value.type for value in operands]
    a, b, sums = (registers(printer, value) for value in operands)
    (rows, depth), (_, columns), _ = (kind.dims for kind in types)
    blocks = depth // (4 * types[0].layout.pack)
    sparse = 2 if op.metadata else 1
    words = len(op.metadata) // (rows // 16)
    text = fragment_registers(types[2])[0]
    instruction = _Instruction(printer, kinds, types[2], text)
    own = len(sums) // (rows // 16 * (columns // 8))
    for block in range(0, blocks, 2):
        for down in range(rows // 16):
            first = (down * blocks + block) * 2
            metadata = None
            if op.metadata:
                # Of 16 and 32 bits two lanes of four have an instruction's, which the selector names.
                number, selector = (
                    divmod(block // 2, 2) if instruction.size > 1 else (block // 2, 0)
                )
                metadata = printer.values[op.metadata[down * words + number]], selector
            for across in range(columns // 8):
                other = sparse * (across * blocks + block)
                place = (down * (columns // 8) + across) * own
                sums[place : place + own] = instruction.print(
                    a[first : first + 4],
                    b[other : other + 2 * sparse],
                    sums[place : place + own],
                    metadata,
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

    def print(
        self,
        a: Sequence[str],
        b: Sequence[str],
        sums: Sequence[str],
        metadata: tuple[str, int] | None = None,
    ) -> list[str]:
        """The sums' registers after it; `metadata` of a sparse A is the register and the selector of its lanes."""
        if metadata is not None:
            return self._emit(f"m16n8k{64 // self.size}", a, b, sums, metadata=metadata)
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
        """Two mma of f16, which this machine makes of one of 8-bit floats.

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
        metadata: tuple[str, int] | None = None,
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
            [f"={_MMA_LETTERS[text]}"] * groups[0]
            + [letter] * (groups[1] + groups[2])
            + [_MMA_LETTERS[text]] * groups[3]
        )
        values = [f"{operand} {one}" for one in (*a, *b)] + [f"{text} {one}" for one in sums]
        name = "mma"
        if metadata is not None:
            name = "mma.sp::ordered_metadata"
            values.append(f"i32 {metadata[0]}")
            constraints += ",r"
            listed += [f"${number}", str(metadata[1])]
        result = f"{{ {', '.join([text] * groups[0])} }}"
        whole = printer.let(
            f'call {result} asm "{name}.sync.aligned.{shape}.row.col.{types} {", ".join(listed)};", '
            f'"{constraints}"({", ".join(values)}) convergent nounwind memory(none)',
            "mma",
        )
        return [
            printer.let(f"extractvalue {result} {whole}, {place}") for place in range(groups[0])
        ]


def _print_load_matrix(printer: FunctionPrinter, op: LoadMatrixOp) -> None:
    kind: Any = op.result.type
    layout = kind.layout
    if op.transposed is not None and layout.itemsize == 1:
        _print_load_transposed_bytes(printer, op)
        return
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


def _print_load_transposed_bytes(printer: FunctionPrinter, op: LoadMatrixOp) -> None:
    """Squares of 16 rows along K and 16 bytes, as `ldmatrix.trans` reads pairs of bytes.

    Of the rows 4t to 4t + 3 of a square, matrix 0 has two and matrix 1 two, so that a lane gets four adjacent elements
    along K of two columns 2g and 2g + 1. The lanes that hold columns g and g + 8 in the fragment get them by two
    shuffles.
    """
    kind: Any = op.result.type
    layout = kind.layout
    is_a = layout.role == "a"
    rows = LaneRows(printer, op.tensor, stored_rows=1 if is_a else 0)
    callee = printer.module.intrinsic("llvm.nvvm.read.ptx.sreg.laneid")
    lane = printer.let(f"call i32 {callee}()", "lane")

    def bits(text: str, mask: int, left: int = 0, right: int = 0) -> str:
        found = printer.let(f"and i32 {text}, {mask}")
        found = printer.let(f"shl i32 {found}, {left}") if left else found
        return printer.let(f"lshr i32 {found}, {right}") if right else found

    def joined(*parts: str) -> str:
        return functools.reduce(lambda one, two: printer.let(f"or i32 {one}, {two}"), parts)

    rows.row = joined(bits(lane, 6, left=1), bits(lane, 1), bits(lane, 8, right=2))
    is_odd, is_upper = (
        printer.let(f"icmp ne i32 {bits(lane, mask)}, 0") for mask in (4, 16)
    )  # of the lane's group g
    half = joined(bits(lane, 24, right=1), bits(lane, 3))  # 4 (g / 2) + t
    source = joined(half, bits(lane, 4, left=2))
    other = printer.let(f"xor i32 {source}, 16")

    def select(condition: str, one: str, two: str) -> str:
        return printer.let(f"select i1 {condition}, i32 {one}, i32 {two}")

    def shuffled(text: str, lane: str) -> str:
        arguments = "i32 -1", f"i32 {text}", f"i32 {lane}", f"i32 {WARP_SIZE - 1}"
        return call_convergent(printer, "i32", "shfl.sync.idx.i32", *arguments)

    def bytes_of(low: str, high: str, selector: int) -> str:
        """Bytes of two words, by `prmt`."""
        return printer.let(
            f'call i32 asm "prmt.b32 $0, $1, $2, {selector};", "=r,r,r"(i32 {low}, i32 {high}) '
            "nounwind memory(none)"
        )

    numbers = {(run.row, run.column): number for number, run in enumerate(layout.runs)}
    squares = [place for place in numbers if not (place[0] % 16 if is_a else place[1] % 16)]
    found = [""] * len(numbers)
    while squares:
        doubled = [place for place in squares[:2] for _ in range(2)]
        count = rows.group(doubled)
        words = _load(printer, rows, doubled[:count], op)
        for square, low, high in zip(squares, words[::2], words[1::2], strict=False):
            even, odd = bytes_of(low, high, 0x6420), bytes_of(low, high, 0x7531)
            first = shuffled(select(is_upper, odd, even), source)
            second = shuffled(select(is_upper, even, odd), other)
            row, column = square
            further = (row + 8, column) if is_a else (row, column + 8)
            found[numbers[square]] = select(is_odd, second, first)
            found[numbers[further]] = select(is_odd, first, second)
        squares = squares[count // 2 :]
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


_UNIT: Final = 16  # bytes, of addresses and distances in descriptors
_STEP_BYTES: Final = 32  # of one instruction along K
_REGISTERS_OF_STEP: Final = 4  # of A
_WGMMA_LETTERS: Final = {"float": "f", "i32": "r"}
# Bytes of a swizzle → its code in a descriptor's highest bits.
_SWIZZLES: Final = {128: 1, 64: 2, 32: 3}
_WINDOW: Final = 0x3FFF  # of an address; higher bits say which block of a cluster


class _Tile(NamedTuple):
    """A tile as descriptors describe it; distances in units of 16 bytes.

    Attributes:
        lower: of each descriptor's lower half, but for the address.
        upper: the upper half.
        across: distance of rows or columns of the result, of 8 at least, from the first.
        along: distance of steps along K.
        is_major: whether the result's rows or columns are adjacent in memory, and not K's elements.
    """

    lower: int
    upper: int
    across: Callable[[int], int]
    along: Callable[[int], int]
    is_major: bool


def _tile(value: SSAValue, step: int, *, is_b: bool) -> _Tile:
    """Construction of a tile's descriptors; `step` is the number of an instruction's terms along K."""
    kind: Any = value.type
    size, swizzle = kind.element_type.size, kind.swizzle_atoms
    row = swizzle.row_bytes.data
    atom = swizzle.atom_stride.data * size // _UNIT

    def of_column(column: int) -> int:
        atoms, inside = divmod(column * size, row)
        return atoms * atom + inside // _UNIT

    def of_row(number: int) -> int:
        return number * row // _UNIT

    is_major = bool(swizzle.is_transposed.data) != is_b
    # A group of 8 rows, whatever they are; if the columns are the result's, from one column of atoms to the next.
    upper = 8 * row // _UNIT | _SWIZZLES[row] << 30
    lower = (atom if is_major else 1) << 16
    across, along = (of_column, of_row) if is_major else (of_row, of_column)

    def of_step(number: int) -> int:
        return along(number * step)

    return _Tile(lower, upper, across, of_step, is_major)


def _print_accumulator(printer: FunctionPrinter, op: WgmmaAccumulatorOp) -> None:
    parts = printer.fragment_parts(op.result.type)
    printer.fragments[op.result] = ["poison"] * len(parts)


def _print_wgmma(printer: FunctionPrinter, op: WgmmaMmaOp) -> None:
    kind: Any = op.result.type
    text, count = fragment_registers(kind)
    sums = registers(printer, op.acc) if op.acc is not None else ["poison"] * count
    inputs = [(f"{text} {one}", str(number)) for number, one in enumerate(sums)]
    first_of_a = 2 * count
    if isinstance(op.a.type, FragmentType):
        inputs += [(f"i32 {one}", "r") for one in _bits(printer, op.a)]
    else:
        inputs.append((_first_descriptor(printer, op.a, op, is_b=False), "r"))
    b = count + len(inputs)
    inputs.append((_first_descriptor(printer, op.b, op, is_b=True), "r"))
    scale = _scale(op)
    group = _Group()
    if scale == "p":
        assert op.accumulate is not None
        flag = printer.let(f"zext i1 {printer.values[op.accumulate]} to i32")
        group.lines.append(f"setp.ne.b32 p, ${count + len(inputs)}, 0;")
        inputs.append((f"i32 {flag}", "r"))
    group.add_instructions(op, first_of_a, b, scale)
    body = group.text()
    if (wait := _wait_of(op)) is not None:
        body = f"{body} {_wait_text(wait)}"
    define_registers(printer, op.result, _asm(printer, [text] * count, body, inputs))


def _wait_of(op: Operation | None) -> WgmmaWaitOp | None:
    """The wait for this MMA alone that directly follows: one piece of assembly for both takes LLVM less time."""
    if not isinstance(op, WgmmaMmaOp):
        return None
    wait = op.next_op
    return wait if isinstance(wait, WgmmaWaitOp) and [*wait.fragments] == [op.result] else None


def _wait_text(op: WgmmaWaitOp) -> str:
    return f"wgmma.wait_group.sync.aligned {op.pending.value.data};"


def _scale(op: WgmmaMmaOp) -> str:
    """Whether the first step adds to the sums: `1`, `0`, or the predicate `p`."""
    if op.acc is None:
        return "0"
    known = 1 if op.accumulate is None else constant_integer(op.accumulate)
    return "p" if known is None else str(int(known != 0))


class _Group:
    """The text of one group.

    Attributes:
        lines: its instructions, but for the first and the last one.
    """

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._descriptors = 0

    def text(self) -> str:
        """All of it."""
        registers = (
            f".reg .pred p; .reg .b32 l<{self._descriptors}>; .reg .b64 d<{self._descriptors}>;"
        )
        body = " ".join(self.lines)
        return (
            f"{{ {registers} wgmma.fence.sync.aligned; {body} wgmma.commit_group.sync.aligned; }}"
        )

    def add_instructions(self, op: WgmmaMmaOp, a: int, b: int, scale: str) -> None:
        """Prints the instructions; `a` and `b` number the operands that have the first descriptors or A's registers."""
        kind: Any = op.result.type
        rows, columns = kind.dims
        elements, of_fragment = op.elements, isinstance(op.a.type, FragmentType)
        b_tile = _tile(op.b, elements.step, is_b=True)
        a_tile = None if of_fragment else _tile(op.a, elements.step, is_b=False)
        steps = op.terms // elements.step
        flags = "" if op.sums == "i32" else ", 1, 1"
        if elements.bits == 16:
            flags += "".join(f", {int(tile.is_major)}" for tile in (a_tile, b_tile) if tile)
        types = ".".join((INFO[op.sums].ptx, *(OPERANDS[name] for name in op.names)))
        held = 4 // INFO[op.sums].storage_bytes(1)  # sums in a register
        for step in range(steps):
            for begin, width in _widths(columns, op.sums):
                right = self._descriptor(b, b_tile, b_tile.along(step) + b_tile.across(begin))
                for block in range(rows // ROWS):
                    if a_tile is None:
                        place = a + (block * steps + step) * _REGISTERS_OF_STEP
                        left = f"{{{_listed(place, _REGISTERS_OF_STEP)}}}"
                    else:
                        offset = a_tile.along(step) + a_tile.across(ROWS * block)
                        left = self._descriptor(a, a_tile, offset)
                    sums = _listed((block * columns + begin) // 2 // held, width // 2 // held)
                    self.lines.append(
                        f"wgmma.mma_async.sync.aligned.m64n{width}k{elements.step}.{types} {{{sums}}}, {left}, "
                        f"{right}, {'1' if step else scale}{flags};"
                    )

    def _descriptor(self, first: int, tile: _Tile, offset: int) -> str:
        """A descriptor at a distance from the first one."""
        # In a register of its own: of MMAs that read one register, ptxas (13.0) drops some, whatever it held.
        number = self._descriptors
        self._descriptors += 1
        lower = f"${first}"
        if offset:
            self.lines.append(f"add.s32 l{number}, ${first}, {offset};")
            lower = f"l{number}"
        self.lines.append(f"mov.b64 d{number}, {{{lower}, {tile.upper}}};")
        return f"d{number}"


def _listed(first: int, count: int) -> str:
    return ", ".join(f"${first + number}" for number in range(count))


def _widths(columns: int, sums: str) -> list[tuple[int, int]]:
    """First column and number of columns of the instructions: of integers, few odd multiples of 8 exist."""
    if sums != "i32" or columns <= 24 or columns % 16 == 0:
        return [(0, columns)]
    return [(0, columns - 8), (columns - 8, 8)]


def _first_descriptor(
    printer: FunctionPrinter, value: SSAValue, op: WgmmaMmaOp, *, is_b: bool
) -> str:
    """The lower half of a tile's first descriptor."""
    pointer = f"{printer.module.target.pointer('shared')} {printer.tensors[value].pointer}"
    address = printer.let(f"ptrtoint {pointer} to i32", "address")
    units = printer.let(f"lshr i32 {address}, 4")
    inside = printer.let(f"and i32 {units}, {_WINDOW}")
    lower = _tile(value, op.elements.step, is_b=is_b).lower
    return f"i32 {printer.let(f'or disjoint i32 {inside}, {lower}', 'descriptor')}"


def _bits(printer: FunctionPrinter, fragment: SSAValue) -> list[str]:
    """A fragment's registers as integers."""
    assert isinstance(fragment.type, FragmentType)
    text = fragment_registers(fragment.type)[0]
    found = registers(printer, fragment)
    return (
        found if text == "i32" else [printer.let(f"bitcast {text} {one} to i32") for one in found]
    )


def _print_wgmma_wait(printer: FunctionPrinter, op: WgmmaWaitOp) -> None:
    if _wait_of(op.prev_op) is op:
        define_registers(printer, op.outputs[0], registers(printer, op.fragments[0]))
        return
    kinds: list[Any] = [one.type for one in op.fragments]
    texts = [
        text for kind in kinds for text, count in [fragment_registers(kind)] for _ in range(count)
    ]
    given = [one for fragment in op.fragments for one in registers(printer, fragment)]
    inputs = [
        (f"{text} {one}", str(number))
        for number, (text, one) in enumerate(zip(texts, given, strict=True))
    ]
    if not isinstance(op.prev_op, WgmmaMmaOp | WgmmaWaitOp):
        _work_first(printer, op)
    printer.take(op.outputs, _asm(printer, texts, _wait_text(op), inputs))


def _work_first(printer: FunctionPrinter, op: WgmmaWaitOp) -> None:
    """Keeps code between MMAs and their wait before that wait.

    ptxas moves a wait up over everything that does not need its results, and would wait first. It moves none of it into
    another basic block: so a branch ends the block, which is never taken, but ptxas cannot know that. LLVM and ptxas
    sink values that are only used after the wait; so the branch that is never taken uses them, too.
    """
    size = printer.let('call i32 asm "mov.u32 $0, %dynamic_smem_size;", "=r"()')
    never, wait = printer.new_label("never"), printer.new_label("wait")
    printer.branch_if(printer.let(f"icmp eq i32 {size}, -1"), never, wait)
    printer.start(never)
    values = _used_later(printer, op)
    joined = "".join(f"mov.b32 y, ${n}; xor.b32 x, x, y; " for n in range(len(values)))
    letters = ",".join(_WGMMA_LETTERS[text] for text, _ in values)
    listed = ", ".join(f"{text} {register}" for text, register in values)
    body = f"{{ .reg .b32 x, y; mov.b32 x, 1; {joined}nanosleep.u32 x; }}"
    printer.line(f'call void asm sideeffect "{body}", "{letters}"({listed})')
    printer.branch(wait)
    printer.start(wait)


def _used_later(printer: FunctionPrinter, op: WgmmaWaitOp) -> list[tuple[str, str]]:
    """Registers, and their types, of fragments computed since the last MMA and used only after the wait."""
    found: list[tuple[str, str]] = []
    passed: set[Operation] = set()
    before = op.prev_op
    while before is not None and not isinstance(before, WgmmaMmaOp | WgmmaWaitOp):
        if isinstance(before, FragmentMapOp):
            result: Any = before.results[0]
            text = fragment_registers(result.type)[0]
            is_used = any(use.operation in passed for use in result.uses)
            if text in _WGMMA_LETTERS and not is_used:
                found += [(text, register) for register in registers(printer, result)]
        passed.add(before)
        before = before.prev_op
    return found


def _asm(
    printer: FunctionPrinter,
    outputs: Sequence[str],
    text: str,
    inputs: Sequence[tuple[str, str]],
) -> list[str]:
    """Prints assembly that threads execute together; each input has its type and its constraint."""
    alike = len(set(outputs)) == 1
    literal = f"{{ {', '.join(outputs)} }}" if outputs else "void"
    result = printer.module.struct(outputs[0], len(outputs)) if alike else literal
    constraints = [f"={_WGMMA_LETTERS[one]}" for one in outputs] + [one for _, one in inputs]
    listed = ", ".join(one for one, _ in inputs)
    call = (
        f'call {result} asm sideeffect "{text}", "{",".join([*constraints, "~{memory}"])}"({listed}) '
        "convergent nounwind"
    )
    if not outputs:
        printer.line(call)
        return []
    sums = printer.let(call, "sums")
    return [
        printer.let(f"extractvalue {result} {sums}, {number}") for number in range(len(outputs))
    ]


WGMMA: Final[dict[type[Operation], Callable[[FunctionPrinter, Any], None]]] = {
    WgmmaAccumulatorOp: _print_accumulator,
    WgmmaMmaOp: _print_wgmma,
    WgmmaWaitOp: _print_wgmma_wait,
}


_SIZE: Final = 128
_FIRST_BARRIER: Final = 8


def _print_warpgroup_id(printer: FunctionPrinter, op: WarpgroupIdOp) -> None:
    own = printer.let(f"lshr i32 {thread_number(printer)}, {_SIZE.bit_length() - 1}")
    arguments = "i32 -1", f"i32 {own}", "i32 0", f"i32 {WARP_SIZE - 1}"
    printer.values[op.result] = call_convergent(printer, "i32", "shfl.sync.idx.i32", *arguments)


def _print_warpgroup_barrier(printer: FunctionPrinter, op: WarpgroupBarrierOp) -> None:
    number = printer.let(f"add i32 {printer.values[op.warpgroup]}, {_FIRST_BARRIER}")
    arguments = f"i32 {number}", f"i32 {_SIZE}"
    call_convergent(printer, "void", "barrier.cta.sync.aligned.count", *arguments)


def _print_elect_one(printer: FunctionPrinter, op: ElectOneOp) -> None:
    if has(printer, "elect"):
        pair = call_convergent(printer, "{ i32, i1 }", "elect.sync", "i32 -1")
        printer.define(op.result, f"extractvalue {{ i32, i1 }} {pair}, 1")
    else:
        lane = printer.module.intrinsic("llvm.nvvm.read.ptx.sreg.laneid")
        printer.define(op.result, f"icmp eq i32 {printer.let(f'call i32 {lane}()')}, 0")


WARPGROUP: Final[dict[type[Operation], Callable[[FunctionPrinter, Any], None]]] = {
    WarpgroupIdOp: _print_warpgroup_id,
    WarpgroupBarrierOp: _print_warpgroup_barrier,
    ElectOneOp: _print_elect_one,
}


def _print_setmaxnreg(printer: FunctionPrinter, op: SetmaxnregOp) -> None:
    share = register_share(kernel_of(op))
    count = op.count.value.data
    direction = "inc" if share is not None and count > share else "dec"
    call_convergent(printer, "void", f"setmaxnreg.{direction}.sync.aligned.u32", f"i32 {count}")


REGISTERS: Final[dict[type[Operation], Callable[[FunctionPrinter, Any], None]]] = {
    SetmaxnregOp: _print_setmaxnreg,
}
