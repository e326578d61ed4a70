# SPDX-License-Identifier: Apache-2.0
"""Collectives of a warp's 32 lanes: shuffles, matrices to and from shared memory, products.

In: an instruction, the block whose warps execute it. Out: registers and shared memory, changed. Layouts are PTX's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tools.fuzz.gpu.ptx_numbers import NotEmulatedError, bits, dtype_of, typed

if TYPE_CHECKING:
    from tools.fuzz.gpu.ptx_text import Instruction

_LANES = 32


def execute(block: Any, one: Instruction, mask: np.ndarray) -> None:
    """Executes it for each warp, all of whose lanes must be there."""
    warps = mask.reshape(-1, _LANES) if len(mask) % _LANES == 0 else mask[None, :]
    if not (warps.all(axis=1) | ~warps.any(axis=1)).all():
        raise NotEmulatedError(f"{one.name} of a part of a warp")
    kinds = {
        "shfl": _shuffle,
        "ldmatrix": _load_matrix,
        "stmatrix": _store_matrix,
        "mma": _multiply,
    }
    if one.parts[0] not in kinds:
        raise NotEmulatedError(one.name)
    kinds[one.parts[0]](block, one, mask)


def _shuffle(block: Any, one: Instruction, mask: np.ndarray) -> None:
    target, source, lanes, *_ = one.operands
    threads = np.arange(block.size, dtype=np.uint64)
    if "|" not in target and "bfly" in one.parts:
        threads ^= block.value(lanes)
    elif "|" not in target and "idx" in one.parts:
        last = np.uint64(_LANES - 1)
        threads = (threads & ~last) | (block.value(lanes) & last)
    else:
        raise NotEmulatedError(one.name)
    block.assign(target, block.value(source)[threads.astype(np.int64)], mask)


def _rows(block: Any, text: str, count: int, warp: int) -> np.ndarray:
    """The addresses of 8 rows of each matrix."""
    lanes = block.addresses(text)[_LANES * warp : _LANES * (warp + 1)]
    return lanes[: 8 * count].reshape(count, 8)


def _count(one: Instruction) -> int:
    return next(int(part[1:]) for part in one.parts if part in ("x1", "x2", "x4"))


def _load_matrix(block: Any, one: Instruction, mask: np.ndarray) -> None:
    target, source = one.operands
    names, count = block.listed(target), _count(one)
    values = np.zeros((count, block.size), np.uint64)
    for warp in range(block.size // _LANES):
        if not mask[_LANES * warp]:
            continue
        for number, rows in enumerate(_rows(block, source, count, warp)):
            low, high = block.shared.read(rows, 8, 2)
            matrix = np.stack([low, high], axis=1).view(np.uint16)
            if "trans" in one.parts:
                matrix = matrix.T
            words = np.ascontiguousarray(matrix).view(np.uint32).reshape(_LANES)
            values[number, _LANES * warp : _LANES * (warp + 1)] = words
    for name, value in zip(names, values, strict=True):
        block.assign(name, value, mask)


def _store_matrix(block: Any, one: Instruction, mask: np.ndarray) -> None:
    target, source = one.operands
    count = _count(one)
    values = [block.value(name) for name in block.listed(source)]
    for warp in range(block.size // _LANES):
        if not mask[_LANES * warp]:
            continue
        for number, rows in enumerate(_rows(block, target, count, warp)):
            words = values[number][_LANES * warp : _LANES * (warp + 1)].astype(np.uint32)
            matrix = words.view(np.uint16).reshape(8, 8)
            if "trans" in one.parts:
                matrix = matrix.T
            halves = np.ascontiguousarray(matrix).view(np.uint64)
            block.shared.write(rows, 8, [halves[:, 0], halves[:, 1]])


_SHAPES = {
    "m16n8k8": (16, 8, 8),
    "m16n8k16": (16, 8, 16),
    "m16n8k32": (16, 8, 32),
    "m16n8k64": (16, 8, 64),
    "m8n8k4": (8, 8, 4),
}
_NAMES = {"tf32": "f32", "s8": "s8", "u8": "u8", "s32": "s32"}


def _multiply(block: Any, one: Instruction, mask: np.ndarray) -> None:
    shape = next(part for part in one.parts if part in _SHAPES)
    rows, columns, depth = _SHAPES[shape]
    to, left, right, sums = one.parts[-4:]
    is_sparse = one.name.startswith("mma.sp::ordered_metadata.sync.aligned")
    if "b8" in (left, right) or not (is_sparse or one.name.startswith("mma.sync.aligned")):
        raise NotEmulatedError(one.name)
    d, a, b, c = (block.listed(text) for text in one.operands[:4])
    values = [np.stack([block.value(name) for name in names]) for names in (a, b, c)]
    found = np.zeros((len(d), block.size), np.uint64)
    for warp in range(block.size // _LANES):
        if not mask[_LANES * warp]:
            continue
        own = slice(_LANES * warp, _LANES * (warp + 1))
        kind_a = _NAMES.get(left, left)
        if is_sparse:
            half = _matrix(values[0][:, own], kind_a, rows, depth // 2, "a")
            words = [int(word) for word in block.value(one.operands[4])[own]]
            one_a = _dense(half, words, int(one.operands[5]))
        else:
            one_a = _matrix(values[0][:, own], kind_a, rows, depth, "a")
        one_b = _matrix(values[1][:, own], _NAMES.get(right, right), depth, columns, "b")
        one_c = _matrix(values[2][:, own], sums, rows, columns, "c")
        kind = np.int64 if to == "s32" else np.float64
        product = one_a.astype(kind) @ one_b.astype(kind) + one_c.astype(kind)
        found[:, own] = _registers(product.astype(dtype_of(to)), len(d))
    for name, value in zip(d, found, strict=True):
        block.assign(name, value, mask)


def _dense(half: np.ndarray, words: list[int], selector: int) -> np.ndarray:
    """A sparse matrix from the half of it that is stored, and from the metadata of 32 lanes.

    Of 8 bits a lane has 8 chunks of one row, and of other types 4 chunks of two rows, in the two lanes of four that
    the selector names. A chunk's four bits are the places of its two elements; of 32 bits, which have chunks of two,
    0100 or 1110.
    """
    rows, size = half.shape[0], half.dtype.itemsize
    chunk = 2 if size == 4 else 4
    found = np.zeros((rows, 2 * half.shape[1]), half.dtype)
    for row in range(rows):
        group, is_lower = row % 8, row // 8
        for number in range(found.shape[1] // chunk):
            if size == 1:
                lane, shift = 4 * group + 2 * (number // 8) + is_lower, 4 * (number % 8)
            else:
                lane = 4 * group + 2 * selector + number // 4
                shift = 16 * is_lower + 4 * (number % 4)
            code = words[lane] >> shift & 15
            places = [{0b0100: 0, 0b1110: 1}[code]] if chunk == 2 else [code & 3, code >> 2]
            if sorted(set(places)) != places:
                raise NotEmulatedError("metadata that is not ordered")
            for part, place in enumerate(places):
                found[row, chunk * number + place] = half[row, chunk // 2 * number + part]
    return found


def _places(rows: int, columns: int, pack: int, role: str) -> tuple[np.ndarray, np.ndarray]:
    """Row and column of each lane's elements, as PTX's tables have them."""
    found: list[tuple[np.ndarray, np.ndarray]] = []
    lane = np.arange(_LANES)
    group, rank = lane // 4, lane % 4
    if role == "b":
        for first in range(0, rows, 4 * pack):
            found += [(first + rank * pack + part, group) for part in range(pack)]
    else:
        for first in range(0, columns, 4 * pack):
            for half in range(0, rows, 8):
                found += [(group + half, first + rank * pack + part) for part in range(pack)]
    return np.array([row for row, _ in found]), np.array([column for _, column in found])


def _matrix(registers: np.ndarray, kind: str, rows: int, columns: int, role: str) -> np.ndarray:
    item = dtype_of(kind).itemsize
    pack = 2 if role == "c" else max(1, 4 // item)
    down, along = _places(rows, columns, pack, role)
    elements = _elements(registers, kind, len(down))
    found = np.zeros((rows, columns), dtype_of(kind))
    found[down, along] = elements
    return found


def _elements(registers: np.ndarray, kind: str, count: int) -> np.ndarray:
    """Rows of elements, of which a register of 32 bits has several."""
    item = dtype_of(kind).itemsize
    per = max(1, count // len(registers))
    parts = [
        typed((register >> np.uint64(8 * item * part)) & np.uint64((1 << 8 * item) - 1), kind)
        for register in registers
        for part in range(per)
    ]
    return np.stack(parts)


def _registers(matrix: np.ndarray, count: int) -> np.ndarray:
    down, along = _places(*matrix.shape, 2, "c")
    elements = [bits(row) for row in matrix[down, along]]
    per = len(elements) // count
    if per == 1:
        return np.stack(elements)
    width = np.uint64(8 * matrix.dtype.itemsize)
    return np.stack([elements[2 * n] | elements[2 * n + 1] << width for n in range(count)])
