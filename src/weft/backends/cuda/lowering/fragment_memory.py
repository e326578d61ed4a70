# SPDX-License-Identifier: Apache-2.0
"""Fragments and memory on NVIDIA's GPUs: loads, stores and sums.

In: fragments, tensors. Out: LLVM text. A store is `stmatrix` into tiles of 16-bit elements, whose rows of 16 bytes, one
for each lane, are addressed in swizzled tiles too, as for `ldmatrix`; 16 bytes at a time into tensors, for which the
four threads that hold a row exchange elements; else each element by itself. Stores outside of a tensor are
predicated, so that the code stays one basic block.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from weft.backends.cuda.lowering.atomics import PACKED, red_add
from weft.backends.cuda.lowering.convergent import call_convergent, has
from weft.backends.cuda.lowering.fragments import define_registers, elements, print_map, registers
from weft.backends.cuda.lowering.inline_ptx import REGISTERS
from weft.codegen.llvm.types import (
    FLOAT_NAMES,
    fragment_registers,
    memory_type,
    plus,
    size_in_bytes,
    times,
    widened,
)
from weft.dialects.flow import walk
from weft.dialects.simt.fragment import (
    FragmentLoadOp,
    FragmentRedAddOp,
    FragmentStoreOp,
    FragmentType,
)
from weft.dialects.simt.kernel import CONSTANT
from weft.types.launch_limits import WARP_SIZE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from xdsl.ir import Operation, SSAValue

    from weft.codegen.llvm.function_printer import FunctionPrinter

_SHARED = "ptr addrspace(3)"


class _Distance(NamedTuple):
    """From one place of a tile to another: rows, as they are stored, and bytes besides."""

    rows: int
    bytes: int

    def minus(self, other: _Distance) -> _Distance:
        return _Distance(self.rows - other.rows, self.bytes - other.bytes)

    def plus(self, other: _Distance) -> _Distance:
        return _Distance(self.rows + other.rows, self.bytes + other.bytes)


class LaneRows:
    """The addresses of one tile.

    Args:
        printer: where they are computed.
        tile: a matrix in shared memory.
        stored_rows: the dimension along which its rows lie one after the other.
        first: further rows and columns, as they are stored, i32s, such as those of the warps before; or "0". Of
            columns the places that are asked for lie in the atom of a first column without a carry.
        own: the row and column, as they are stored, of a thread that moves its own elements instead of a row.
    """

    def __init__(
        self,
        printer: FunctionPrinter,
        tile: SSAValue,
        stored_rows: int,
        first: tuple[str, str] = ("0", "0"),
        own: tuple[str, str] | None = None,
    ) -> None:
        self.printer, self.stored_rows = printer, stored_rows
        self.first_row, self.first_column = first
        self.tensor = printer.tensor(tile)
        kind = self.tensor.type
        self.size = size_in_bytes(memory_type(kind.element_type))
        self.swizzle = kind.swizzle_atoms
        if self.swizzle is not None:
            self.row_bytes = str(self.swizzle.row_bytes.data)
        else:
            stride = self.tensor.stride(printer, stored_rows)
            if stride.startswith("%"):
                stride = printer.let(f"trunc i64 {stride} to i32")
            self.row_bytes = self._times(stride, self.size)
        self.column = self.matrix = "0"
        if own is not None:
            self.row, self.column = own
        else:
            callee = printer.module.intrinsic("llvm.nvvm.read.ptx.sreg.laneid")
            lane = printer.let(f"call i32 {callee}()", "lane")
            self.row = printer.let(f"and i32 {lane}, 7")
            self.matrix = printer.let(f"lshr i32 {lane}, 3")
        self.bases: dict[tuple[_Distance, ...], tuple[str, str]] = {}

    def group(self, places: Sequence[tuple[int, int]]) -> int:
        """Number of the next matrices, 4, 2 or 1, whose addresses follow from the lane."""
        found = [self._distance(place) for place in places[:4]]
        if len(found) == 4:
            steps = [other.minus(found[0]) for other in found]
            if steps[3] == steps[1].plus(steps[2]):
                return 4
        return 2 if len(found) >= 2 else 1

    def address(self, places: Sequence[tuple[int, int]]) -> str:
        """Each lane's address in a group of matrices, which begin at these rows and columns of the tile."""
        printer = self.printer
        found = [self._distance(place) for place in places]
        steps = tuple(found[bit].minus(found[0]) for bit in (1, 2) if bit < len(found))
        if steps not in self.bases:
            self.bases[steps] = self._base(steps)
        base, chunk = self.bases[steps]
        offset = self._bytes(found[0])
        if self.swizzle is None:
            return printer.let(f"getelementptr i8, {_SHARED} {base}, i32 {offset}", "rows")
        linear = plus(printer, base, offset, "i32")
        place = printer.let(f"xor i32 {linear}, {chunk}")
        return printer.let(f"inttoptr i32 {place} to {_SHARED}", "rows")

    def _base(self, steps: Sequence[_Distance]) -> tuple[str, str]:
        """The lane's address of a group at the tile's first element, and the swizzle's changes to it.

        Of a swizzled tile it is an integer. Groups begin at multiples of 8 rows, which leave the change as it is.
        """
        printer = self.printer
        row = plus(printer, self.row, self.first_row, "i32")
        offset = times(printer, row, self.row_bytes, "i32")
        inside = times(printer, self.column, str(self.size), "i32")
        offset = plus(printer, offset, inside, "i32")
        offset = plus(printer, offset, self._first_column_bytes(), "i32")
        for bit, step in enumerate(steps):
            which = printer.let(f"lshr i32 {self.matrix}, {bit}") if bit else self.matrix
            which = printer.let(f"and i32 {which}, 1")
            offset = plus(printer, offset, times(printer, which, self._bytes(step), "i32"), "i32")
        if self.swizzle is None:
            base = f"getelementptr i8, {_SHARED} {self.tensor.pointer}, i32 {offset}"
            return printer.let(base, "lane_rows"), ""
        start = printer.let(f"ptrtoint {_SHARED} {self.tensor.pointer} to i32")
        linear = printer.let(f"add i32 {start}, {offset}", "lane_rows")
        moved = printer.let(f"lshr i32 {linear}, 3")
        return linear, printer.let(f"and i32 {moved}, {self.swizzle.mask}")

    def _first_column_bytes(self) -> str:
        """From the tile's first column to `first_column`, through columns of atoms."""
        printer, column = self.printer, self.first_column
        if column == "0" or self.swizzle is None:
            return times(printer, column, str(self.size), "i32")
        width = self.tensor.type.atom_columns
        atom = printer.let(f"udiv i32 {column}, {width}")
        inside = printer.let(f"urem i32 {column}, {width}")
        atoms = times(printer, atom, str(self.swizzle.atom_stride.data * self.size), "i32")
        return plus(printer, atoms, times(printer, inside, str(self.size), "i32"), "i32")

    def _distance(self, place: tuple[int, int]) -> _Distance:
        """Distance of a place from the tile's first element."""
        row, column = place if self.stored_rows == 0 else place[::-1]
        if self.swizzle is None:
            return _Distance(row, column * self.size)
        atom, inside = divmod(column, self.tensor.type.atom_columns)
        return _Distance(row, (atom * self.swizzle.atom_stride.data + inside) * self.size)

    def _bytes(self, distance: _Distance) -> str:
        return self._plus(self._times(self.row_bytes, distance.rows), distance.bytes)

    def _times(self, text: str, factor: int) -> str:
        if not text.startswith("%"):
            return str(int(text) * factor)
        return times(self.printer, text, str(factor), "i32")

    def _plus(self, text: str, more: int) -> str:
        if not text.startswith("%"):
            return str(int(text) + more)
        return plus(self.printer, text, str(more), "i32")


