# SPDX-License-Identifier: Apache-2.0
"""Tiles: `a.tile(shape, index)`, a part of constant shape; `a.T`, rows and columns exchanged.

In: a tensor. Out: a view of the same memory. What TMA copies and the tensor cores multiply is such a tile.
"""

from __future__ import annotations

import functools
from math import gcd
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from xdsl.dialects.builtin import i32

from weft.dialects.simt.memory import ViewOp
from weft.dialects.simt.types import DYNAMIC, TensorType
from weft.errors import TypeMismatchError, ValueRangeError
from weft.language import LANGUAGE, resolve
from weft.language.ir_types import ir_tensor_type
from weft.language.memory import access
from weft.language.memory.access import dim, index_part, placed_index
from weft.language.memory.local import static_shape
from weft.language.numbers.convert import to_common
from weft.language.numbers.operators import binary
from weft.language.numbers.promises import stride_factor
from weft.language.operation import operation
from weft.language.values import Scalar, Tensor, shape_text
from weft.types import dtype as types

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.ir import SSAValue

    from weft.dialects.builder import Builder


_METHODS: Final = "Tensor."


def attribute(builder: Builder, tensor: Tensor, name: str) -> object:
    """``tensor.name``: `T`, `nbytes`, a method, or what `access.attribute` knows."""
    method = f"{_METHODS}{name}"
    if method in LANGUAGE and not tensor.type.is_pointer:
        return functools.partial(resolve(method), tensor)  # pyright: ignore[reportCallIssue, reportArgumentType, reportUnknownVariableType]
    if name == "T" and not tensor.type.is_pointer:
        return transposed(builder, tensor)
    return access.attribute(builder, tensor, name)


class TileFacts(NamedTuple):
    """How a matrix lies in shared memory, for copies and products.

    Attributes:
        rows, columns: of the matrix as it lies; of `a.T` those of `a`.
        panel_columns: elements in a row of a panel; of an array without swizzle its columns.
        panel_stride: elements from one panel to the next.
        row_bytes: the swizzle, or 0.
        is_transposed: whether the value's dims are columns, rows.
    """

    rows: int
    columns: int
    panel_columns: int
    panel_stride: int
    row_bytes: int
    is_transposed: bool


def tile_facts(tensor: Tensor) -> TileFacts | None:
    """The facts of a matrix of constant shape in shared memory; None for any other tensor."""
    kind = tensor.type
    if kind.rank != 2 or kind.space.data != "shared" or DYNAMIC in kind.dims:
        return None
    swizzle = kind.panels
    if swizzle is None:
        rows, columns = kind.dims
        if kind.layout.data != "contiguous":
            return None
        return TileFacts(rows, columns, columns, rows * columns, 0, False)
    is_transposed = bool(swizzle.is_transposed.data)
    rows, columns = kind.dims[::-1] if is_transposed else kind.dims
    stride = swizzle.panel_stride.data
    return TileFacts(
        rows, columns, kind.panel_columns, stride, swizzle.row_bytes.data, is_transposed
    )


def contiguous_dimension(tensor: SSAValue) -> int | None:
    """The dimension along which a tensor's elements are adjacent in memory; None if that is known only at run time."""
    kind = tensor.type
    assert isinstance(kind, TensorType)
    if kind.panels is not None and kind.panels.is_transposed.data:
        return kind.rank - 2
    if kind.layout.data != "strided":
        return kind.rank - 1
    owner = tensor.owner
    if not isinstance(owner, ViewOp):
        return None
    along = contiguous_dimension(owner.source)
    kept = owner.dimensions
    return kept.index((along, 1)) if along is not None and (along, 1) in kept else None


