# SPDX-License-Identifier: Apache-2.0
"""Random cases of what a GPU does in its own way: a program's text, and its arguments.

In: a seed. Out: a `Case`, always the same one. Sums are of small whole numbers, so that their order does not show.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

from tools.fuzz.gpu.arrays import NUMPY, Array, row_major
from tools.fuzz.programs import program_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SMALL_FLOATS = ("bf16", "f16")
BYTES = ("i8", "u8", "f8e4m3", "f8e5m2")
STORED = ("f32", "bf16", "f16", "f64", "i32", "i8", "f8e4m3", "f8e5m2")
ADDED = ("f32", "bf16", "f16", "f64", "i32")
SWIZZLES = (None, 32, 64, 128)
NARROW = {"f32": ("bf16", "f16", "f8e4m3", "f8e5m2", "f64", "i32", "i8")}


@dataclass(frozen=True)
class Case:
    """A text that defines `host`, and the arguments of its call: arrays, or numbers."""

    seed: int
    family: str
    source: str
    arguments: tuple[Array | int, ...]


def size_of(dtype: str) -> int:
    """Bytes of an element."""
    return {"bool_": 1, "bf16": 2, "f16": 2, "f32": 4, "f64": 8}.get(dtype) or (
        1 if dtype.startswith("f8") else int(dtype[1:]) // 8
    )


class Writer:
    """Chooses, and writes down, one case.

    Attributes:
        names, arguments: of the host function, in order.
        constants: the names whose annotation has the shape.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        self.choose = self.random.choice
        self.names: list[str] = []
        self.arguments: list[Array | int] = []
        self.annotations: list[str] = []
        self.given: list[str] = []

    def likely(self, chance: float = 0.5) -> bool:
        return self.random.random() < chance

    def array(
        self,
        name: str,
        dtype: str,
        shape: tuple[int, ...],
        *,
        plain: bool = False,
        aligned: bool = False,
        zeros: bool = False,
    ) -> None:
        """An argument: rows one after the other, apart, or columns; aligned, or not; its shape known, or not."""
        plain = plain or aligned
        strides = row_major(shape)
        item, kind = size_of(dtype), self.random.random()
        if not plain and len(shape) == 2 and kind < 0.35:
            step = self.choose((1, 3, 8, 16, 16 // item or 1))
            strides = row_major(shape, shape[1] + step)
        elif not plain and len(shape) == 2 and kind < 0.45:
            strides = (1, shape[0] + self.choose((0, 0, 1, 8)))
        elif not plain and len(shape) == 2 and kind < 0.5:
            strides = tuple(2 * step for step in strides)
        offset = 0 if plain or self.likely(0.6) else item * self.choose((1, 2, 3, 4, 8))
        count = 1
        for size in shape:
            count *= size
        numbers = (0,) * count if zeros else None
        self.names.append(name)
        self.arguments.append(
            Array(dtype, shape, strides, offset, numbers, self.random.getrandbits(30))
        )
        is_known = strides == row_major(shape) and offset == 0 and self.likely(0.4)
        text = f"weft.Tensor[weft.{dtype}, {shape!r}]" if is_known else "weft.Tensor"
        if aligned:
            text = f"weft.fake_tensor(weft.{dtype}, {shape!r}, alignment_bytes=16)"
        self.annotations.append(text)

    def number(self, name: str, value: int) -> str:
        """A constant, or an argument of that name; returns its text."""
        if self.likely():
            return str(value)
        self.names.append(name)
        self.arguments.append(value)
        self.annotations.append("weft.i32")
        return name

    def case(
        self,
        family: str,
        body: str,
        *,
        grid: object = 1,
        block: int = 32,
        maps: dict[str, str] | None = None,
    ) -> Case:
        """The case of a kernel's statements; `maps` gives the kernel other values of names."""
        maps = maps or {}
        listed = ", ".join(
            f"{name}: {'weft.TensorMap' if name in maps else text}"
            for name, text in zip(self.names, self.annotations, strict=True)
        )
        lines = "\n".join(f"    {line}" for line in body.strip("\n").splitlines())
        host = ", ".join(f"{n}: {t}" for n, t in zip(self.names, self.annotations, strict=True))
        passed = ", ".join(maps.get(name, name) for name in self.names)
        source = (
            f"@weft.kernel\ndef kernel({listed}):\n{lines}\n\n"
            f"@weft.jit\ndef host({host}):\n    kernel({passed}).launch(grid={grid}, block={block})\n"
        )
        return Case(self.seed, family, source, tuple(self.arguments))


def _fragment(writer: Writer) -> tuple[tuple[int, int], str, int]:
    """A shape, a text that makes a fragment of f32 with it, and the number of its threads."""
    choose = writer.choose
    if writer.likely(0.6):
        rows = choose((64, 64, 128, 128, 192, 256))
        columns = 8 * choose(
            [n for n in (1, 2, 3, 4, 5, 7, 8, 12, 16) if rows * n * 8 // 128 <= 96]
        )
        return (rows, columns), f"weft.wgmma.accumulator(({rows}, {columns}), weft.f32)", 128
    rows, columns = 16 * choose((1, 2, 3, 4, 8)), 8 * choose((1, 2, 3, 4, 5, 6, 8))
    return (rows, columns), f"weft.mma.zeros(({rows}, {columns}), weft.f32)", 32


def _edge(writer: Writer, size: int, step: int) -> tuple[int, int]:
    """A tensor's dim and a place in it, at which a part of that size may pass the end or begin before it."""
    choose = writer.choose
    place = choose((0, 0, 0, step, 1, 3, 5, 8, 16))
    dim = max(1, place + size + choose((0, 0, 0, step, -step, -1, 7, 16, -(size // 2), 113)))
    if writer.likely(0.06):
        place = -choose((1, 3, 8))
    return dim, place


_SYNC = "weft.sync_threads()"  # since other threads have these elements than before


def fragments(writer: Writer) -> Case:
    """Loads, stores and sums of a fragment at a place of tensors."""
    shape, made, block = _fragment(writer)
    dtype = writer.choose(STORED)
    (rows, row), (columns, column) = (_edge(writer, size, 16) for size in shape)
    sums = writer.choose(ADDED)
    writer.array("a", dtype, (rows, columns))
    writer.array("b", dtype, (rows, columns), zeros=True)
    writer.array("total", sums, (rows, columns))
    place = f"({writer.number('row', row)}, {writer.number('column', column)})"
    body = [f"f = {made}.load(a, {place})", f"f.store(b, {place})"]
    if writer.likely(0.7):
        body.append(f"f.to(weft.f32).to(weft.{sums}).red_add(total, {place})")
    if writer.likely(0.3):
        width = 8 * writer.random.randint(1, shape[1] // 8)
        first = 8 * writer.random.randint(0, (shape[1] - width) // 8)
        body.append(f"f[:, {first}:{first + width}].store(b, {place})")
    if dtype in SMALL_FLOATS and shape[1] % 16 == 0 and writer.likely(0.3):
        body.append(f"f.as_operand_a().map(lambda x: x + x).store(b, {place})")
    if dtype in SMALL_FLOATS and block == 32 and writer.likely(0.4):
        turn = "transposed=True" if shape[1] % 16 == 0 and writer.likely() else ""
        body += (_SYNC, f"f.as_operand_b({turn}).store(b, {place})", _SYNC)
    if dtype in ("i8", "f8e4m3", "f8e5m2") and shape[1] % 32 == 0 and writer.likely(0.5):
        body += (_SYNC, f"f.as_operand_a().store(b, {place})", _SYNC)
    if dtype in ("i8", "f8e4m3", "f8e5m2") and block == 32 and writer.likely(0.5):
        turns = [turn for turn in (0, 1) if shape[turn] % 32 == 0]
        if turns:
            turn = "transposed=True" if writer.choose(turns) else ""
            body += (_SYNC, f"f.as_operand_b({turn}).store(b, {place})", _SYNC)
    if dtype in (*SMALL_FLOATS, "f32") and writer.likely(0.4):
        body.append(f"({_formula(writer, dtype)}).to(weft.{dtype}).store(b, {place})")
    if writer.likely(0.4):
        pair = writer.choose(("y, x", "x + x, y", "y, x + y", "max(x, y), min(x, y)"))
        body.append(f"f.map(lambda x, y: ({pair}), pairs=True).store(b, {place})")
    if writer.likely(0.4):
        body += _reductions(writer, shape, row, column, is_wide=block == 128)
    return writer.case("fragments", "\n".join(body), block=block)


def _formula(writer: Writer, dtype: str) -> str:
    """Operators, choices and functions of a fragment `f`, its rows, its columns and numbers."""
    values = ("f", "f", "f.rows(lambda i: i)", "f.cols(lambda j: j)", "2", f"weft.{dtype}(0.5)")
    text = "f"
    for _ in range(writer.random.randint(1, 4)):
        if writer.likely(0.3):
            holds = f"{writer.choose(values)} {writer.choose(('<', '>=', '==', '!='))} {text}"
            if writer.likely(0.3):
                holds = f"({holds}) {writer.choose('&|')} (f > {writer.choose(values)})"
            text = f"weft.where({holds}, {text}, {writer.choose(values)})"
        elif writer.likely(0.3):
            # Which zero is the larger one is not specified.
            text = f"({writer.choose(('max', 'min'))}({text}, {writer.choose(values)}) + 0)"
        else:
            text = f"({text} {writer.choose(('+', '-', '*'))} {writer.choose(values)})"
        if writer.likely(0.2):
            text = f"-{text}"
    return text


def _reductions(
    writer: Writer, shape: tuple[int, int], row: int, column: int, *, is_wide: bool
) -> list[str]:
    """Extremes of a fragment's rows and columns, which are the same in any order, into vectors at a place."""
    writer.array("per_row", "f32", (max(1, shape[0] + writer.choose((0, 0, 3, -5))),), zeros=True)
    writer.array(
        "per_column", "f32", (max(1, shape[1] + writer.choose((0, 0, 5, -3))),), zeros=True
    )
    which, columns = writer.choose(("max", "min")), writer.choose(("col_max", "col_min"))
    wide = "f.to(weft.f32)"
    body = [f"{wide}.row_{which}().store(per_row, {writer.number('first', row)})"]
    if is_wide and shape[1] <= 64 and writer.likely():
        body += (
            f"through = weft.shared((4, {shape[1]}), weft.f32)",
            f"{wide}.{columns}(scratch=through).store(per_column, {writer.number('at', column)})",
        )
    elif is_wide:
        body.append(
            f"{wide}.cols(lambda j: weft.f32(j)).store(per_column, {writer.number('at', column)})"
        )
    else:
        body.append(f"{wide}.{columns}().store(per_column, {writer.number('at', column)})")
    return body


def _transposed(
    writer: Writer, shape: tuple[int, int], dtype: str
) -> tuple[tuple[int, int], str, object]:
    """Dims of a tile of this shape as it is stored, what turns it into that shape, and a swizzle that it allows."""
    is_transposed = writer.likely(0.4)
    stored = shape[::-1] if is_transposed else shape
    row = stored[1] * size_of(dtype)
    fitting = [s for s in SWIZZLES if s is None or (row % s == 0 and stored[0] % 8 == 0)]
    return stored, ".T" if is_transposed else "", writer.choose(fitting)


def tiles(writer: Writer) -> Case:
    """A fragment into a part of a tile in shared memory, and back."""
    shape, made, block = _fragment(writer)
    dtype = writer.choose(
        [one for one in STORED if one != "f64"] if shape[0] * shape[1] > 4096 else STORED
    )
    down, across = writer.choose((1, 1, 2)), writer.choose((1, 1, 2, 4))
    while shape[0] * down * shape[1] * across * size_of(dtype) > 40_000:
        down, across = max(1, down // 2), across // 2
        if not across:
            return tiles(Writer(writer.seed + 1_000_003))
    whole = shape[0] * down, shape[1] * across
    stored, turn, swizzle = _transposed(writer, whole, dtype)
    index = writer.random.randrange(down), writer.random.randrange(across)
    writer.array("a", dtype, shape)
    writer.array("b", dtype, shape, zeros=True)
    writer.array("out", dtype, whole, zeros=True)
    atomic = dtype in ADDED and writer.likely(0.4)
    part = f"tile.tile({shape}, {index})" if shape != whole or writer.likely() else "tile"
    body = f"""
ring = weft.shared((2, {stored[0]}, {stored[1]}), weft.{dtype}, swizzle={swizzle})
tile = ring[1]{turn}
for i in range(weft.thread_idx.x, {whole[0] * whole[1]}, {block}):
    tile[i // {whole[1]}, i % {whole[1]}] = weft.{dtype}(3)
weft.sync_threads()
part = {part}
f = {made}.load(a)
f.{"red_add" if atomic else "store"}(part)
weft.sync_threads()
{made}.load(part).store(b)
for i in range(weft.thread_idx.x, {whole[0] * whole[1]}, {block}):
    out[i // {whole[1]}, i % {whole[1]}] = tile[i // {whole[1]}, i % {whole[1]}]
"""
    return writer.case("tiles", body, block=block)


_PRODUCTS = (
    ("bf16", "bf16", "f32"),
    ("f16", "f16", "f32"),
    ("f16", "f16", "f16"),
    ("f32", "f32", "f32"),
    ("f64", "f64", "f64"),
    ("i8", "u8", "i32"),
    ("u8", "u8", "i32"),
    ("i8", "i8", "i32"),
    ("f8e4m3", "f8e4m3", "f32"),
    ("f8e5m2", "f8e4m3", "f32"),
    ("f8e5m2", "f8e4m3", "f16"),
)


def _filled(name: str, stored: tuple[int, int], block: int) -> str:
    return (
        f"for i in range(weft.thread_idx.x, {stored[0] * stored[1]}, {block}):\n"
        f"    {name}_tile[i // {stored[1]}, i % {stored[1]}] = {name}[i // {stored[1]}, i % {stored[1]}]\n"
    )


def products(writer: Writer) -> Case:
    """A warp's product of tiles of each type, order and swizzle; its operands are stored, too."""
    choose = writer.choose
    left, right, sums = choose(_PRODUCTS)
    if left != "f64" and (size_of(left), sums) != (1, "f16") and writer.likely(0.3):
        return _sparse_products(writer, left, right, sums)
    depth = {1: 32, 2: 16}.get(size_of(left), 8) * choose((1, 2, 4))
    rows, columns = 16 * choose((1, 2, 4)), 8 * choose((1, 2, 3, 4, 8))
    a_stored, a_turn, a_swizzle = _transposed(writer, (rows, depth), left)
    if size_of(left) == 1 and (columns % 16 or writer.likely(0.4)):
        a_stored, a_turn, a_swizzle = (rows, depth), "", 32
        b_stored, b_turn, b_swizzle = (columns, depth), ".T", choose((None, 32))
    else:
        b_stored, b_turn, b_swizzle = _transposed(writer, (depth, columns), right)
    writer.array("a", left, a_stored)
    writer.array("b", right, b_stored)
    writer.array("c", sums, (rows, columns), zeros=True)
    stores = writer.likely(0.6)
    if stores:
        writer.array("a_back", left, (rows, depth), zeros=True)
        writer.array("b_back", right, (depth, columns), zeros=True)
    body = (
        f"a_tile = weft.shared({a_stored}, weft.{left}, swizzle={a_swizzle})\n"
        f"b_tile = weft.shared({b_stored}, weft.{right}, swizzle={b_swizzle})\n"
        f"{_filled('a', a_stored, 32)}{_filled('b', b_stored, 32)}weft.sync_warp()\n"
        f"left = weft.mma.load_a(a_tile{a_turn})\nright = weft.mma.load_b(b_tile{b_turn})\n"
        f"found = weft.mma.mma(left, right, weft.mma.zeros(({rows}, {columns}), weft.{sums}))\n"
        "found.store(c)\n"
    )
    if stores:
        body += "left.store(a_back)\nright.store(b_back)\n"
        if writer.likely():
            body += f"other = weft.shared(({rows}, {depth}), weft.{left})\nleft.store(other)\nweft.sync_warp()\n"
            body += "left.load(other).store(a_back)\n"
    return writer.case("products", body)


def _sparse_products(writer: Writer, left: str, right: str, sums: str) -> Case:
    """A warp's product of a sparse operand, whose nonzero elements may be anywhere."""
    choose = writer.choose
    step = 64 // size_of(left)
    depth, rows, columns = step * choose((1, 2, 3, 4)), 16 * choose((1, 2)), 8 * choose((1, 2, 3))
    parts = depth // step if size_of(left) == 1 else -(-depth // (2 * step))
    writer.array("a", left, (rows, depth // 2))
    writer.array("b", right, (columns, depth))
    writer.array("c", sums, (rows, columns), zeros=True)
    writer.array("metadata", "u32", (rows // 16, parts, 32), plain=True)
    chunks = (4, 14) if left == "f32" else (4, 8, 9, 12, 13, 14)  # every pair of places
    words = [sum(choose(chunks) << 4 * n for n in range(8)) for _ in range(rows * parts * 2)]
    writer.arguments[-1] = replace(cast("Array", writer.arguments[-1]), numbers=tuple(words))
    body = (
        f"a_tile = weft.shared(({rows}, {depth // 2}), weft.{left}, swizzle={choose((None, 32))})\n"
        f"b_tile = weft.shared(({columns}, {depth}), weft.{right}, swizzle={choose((None, 32, 64))})\n"
        f"{_filled('a', (rows, depth // 2), 32)}{_filled('b', (columns, depth), 32)}weft.sync_warp()\n"
        f"words = tuple(metadata[i, j, weft.lane_id()] for i in range({rows // 16}) for j in range({parts}))\n"
        "left, right = weft.mma.load_a(a_tile), weft.mma.load_b(b_tile.T)\n"
        f"sums = weft.mma.zeros(({rows}, {columns}), weft.{sums})\n"
        "weft.mma.mma(left, right, sums, metadata=words).store(c)\n"
    )
    return writer.case("products", body)


_WIDE_PRODUCTS = (
    ("bf16", "bf16", "f32"),
    ("f16", "f16", "f32"),
    ("f16", "f16", "f16"),
    ("f32", "f32", "f32"),
    ("i8", "u8", "i32"),
    ("u8", "u8", "i32"),
    ("f8e4m3", "f8e5m2", "f32"),
    ("f8e5m2", "f8e5m2", "f16"),
    ("f8e4m3", "f8e4m3", "f32"),
)


def wide_products(writer: Writer) -> Case:
    """A warpgroup's product of tiles, or of a fragment and a tile; its result is stored and added."""
    choose = writer.choose
    left, right, sums = choose(_WIDE_PRODUCTS)
    item = size_of(left)
    depth = 32 // item * choose((1, 2, 4)) if item > 1 else 32 * choose((1, 2, 4))
    rows = 64 * choose((1, 2, 2, 3))
    columns = 8 * choose([n for n in (1, 2, 3, 4, 6, 8, 12, 16) if rows * n * 8 // 128 <= 96])
    a_transposed = item == 2 and writer.likely(0.4)
    b_transposed = item != 2 or writer.likely()

    def laid(shape: tuple[int, int], *, is_transposed: bool) -> tuple[tuple[int, int], str, int]:
        stored = shape[::-1] if is_transposed else shape
        fitting = [s for s in (32, 64, 128) if stored[1] * item % s == 0]
        return stored, ".T" if is_transposed else "", choose(fitting or [0])

    a_stored, a_turn, a_swizzle = laid((rows, depth), is_transposed=a_transposed)
    b_stored, b_turn, b_swizzle = laid((depth, columns), is_transposed=b_transposed)
    if not b_swizzle or not a_swizzle:
        return wide_products(Writer(writer.seed + 1_000_003))
    from_fragment = item == 2 and writer.likely(0.3)
    writer.array("a", left, a_stored)
    writer.array("b", right, b_stored)
    writer.array("c", sums, (rows, columns), zeros=True)
    writer.array("total", sums, (rows, columns))
    operand = f"a_tile{a_turn}"
    body = (
        f"a_tile = weft.shared({a_stored}, weft.{left}, swizzle={a_swizzle})\n"
        f"b_tile = weft.shared({b_stored}, weft.{right}, swizzle={b_swizzle})\n"
        f"{_filled('a', a_stored, 128)}{_filled('b', b_stored, 128)}weft.fence_proxy()\nweft.sync_threads()\n"
    )
    if from_fragment and depth % 8 == 0:
        body += f"left = weft.wgmma.accumulator(({rows}, {depth}), weft.f32).load(a_tile{a_turn}).as_operand_a()\n"
        operand = "left"
    adds = f", weft.wgmma.zeros(({rows}, {columns}), weft.{sums})"
    adds = adds if sums == "f16" or writer.likely(0.3) else ""
    body += (
        f"found = weft.wgmma.wait(weft.wgmma.mma({operand}, b_tile{b_turn}{adds}))\n"
        "found.store(c)\nfound.red_add(total)\n"
    )
    return writer.case("wide_products", body, block=128)


def boxes(writer: Writer) -> Case:
    """Boxes through shared memory by TMA, from a place and to one, beyond edges too."""
    choose = writer.choose
    dtype = choose(("f32", "bf16", "f16", "i32", "u8", "f64", "i16"))
    item = size_of(dtype)
    swizzle = choose(SWIZZLES)
    columns = swizzle // item if swizzle else choose((16, 32, 64, 128)) // item
    atoms = choose((1, 1, 2)) if swizzle else 1
    columns *= atoms
    rows = 8 * choose((1, 2, 4))
    columns = min(columns, 256)
    wide = 16 // item * choose((1, 2, 3, 5, 8, 11))
    shape = (choose((1, 5, 8, 19, 37)), wide)
    row, column = choose((0, 0, 1, 4, 8, -3, 30)), choose((0, 0, 1, 3, -1)) * 16 // item
    to_row, to_column = choose((0, 0, 2, 8)), choose((0, 0, 1, 2)) * 16 // item
    writer.array("a", dtype, shape, plain=True)
    writer.array("b", dtype, shape, plain=True, zeros=True)
    writer.array("out", dtype, (rows, columns), zeros=True)
    place = f"({writer.number('row', row)}, {writer.number('column', column)})"
    other = f"({writer.number('to_row', to_row)}, {writer.number('to_column', to_column)})"
    action = "store"
    if dtype in ("f32", "i32", "f16", "bf16") and writer.likely(0.3):
        action = "reduce"
    body = f"""
tile = weft.shared(({rows}, {columns}), weft.{dtype}, swizzle={swizzle})
full = weft.mbarrier(1, arrivals=1)
if weft.thread_idx.x == 0:
    full[0].arrive(expect_bytes=tile.nbytes)
    weft.tma.load(a, {place}, tile, full[0])
full[0].wait(0)
for i in range(weft.thread_idx.x, {rows * columns}, 32):
    out[i // {columns}, i % {columns}] = tile[i // {columns}, i % {columns}]
weft.fence_proxy()
weft.sync_threads()
if weft.thread_idx.x == 0:
    weft.tma.{action}(b, {other}, tile)
    weft.tma.wait()
"""
    box = f"box=({rows}, {columns}), swizzle={swizzle}"
    maps = {name: f"weft.tensor_map({name}, {box})" for name in ("a", "b")}
    return writer.case("boxes", body, maps=maps)


def copies(writer: Writer) -> Case:
    """Vectors, and copies of single threads into swizzled tiles."""
    choose = writer.choose
    dtype = choose(("f32", "bf16", "f16", "i32", "u8", "f64", "i16", "i64", "f8e4m3"))
    item = size_of(dtype)
    count = choose([n for n in (2, 4, 8, 16) if n * item <= 16])
    columns = 128 // item * choose((1, 2))
    rows = 8 * choose((1, 2, 3))
    swizzle = choose(SWIZZLES)
    chunks = columns // count
    writer.array("a", dtype, (rows, columns), aligned=True)
    writer.array("b", dtype, (rows, columns), aligned=True, zeros=True)
    writer.array("out", dtype, (rows, columns), aligned=True, zeros=True)
    by_copy = count * item >= 4 and writer.likely(0.6)
    left = writer.random.randrange(columns)
    condition = f", pred=i % {chunks} * {count} < {left}" if writer.likely(0.4) else ""
    place = f"(i // {chunks}, i % {chunks} * {count})"
    move = (
        f"weft.cp_async.copy(tile, {place}, a, {place}, {count}{condition})"
        if by_copy
        else f"weft.store_vector(tile, {place}, weft.load_vector(a, {place}, {count}))"
    )
    wait = "weft.cp_async.commit()\nweft.cp_async.wait()\n" if by_copy else ""
    body = f"""
tile = weft.shared(({rows}, {columns}), weft.{dtype}, swizzle={swizzle})
for i in range(weft.thread_idx.x, {rows * chunks}, 32):
    {move}
{wait}weft.sync_threads()
for i in range(weft.thread_idx.x, {rows * columns}, 32):
    out[{rows - 1} - i // {columns}, i % {columns}] = tile[i // {columns}, i % {columns}]
for i in range(weft.thread_idx.x, {rows * chunks}, 32):
    weft.store_vector(b, {place}, weft.load_vector(tile, {place}, {count}))
"""
    return writer.case("copies", body)


_REDUCTIONS = {
    "add": ("i32", "u32", "i64", "u64", "f16", "bf16", "f32", "f64"),
    **dict.fromkeys(("min", "max"), ("i32", "u32", "i64", "u64", "f16", "bf16")),
    **dict.fromkeys(("and", "or", "xor"), ("i32", "u32", "i64", "u64")),
}


def bulk_copies(writer: Writer) -> Case:
    """Rows that several blocks copy and reduce in bulk; vectors of 32 bytes of rows."""
    choose = writer.choose
    op = choose(tuple(_REDUCTIONS))
    dtype = choose(_REDUCTIONS[op])
    item = size_of(dtype)
    columns = 32 // item * writer.random.randint(1, 8)
    rows, blocks = choose((1, 2, 4)), choose((1, 2, 3))
    count = 32 // item
    for name, size in (("a", rows * blocks), ("total", rows), ("copy", rows * blocks)):
        writer.array(name, dtype, (size, columns), aligned=True, zeros=name == "copy")
        writer.annotations[-1] = writer.annotations[-1].replace("bytes=16", "bytes=32")
    row = f"{rows} * weft.block_idx.x + row"
    chunks = columns // count
    body = f"""
tile = weft.shared(({rows}, {columns}), weft.{dtype})
full = weft.mbarrier(1, arrivals=1)
if weft.thread_idx.x == 0:
    full[0].arrive(expect_bytes=tile.nbytes)
    for row in weft.static_range({rows}):
        weft.bulk_copy(tile[row], a[{row}], full[0])
full[0].wait(0)
if weft.thread_idx.x == 0:
    for row in weft.static_range({rows}):
        weft.bulk_reduce(total[row], tile[row], op="{op}")
    weft.tma.wait()
for i in range(weft.thread_idx.x, {rows * chunks}, 32):
    row = i // {chunks}
    place = ({row}, {count} * (i % {chunks}))
    weft.store_vector(copy, place, weft.load_vector(a, place, {count}))
"""
    return writer.case("bulk_copies", body, grid=blocks)


_ATOMIC = {
    "atomic_add": (
        "f32",
        "bf16",
        "f16",
        "f64",
        "i32",
        "u32",
        "i64",
        "u64",
        "i8",
        "u8",
        "i16",
        "u16",
    ),
    "atomic_sub": ("f32", "f16", "f64", "i32", "u64", "i8"),
    "atomic_max": ("f32", "bf16", "f16", "f64", "i32", "u32", "i64", "u64", "i8", "u16"),
    "atomic_min": ("f32", "bf16", "f16", "f64", "i32", "u32", "i64", "u64", "u8", "i16"),
    "atomic_and": ("i32", "u32", "i64", "u64", "i8", "u16"),
    "atomic_or": ("i32", "u32", "i64", "u64", "u8", "i16"),
    "atomic_xor": ("i32", "u32", "i64", "u64", "i8", "u16"),
}


def atomics(writer: Writer) -> Case:
    """Many threads change few elements, in global and in shared memory."""
    choose = writer.choose
    name = choose(tuple(_ATOMIC))
    dtype = choose(_ATOMIC[name])
    cells, count, block = choose((1, 3, 8, 33)), choose((32, 100, 333)), choose((32, 64, 128))
    writer.array("a", dtype, (count,))
    writer.array("total", dtype, (cells,))
    space = choose(("global", "shared"))
    scope = choose(("", ', scope="block"' if space == "shared" else ', scope="system"'))
    if space == "global":
        body = f"""
i = weft.block_idx.x * {block} + weft.thread_idx.x
if i < {count}:
    weft.{name}(total, i * 7 % {cells}, a[i]{scope})
"""
        return writer.case("atomics", body, grid=-(-count // block), block=block)
    body = f"""
part = weft.shared({cells}, weft.{dtype})
for i in range(weft.thread_idx.x, {cells}, {block}):
    part[i] = total[i]
weft.sync_threads()
for i in range(weft.thread_idx.x, {count}, {block}):
    weft.{name}(part, i * 7 % {cells}, a[i]{scope})
weft.sync_threads()
for i in range(weft.thread_idx.x, {cells}, {block}):
    total[i] = part[i]
"""
    return writer.case("atomics", body, block=block)


def layouts(writer: Writer) -> Case:
    """Elements of tensors of any rank, strides and address, moved one by one or by `weft.each`."""
    choose = writer.choose
    rank = choose((1, 2, 2, 3, 4))
    dtype = choose(tuple(NUMPY))
    shape = tuple(choose((1, 2, 3, 5, 8, 16)) for _ in range(rank))
    for name in ("a", "b"):
        order = list(range(rank))
        writer.random.shuffle(order)
        strides, step = [0] * rank, choose((1, 1, 2, 3))
        for dimension in order:
            strides[dimension] = step
            step *= shape[dimension]
            step += choose((0, 0, 1, 5))
        if writer.likely():
            strides = list(row_major(shape))
        count = 1
        for size in shape:
            count *= size
        numbers = (0,) * count if name == "b" else None
        offset = size_of(dtype) * choose((0, 0, 1, 2, 5))
        writer.names.append(name)
        writer.annotations.append("weft.Tensor")
        writer.arguments.append(
            Array(dtype, shape, tuple(strides), offset, numbers, writer.random.getrandbits(30))
        )
    total = 1
    for size in shape:
        total *= size
    indices, rest = [], "i"
    for size in reversed(shape):
        indices.insert(0, f"({rest}) % {size}")
        rest = f"{rest} // {size}"
    other = list(indices)
    for place in range(rank):
        if writer.likely(0.3):
            other[place] = f"{shape[place] - 1} - {other[place]}"
    body = f"""
i = weft.block_idx.x * 64 + weft.thread_idx.x
if i < {total}:
    b[{", ".join(indices)}{"," if rank == 1 else ""}] = a[{", ".join(other)}{"," if rank == 1 else ""}]
"""
    return writer.case("layouts", body, grid=-(-total // 64), block=64)


def sums(writer: Writer) -> Case:
    """Vectors added to memory in one step each."""
    choose = writer.choose
    dtype = choose(("f32", "bf16", "f16", "f64", "i32"))
    count = choose([n for n in (2, 4, 8) if n * size_of(dtype) <= 16])
    rows, columns = choose((1, 5, 32)), count * choose((1, 3, 8, 16))
    writer.array("a", dtype, (rows, columns), aligned=True)
    writer.array("total", dtype, (2, columns), aligned=True)
    chunks = columns // count
    column = f"i % {chunks} * {count}"
    body = f"""
for i in range(weft.thread_idx.x, {rows * chunks}, 32):
    vector = weft.load_vector(a, (i // {chunks}, {column}), {count})
    weft.red_add(total, (i // {chunks} % 2, {column}), vector)
"""
    return writer.case("sums", body)


FAMILIES: Sequence[Callable[[Writer], Case]] = (
    fragments,
    tiles,
    products,
    wide_products,
    boxes,
    copies,
    bulk_copies,
    atomics,
    layouts,
    sums,
)
_WEIGHTS = (5, 4, 3, 3, 3, 2, 1, 2, 2, 1)
_PROGRAMS = "programs"
_PROGRAM_SHARE = 0.15


def case_of(seed: int, families: Sequence[str] = ()) -> Case:
    """The case of a seed; of these families only, if any are named."""
    writer = Writer(seed)
    if _PROGRAMS in families or (not families and writer.likely(_PROGRAM_SHARE)):
        return _random_program(seed)
    chosen = [one for one in FAMILIES if not families or one.__name__ in families]
    weights = [_WEIGHTS[FAMILIES.index(one)] for one in chosen]
    (family,) = writer.random.choices(chosen, weights)
    return replace(family(writer), seed=seed)


def _random_program(seed: int) -> Case:
    """The fuzzer's program of the seed."""
    program = program_of(seed)
    arguments: list[Array | int] = []
    for one in program.arguments:
        if isinstance(one, tuple):
            name, shape, numbers = one
            item = size_of(name)
            arguments.append(
                Array(name, tuple(shape), row_major(tuple(shape)), seed % 4 * item, tuple(numbers))
            )
        else:
            arguments.append(one)
    return Case(seed, _PROGRAMS, program.source, tuple(arguments))


NAMES = (*(one.__name__ for one in FAMILIES), _PROGRAMS)
"""Of all families."""