_VECTOR_BYTES: Final = 16
_BLOCK_COLUMNS: Final = 8


def _print_each(printer: FunctionPrinter, op: FragmentRedAddOp | FragmentStoreOp) -> None:
    kind: Any = op.fragment.type
    start = [printer.values[value] for value in op.origin]
    known: dict[tuple[int, int], str] = {}
    for number, element in enumerate(elements(printer, op.fragment)):
        arguments = [element]
        for dimension, distance in enumerate(kind.layout.along(number)):
            if (dimension, distance) not in known:
                known[dimension, distance] = plus(printer, start[dimension], str(distance), "i32")
            arguments.append(known[dimension, distance])
        printer.values.update(zip(op.body.block.args, arguments, strict=True))
        printer.print_block(op.body.block)


def _print_store(printer: FunctionPrinter, op: FragmentStoreOp) -> None:
    kind: Any = op.fragment.type
    tensor = printer.tensor(op.tensor)
    size = size_in_bytes(memory_type(kind.element_type))
    space, atoms = tensor.type.space.data, tensor.type.swizzle_atoms
    is_transposed = atoms is not None and bool(atoms.is_transposed.data)
    fits = space == "shared" and op.whole is not None and tensor.type.layout.data != "strided"
    aligned = fits and _has_aligned_rows(printer, op)
    is_bytes = kind.layout.role == "a" and size == 1  # four in a register, as pairs of 16 bits
    if is_bytes and aligned and not is_transposed and has(printer, "stmatrix"):
        _print_stmatrix(printer, op, stored_rows=0)
    elif not kind.layout.has_pairs_of_columns or tensor.type.layout.data == "strided":
        _print_each(printer, op)
    elif aligned:
        if size == 2 and has(printer, "stmatrix"):
            _print_stmatrix(printer, op, stored_rows=int(is_transposed))
        elif is_transposed or (atoms is not None and atoms.row_bytes.data < _BLOCK_COLUMNS * size):
            _print_each(printer, op)  # a block's columns of f64 lie in two atoms of 32 bytes
        else:
            _print_pairs(printer, op)
    elif space == "global" and size >= 2:
        _Rows(printer, op, size).print()
    else:
        _print_each(printer, op)


