# SPDX-License-Identifier: Apache-2.0
"""Parts of tensors: ``a[i]`` of a matrix, ``a[2:n]``, ``a[:, j]``, ``a[::-1]``, ``a[..., 0]``; tiles; ``a.T``.

In: a tensor and its subscript, or a tile's constant shape and index. Out: an element if every dimension has an integer,
else a view of the same memory. What TMA copies and the tensor cores multiply is a tile.
"""

from __future__ import annotations

import functools
from math import gcd
from types import EllipsisType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import i32, i64

from weft.dialects.simt.debug import AssumeOp
from weft.dialects.simt.memory import AddressOp, ReshapeOp, ViewOp
from weft.dialects.simt.types import DYNAMIC, UNBOUNDED, TensorType
from weft.errors import TypeMismatchError, UnsupportedSyntaxError, ValueRangeError
from weft.language import LANGUAGE, resolve
from weft.language.debug import emit_assert
from weft.language.ir_types import ir_tensor_type
from weft.language.memory import access
from weft.language.memory.access import (
    dim,
    index_part,
    index_values,
    load,
    placed_index,
    wrong_count,
)
from weft.language.memory.arrays import static_shape
from weft.language.memory.packed import check_view, load_element
from weft.language.numbers.convert import (
    common_dtype,
    convert,
    expect_scalar,
    index_dtype,
    to_common,
    truth,
)
from weft.language.numbers.operators import binary, compare
from weft.language.numbers.promises import dim_divisor, offset_multiple, stride_factor
from weft.language.operation import operation
from weft.language.values import Scalar, Tensor, describe, item_text, shape_text
from weft.types import dtype as types
from weft.types.dims import MAX_RANK

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.ir import SSAValue

    from weft.dialects.builder import Builder


Number = int | Scalar
_ALIGNMENTS: Final = tuple(1 << bits for bits in range(9))


class _Kept:
    """A dimension of the source kept by the view.

    Attributes:
        dimension: of the source.
        size: of the view there.
        step: in elements of the source.
        is_full: whether the view has all of it, in order.
        is_new: whether it is an axis of size 1 that the source does not have; its index is 0 on any dimension.
    """

    __slots__ = ("dimension", "is_full", "is_new", "size", "step")

    def __init__(
        self, dimension: int, size: Number, step: int, is_full: bool, is_new: bool = False
    ) -> None:
        self.is_new = is_new
        self.dimension = dimension
        self.size = size
        self.step = step
        self.is_full = is_full


def is_part(tensor: Tensor, indices: object) -> bool:
    """Whether a subscript makes a view: it has a slice or ``...``, or fewer integers than dimensions."""
    parts = _parts(indices)
    has_range = any(isinstance(part, slice | EllipsisType | None) for part in parts)
    return has_range or len(parts) < tensor.rank


def subscript(builder: Builder, tensor: Tensor, indices: object) -> Scalar | Tensor:
    """``tensor[indices]``: an element, or a view.

    Raises:
        TypeMismatchError, ValueRangeError: as `load` and `view`.
    """
    if is_part(tensor, indices):
        return view(builder, tensor, indices)
    if tensor.dtype.is_packed:
        return load_element(builder, tensor, index_values(builder, tensor, indices))
    return load(builder, tensor, indices)


