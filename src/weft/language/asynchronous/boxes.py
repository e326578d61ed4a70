# SPDX-License-Identifier: Apache-2.0
"""Checked arguments of box copies: a tensor map, the index of a box, offsets, a tile.

In: users' arguments. Out: what the operations of the IR take.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from weft.dialects.builder import constant_integer
from weft.dialects.simt.types import TILE_ALIGNMENT
from weft.errors import TypeMismatchError, ValueRangeError
from weft.language.asynchronous.tensor_map import PITCH_BYTES
from weft.language.debug import emit_assert
from weft.language.numbers.convert import convert, expect_scalar
from weft.language.numbers.operators import binary, compare
from weft.language.numbers.promises import factor_of
from weft.language.values import Scalar, Tensor, TensorMap, describe, tensor_text
from weft.types import dtype as types

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.ir import SSAValue

    from weft.dialects.builder import Builder

# The number of spatial dimensions → the most of an im2col offset.
_MOST_OFFSET: Final = {1: 65535, 2: 255, 3: 31}


def map_offsets(builder: Builder, tensor_map: TensorMap, offsets: object) -> list[SSAValue]:
    """How far from the kernel's first element another one lies, for an im2col map; nothing for another.

    Raises:
        TypeMismatchError, ValueRangeError: as `tma.load`.
    """
    kind = tensor_map.type
    count = kind.rank - 2 if kind.is_im2col else 0
    if offsets is None and not count:
        return []
    parts = _parts(offsets)
    if offsets is None or len(parts) != count:
        raise TypeMismatchError(
            "TMA_OFFSETS",
            f"tma.load: offsets is {describe(offsets)}; "
            + (
                f"expected {count}, one for each spatial dimension"
                if count
                else "the map is not of im2col_map"
            ),
            hint="give an element (r, s) of the kernel as offsets=(r, s)"
            if count
            else "leave it out",
        )
    most = _MOST_OFFSET[count]
    found: list[SSAValue] = []
    for part in parts:
        offset = _index(builder, "load", part)
        known = constant_integer(offset)
        if known is not None and not 0 <= known <= most:
            raise ValueRangeError(
                "TMA_OFFSETS", f"tma.load: an offset is {known}; expected 0 to {most}"
            )
        if known is None:
            inside = compare(builder, "<=", Scalar(offset, types.i32), most)
            text = f"tma.load: an offset into {tensor_map.name} is 0 to {most}"
            emit_assert(builder, inside, text)
            emit_assert(builder, compare(builder, ">=", Scalar(offset, types.i32), 0), text)
        found.append(offset)
    return found


def box_place(
    builder: Builder, name: str, tensor_map: object, index: object
) -> tuple[TensorMap, list[SSAValue]]:
    """The map and the index of a box's first element; of copies out of shared memory none is negative.

    Raises:
        TypeMismatchError, ValueRangeError: as `tma.load` and `tma.store`.
    """
    found = checked_map(tensor_map, name)
    indices = box_index(builder, name, found, index)
    if name != "load":
        _check_not_before(builder, name, found, indices)
    return found, indices


def _check_not_before(
    builder: Builder, name: str, tensor_map: TensorMap, indices: Sequence[SSAValue]
) -> None:
    """Checks that a box that is written begins at no negative index: a GPU ends the kernel there."""
    for dimension, index in enumerate(indices):
        known = constant_integer(index)
        expected = f"0 or more along dimension {dimension}"
        if known is not None and known < 0:
            raise ValueRangeError(
                "TMA_INDEX",
                f"tma.{name}: the box of {tensor_map.name} begins at {known}; expected {expected}",
                hint="only loads begin before a tensor; make the map of a view that begins earlier",
            )
        if known is None:
            text = f"tma.{name}: the box of {tensor_map.name} begins at {expected}"
            emit_assert(builder, compare(builder, ">=", Scalar(index, types.i32), 0), text)


def checked_tile(name: str, tensor_map: TensorMap, tile: object) -> Tensor:
    """The tile, checked against the map.

    Raises:
        TypeMismatchError, ValueRangeError: as `tma.load`.
    """
    if tensor_map.type.is_im2col and name != "load":
        raise TypeMismatchError(
            "TMA_MAP",
            f"tma.{name}: {tensor_map.name} is of im2col_map, which tma.load alone takes",
            hint="make a map of the result with weft.tensor_map",
        )
    if not isinstance(tile, Tensor):
        raise TypeMismatchError(
            "TMA_TILE",
            f"tma.{name}: the tile is {describe(tile)}; expected an array in shared memory",
        )
    kind, swizzle = tensor_map.type, tile.type.panels
    box = tuple(size for size in kind.box if size != 1)
    dims = tuple(size for size in tile.type.dims if size != 1)
    width = swizzle.row_bytes.data if swizzle else None
    if dims != box or tile.dtype != tensor_map.dtype or width != (kind.swizzle or None):
        raise TypeMismatchError(
            "TMA_TILE",
            f"tma.{name}: {tensor_text(tile, tile.name)} with swizzle={width} is not a box of {tensor_map.name}, "
            f"{kind.box} of {tensor_map.dtype} with swizzle={kind.swizzle or None}",
            hint="make box=, swizzle= and the array's shape, dtype and swizzle= the same",
        )
    wrong = _as_it_lies(tile)
    if wrong:
        raise TypeMismatchError(
            "TMA_TILE",
            f"tma.{name}: {tensor_text(tile, tile.name)} {wrong}",
            hint="copy a whole array of weft.shared, or an item of one: not its .T, nor some of its columns",
        )
    needed = swizzle.alignment_bytes if swizzle else TILE_ALIGNMENT
    if tile.type.alignment_bytes.data % needed:
        raise ValueRangeError(
            "TMA_TILE",
            f"tma.{name}: {tile.name} is known to begin at a multiple of {tile.type.alignment_bytes.data} bytes; "
            + (f"its swizzle repeats every {needed}" if swizzle else f"expected one of {needed}"),
            hint="copy into a tile of whole panels, with a multiple of 8 rows"
            if swizzle
            else f"make arrays, and the items of an array, take a multiple of {needed} bytes",
        )
    return tile


def _as_it_lies(tile: Tensor) -> str:
    """The reason why a tensor is not an array in shared memory; empty if it is one."""
    swizzle = tile.type.panels
    if tile.type.space.data != "shared":
        return "is not in shared memory"
    if swizzle is not None and swizzle.is_transposed.data:
        return "has its rows and columns exchanged"
    if swizzle is None and tile.type.layout.data != "contiguous":
        return "has gaps between its rows"
    return ""


def checked_map(value: object, name: str) -> TensorMap:
    """A tensor map.

    Raises:
        TypeMismatchError: for anything else.
    """
    if isinstance(value, TensorMap):
        return value
    raise TypeMismatchError(
        "TMA_MAP",
        f"tma.{name}: the first argument must be a tensor map, received {describe(value)}",
        hint="annotate the kernel's parameter weft.TensorMap, and pass it weft.tensor_map(a, box=...)",
    )


def box_index(builder: Builder, name: str, tensor_map: TensorMap, index: object) -> list[SSAValue]:
    """The index of a box's first element, one i32 per dimension; it may be outside the tensor.

    Raises:
        TypeMismatchError, ValueRangeError: as `tma.load`.
    """
    parts = _parts(index)
    rank = tensor_map.type.rank
    if len(parts) != rank:
        raise TypeMismatchError(
            "TMA_INDEX",
            f"tma.{name}: {tensor_map.name} has rank {rank}, received "
            f"{len(parts)} {'index' if len(parts) == 1 else 'indices'}",
            hint="give the index of the box's first element, in elements, one number per dimension",
        )
    indices = [_index(builder, name, part) for part in parts]
    _check_start(builder, name, tensor_map, indices[-1])
    return indices


def _check_start(builder: Builder, name: str, tensor_map: TensorMap, start: SSAValue) -> None:
    """Checks that a box begins at a multiple of 16 bytes along the last dimension: a GPU ends the kernel elsewhere."""
    multiple, known = PITCH_BYTES // tensor_map.dtype.itemsize, constant_integer(start)
    expected = f"a multiple of {multiple} elements, {PITCH_BYTES} bytes, along dimension {tensor_map.type.rank - 1}"
    if known is not None and known % multiple:
        raise ValueRangeError(
            "TMA_INDEX",
            f"tma.{name}: the box of {tensor_map.name} begins at {known}; expected {expected}",
            hint="copy a wider box that begins at such a place, and read from within the tile",
        )
    if factor_of(builder, start) % multiple:
        rest = binary(builder, "&", Scalar(start, types.i32), multiple - 1)
        text = f"tma.{name}: the box of {tensor_map.name} begins at {expected}"
        emit_assert(builder, compare(builder, "==", rest, 0), text)


def _parts(value: object) -> tuple[object, ...]:
    return cast("tuple[object, ...]", value) if isinstance(value, tuple) else (value,)


def _index(builder: Builder, name: str, part: object) -> SSAValue:
    found = expect_scalar(builder, part, f"tma.{name}: an index")
    if isinstance(found, Scalar):
        is_integer = found.dtype.is_integer and not found.dtype.is_bool
    else:
        is_integer = isinstance(found, int) and not isinstance(found, bool)
    if not is_integer:
        raise TypeMismatchError(
            "TMA_INDEX", f"tma.{name}: an index is {describe(part)}; expected an integer"
        )
    return convert(builder, found, types.i32).ssa