def _print_red_add(printer: FunctionPrinter, op: FragmentRedAddOp) -> None:
    kind: Any = op.fragment.type
    tensor = printer.tensor(op.tensor).type
    has_vectors = has(printer, "red_vectors")
    lies_together = kind.layout.has_pairs_of_columns and tensor.layout.data != "strided"
    if has_vectors and lies_together and tensor.space.data == "global" and _float(kind) in PACKED:
        _Rows(printer, op, size_in_bytes(memory_type(kind.element_type))).print()
    else:
        _print_each(printer, op)


def _float(kind: FragmentType) -> str:
    return FLOAT_NAMES.get(type(kind.element_type), "")


def _has_aligned_rows(printer: FunctionPrinter, op: FragmentStoreOp) -> bool:
    """Whether rows of a tile begin at multiples of 16 bytes."""
    tensor = printer.tensor(op.tensor)
    if tensor.type.swizzle_atoms is not None:
        return True
    stride = tensor.stride(printer, 0)
    size = size_in_bytes(memory_type(tensor.type.element_type))
    aligned = tensor.type.alignment_bytes.data % _VECTOR_BYTES == 0
    return aligned and not stride.startswith("%") and int(stride) * size % _VECTOR_BYTES == 0


def _places(kind: Any) -> list[tuple[int, int]]:
    """Starts of the blocks of 8 rows and 8 columns, in the order of a thread's pairs."""
    return [(run.row, run.column) for run in kind.layout.runs]


def _print_stmatrix(printer: FunctionPrinter, op: FragmentStoreOp, stored_rows: int) -> None:
    kind: Any = op.fragment.type
    callee = printer.module.intrinsic("llvm.nvvm.read.ptx.sreg.laneid")
    group = printer.let(f"lshr i32 {printer.let(f'call i32 {callee}()')}, 2")
    # Of a warpgroup's fragment the warps before have rows, too.
    before = "0"
    if kind.layout.warps > 1:
        before = printer.let(f"sub i32 {printer.values[op.origin[0]]}, {group}")
    rows = LaneRows(
        printer, op.tensor, stored_rows, first=("0", before) if stored_rows else (before, "0")
    )
    words, places = registers(printer, op.fragment), _places(kind)
    suffix = ".trans" if stored_rows else ""
    while places:
        count = rows.group(places)
        pointer = rows.address(places[:count])
        arguments = [f"ptr addrspace(3) {pointer}", *(f"i32 {word}" for word in words[:count])]
        name = f"stmatrix.sync.aligned.m8n8.x{count}{suffix}.b16"
        call_convergent(printer, "void", name, *arguments, suffix=".p3")
        words, places = words[count:], places[count:]