def view(builder: Builder, tensor: Tensor, indices: object) -> Tensor:
    """``tensor[indices]`` as a tensor over the same memory, as in NumPy.

    An integer drops its dimension, a slice keeps it, ``...`` and omitted indices keep whole dimensions, `None` makes
    one of size 1. For a pointer,
    ``p[a:]`` is a pointer and ``p[a:b]`` a tensor of ``b - a`` elements; nothing is clipped or counted from an end. For
    a tensor, bounds are clipped to the end, and negative constants count from the end; run-time bounds must not be
    negative. Steps are constants.

    Raises:
        TypeMismatchError: for too many indices, or one that is neither an integer nor a slice.
        ValueRangeError: for a constant integer out of range, or a step of 0.
        UnsupportedSyntaxError: for a step known only at run time, or a new axis of a pointer, a swizzled array or
            packed elements.
    """
    starts: list[SSAValue] = []
    kept: list[_Kept] = []
    multiples: list[int] = []  # of the elements before the view, along each dimension
    parts = _expanded(tensor, _parts(indices))
    if tensor.rank == 0:
        return reshape.emit(builder, tensor, *[1] * len(parts)) if parts else tensor
    if tensor.type.swizzle_atoms is not None:
        _refuse_parts_of_atoms(tensor, parts)
    dimension = -1
    for part in parts:
        if part is None:
            kept.append(_Kept(max(dimension, 0), 1, 1, is_full=False, is_new=True))
            continue
        dimension += 1
        if isinstance(part, slice):
            start, found = _range(builder, tensor, dimension, cast("slice", part))
            kept.append(found)
            starts.append(_start(builder, start))
        else:
            start = index_part(builder, tensor, dimension, part)
            starts.append(placed_index(builder, tensor, dimension, start))
        multiples.append(offset_multiple(builder, tensor, dimension, start))
    if len(kept) == tensor.rank and all(one.is_full for one in kept):
        return tensor
    sizes = [one.size.ssa for one in kept if isinstance(one.size, Scalar)]
    source, layout = tensor.type, _layout(tensor, [one for one in kept if not one.is_new])
    name = f"{tensor.name}[{', '.join(map(_part_text, _parts(indices)))}]"
    if tensor.dtype.is_packed:
        check_view(tensor, layout, multiples, name)
    made = ViewOp(
        tensor.ssa,
        starts,
        sizes,
        [one.dimension for one in kept],
        [one.step for one in kept],
        ir_tensor_type(
            tensor.dtype,
            [one.size if isinstance(one.size, int) else DYNAMIC for one in kept],
            layout=layout,
            space=source.space.data,
            dim_bits=source.dim_bits.data,
            offset_bits=source.offset_bits.data,
            alignment_bytes=gcd(
                source.alignment_bytes.data, gcd(*multiples) * tensor.dtype.bits // 8
            ),
            swizzle=source.swizzle_atoms,
        ),
    )
    return Tensor(builder.emit(made, f"{tensor.name}_part").result, tensor.dtype, name)


@operation(takes_complex=True)
def assume_aligned(builder: Builder, tensor: object, nbytes: object) -> Tensor:
    """Promises that a tensor begins at a multiple of `nbytes`, and returns it with this alignment, for `load_vector`.

    The promise is checked as that of `assume`: always on the CPU, on a GPU under the sanitizer or with
    ``--enable-assertions``. It adds nothing where the alignment is known.

    Args:
        tensor: an argument or a view, such as a row.
        nbytes: a power of two up to 256; a constant.

    Raises:
        TypeMismatchError: for anything else than a tensor.
        ValueRangeError: for another number.
        AssertionError: from the launch, where it does not hold.

    Example:
        ``row = weft.assume_aligned(rows[tid], 16); x, y, z, w = weft.load_vector(row, 0, 4)``
    """
    if not isinstance(tensor, Tensor) or tensor.type.is_pointer:
        raise TypeMismatchError(
            "ASSUME_ALIGNED", f"assume_aligned: expected a tensor, received {describe(tensor)}"
        )
    if nbytes not in _ALIGNMENTS or isinstance(nbytes, bool | float):
        raise ValueRangeError(
            "ASSUME_ALIGNED",
            f"assume_aligned: the alignment is {describe(nbytes)}; expected a power of two from 1 to "
            f"{_ALIGNMENTS[-1]}, in bytes, a constant",
        )
    wanted = cast("int", nbytes)
    if tensor.type.alignment_bytes.data % wanted == 0:
        return tensor
    if tensor.type.swizzle_atoms is not None or tensor.rank == 0:
        raise TypeMismatchError(
            "ASSUME_ALIGNED",
            f"assume_aligned: {tensor.name} is {describe(tensor)}; expected one with dims that is not swizzled",
        )
    first = [builder.constant(i32, 0)] * tensor.rank
    address = Scalar(builder.emit(AddressOp(tensor.ssa, first)).result, types.i64)
    rest = binary(builder, "&", address, wanted - 1)
    text = f"assume_aligned: {tensor.name} begins at a multiple of {wanted} bytes"
    condition = truth(builder, compare(builder, "==", rest, 0))
    builder.emit(AssumeOp(condition.ssa, text))
    kind = tensor.type
    made = ir_tensor_type(
        tensor.dtype,
        kind.dims,
        layout=kind.layout.data,
        space=kind.space.data,
        dim_bits=kind.dim_bits.data,
        offset_bits=kind.offset_bits.data,
        alignment_bytes=wanted,
    )
    return Tensor(view_as(builder, tensor, made), tensor.dtype, tensor.name)


