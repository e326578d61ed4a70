# SPDX-License-Identifier: Apache-2.0
"""Products of a warpgroup as `wgmma`: one piece of assembly for each group and each wait.

In: the operations of dialects/nvgpu/wgmma. Out: calls of `asm sideeffect` with the fragments' registers tied, so that
they stay where they are; descriptors made from linear addresses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from weft.backends.cuda.lowering.convergent import require
from weft.backends.cuda.lowering.fragment import define_registers, registers
from weft.backends.cuda.units import OPERANDS
from weft.codegen.llvm.types import fragment_registers
from weft.dialects.builder import constant_integer
from weft.dialects.nvgpu.mma import ROWS, WgmmaAccumulatorOp, WgmmaMmaOp, WgmmaWaitOp
from weft.dialects.simt.fragment import FragmentMapOp, FragmentType
from weft.types.dtype_info import INFO

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from xdsl.ir import Operation, SSAValue

    from weft.codegen.llvm.function_printer import FunctionPrinter

_HINT: Final = "weft.mma multiplies on all from sm_80 on"
_UNIT: Final = 16  # bytes, of addresses and distances in descriptors
_STEP_BYTES: Final = 32  # of one instruction along K
_REGISTERS_OF_STEP: Final = 4  # of A
_LETTERS: Final = {"float": "f", "i32": "r"}
# Bytes of a swizzle → its code in a descriptor's highest bits.
_SWIZZLES: Final = {128: 1, 64: 2, 32: 3}
_WINDOW: Final = 0x3FFF  # of an address; higher bits say which block of a cluster


class _Tile(NamedTuple):
    """A tile as descriptors describe it; distances in units of 16 bytes.

    Attributes:
        lower: of each descriptor's lower half, but for the address.
        upper: the upper half.
        across: distance of rows or columns of the product, of 8 at least, from the first.
        along: distance of steps along K.
        is_major: whether the product's rows or columns are adjacent in memory, and not K's elements.
    """

    lower: int
    upper: int
    across: Callable[[int], int]
    along: Callable[[int], int]
    is_major: bool


def _tile(value: SSAValue, step: int, *, is_b: bool) -> _Tile:
    """How a tile's descriptors are made; `step` is the number of an instruction's terms along K."""
    kind: Any = value.type
    size, swizzle = kind.element_type.size, kind.panels
    row = swizzle.row_bytes.data
    panel = swizzle.panel_stride.data * size // _UNIT

    def of_column(column: int) -> int:
        panels, inside = divmod(column * size, row)
        return panels * panel + inside // _UNIT

    def of_row(number: int) -> int:
        return number * row // _UNIT

    is_major = bool(swizzle.is_transposed.data) != is_b
    # A group of 8 rows, whatever they are; if the columns are the product's, from one panel to the next.
    upper = 8 * row // _UNIT | _SWIZZLES[row] << 30
    lower = (panel if is_major else 1) << 16
    across, along = (of_column, of_row) if is_major else (of_row, of_column)

    def of_step(number: int) -> int:
        return along(number * step)

    return _Tile(lower, upper, across, of_step, is_major)


def _print_accumulator(printer: FunctionPrinter, op: WgmmaAccumulatorOp) -> None:
    parts = printer.fragment_parts(op.result.type)
    printer.fragments[op.result] = ["poison"] * len(parts)


def _print_mma(printer: FunctionPrinter, op: WgmmaMmaOp) -> None:
    require(printer, op, "wgmma", "weft.wgmma.mma", _HINT)
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
    """The wait for this product alone that directly follows: one piece of assembly for both takes LLVM less time."""
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
        """Adds the products; `a` and `b` number the operands that have the first descriptors or A's registers."""
        kind: Any = op.result.type
        rows, columns = kind.dims
        elements, of_fragment = op.elements, isinstance(op.a.type, FragmentType)
        b_tile = _tile(op.b, elements.step, is_b=True)
        a_tile = None if of_fragment else _tile(op.a, elements.step, is_b=False)
        steps = op.terms // elements.step
        flags = ", 1, 1" if elements.sums == "f32" else ""
        if elements.bits == 16:
            flags += "".join(f", {int(tile.is_major)}" for tile in (a_tile, b_tile) if tile)
        types = ".".join((INFO[elements.sums].ptx, *(OPERANDS[name] for name in op.names)))
        for step in range(steps):
            for begin, width in _widths(columns, elements.sums):
                right = self._descriptor(b, b_tile, b_tile.along(step) + b_tile.across(begin))
                for block in range(rows // ROWS):
                    if a_tile is None:
                        place = a + (block * steps + step) * _REGISTERS_OF_STEP
                        left = f"{{{_listed(place, _REGISTERS_OF_STEP)}}}"
                    else:
                        offset = a_tile.along(step) + a_tile.across(ROWS * block)
                        left = self._descriptor(a, a_tile, offset)
                    sums = _listed(block * columns // 2 + begin // 2, width // 2)
                    self.lines.append(
                        f"wgmma.mma_async.sync.aligned.m64n{width}k{elements.step}.{types} {{{sums}}}, {left}, "
                        f"{right}, {'1' if step else scale}{flags};"
                    )

    def _descriptor(self, first: int, tile: _Tile, offset: int) -> str:
        """A descriptor at a distance from the first one."""
        # In a register of its own: of products that read one register, ptxas (13.0) drops some, whatever it held.
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
    if sums == "f32" or columns <= 24 or columns % 16 == 0:
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


def _print_wait(printer: FunctionPrinter, op: WgmmaWaitOp) -> None:
    require(printer, op, "wgmma", "weft.wgmma.wait", _HINT)
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
    """Keeps what is computed while products run before the wait for them.

    ptxas moves a wait up over everything that does not need its results, and would wait first. It moves none of it into
    another basic block: so a branch ends the block, which is never taken, but ptxas cannot know that. LLVM and ptxas
    move down what is used after the wait only; so the way that is never taken uses it, too.
    """
    size = printer.let('call i32 asm "mov.u32 $0, %dynamic_smem_size;", "=r"()')
    never, wait = printer.new_label("never"), printer.new_label("wait")
    printer.branch_if(printer.let(f"icmp eq i32 {size}, -1"), never, wait)
    printer.start(never)
    values = _used_later(printer, op)
    joined = "".join(f"mov.b32 y, ${n}; xor.b32 x, x, y; " for n in range(len(values)))
    letters = ",".join(_LETTERS[text] for text, _ in values)
    listed = ", ".join(f"{text} {register}" for text, register in values)
    body = f"{{ .reg .b32 x, y; mov.b32 x, 1; {joined}nanosleep.u32 x; }}"
    printer.line(f'call void asm sideeffect "{body}", "{letters}"({listed})')
    printer.branch(wait)
    printer.start(wait)


def _used_later(printer: FunctionPrinter, op: WgmmaWaitOp) -> list[tuple[str, str]]:
    """Registers, and their types, of fragments computed since the last product that only what follows the wait uses."""
    found: list[tuple[str, str]] = []
    passed: set[Operation] = set()
    before = op.prev_op
    while before is not None and not isinstance(before, WgmmaMmaOp | WgmmaWaitOp):
        if isinstance(before, FragmentMapOp):
            result: Any = before.results[0]
            text = fragment_registers(result.type)[0]
            is_used = any(use.operation in passed for use in result.uses)
            if text in _LETTERS and not is_used:
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
    constraints = [f"={_LETTERS[one]}" for one in outputs] + [one for _, one in inputs]
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
    WgmmaMmaOp: _print_mma,
    WgmmaWaitOp: _print_wait,
}
