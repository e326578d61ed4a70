# SPDX-License-Identifier: Apache-2.0
"""Parts of tensors: ``a[i]`` of a matrix, ``a[2:n]``, ``a[:, j]``, ``a[::-1]``, ``a[..., 0]``.

In: a tensor and its subscript. Out: an element if every dimension has an integer, else a view of the same memory.
"""

from __future__ import annotations

from math import gcd
from types import EllipsisType
from typing import TYPE_CHECKING, cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import i32, i64

from weft.dialects.simt.memory import ViewOp
from weft.dialects.simt.types import DYNAMIC, UNBOUNDED
from weft.errors import TypeMismatchError, UnsupportedSyntaxError, ValueRangeError
from weft.language.ir_types import ir_tensor_type
from weft.language.memory.access import (
    dim,
    index_part,
    index_values,
    load,
    placed_index,
    wrong_count,
)
from weft.language.memory.packed import check_view, load_element
from weft.language.numbers.convert import convert, to_common
from weft.language.numbers.operators import binary
from weft.language.numbers.promises import offset_multiple
from weft.language.numbers.promotion import common_dtype
from weft.language.values import Scalar, Tensor, describe
from weft.types import dtype as types

if TYPE_CHECKING:
    from xdsl.ir import SSAValue

    from weft.dialects.builder import Builder
    from weft.dialects.simt.types import TensorType

Number = int | Scalar


class _Kept:
    """A dimension of the source kept by the view.

    Attributes:
        dimension: of the source.
        size: of the view there.
        step: in elements of the source.
        is_full: whether the view has all of it, in order.
    """

    __slots__ = ("dimension", "is_full", "size", "step")

    def __init__(self, dimension: int, size: Number, step: int, is_full: bool) -> None:
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

    An integer drops its dimension, a slice keeps it, ``...`` and omitted indices keep whole dimensions. For a pointer,
    ``p[a:]`` is a pointer and ``p[a:b]`` a tensor of ``b - a`` elements; nothing is clipped or counted from an end. For
    a tensor, bounds are clipped to the end, and negative constants count from the end; run-time bounds must not be
    negative. Steps are constants.

    Raises:
        TypeMismatchError: for too many indices, or one that is neither an integer nor a slice.
        ValueRangeError: for a constant integer out of range, or a step of 0.
        UnsupportedSyntaxError: for a new axis, or a step known only at run time.
    """
    starts: list[SSAValue] = []
    kept: list[_Kept] = []
    multiples: list[int] = []  # of the elements before the view, along each dimension
    parts = _expanded(tensor, _parts(indices))
    if tensor.type.panels is not None:
        _refuse_parts_of_panels(tensor, parts)
    for dimension, part in enumerate(parts):
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
    source, layout = tensor.type, _layout(tensor, kept)
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
            swizzle=source.panels,
        ),
    )
    return Tensor(builder.emit(made, f"{tensor.name}_part").result, tensor.dtype, name)


def _refuse_parts_of_panels(tensor: Tensor, parts: list[object]) -> None:
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
    """The whole tensor as one of a type that says less of its dims or alignment (`TensorType.joined`)."""
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
    if any(part is None for part in parts):
        raise UnsupportedSyntaxError(
            "VIEW_NEW_AXIS",
            f"{tensor.name}[...] holds None; a view has no new axes",
            hint="leave it out, and index the view with its existing dimensions",
        )
    ellipses = sum(isinstance(part, EllipsisType) for part in parts)
    given = len(parts) - ellipses
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