def _refuse_parts_of_atoms(tensor: Tensor, parts: list[object]) -> None:
    """Raises for a part of a swizzled array that is not one of its tiles, whole."""
    whole = all(isinstance(part, slice) and part == slice(None) for part in parts[-2:])
    if whole and not any(isinstance(part, slice) and part != slice(None) for part in parts[:-2]):
        return
    raise UnsupportedSyntaxError(
        "VIEW_SWIZZLED",
        f"{tensor.name}[{', '.join(map(_part_text, parts))}]: {tensor.name} is swizzled, so that only whole "
        "matrices of its last two dims are views",
        hint=f"write {tensor.name}.tile((rows, columns), (i, j)) for a part of one; elements need all indices",
    )


def view_as(builder: Builder, tensor: Tensor, wanted: TensorType) -> SSAValue:
    """The whole tensor as one of a type with other knowledge of its dims or alignment, such as `TensorType.joined`."""
    if tensor.type == wanted:
        return tensor.ssa
    starts = [builder.constant(i32, 0)] * tensor.rank
    sizes: list[SSAValue] = []
    dtype = types.i32 if wanted.dim_bits.data == 32 else types.i64
    for dimension, length in enumerate(wanted.dims):
        if length == DYNAMIC:
            found = dim(builder, tensor, dimension)
            sizes.append(to_common(builder, found, dtype).ssa)
    kept, steps = range(tensor.rank), [1] * tensor.rank
    return builder.emit(ViewOp(tensor.ssa, starts, sizes, kept, steps, wanted)).result


def _parts(indices: object) -> tuple[object, ...]:
    return cast("tuple[object, ...]", indices) if isinstance(indices, tuple) else (indices,)


def _expanded(tensor: Tensor, parts: tuple[object, ...]) -> list[object]:
    """One index or slice per dimension."""
    ellipses = sum(isinstance(part, EllipsisType) for part in parts)
    axes = sum(part is None for part in parts)
    if axes:
        _check_new_axes(tensor, axes, parts)
    given = len(parts) - ellipses - axes
    if ellipses > 1 or given > tensor.rank:
        raise (
            wrong_count(tensor, given)
            if ellipses < 2
            else TypeMismatchError(
                "INDEX_COUNT", f"{tensor.name}[...] holds two ellipses; one is allowed"
            )
        )
    missing: list[object] = [slice(None)] * (tensor.rank - given)
    if not ellipses:
        return [*parts, *missing]
    place = next(n for n, part in enumerate(parts) if isinstance(part, EllipsisType))
    return [*parts[:place], *missing, *parts[place + 1 :]]


def _check_new_axes(tensor: Tensor, axes: int, parts: tuple[object, ...]) -> None:
    """Raises for a tensor that has no new axes."""
    kind = tensor.type
    what = (
        "is a pointer"
        if kind.is_pointer
        else "has packed elements"
        if tensor.dtype.is_packed
        else ""
    )
    what = "is swizzled" if kind.swizzle_atoms is not None else what
    dropped = sum(not isinstance(part, slice | EllipsisType | None) for part in parts)
    if tensor.rank + axes - dropped > MAX_RANK:
        what = f"would have rank {tensor.rank + axes - dropped}; at most {MAX_RANK} is allowed"
    if what:
        raise UnsupportedSyntaxError(
            "VIEW_NEW_AXIS",
            f"{tensor.name}[{', '.join(map(_part_text, parts))}] holds None, a new axis, but {tensor.name} {what}",
            hint="leave it out, and index the view with its existing dimensions",
        )


def _range(builder: Builder, tensor: Tensor, dimension: int, part: slice) -> tuple[Number, _Kept]:
    """A slice's start, and the dimension it keeps."""
    step = _step(builder, tensor, dimension, part.step)
    if tensor.type.is_pointer:
        return _pointer_range(builder, tensor, part, step)
    length = dim(builder, tensor, dimension)
    if part.start is None and part.stop is None and step == 1:
        return 0, _Kept(dimension, length, 1, True)
    start, stop = (
        None if bound is None else index_part(builder, tensor, dimension, bound)
        for bound in (part.start, part.stop)
    )
    if not isinstance(length, Scalar | None) and not any(
        isinstance(b, Scalar) for b in (start, stop)
    ):
        first, last, _ = slice(start, stop, step).indices(length)
        size = len(range(first, last, step))
        return first, _Kept(dimension, size, step, size == length and step == 1)
    first, distance = (
        _upward(builder, start, stop, length)
        if step > 0
        else _downward(builder, start, stop, length)
    )
    size = distance
    if abs(step) > 1:
        size = binary(builder, "//", _plus(builder, distance, abs(step) - 1), abs(step))
    if isinstance(size, Scalar):
        size = convert(builder, size, types.i32 if tensor.type.dim_bits.data == 32 else types.i64)
    return first, _Kept(dimension, size, step, False)