def known_stride(tensor: SSAValue, dimension: int) -> int | None:
    """Elements between adjacent indices along a dimension, through views of arrays; None if known only at run time."""
    kind, owner = tensor.type, tensor.owner
    assert isinstance(kind, TensorType)
    step = kind.static_stride(dimension)
    if step is not None or not isinstance(owner, ViewOp):
        return step
    source, times = owner.dimensions[dimension]
    inner = known_stride(owner.source, source)
    return None if inner is None else inner * times


@operation(name="Tensor.tile")
def tile(builder: Builder, tensor: Tensor, shape: object, index: object) -> Tensor:
    """The tile of that shape with that index, counted in tiles: a view of constant shape.

    The tensor is cut into tiles of the shape, from its first element on. An index known only at run time must be one of
    a whole tile; that is not checked. A tile of a swizzled array begins at a row that is a multiple of its rows, and is
    as wide as a part of a panel or some panels.

    Args:
        tensor: of rank 1 or more; ``a.tile(...)`` passes it.
        shape: an int or a tuple, one per dimension: constants that divide constant dims.
        index: an integer or a tuple, one per dimension.

    Raises:
        TypeMismatchError: for a shape that is not constant, or of another rank; an index that is not an integer.
        ValueRangeError: for a shape that does not divide a constant dim, or a constant index of no whole tile; for a
            tile of a swizzled array that lies in two panels and fills none.

    Example:
        ``half = weft.shared((64, 64), weft.bf16, swizzle=128).tile((32, 64), (1, 0))``
    """
    dims = static_shape(shape, "tile")
    parts = cast("tuple[object, ...]", index) if isinstance(index, tuple) else (index,)
    if not len(dims) == len(parts) == tensor.rank:
        raise TypeMismatchError(
            "TILE_RANK",
            f"{tensor.name}.tile({tuple(dims)}, ...): {tensor.name} has rank {tensor.rank} and shape "
            f"{shape_text(tensor)}, received a shape of rank {len(dims)} and {len(parts)} indices",
            hint="give one size and one index per dimension",
        )
    starts: list[int | Scalar] = []
    for dimension, (size, part) in enumerate(zip(dims, parts, strict=True)):
        _check_size(tensor, dimension, size)
        starts.append(_start(builder, tensor, dimension, size, part))
    _check_panels(tensor, dims)
    return _view(builder, tensor, dims, starts)


def transposed(builder: Builder, tensor: Tensor) -> Tensor:
    """``a.T``: the same matrix with rows and columns exchanged.

    Raises:
        TypeMismatchError: for another rank than 2, and for packed elements.
    """
    kind = tensor.type
    if kind.rank != 2 or kind.is_pointer:
        raise TypeMismatchError(
            "TRANSPOSE_RANK",
            f"{tensor.name}.T: {tensor.name} has rank {kind.rank}; only a matrix can be transposed",
        )
    if tensor.dtype.is_packed:
        raise TypeMismatchError(
            "PACKED_VIEW",
            f"{tensor.name}.T: {tensor.dtype} are packed along rows; those of a column are not adjacent",
            hint=f"read {tensor.name}[j, i] for element (i, j) of the transposed matrix",
        )
    dims = kind.dims[::-1]
    panels = kind.panels
    made = ir_tensor_type(
        tensor.dtype,
        dims,
        layout="strided",
        space=kind.space.data,
        dim_bits=kind.dim_bits.data,
        offset_bits=kind.offset_bits.data,
        alignment_bytes=kind.alignment_bytes.data,
        swizzle=None if panels is None else panels.transposed,
    )
    starts = [builder.constant(i32, 0)] * 2
    wide = types.i32 if kind.dim_bits.data == 32 else types.i64
    sizes = [
        to_common(builder, dim(builder, tensor, 1 - number), wide).ssa
        for number, length in enumerate(dims)
        if length == DYNAMIC
    ]
    op = ViewOp(tensor.ssa, starts, sizes, (1, 0), (1, 1), made)
    return Tensor(builder.emit(op, f"{tensor.name}_T").result, tensor.dtype, f"{tensor.name}.T")