def _print_pairs(printer: FunctionPrinter, op: FragmentStoreOp) -> None:
    """Stores two adjacent elements at once, wherever a swizzle puts them."""
    kind: Any = op.fragment.type
    row, column = (printer.values[value] for value in op.origin)
    rows = LaneRows(printer, op.tensor, 0, own=(row, column))
    element = memory_type(kind.element_type)
    size = size_in_bytes(element)
    texts = elements(printer, op.fragment)
    vector = f"<2 x {element}>"
    for number, place in enumerate(_places(kind)):
        pair = printer.let(f"insertelement {vector} poison, {element} {texts[2 * number]}, i32 0")
        pair = printer.let(
            f"insertelement {vector} {pair}, {element} {texts[2 * number + 1]}, i32 1"
        )
        pointer = rows.address([place])
        printer.line(f"store {vector} {pair}, ptr addrspace(3) {pointer}, align {2 * size}")


class _Rows:
    """A store into a tensor whose rows lie together in memory, or a sum."""

    def __init__(
        self,
        printer: FunctionPrinter,
        op: FragmentStoreOp | FragmentRedAddOp | FragmentLoadOp,
        size: int,
    ) -> None:
        self.printer, self.op, self.size = printer, cast("Any", op), size
        self.kind: Any = (op.result if isinstance(op, FragmentLoadOp) else op.fragment).type
        self.tensor = printer.tensor(op.tensor)
        self.element = memory_type(self.kind.element_type)
        self.stride = self.tensor.stride(printer, 0)
        wide = self.tensor.type.dim_bits.data
        self.dims = [widened(printer, self.tensor.dim(number), wide, 64) for number in range(2)]
        self.start = [
            widened(printer, printer.values[index], index.type.width.data, 64)  # pyright: ignore
            for index in op.indices
        ]
        own = [widened(printer, printer.values[value], 32, 64) for value in op.origin]
        self.row, self.column = (
            plus(printer, one, other, "nsw i64") for one, other in zip(self.start, own, strict=True)
        )
        callee = printer.module.intrinsic("llvm.nvvm.read.ptx.sreg.laneid")
        lane = printer.let(f"call i32 {callee}()", "lane")
        self.odd, self.upper = (
            printer.let(f"icmp ne i32 {printer.let(f'and i32 {lane}, {bit}')}, 0") for bit in (1, 2)
        )
        self.rank = printer.let(f"zext i32 {printer.let(f'and i32 {lane}, 3')} to i64")
        start, columns = self.start[1], self.dims[1]
        self.has_columns = self.op.whole is not None or (
            not (start + columns).count("%") and 0 <= int(start) <= int(columns) - self.kind.dims[1]
        )

    def print(self) -> None:
        printer = self.printer
        aligned = self._aligned()
        if aligned == "true":
            self._print_vectors()
            return
        wide, narrow, end = (printer.new_label(stem) for stem in ("vectors", "elements", "stored"))
        printer.branch_if(aligned, wide, narrow)
        printer.start(wide)
        self._print_vectors()
        printer.branch(end)
        printer.start(narrow)
        self._print_elements()
        printer.branch(end)
        printer.start(end)

    def _aligned(self) -> str:
        """Whether chunks of 16 bytes are aligned, and each wholly inside of the tensor or outside; the same for all."""
        printer, kind = self.printer, self.tensor.type
        found = "0"
        if kind.alignment_bytes.data % _VECTOR_BYTES:
            pointer = f"ptr addrspace(1) {self.tensor.pointer}"
            found = printer.let(f"ptrtoint {pointer} to i64")
        for text in (self.stride, self.start[1], self.dims[1]):
            if not text.startswith("%"):
                if int(text) * self.size % _VECTOR_BYTES:
                    return "false"
                continue
            bytes_ = times(printer, text, str(self.size), "i64")
            found = bytes_ if found == "0" else printer.let(f"or i64 {found}, {bytes_}")
        if found == "0":
            return "true"
        rest = printer.let(f"and i64 {found}, {_VECTOR_BYTES - 1}")
        return printer.let(f"icmp eq i64 {rest}, 0", "aligned")

    def _row(self, distance: int, column: str) -> tuple[str, str]:
        """The address of a row's element at a column, and whether the tensor has the row."""
        printer = self.printer
        row = plus(printer, self.row, str(distance), "nsw i64")
        offset = times(printer, row, self.stride, "nsw i64")
        base = f"getelementptr {self.element}, ptr addrspace(1) {self.tensor.pointer}, i64 {offset}"
        inside = "true"
        if self.op.whole is None:
            inside = printer.let(f"icmp ult i64 {row}, {self.dims[0]}")
        row = printer.let(base, "row")
        at = f"getelementptr {self.element}, ptr addrspace(1) {row}, i64 {column}"
        return printer.let(at, "at"), inside

    def _store(
        self, row: tuple[str, str], column: str, distance: int, texts: Sequence[str], kind: str
    ) -> None:
        """Stores or adds registers that far from a row's element at a column, if the tensor has it.

        The distance is part of the instruction, where LLVM would add it to each address.
        """
        printer, (pointer, inside) = self.printer, row
        if not self.has_columns:
            place = plus(printer, column, str(distance), "nsw i64")
            has = printer.let(f"icmp ult i64 {place}, {self.dims[1]}")
            inside = printer.let(f"and i1 {inside}, {has}")
        values = ", ".join(f"${number + 2}" for number in range(len(texts)))
        listed = f"{{{values}}}" if len(texts) > 1 else values
        constraints = ",".join(["b", "l", *[REGISTERS[kind]] * len(texts), "~{memory}"])
        arguments = ", ".join(
            [f"i1 {inside}", f"ptr addrspace(1) {pointer}", *(f"{kind} {text}" for text in texts)]
        )
        place = f"[$1+{distance * self.size}]"
        printer.line(
            f'call void asm sideeffect "@$0 {self._instruction(kind, len(texts))} {place}, {listed};", '
            f'"{constraints}"({arguments}) nounwind'
        )

    def _instruction(self, kind: str, count: int) -> str:
        """Instruction that stores or adds that many registers."""
        if isinstance(self.op, FragmentRedAddOp):
            name = _float(self.kind)
            return red_add(name if kind == self.element else PACKED[name][0], count)
        many = f".v{count}" if count > 1 else ""
        return f"st.global{many}.b{8 * size_in_bytes(kind)}"

    def _print_elements(self) -> None:
        texts = elements(self.printer, self.op.fragment)
        layout, kind = self.kind.layout, self.element
        rows: dict[int, tuple[str, str]] = {}
        for number, text in enumerate(texts):
            place = layout.place(number)
            if place.row not in rows:
                rows[place.row] = self._row(place.row, self.column)
            self._store(rows[place.row], self.column, place.column, [text], kind)

    def _print_vectors(self) -> None:
        """Blocks of 8 columns, as many together as give each thread 16 bytes of one of them."""
        words = registers(self.printer, self.op.fragment)
        kind = fragment_registers(self.kind)[0]
        own = 2 if self.size >= 4 else 1  # registers of a thread in a block's row
        together = {2: 4, 4: 2, 8: 1}[self.size]
        rows: dict[int, list[tuple[int, list[str]]]] = {}
        for number, (distance, column) in enumerate(_places(self.kind)):
            rows.setdefault(distance, []).append((column, words[number * own :][:own]))
        for distance, blocks in rows.items():
            whole = len(blocks) // together * together
            row, last = None, None
            for first in range(0, whole, together):
                group = [block for _, block in blocks[first : first + together]]
                found, column = self._exchanged(group, kind)
                row = row or self._row(distance, column)
                self._store(row, column, blocks[first][0], found, kind)
            for column, block in blocks[whole:]:
                last = last or self._row(distance, self.column)
                self._store(last, self.column, column, block, kind)

    def _exchanged(self, blocks: list[list[str]], kind: str) -> tuple[list[str], str]:
        """16 bytes of one of the blocks, and their column of the first block."""
        if len(blocks) == 1:
            return blocks[0], self.column
        start, rank = self.start[1], self.rank
        if len(blocks) == 2:
            # Lanes 0 and 2 take the first block, 1 and 3 the second; each from the adjacent lane, too.
            (own, other) = blocks
            sent = [
                self._select(self.odd, one, two, kind) for one, two in zip(own, other, strict=True)
            ]
            got = [self._shuffle(one, 1, kind) for one in sent]
            first = [
                self._select(self.odd, one, two, kind) for one, two in zip(got, own, strict=True)
            ]
            last = [
                self._select(self.odd, one, two, kind) for one, two in zip(other, got, strict=True)
            ]
            odd = self.printer.let(f"and i64 {rank}, 1")
            upper = self.printer.let(f"lshr i64 {rank}, 1")
            column = self.printer.let(f"shl i64 {odd}, 3")
            column = plus(self.printer, column, self.printer.let(f"shl i64 {upper}, 2"), "i64")
            return [*first, *last], plus(self.printer, column, start, "nsw i64")
        # Each lane takes the block of its number: first the words of the adjacent lane, then those of the other pair.
        (one,), (two,), (three,), (four,) = blocks
        low = self._shuffle(self._select(self.odd, one, two, kind), 1, kind)
        high = self._shuffle(self._select(self.odd, three, four, kind), 1, kind)
        lower = [self._select(self.odd, low, one, kind), self._select(self.odd, two, low, kind)]
        upper_ = [
            self._select(self.odd, high, three, kind),
            self._select(self.odd, four, high, kind),
        ]
        got = [
            self._shuffle(self._select(self.upper, a, b, kind), 2, kind)
            for a, b in zip(lower, upper_, strict=True)
        ]
        first = [self._select(self.upper, a, b, kind) for a, b in zip(got, lower, strict=True)]
        last = [self._select(self.upper, a, b, kind) for a, b in zip(upper_, got, strict=True)]
        column = self.printer.let(f"shl i64 {rank}, 3")
        return [*first, *last], plus(self.printer, column, start, "nsw i64")

    def _select(self, condition: str, if_true: str, if_false: str, kind: str) -> str:
        return self.printer.let(f"select i1 {condition}, {kind} {if_true}, {kind} {if_false}")

    def _shuffle(self, text: str, lanes: int, kind: str) -> str:
        printer = self.printer
        word = printer.let(f"bitcast float {text} to i32") if kind == "float" else text
        arguments = "i32 -1", f"i32 {word}", f"i32 {lanes}", f"i32 {WARP_SIZE - 1}"
        found = call_convergent(printer, "i32", "shfl.sync.bfly.i32", *arguments)
        return printer.let(f"bitcast i32 {found} to float") if kind == "float" else found