def _pointer_range(
    builder: Builder, tensor: Tensor, part: slice, step: int
) -> tuple[Number, _Kept]:
    """The same for a pointer, which has no end to count from: ``p[a:]`` is a pointer, ``p[a:b]`` a tensor."""
    if step != 1:
        raise ValueRangeError(
            "VIEW_STEP",
            f"the step of a slice of {tensor.name}, which is a pointer, is {step}; expected 1",
            hint=f"make a tensor first: {tensor.name}[:n][::{step}]",
        )
    start = 0 if part.start is None else index_part(builder, tensor, 0, part.start)
    if part.stop is None:
        return start, _Kept(0, UNBOUNDED, 1, isinstance(start, int) and start == 0)
    stop = index_part(builder, tensor, 0, part.stop)
    size = _larger(builder, _minus(builder, stop, start), 0)
    if isinstance(size, Scalar):
        size = convert(builder, size, types.i64)
    return start, _Kept(0, size, 1, False)


def _upward(
    builder: Builder, start: Number | None, stop: Number | None, length: Number
) -> tuple[Number, Number]:
    """First index and distance to the end, for a positive step."""
    if start is None:
        start = 0
    elif isinstance(start, int) and start < 0:
        start = _larger(builder, _plus(builder, length, start), 0)
    if stop is None:
        stop = length
    elif isinstance(stop, int) and stop < 0:
        stop = _plus(builder, length, stop)
    else:
        stop = _smaller(builder, stop, length)
    return start, _larger(builder, _minus(builder, stop, start), 0)


def _downward(
    builder: Builder, start: Number | None, stop: Number | None, length: Number
) -> tuple[Number, Number]:
    """First index and distance to the end, for a negative step."""
    if start is None:
        start = _plus(builder, length, -1)
    elif isinstance(start, int) and start < 0:
        start = _plus(builder, length, start)
    else:
        start = _smaller(builder, start, _plus(builder, length, -1))
    if stop is None:
        stop = -1
    elif isinstance(stop, int) and stop < 0:
        stop = _larger(builder, _plus(builder, length, stop), -1)
    return start, _larger(builder, _minus(builder, start, stop), 0)


def _step(builder: Builder, tensor: Tensor, dimension: int, step: object) -> int:
    if step is None:
        return 1
    number = index_part(builder, tensor, dimension, step)
    if isinstance(number, Scalar):
        raise UnsupportedSyntaxError(
            "VIEW_STEP",
            f"the step of a slice of {tensor.name} is {describe(number)}, known only at run time",
            hint="use a constant step, or compute the index of each element",
        )
    if number == 0:
        raise ValueRangeError("VIEW_STEP", f"the step of a slice of {tensor.name} is 0")
    return number


def _plus(builder: Builder, left: Number, right: Number) -> Number:
    if isinstance(left, int) and isinstance(right, int):
        return left + right
    if isinstance(right, int) and right == 0:
        return left
    return binary(builder, "+", left, right)


def _minus(builder: Builder, left: Number, right: Number) -> Number:
    if isinstance(left, int) and isinstance(right, int):
        return left - right
    if isinstance(right, int) and right == 0:
        return left
    return binary(builder, "-", left, right)


def _smaller(builder: Builder, left: Number, right: Number) -> Number:
    if isinstance(left, int) and isinstance(right, int):
        return min(left, right)
    return _chosen(builder, arith.MinSIOp, left, right)


def _larger(builder: Builder, left: Number, right: Number) -> Number:
    if isinstance(left, int) and isinstance(right, int):
        return max(left, right)
    return _chosen(builder, arith.MaxSIOp, left, right)


def _chosen(
    builder: Builder, kind: type[arith.MinSIOp | arith.MaxSIOp], left: Number, right: Number
) -> Scalar:
    dtype = common_dtype(left, right)
    one, other = to_common(builder, left, dtype), to_common(builder, right, dtype)
    return Scalar(builder.emit(kind(one.ssa, other.ssa)).result, dtype)