def _check_size(tensor: Tensor, dimension: int, size: int) -> None:
    length = tensor.type.dims[dimension]
    if length != DYNAMIC and length % size:
        raise ValueRangeError(
            "TILE_SHAPE",
            f"{tensor.name}.tile: {tensor.name}.shape[{dimension}] is {length}, which is not a multiple of {size}",
            hint="tiles are whole; choose a size that divides the dim",
        )


def _start(
    builder: Builder, tensor: Tensor, dimension: int, size: int, part: object
) -> int | Scalar:
    """The first index of a tile along a dimension."""
    number = index_part(builder, tensor, dimension, part)
    length = tensor.type.dims[dimension]
    if isinstance(number, Scalar):
        return binary(builder, "*", number, size) if size != 1 else number
    if number < 0 or (length != DYNAMIC and (number + 1) * size > length):
        count = "" if length == DYNAMIC else f" to {length // size - 1}"
        raise ValueRangeError(
            "TILE_INDEX",
            f"{tensor.name}.tile: index {dimension} is {number}; expected a tile from 0{count or ' up'}",
        )
    return number * size


def _check_panels(tensor: Tensor, dims: Sequence[int]) -> None:
    """Raises for a tile of a swizzled array that lies in two panels and fills none."""
    swizzle = tensor.type.panels
    if swizzle is None:
        return
    width = tensor.type.panel_columns
    columns = dims[-2] if swizzle.is_transposed.data else dims[-1]
    if width % columns and columns % width:
        raise ValueRangeError(
            "TILE_PANEL",
            f"{tensor.name}.tile: {columns} columns of {tensor.name} are neither a part of a panel of {width} nor some "
            "panels",
            hint=f"a row of swizzle={swizzle.row_bytes.data} has {width} elements; take a divisor or a multiple",
        )


def _view(
    builder: Builder, tensor: Tensor, dims: Sequence[int], starts: Sequence[int | Scalar]
) -> Tensor:
    kind, itemsize = tensor.type, tensor.dtype.itemsize
    alignment = kind.alignment_bytes.data
    for dimension, (size, start) in enumerate(zip(dims, starts, strict=True)):
        known = start if isinstance(start, int) else size
        alignment = gcd(alignment, itemsize * known * _step(builder, tensor, dimension, size))
    is_tail = tuple(dims[1:]) == kind.dims[1:]
    layout = kind.layout.data
    if layout == "contiguous" and not is_tail:
        layout = "inner" if kind.rank > 1 else layout
    made = ir_tensor_type(
        tensor.dtype,
        dims,
        layout=layout,
        space=kind.space.data,
        dim_bits=kind.dim_bits.data,
        offset_bits=kind.offset_bits.data,
        alignment_bytes=alignment,
        swizzle=kind.panels,
    )
    places: list[SSAValue] = [
        start.ssa if isinstance(start, Scalar) else placed_index(builder, tensor, dimension, start)
        for dimension, start in enumerate(starts)
    ]
    kept = range(kind.rank)
    op = ViewOp(tensor.ssa, places, (), kept, [1] * kind.rank, made)
    return Tensor(
        builder.emit(op, f"{tensor.name}_tile").result, tensor.dtype, f"{tensor.name}.tile"
    )


def _step(builder: Builder, tensor: Tensor, dimension: int, size: int) -> int:
    """A divisor of the elements between the addresses of adjacent indices of tiles of a size."""
    swizzle = tensor.type.panels
    if swizzle is None or dimension < tensor.rank - 2:
        return stride_factor(builder, tensor.ssa, dimension)
    is_row = (dimension == tensor.rank - 2) != bool(swizzle.is_transposed.data)
    if is_row:
        return tensor.type.panel_columns
    # Whole panels advance by their stride, in elements; parts of one by themselves.
    width = tensor.type.panel_columns
    return swizzle.panel_stride.data // width if size % width == 0 else 1
