# SPDX-License-Identifier: Apache-2.0
"""`weft.mma`: MMA of a warp, from sm_80 on.

In: tiles in shared memory, fragments. Out: fragments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from xdsl.dialects.builtin import i32
from xdsl.ir import Block

from weft.dialects.nvgpu.mma import LoadMatrixOp, MmaOp, metadata_registers
from weft.dialects.simt.fragment import FragmentType, FragmentYieldOp
from weft.errors import TypeMismatchError, ValueRangeError
from weft.language.ir_types import ir_type
from weft.language.matrix.fragment import filled, mapped, of_values, origin
from weft.language.matrix.sparse import compressed
from weft.language.memory.access import load
from weft.language.memory.views import contiguous_dimension, known_stride
from weft.language.numbers.convert import named_dtype
from weft.language.operation import operation
from weft.language.values import Fragment, Scalar, Tensor, describe, tensor_text
from weft.types import dtype as types
from weft.types.dtype import DType
from weft.types.fragment_layout import FragmentLayout

if TYPE_CHECKING:
    from weft.dialects.builder import Builder

_BYTES: Final = (types.i8, types.u8)
_BYTE_FLOATS: Final = (types.f8e4m3, types.f8e5m2)
# Elements of both operands → of sums. Those of a row may be mixed.
_PRODUCTS: Final = (
    ((types.bf16,), (types.f32,)),
    ((types.f16,), (types.f32, types.f16)),
    ((types.f32,), (types.f32,)),
    ((types.f64,), (types.f64,)),
    (_BYTES, (types.i32,)),
    (_BYTE_FLOATS, (types.f32, types.f16)),
)
_SUMS: Final = (types.f32, types.f16, types.f64, types.i32)
_ROW_BYTES: Final = 16  # of a matrix of `ldmatrix`, where it begins
_MOST_ELEMENTS: Final = 8192  # of an operand, 256 for each thread


@operation(name="mma.zeros")
def zeros(builder: Builder, shape: tuple[int, int], dtype: DType = types.f32) -> Fragment:
    """An accumulator of a warp that begins with 0.

    Args:
        shape: rows, a multiple of 16, and columns, a multiple of 8, which the warp computes.
        dtype: of the sums: f32, f16, f64 or i32.

    Raises:
        TypeMismatchError: for another type, or a shape that is not known at compile time.
        ValueRangeError: for other multiples.

    Example:
        ``acc = weft.mma.zeros((64, 32), weft.f32)``
    """
    dtype = named_dtype(dtype)
    return filled(builder, _sums("mma.zeros", shape, dtype), 0, dtype, "mma", "c")


@operation(name="mma.full")
def full(
    builder: Builder, shape: tuple[int, int], value: object, dtype: DType = types.f32
) -> Fragment:
    """An accumulator of a warp that begins with a number.

    Args:
        shape, dtype: as for `zeros`.
        value: of every element.

    Raises:
        TypeMismatchError, ValueRangeError: as `zeros`.

    Example:
        ``largest = weft.mma.full((64, 32), -float("inf"))``
    """
    dtype = named_dtype(dtype)
    return filled(builder, _sums("mma.full", shape, dtype), value, dtype, "mma", "c")


@operation(name="mma.from_values")
def from_values(
    builder: Builder,
    shape: tuple[int, int],
    values: object,
    dtype: DType,
    role: str = "c",
) -> Fragment:
    """A fragment from values that each thread computes: an operand that was never in memory, or sums.

    Args:
        shape: rows and columns: M x K of an operand `a`, K x N of `b`, M x N of sums `c`.
        values: this thread's elements, a tuple in the order of ``f.layout.coordinates(lane)``; or its registers of
            packed elements, a tuple of u32 in the order of ``f.registers``; or a function of an element's row and
            column, two i32, which is traced once and may read memory.
        dtype: of the elements.
        role: ``"a"``, ``"b"`` or ``"c"``.

    Raises:
        TypeMismatchError: for another number or type of values, another role, or a shape that is not constant.
        ValueRangeError: for a shape that is not a multiple of the instructions'.

    Example:
        ``left = weft.mma.from_values((16, 16), lambda row, column: row == column, weft.bf16, "a")``
    """
    dtype = named_dtype(dtype)
    checked = checked_values("mma.from_values", shape, dtype, role, "mma")
    return of_values(builder, "mma.from_values", values, checked, dtype, "mma", role)


@operation(name="mma.layout", on_host=True)
def layout(
    builder: Builder, shape: tuple[int, int], dtype: DType, role: str = "c"
) -> FragmentLayout:
    """The layout of a warp's fragment: ``layout.coordinates(lane)`` lists the rows and columns of a lane's elements.

    Python can call it, too, to store weights in the order in which a kernel's threads read them.

    Args:
        shape, dtype, role: as for `from_values`.

    Raises:
        TypeMismatchError, ValueRangeError: as there.

    Example:
        ``first = weft.mma.layout((16, 16), weft.bf16, "a").coordinates(0)[0]``
    """
    del builder
    return layout_of("mma", shape, dtype, role)


@operation(name="mma.compress", on_host=True, in_kernels=False)
def compress(builder: Builder, dense: Any) -> tuple[Any, Any]:
    """The nonzero half of a 2:4 sparse matrix A, and its metadata for ``weft.mma.mma``; Python calls it.

    Of 4 adjacent elements of a row at most two are nonzero, of f32 at most one of 2. -0 counts as zero, NaN does not.

    Args:
        dense: M x K, of NumPy or torch, on any device: bf16, f16, f32, i8, u8, f8e4m3 or f8e5m2; M is a multiple
            of 16, K of 64 bytes.

    Returns:
        The values, M x K / 2, and the metadata, u32 of shape M / 16 x parts x 32, where a part is 64 elements along
        K, of f32 32: in a kernel, lane l of a warp needs ``metadata[i, j, l]`` for the 16 rows from 16 i on and part j.

    Raises:
        TypeMismatchError: if it is not a matrix, or of another type.
        ValueRangeError: for another shape, or too many nonzero elements; the message has their place.

    Example:
        >>> import numpy as np
        >>> import weft
        >>> pruned = np.tile(np.array([1, 0, 0, 2], np.float16), (16, 8))
        >>> values, metadata = weft.mma.compress(pruned)
        >>> values.shape, values[0, :4].tolist(), metadata.shape
        ((16, 16), [1.0, 2.0, 1.0, 2.0], (1, 1, 32))
    """
    del builder
    return compressed(dense)


def layout_of(unit: str, shape: object, dtype: DType, role: str = "c") -> FragmentLayout:
    """The layout of a fragment of `unit`, as `layout`."""
    checked = checked_values(f"{unit}.layout", shape, dtype, role, unit)
    return FragmentLayout(checked, dtype.itemsize, unit, role)


def checked_values(
    name: str, shape: object, dtype: object, role: object, unit: str
) -> tuple[int, int]:
    """The shape of a fragment of values.

    Raises:
        TypeMismatchError, ValueRangeError: as `from_values`.
    """
    roles = ("a", "b", "c") if unit == "mma" else ("a", "c")
    if role not in roles:
        why = "; an operand b of wgmma is a tile" if role == "b" else ""
        raise TypeMismatchError(
            "MMA_ROLE",
            f"{name}: the role is {describe(role)}; expected {', '.join(map(repr, roles))}{why}",
        )
    if not isinstance(dtype, DType) or dtype.is_bool or dtype.is_packed:
        raise TypeMismatchError(
            "MMA_TYPE",
            f"{name}: expected an element type of whole bytes, received {describe(dtype)}",
            hint="give registers of packed elements as weft.u32",
        )
    rows, columns = constant_shape(name, shape)
    depth = 8 * max(1, 4 // dtype.itemsize)
    down = 16 if unit == "mma" else 64
    multiples = {"a": (down, depth), "b": (depth, 8), "c": (down, 8)}
    across = multiples[str(role)]
    if rows < across[0] or columns < across[1] or rows % across[0] or columns % across[1]:
        raise ValueRangeError(
            "MMA_SHAPE",
            f"{name}: the shape of {role} is {rows} x {columns}; of {dtype}, it is a multiple of "
            f"{across[0]} x {across[1]}",
        )
    return rows, columns


@operation(name="mma.load_a")
def load_a(builder: Builder, tile: Tensor) -> Fragment:
    """Operand A of an MMA from a tile in shared memory, M x K, by all 32 lanes of a warp.

    The tile may be the view `.T` of one that is stored K x M. Its rows, as they are stored, begin at multiples of 16
    bytes. GPUs read it with `ldmatrix`; 8-bit types that are not stored along K with a shuffle for each register, too.

    Args:
        tile: of constant shape: M a multiple of 16, K of 16 for 16-bit types, of 32 for 8-bit ones, else of 8.

    Raises:
        TypeMismatchError: if it is not such a tile.
        ValueRangeError: for other multiples, or rows that are not known to begin at multiples of 16 bytes.

    Example:
        ``left = weft.mma.load_a(weft.shared((64, 16), weft.bf16))``
    """
    return _loaded(builder, tile, "a", "mma.load_a")


@operation(name="mma.load_b")
def load_b(builder: Builder, tile: Tensor) -> Fragment:
    """Operand B of an MMA from a tile in shared memory, K x N, by all 32 lanes of a warp.

    The tile may be the view `.T` of one that is stored N x K. Of 8-bit types that is faster, as for `load_a`.

    Args:
        tile: of constant shape: N a multiple of 8, of 8-bit types stored K x N of 16; K as in `load_a`.

    Raises:
        TypeMismatchError, ValueRangeError: as `load_a`.

    Example:
        ``right = weft.mma.load_b(weft.shared((16, 32), weft.bf16))``
    """
    return _loaded(builder, tile, "b", "mma.load_b")


@operation(name="mma.mma")
def mma(
    builder: Builder, a: Fragment, b: Fragment, acc: Fragment, metadata: object = None
) -> Fragment:
    """``a · b + acc``, computed by all 32 lanes of a warp with tensor cores.

    Operands are bf16, f16, f8e4m3, f8e5m2 (also one of each), f32 or f64, with sums in f32; f16 and 8-bit floats also
    in f16, rounded after each 32 bytes of K (of 8-bit floats on sm_90 and sm_100 after each 16), and f64 in f64; i8 and
    u8 (also one of each), with sums in i32, which wrap. Of f32 the tensor cores read 10 bits of the fraction (tf32).
    Sums are added in the order of K on the CPU, in the machine's order on a GPU. It needs sm_80, of 8-bit floats sm_89.

    With metadata, A is sparse: of 4 adjacent elements along K two are nonzero, of f32 one of 2, and `a` has only
    these. The others are not multiplied, even by infinities. K is a multiple of 64 bytes.

    Args:
        a: M x K, or M x K / 2, from `load_a` or ``f.as_operand_a()``.
        b: K x N, from `load_b`.
        acc: M x N.
        metadata: this thread's registers of a sparse A, a tuple of u32 for each 16 rows and, within them, each 64
            elements along K, of f32 each 32: those of `weft.mma.compress`.

    Raises:
        TypeMismatchError: for types or shapes that do not fit.
        UnavailableError: for an older architecture.

    Example:
        ``acc = weft.mma.mma(weft.mma.load_a(tiles[0]), weft.mma.load_b(tiles[1]), weft.mma.zeros((16, 16)))``
    """
    for name, value, role, source in (
        ("a", a, "a", "weft.mma.load_a(tile)"),
        ("b", b, "b", "weft.mma.load_b(tile)"),
        ("acc", acc, "c", "weft.mma.zeros(shape)"),
    ):
        _check_operand(value, name, role, source)
    if not any(
        a.dtype in operands and b.dtype in operands and acc.dtype in sums
        for operands, sums in _PRODUCTS
    ):
        raise TypeMismatchError(
            "MMA_TYPE",
            f"mma.mma: tensor cores do not multiply {a.dtype} by {b.dtype} into {acc.dtype}",
            hint="sums are f32, of f16 and 8-bit floats also f16, of f64 f64, of i8 and u8 i32",
        )
    if metadata is not None:
        return _sparse(builder, a, b, acc, metadata)
    (rows, depth), (other, columns) = a.type.dims, b.type.dims
    if depth != other or acc.type.dims != (rows, columns):
        raise TypeMismatchError(
            "MMA_SHAPE",
            f"mma.mma: {rows} x {depth} times {other} x {columns} does not add to a sum of shape {acc.type.dims}",
        )
    made = builder.emit(MmaOp(f"{a.dtype} {b.dtype}", a.ssa, b.ssa, acc.ssa))
    return Fragment(made.result, acc.dtype)


def _sparse(
    builder: Builder, a: Fragment, b: Fragment, acc: Fragment, metadata: object
) -> Fragment:
    """`mma` with metadata, of operands whose types fit."""
    size = a.dtype.itemsize
    if size == 8 or (size == 1 and acc.dtype is types.f16):
        raise TypeMismatchError(
            "MMA_TYPE",
            f"mma.mma: tensor cores do not multiply a sparse {a.dtype} by {b.dtype} into {acc.dtype}",
            hint="a sparse operand is bf16, f16, f32 or an 8-bit float, with f32 sums, f16 also with f16 sums, or i8 "
            "or u8, with i32 sums",
        )
    (rows, half), (depth, columns) = a.type.dims, b.type.dims
    if 2 * half != depth or acc.type.dims != (rows, columns):
        raise TypeMismatchError(
            "MMA_SHAPE",
            f"mma.mma: a sparse {rows} x {2 * half} operand, of which {rows} x {half} elements are given, times "
            f"{depth} x {columns} does not add to a sum of shape {acc.type.dims}",
        )
    count = metadata_registers(rows, depth, size)
    words = cast("tuple[object, ...]", metadata) if isinstance(metadata, tuple) else ()
    if len(words) != count or any(
        not isinstance(word, Scalar) or word.dtype is not types.u32 for word in words
    ):
        raise TypeMismatchError(
            "MMA_METADATA",
            f"mma.mma: the metadata of a sparse {rows} x {depth} operand of {a.dtype} is a tuple of {count} u32, "
            f"received {describe(cast('object', metadata))}",
            hint="values, metadata = weft.mma.compress(dense) in Python; in the kernel metadata[i, j, weft.lane_id()] "
            "of each 16 rows i and each part j of K",
        )
    registers = [cast("Scalar", word).ssa for word in words]
    made = builder.emit(MmaOp(f"{a.dtype} {b.dtype}", a.ssa, b.ssa, acc.ssa, registers))
    return Fragment(made.result, acc.dtype)


def _check_operand(value: object, name: str, role: str, source: str) -> None:
    if not isinstance(value, Fragment):
        raise TypeMismatchError(
            "FRAGMENT_EXPECTED",
            f"mma.mma: {name} is {describe(value)}; expected a fragment",
            hint=f"write {source}",
        )
    kind = value.type
    if (kind.unit.data, kind.role.data) != ("mma", role):
        raise TypeMismatchError(
            "FRAGMENT_LAYOUT",
            f"mma.mma: {name} is {describe(value)}; expected an mma {role} fragment",
            hint=f"write {source}",
        )


def _loaded(builder: Builder, tile: object, role: str, name: str) -> Fragment:
    found = _checked_tile(tile, role, name)
    kind = FragmentType.get(found.type.dims, ir_type(found.dtype), "mma", role)
    along = contiguous_dimension(found.ssa)
    if along is None:
        raise TypeMismatchError(
            "MMA_TILE",
            f"{name}: neither rows nor columns of {describe(found)} are known to lie together in memory",
            hint="load the tile before the branch or loop that chooses one",
        )
    is_transposed = along == (0 if role == "a" else 1)
    size = found.dtype.itemsize
    if is_transposed and size == 1 and found.type.dims[along] % 16:
        raise ValueRangeError(
            "MMA_SHAPE",
            f"{name}: {describe(found)} is not stored along K; of {found.dtype}, N is a multiple of 16 then",
            hint="store it N x K, and give its .T",
        )
    if size == 8 or (size == 4 and is_transposed):

        def element(_: Block, row: Scalar, column: Scalar) -> Scalar:
            return load(builder, found, (row, column))

        return mapped(builder, kind, found.dtype, element, (), coordinates=True)
    _check_rows(found, 1 - along, name)
    block = Block(arg_types=[i32, i32])
    with builder.at(block):
        row, column = (Scalar(argument, types.i32) for argument in block.args)
        builder.emit(FragmentYieldOp([load(builder, found, (row, column)).ssa]))
    made = LoadMatrixOp(found.ssa, origin(builder, kind), kind, block, transposed=is_transposed)
    return Fragment(builder.emit(made).result, found.dtype)


def _check_rows(tile: Tensor, rows: int, name: str) -> None:
    """Checks that the rows of a tile, as they are stored, begin where `ldmatrix` reads them."""
    kind, step = tile.type, known_stride(tile.ssa, rows)
    if kind.swizzle_atoms is not None or (
        kind.alignment_bytes.data % _ROW_BYTES == 0
        and step is not None
        and step * tile.dtype.itemsize % _ROW_BYTES == 0
    ):
        return
    between = "not known" if step is None else f"{step * tile.dtype.itemsize} bytes apart"
    raise ValueRangeError(
        "MMA_TILE",
        f"{name}: {tile.name} is known to begin at a multiple of {kind.alignment_bytes.data} bytes, its rows are "
        f"{between}; expected multiples of {_ROW_BYTES}",
        hint=f"begin parts at multiples of {_ROW_BYTES // tile.dtype.itemsize} elements, and pad rows to such; or read "
        "each element by itself: weft.mma.from_values(shape, lambda row, column: tile[row, column], "
        f'weft.{tile.dtype}, "{name[-1]}")',
    )


def _checked_tile(tile: object, role: str, name: str) -> Tensor:
    if not isinstance(tile, Tensor) or tile.rank != 2 or tile.type.space.data != "shared":
        what = tensor_text(tile, tile.name) if isinstance(tile, Tensor) else describe(tile)
        raise TypeMismatchError(
            "MMA_TILE",
            f"{name} reads a tile of two dimensions in shared memory, received {what}",
            hint="copy it into a weft.shared array first",
        )
    dims = tile.type.dims
    if any(dim < 0 for dim in dims):
        raise TypeMismatchError(
            "MMA_TILE",
            f"{name}: the shape of {describe(tile)} is not known at compile time",
            hint="write tile.tile((64, 16), (0, k)), whose shape is constant",
        )
    known = [one for operands, _ in _PRODUCTS for one in operands]
    if tile.dtype not in known:
        raise TypeMismatchError(
            "MMA_TYPE",
            f"{name}: tensor cores do not multiply {tile.dtype}; they do {', '.join(map(str, known))}",
        )
    across, along = (16, 1) if role == "a" else (8, 0)
    depth = 8 * max(1, 4 // tile.dtype.itemsize)
    if not all(dims) or dims[1 - along] % across or dims[along] % depth:
        letters = ("M", "K") if role == "a" else ("K", "N")
        raise ValueRangeError(
            "MMA_SHAPE",
            f"{name}: the tile is {dims[0]} x {dims[1]}; of {tile.dtype}, {letters[1 - along]} is a multiple of "
            f"{across} and K of {depth}",
        )
    if dims[0] * dims[1] > _MOST_ELEMENTS:
        raise ValueRangeError(
            "MMA_SHAPE",
            f"{name}: the tile has {dims[0] * dims[1]} elements; a warp's registers hold at most {_MOST_ELEMENTS}",
            hint="load it in parts, tile.tile((64, 16), (0, k))",
        )
    return tile


def _sums(name: str, shape: object, dtype: object) -> tuple[int, int]:
    """The shape of a warp's accumulator."""
    if not isinstance(dtype, DType) or dtype not in _SUMS:
        names = ", ".join(one.name for one in _SUMS)
        raise TypeMismatchError("MMA_TYPE", f"{name}: sums are {names}, received {describe(dtype)}")
    rows, columns = constant_shape(name, shape)
    if rows < 16 or columns < 8 or rows % 16 or columns % 8:
        raise ValueRangeError(
            "MMA_SHAPE",
            f"{name}: the shape is {shape}; rows come in multiples of 16, and columns of 8",
        )
    return rows, columns


def constant_shape(name: str, shape: object) -> tuple[int, int]:
    """A shape of two constants.

    Raises:
        TypeMismatchError: for anything else.
    """
    given: Any = shape
    parts = cast("tuple[object, ...]", given) if isinstance(given, tuple) else ()
    if len(parts) != 2 or any(type(part) is not int for part in parts):
        raise TypeMismatchError(
            "MMA_SHAPE",
            f"{name}: the shape is two constants, rows and columns, received {describe(cast('object', given))}",
            hint="write (64, 32)",
        )
    return cast("tuple[int, int]", parts)