def _start(builder: Builder, start: Number) -> SSAValue:
    if isinstance(start, Scalar):
        return start.ssa
    return builder.constant(i32 if start <= types.i32.maximum else i64, start)


def _layout(tensor: Tensor, kept: list[_Kept]) -> str:
    """The layout class of a view."""
    layout, rank = tensor.type.layout.data, tensor.rank
    if layout == "swizzled":
        return layout
    if not kept:
        return "contiguous"
    last = kept[-1]
    if layout == "strided" or last.dimension != rank - 1 or last.step != 1:
        return "strided"
    if len(kept) == 1:
        return "contiguous"
    is_tail = [one.dimension for one in kept] == list(range(rank - len(kept), rank))
    whole = is_tail and kept[0].step == 1 and all(one.is_full for one in kept[1:])
    return "contiguous" if layout == "contiguous" and whole else "inner"


def _part_text(part: object) -> str:
    """An index in a view's name."""
    if isinstance(part, EllipsisType):
        return "..."
    if isinstance(part, slice):
        whole = cast("slice[object, object, object]", part)
        texts = [
            "" if bound is None else _part_text(bound)
            for bound in (whole.start, whole.stop, whole.step)
        ]
        return ":".join(texts if texts[2] else texts[:2])
    if isinstance(part, Scalar):
        return part.ssa.name_hint or "_"
    return str(part)


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
    """The layout of a matrix in shared memory, for copies and MMAs.

    Attributes:
        rows, columns: of the matrix as it lies; of `a.T` those of `a`.
        atom_columns: elements in a row of an atom; of an array without swizzle its columns.
        atom_stride: elements from one column of atoms to the next.
        row_bytes: the swizzle, or 0.
        is_transposed: whether the value's dims are columns, rows.
    """

    rows: int
    columns: int
    atom_columns: int
    atom_stride: int
    row_bytes: int
    is_transposed: bool


def tile_facts(tensor: Tensor) -> TileFacts | None:
    """The facts of a matrix of constant shape in shared memory; None for any other tensor."""
    kind = tensor.type
    if kind.rank != 2 or kind.space.data != "shared" or DYNAMIC in kind.dims:
        return None
    swizzle = kind.swizzle_atoms
    if swizzle is None:
        rows, columns = kind.dims
        if kind.layout.data != "contiguous":
            return None
        return TileFacts(rows, columns, columns, rows * columns, 0, False)
    is_transposed = bool(swizzle.is_transposed.data)
    rows, columns = kind.dims[::-1] if is_transposed else kind.dims
    stride = swizzle.atom_stride.data
    return TileFacts(
        rows, columns, kind.atom_columns, stride, swizzle.row_bytes.data, is_transposed
    )


def contiguous_dimension(tensor: SSAValue) -> int | None:
    """The dimension along which a tensor's elements are adjacent in memory; None if that is known only at run time."""
    kind = tensor.type
    assert isinstance(kind, TensorType)
    if kind.swizzle_atoms is not None and kind.swizzle_atoms.is_transposed.data:
        return kind.rank - 2
    if kind.layout.data != "strided":
        return kind.rank - 1
    owner = tensor.owner
    if not isinstance(owner, ViewOp):
        return None
    along = contiguous_dimension(owner.source)
    found = [number for number, kept in enumerate(owner.dimensions) if kept == (along, 1)]
    # Beside a new axis, whose only index is 0, it is the dimension that has elements.
    return max(found, key=lambda number: kind.dims[number] != 1, default=None)


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
    as wide as a part of a swizzle atom or some atoms.

    Args:
        tensor: of rank 1 or more; ``a.tile(...)`` passes it.
        shape: an int or a tuple, one per dimension: constants that divide constant dims.
        index: an integer or a tuple, one per dimension.

    Raises:
        TypeMismatchError: for a shape that is not constant, or of another rank; an index that is not an integer.
        ValueRangeError: for a shape that does not divide a constant dim, or a constant index of no whole tile; for a
            tile of a swizzled array that lies in two swizzle atoms and fills none.

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
        starts.append(_tile_start(builder, tensor, dimension, size, part))
    _check_atoms(tensor, dims)
    return _view(builder, tensor, dims, starts)