class _LoadedRows(_Rows):
    """A load from a tensor whose rows lie together in memory."""

    def print(self) -> None:
        printer, op = self.printer, self.op
        assert isinstance(op, FragmentLoadOp)
        aligned = self._aligned()
        if aligned == "false":
            print_map(printer, op)
            return
        if aligned == "true":
            define_registers(printer, op.result, self._loaded_vectors())
            return
        wide, narrow, end = (printer.new_label(stem) for stem in ("vectors", "elements", "loaded"))
        printer.branch_if(aligned, wide, narrow)
        printer.start(wide)
        vectors, last_wide = self._loaded_vectors(), printer.label
        printer.branch(end)
        printer.start(narrow)
        print_map(printer, op)
        single, last_narrow = registers(printer, op.result), printer.label
        printer.branch(end)
        printer.start(end)
        text = fragment_registers(self.kind)[0]
        joined = [
            printer.let(f"phi {text} [ {one}, %{last_wide} ], [ {other}, %{last_narrow} ]")
            for one, other in zip(vectors, single, strict=True)
        ]
        define_registers(printer, op.result, joined)

    def _loaded_vectors(self) -> list[str]:
        """The fragment's registers; blocks of 8 columns are loaded as `_print_vectors` stores them."""
        kind = fragment_registers(self.kind)[0]
        own = 2 if self.size >= 4 else 1
        together = {2: 4, 4: 2, 8: 1}[self.size]
        rows: dict[int, list[tuple[int, int]]] = {}
        for number, (distance, column) in enumerate(_places(self.kind)):
            rows.setdefault(distance, []).append((number, column))
        found = [""] * (own * sum(map(len, rows.values())))
        for distance, blocks in rows.items():
            whole = len(blocks) // together * together
            for first in range(0, whole, together):
                row = self._row(distance, self._chunk())
                loaded = self._load(row, self._chunk(), blocks[first][1], together * own, kind)
                for place, words in enumerate(self._spread(loaded, kind)):
                    number = blocks[first + place][0]
                    found[own * number : own * number + own] = words
            for number, column in blocks[whole:]:
                row = self._row(distance, self.column)
                words = self._load(row, self.column, column, own, kind)
                found[own * number : own * number + own] = words
        return found

    def _chunk(self) -> str:
        """The column of the lane's 16 bytes of some blocks, as `_exchanged` says."""
        printer = self.printer
        if self.size == 8:
            return self.column
        if self.size == 4:
            odd = printer.let(f"shl i64 {printer.let(f'and i64 {self.rank}, 1')}, 3")
            upper = printer.let(f"shl i64 {printer.let(f'lshr i64 {self.rank}, 1')}, 2")
            column = plus(printer, odd, upper, "i64")
        else:
            column = printer.let(f"shl i64 {self.rank}, 3")
        return plus(printer, column, self.start[1], "nsw i64")

    def _spread(self, loaded: list[str], kind: str) -> list[list[str]]:
        """The registers of each block; a lane has loaded 16 bytes of one of them."""
        if self.size == 8:
            return [loaded]
        if self.size == 2:
            # As before stores: lane and number of four words are exchanged.
            return [[word] for word in self._exchanged([[word] for word in loaded], kind)[0]]
        first, last = loaded[:2], loaded[2:]
        sent = [self._select(self.odd, a, b, kind) for a, b in zip(first, last, strict=True)]
        got = [self._shuffle(one, 1, kind) for one in sent]
        own = [self._select(self.odd, a, b, kind) for a, b in zip(got, first, strict=True)]
        other = [self._select(self.odd, a, b, kind) for a, b in zip(last, got, strict=True)]
        return [own, other]

    def _load(
        self, row: tuple[str, str], column: str, distance: int, count: int, kind: str
    ) -> list[str]:
        """Registers that far from a row's element at a column, or 0 where the tensor has none."""
        printer, (pointer, inside) = self.printer, row
        if not self.has_columns:
            place = plus(printer, column, str(distance), "nsw i64")
            has = printer.let(f"icmp ult i64 {place}, {self.dims[1]}")
            inside = has if inside == "true" else printer.let(f"and i1 {inside}, {has}")
        bits = 8 * size_in_bytes(kind)
        fixed = any(CONSTANT in one.attributes for one in walk(self.op))
        effect, cache = ("", ".nc") if fixed else (" sideeffect", "")
        outputs = ", ".join(f"${number}" for number in range(count))
        many = f".v{count}" if count > 1 else ""
        listed = f"{{{outputs}}}" if count > 1 else outputs
        operands = ["b", "l", *map(str, range(count)), *["~{memory}"][: not fixed]]
        constraints = ",".join([*[f"={REGISTERS[kind]}"] * count, *operands])
        zero = "0" if kind.startswith("i") else "0.0"
        arguments = ", ".join(
            [f"i1 {inside}", f"ptr addrspace(1) {pointer}", *[f"{kind} {zero}"] * count]
        )
        result = f"{{ {', '.join([kind] * count)} }}" if count > 1 else kind
        whole = printer.let(
            f'call {result} asm{effect} "@${count} ld.global{cache}{many}.b{bits} {listed}, '
            f'[${count + 1}+{distance * self.size}];", "{constraints}"({arguments}) nounwind'
        )
        if count == 1:
            return [whole]
        return [printer.let(f"extractvalue {result} {whole}, {n}") for n in range(count)]


def _print_load(printer: FunctionPrinter, op: FragmentLoadOp) -> None:
    kind: Any = op.result.type
    tensor = printer.tensor(op.tensor).type
    size = size_in_bytes(memory_type(kind.element_type))
    lies_together = kind.layout.has_pairs_of_columns and tensor.layout.data != "strided"
    if lies_together and tensor.space.data == "global" and size >= 2:
        _LoadedRows(printer, op, size).print()
    else:
        print_map(printer, op)


FRAGMENT_STORES: Final[dict[type[Operation], Callable[[FunctionPrinter, Any], None]]] = {
    FragmentLoadOp: _print_load,
    FragmentStoreOp: _print_store,
    FragmentRedAddOp: _print_red_add,
}