@operation(name="Tensor.reshape", on_host=True, takes_complex=True)
def reshape(builder: Builder, tensor: Tensor, *shape: object) -> Tensor:
    """The same elements, in the same order, with other dimensions: a view, as in NumPy, never a copy.

    The product of the sizes is checked: at compile time if it is known, else by each call, and in a kernel as `assert`
    is.

    Args:
        tensor: contiguous; ``a.reshape(...)`` passes it.
        shape: integers, or one tuple of them, known at compile time or not; one may be -1, for the rest.

    Raises:
        TypeMismatchError: for a tensor that is not contiguous, is swizzled or packed; a size that is not an integer.
        ValueRangeError: for negative sizes, two of -1, a rank above 8, or constants with another product.
        AssertionError: from the call or launch, for another product.

    Example:
        ``rows = a.reshape(-1, 64); heads = b.reshape(4, 8, len(b) // 32)``
    """
    kind = tensor.type
    if kind.layout.data != "contiguous" or kind.swizzle_atoms is not None or tensor.dtype.is_packed:
        what = "has packed elements" if tensor.dtype.is_packed else f"is {kind.layout.data}"
        raise TypeMismatchError(
            "RESHAPE_LAYOUT",
            f"{tensor.name}.reshape: {tensor.name} {what}; only contiguous elements of whole bytes can be reshaped",
            hint="reshape before slicing or transposing, or index the tensor itself",
        )
    parts = cast("Any", shape[0] if len(shape) == 1 and isinstance(shape[0], tuple) else shape)
    sizes = [_reshaped_size(builder, tensor, part) for part in cast("tuple[object, ...]", parts)]
    text = ", ".join(map(item_text, sizes))
    if len(_open(sizes)) > 1 or len(sizes) > MAX_RANK:
        raise ValueRangeError(
            "RESHAPE_SHAPE",
            f"{tensor.name}.reshape({text}): at most one size is -1, and at most {MAX_RANK} are allowed",
        )
    _fill_and_check(builder, tensor, sizes, text)
    wide = kind.dim_bits.data == 64 or any(
        one > types.i32.maximum if isinstance(one, int) else one.dtype is types.i64 for one in sizes
    )
    dtype = types.i64 if wide else types.i32
    made = ir_tensor_type(
        tensor.dtype,
        [one if isinstance(one, int) else DYNAMIC for one in sizes],
        space=kind.space.data,
        dim_bits=dtype.bits,
        offset_bits=kind.offset_bits.data,
        alignment_bytes=kind.alignment_bytes.data,
    )
    operands = [convert(builder, one, dtype).ssa for one in sizes if isinstance(one, Scalar)]
    op = ReshapeOp(tensor.ssa, operands, made)
    name = f"{tensor.name}.reshape({text})"
    return Tensor(builder.emit(op, f"{tensor.name}_reshaped").result, tensor.dtype, name)


def _reshaped_size(builder: Builder, tensor: Tensor, part: object) -> Number:
    number = expect_scalar(builder, part, f"{tensor.name}.reshape: a size")
    known = number.constant if isinstance(number, Scalar) else number
    if known is None and isinstance(number, Scalar):
        dtype = index_dtype(number.dtype)
        if dtype is not None:
            return convert(builder, number, dtype)
    if not isinstance(known, int) or isinstance(known, bool):
        raise TypeMismatchError(
            "RESHAPE_SHAPE",
            f"{tensor.name}.reshape: a size is {describe(part)}; expected an integer",
            hint="use // instead of /, or convert it, such as weft.i32(x)",
        )
    if known < -1:
        raise ValueRangeError("RESHAPE_SHAPE", f"{tensor.name}.reshape: a size is {known}")
    return known


def _open(sizes: Sequence[Number]) -> list[int]:
    """Places of the sizes that are -1."""
    return [number for number, one in enumerate(sizes) if isinstance(one, int) and one == -1]


def _fill_and_check(builder: Builder, tensor: Tensor, sizes: list[Number], text: str) -> None:
    """Replaces -1, and checks that the product of the sizes is the tensor's number of elements."""
    whole, left = access.size(builder, tensor), _open(sizes)
    given: Number = 1
    for one in sizes:
        if not isinstance(one, int) or one != -1:
            wide = one if isinstance(one, int) else convert(builder, one, types.i64)
            given = (
                given * wide
                if isinstance(given, int) and isinstance(wide, int)
                else binary(builder, "*", given, wide)
            )
    sentence = f"{tensor.name}.reshape({text}) has as many elements as {tensor.name}"
    known = isinstance(whole, int) and isinstance(given, int)
    fits = True
    if isinstance(whole, int) and isinstance(given, int):
        fits = whole == given or (bool(left) and given != 0 and whole % given == 0)
    if not fits:
        raise ValueRangeError(
            "RESHAPE_SHAPE",
            f"{tensor.name}.reshape({text}): {tensor.name} has shape {shape_text(tensor)} and {whole} elements",
            hint="the sizes' product is the number of elements; one may be -1",
        )
    for one in sizes:
        if isinstance(one, Scalar):
            emit_assert(builder, compare(builder, ">=", one, 0), sentence)
    if left:
        if isinstance(given, int) and given == 0:
            raise ValueRangeError(
                "RESHAPE_SHAPE",
                f"{tensor.name}.reshape({text}): beside a size of 0, -1 may be any",
            )
        rest = binary(builder, "//", whole, given)
        if isinstance(given, Scalar):
            emit_assert(builder, compare(builder, ">=", rest, 0), sentence)
        if not known and not _divides(builder, tensor, given):
            product = binary(builder, "*", rest, given)
            emit_assert(builder, compare(builder, "==", product, whole), sentence)
        if isinstance(rest, Scalar) and tensor.type.dim_bits.data == 32:
            narrow = types.i32
            emit_assert(builder, compare(builder, "<=", rest, types.i32.maximum), sentence)
            rest = convert(builder, rest, narrow)
        sizes[left[0]] = rest
    elif not known:
        emit_assert(builder, compare(builder, "==", whole, given), sentence)


def _divides(builder: Builder, tensor: Tensor, given: Number) -> bool:
    """Whether the number of elements is known to be a multiple."""
    if not isinstance(given, int):
        return False
    product = 1
    for number in range(tensor.rank):
        product *= dim_divisor(builder, tensor.ssa, number)
    return product % given == 0


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
    atoms = kind.swizzle_atoms
    made = ir_tensor_type(
        tensor.dtype,
        dims,
        layout="strided",
        space=kind.space.data,
        dim_bits=kind.dim_bits.data,
        offset_bits=kind.offset_bits.data,
        alignment_bytes=kind.alignment_bytes.data,
        swizzle=None if atoms is None else atoms.transposed,
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


def _tile_start(
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


def _check_atoms(tensor: Tensor, dims: Sequence[int]) -> None:
    """Raises for a tile of a swizzled array that lies in two swizzle atoms and fills none."""
    swizzle = tensor.type.swizzle_atoms
    if swizzle is None:
        return
    width = tensor.type.atom_columns
    columns = dims[-2] if swizzle.is_transposed.data else dims[-1]
    if width % columns and columns % width:
        raise ValueRangeError(
            "TILE_SWIZZLE_ATOM",
            f"{tensor.name}.tile: {columns} columns of {tensor.name} are neither a part of a swizzle atom of {width} "
            "nor some atoms",
            hint=f"a row of swizzle={swizzle.row_bytes.data} has {width} elements; take a divisor or a multiple",
        )


def _view(
    builder: Builder, tensor: Tensor, dims: Sequence[int], starts: Sequence[int | Scalar]
) -> Tensor:
    kind, itemsize = tensor.type, tensor.dtype.itemsize
    alignment = kind.alignment_bytes.data
    for dimension, (size, start) in enumerate(zip(dims, starts, strict=True)):
        known = start if isinstance(start, int) else size
        alignment = gcd(alignment, itemsize * known * _tile_step(builder, tensor, dimension, size))
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
        swizzle=kind.swizzle_atoms,
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


def _tile_step(builder: Builder, tensor: Tensor, dimension: int, size: int) -> int:
    """A divisor of the elements between the addresses of adjacent indices of tiles of a size."""
    swizzle = tensor.type.swizzle_atoms
    if swizzle is None or dimension < tensor.rank - 2:
        return stride_factor(builder, tensor.ssa, dimension)
    is_row = (dimension == tensor.rank - 2) != bool(swizzle.is_transposed.data)
    if is_row:
        return tensor.type.atom_columns
    # Whole atoms advance by their stride, in elements; parts of one by themselves.
    width = tensor.type.atom_columns
    return swizzle.atom_stride.data // width if size % width == 0 else 1
