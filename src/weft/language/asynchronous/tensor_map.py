# SPDX-License-Identifier: Apache-2.0
"""Tensor maps: ``tensor_map`` and ``im2col_map`` in host functions, ``tma.copy_map``, ``tma.edit_map``, ``tma.map_at``.

In: a tensor, a box, a swizzle; of images for convolutions, channels last, the kernel's size, padding, stride and
dilation; in kernels, maps of the launch and places in memory. Out: a `TensorMap`, an argument of kernels; of images its
boxes are pixels by channels; in kernels, maps of tensors that only the kernel knows, such as the matrices of a grouped
GEMM.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeGuard, TypeVar, cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import i32

from weft.dialects.nvgpu.tensor_map import (
    MAP_BYTES,
    MOST_BOX,
    MOST_PIXELS,
    MOST_RANK,
    SWIZZLES,
    CopyMapOp,
    EditMapOp,
    MakeTensorMapOp,
    MapAtOp,
    TensorMapType,
)
from weft.dialects.nvgpu.threads import ElectOneOp
from weft.dialects.simt.threads import WarpBarrierOp
from weft.dialects.simt.types import TILE_ALIGNMENT, array_bytes
from weft.errors import TypeMismatchError, ValueRangeError
from weft.language.debug import emit_assert
from weft.language.ir_types import ir_type
from weft.language.memory.access import dim
from weft.language.memory.arrays import static_shape
from weft.language.numbers.convert import convert
from weft.language.numbers.operators import compare
from weft.language.operation import operation
from weft.language.threads.barrier import FULL_MASK, lane_mask
from weft.language.values import Scalar, Tensor, TensorMap, describe, tensor_text
from weft.types import dtype as types

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weft.dialects.builder import Builder
    from weft.types.dtype import DType


PITCH_BYTES: Final = 16
"""Divisors of a map's address, its pitches and the width of its box."""
MOST_PIECES: Final = 64
_FILLS: Final = ("zero", "nan")
_PROMOTIONS: Final = (None, 64, 128, 256)
_Choice = TypeVar("_Choice")


@operation(on_host=True, in_kernels=False)
def tensor_map(
    builder: Builder,
    tensor: object,
    box: object,
    *,
    swizzle: object = None,
    fill: object = "zero",
    l2_promotion: object = 128,
) -> TensorMap:
    """A tensor map: a tensor's descriptor for the TMA unit of sm_90 and later GPUs. See `weft.tma`.

    Pass it to a kernel's parameter, annotated `weft.TensorMap`. It is encoded again only if the tensor's address, shape
    or strides differ from the last call's. On the CPU a map is those numbers.

    The tensor's address and all its strides but the last, which is 1, must be multiples of 16 bytes; facts not known
    at compile time is checked by each call. A map of a tensor without elements may be passed, but nothing can be copied
    with it on a GPU.

    Args:
        tensor: in global memory, of rank 1 to 5.
        box: elements along each dimension that `tma.load` and the others copy at once: the shape of the tile in shared
            memory, up to dims of 1; an int for rank 1; constants. Sizes beyond 256 are copied in several pieces. A row
            of the box takes a multiple of 16 bytes.
        swizzle: that of the tile in shared memory: None, 32, 64 or 128 bytes; a row of the box is then a multiple of
            it.
        fill: what loads read outside the tensor: ``"zero"``, or ``"nan"`` for floats of 16 bits and more.
        l2_promotion: bytes that the L2 cache fetches at once: None, 64, 128 or 256.

    Raises:
        TypeMismatchError: unless it is a tensor with a last stride of 1, or for a box that is not constant.
        ValueRangeError: for another rank, a box, swizzle or fill that TMA does not have, or a constant
            stride that is not a multiple of 16 bytes.

    Example:
        ``kernel(weft.tensor_map(a, box=256, l2_promotion=256)).launch(grid=1, block=32)``
    """
    found = checked_tensor(tensor, "tensor_map")
    sizes = static_shape(box, "tensor_map: box")
    if not 1 <= found.rank <= MOST_RANK or len(sizes) != found.rank:
        raise ValueRangeError(
            "TENSOR_MAP_RANK",
            f"tensor_map: {found.name} has rank {found.rank}, and the box {sizes} has {len(sizes)} sizes; "
            f"expected the same number of both, 1 to {MOST_RANK}",
        )
    modes = map_modes("tensor_map", found, swizzle, fill, l2_promotion)
    kind = TensorMapType.get(ir_type(found.dtype), sizes, modes.swizzle)
    check_box("tensor_map", kind, found.dtype)
    return map_of(builder, found, modes, kind)


class Modes(NamedTuple):
    """Copy options of a map's boxes."""

    swizzle: int
    fill: str
    l2_promotion: int | None


def checked_tensor(tensor: object, name: str) -> Tensor:
    """A tensor that a map can be of.

    Raises:
        TypeMismatchError, ValueRangeError: as `tensor_map`.
    """
    if not isinstance(tensor, Tensor) or tensor.type.is_pointer:
        raise TypeMismatchError(
            "TENSOR_MAP_TENSOR",
            f"{name}: the first argument must be a tensor, received {describe(tensor)}",
        )
    return tensor


def map_modes(
    name: str, tensor: Tensor, swizzle: object, fill: object, l2_promotion: object
) -> Modes:
    """The keywords of `tensor_map`.

    Raises:
        ValueRangeError: as `tensor_map`.
    """
    width = _choice(name, "swizzle", swizzle, (None, *SWIZZLES[1:])) or 0
    filling = _choice(name, "fill", fill, _FILLS)
    promotion = _choice(name, "l2_promotion", l2_promotion, _PROMOTIONS)
    if filling == "nan" and (not tensor.dtype.is_float or tensor.dtype.bits < 16):
        raise ValueRangeError(
            "TENSOR_MAP_FILL", f"{name}: fill is 'nan', but the elements are {tensor.dtype}"
        )
    return Modes(width, filling, promotion)


def map_of(
    builder: Builder,
    tensor: Tensor,
    modes: Modes,
    kind: TensorMapType,
    corners: Sequence[tuple[int, int, int]] = (),
) -> TensorMap:
    """Emits the map of that type; `corners` are those of an im2col map."""
    check_strides(tensor, "tensor_map")
    dtype, promotion = tensor.dtype, modes.l2_promotion
    text = builder.location.span() or "weft.tensor_map"
    names = "u8" if dtype.is_bool else dtype.name, f"{promotion}B" if promotion else "none"
    made = MakeTensorMapOp(tensor.ssa, (text, tensor.name), (*names, modes.fill), kind, corners)
    name = f"{tensor.name}_map"

    def shape_of(builder: Builder) -> tuple[int | Scalar, ...]:
        return tuple(dim(builder, tensor, axis) for axis in range(tensor.rank))

    made_map = builder.emit(made, name).result
    return TensorMap(made_map, dtype, name, source=tensor, shape_of=shape_of)


def _choice(function: str, name: str, value: object, choices: tuple[_Choice, ...]) -> _Choice:
    for choice in choices:
        if type(value) is type(choice) and value == choice:
            return choice
    listed = ", ".join(map(repr, choices[:-1]))
    raise ValueRangeError(
        "TENSOR_MAP_MODE",
        f"{function}: {name} is {describe(value)}; expected {listed} or {choices[-1]!r}",
    )


def check_box(name: str, kind: TensorMapType, dtype: DType) -> None:
    """Checks that the machine can copy the box.

    Raises:
        ValueRangeError: if it cannot.
    """
    row = kind.box[-1] * dtype.itemsize
    multiple = kind.swizzle or PITCH_BYTES
    if row % multiple:
        what = f"the swizzle, {multiple} bytes" if kind.swizzle else f"{multiple} bytes"
        raise ValueRangeError(
            "TENSOR_MAP_BOX",
            f"{name}: a row of the box {kind.box} takes {row} bytes; expected a multiple of {what}",
            hint=f"a row of {multiple // dtype.itemsize} {dtype} is the least",
        )
    if kind.pieces > MOST_PIECES:
        raise ValueRangeError(
            "TENSOR_MAP_BOX",
            f"{name}: the box {kind.box} takes {kind.pieces} copies of {kind.piece}; at most {MOST_PIECES} are "
            "allowed",
            hint="use a smaller box; sizes up to 256 take one copy, and so does each width of a swizzle atom",
        )
    piece = math.prod(kind.piece) * dtype.itemsize
    if kind.pieces > 1 and piece % TILE_ALIGNMENT:
        raise ValueRangeError(
            "TENSOR_MAP_BOX",
            f"{name}: the box {kind.box} takes copies of {kind.piece}, {piece} bytes; expected a multiple of "
            f"{TILE_ALIGNMENT} bytes, as each begins at one",
            hint="use sizes up to 256, or multiples of 64",
        )


def check_strides(tensor: Tensor, name: str) -> None:
    """Checks the strides that are known.

    Raises:
        TypeMismatchError, ValueRangeError: as `tensor_map`.
    """
    if tensor.type.static_stride(tensor.rank - 1) is None and tensor.type.dims[-1] != 1:
        raise TypeMismatchError(
            "TENSOR_MAP_LAYOUT",
            f"{name}: {tensor.name} has any strides; TMA needs a last one of 1",
            hint='annotate a layout of "contiguous" or "inner"',
        )
    for dimension in range(tensor.rank - 1):
        step = tensor.type.static_stride(dimension)
        if step is not None and step * tensor.dtype.itemsize % PITCH_BYTES:
            multiple = PITCH_BYTES // tensor.dtype.itemsize
            raise ValueRangeError(
                "TENSOR_MAP_PITCH",
                f"{name}: {tensor.name}.strides[{dimension}] is {step} elements, "
                f"{step * tensor.dtype.itemsize} bytes; expected a multiple of {PITCH_BYTES} bytes",
                hint=f"pad the rows to a multiple of {multiple} {tensor.dtype}",
            )


_LEAST_RANK: Final = 3
_MOST_STEP: Final = 8
# Offsets of the corners of the range of a kernel's first element, by the number of spatial dimensions.
_CORNERS: Final = {1: 1 << 15, 2: 1 << 7, 3: 1 << 4}


@operation(on_host=True, in_kernels=False)
def im2col_map(
    builder: Builder,
    tensor: object,
    box: object,
    *,
    kernel: object,
    padding: object = 0,
    stride: object = 1,
    dilation: object = 1,
    swizzle: object = None,
    fill: object = "zero",
    l2_promotion: object = 128,
) -> TensorMap:
    """A map of images for a convolution: `tma.load` copies the pixels that one element of the kernel meets.

    A convolution is a GEMM whose rows are the pixels of the result, row after row and image after image, and
    whose K is the elements of the kernel times the channels. A box is such a part of the left operand: some pixels
    of the result by some channels, for one element of the kernel, which ``offsets=`` of `tma.load` says. Where the
    kernel reaches beyond an image, the box has zeros. `tma.load` takes the place that the kernel's first element has
    for the first of these pixels: of the pixel (p, q) of image n ``(n, p * stride - padding, q * stride - padding,
    channel)``.

    Args:
        tensor: of rank 3 to 5: images, one to three spatial dimensions, channels; as for `tensor_map`.
        box: pixels, 1 to 1024, and channels, which take a multiple of 16 bytes, and of `swizzle`; constants.
        kernel: elements along each spatial dimension; constants, as all that follows.
        padding: pixels around an image; of a dimension a number, or one before and one after.
        stride: from one pixel of the result to the next, 1 to 8.
        dilation: from one element of the kernel to the next.
        swizzle, fill, l2_promotion: as for `tensor_map`.

    Raises:
        TypeMismatchError: unless it is a tensor with a last stride of 1, or for numbers that are not constants.
        ValueRangeError: for another rank, or numbers that TMA does not have.

    Example:
        ``images = weft.scratch((2, 8, 8, 4), weft.f32); kernel(weft.im2col_map(images, (16, 4), kernel=(3, 3),
        padding=1)).launch(grid=1, block=32)``
    """
    found = checked_tensor(tensor, "im2col_map")
    spatial = found.rank - 2
    if not _LEAST_RANK <= found.rank <= _LEAST_RANK + 2:
        raise ValueRangeError(
            "TENSOR_MAP_RANK",
            f"im2col_map: {found.name} has rank {found.rank}; expected 3 to 5: images, spatial dimensions, channels",
        )
    sizes = static_shape(box, "im2col_map: box")
    if (
        len(sizes) != 2
        or not 1 <= sizes[0] <= MOST_PIXELS
        or (swizzle is None and sizes[1] > MOST_BOX)
    ):
        raise ValueRangeError(
            "TENSOR_MAP_BOX",
            f"im2col_map: the box is {tuple(sizes)}; expected 1 to {MOST_PIXELS} pixels and some channels, at most "
            f"{MOST_BOX} without a swizzle",
        )
    corners = _corners(kernel, padding, stride, dilation, spatial)
    modes = map_modes("im2col_map", found, swizzle, fill, l2_promotion)
    kind = TensorMapType.get(ir_type(found.dtype), sizes, modes.swizzle, found.rank)
    check_box("im2col_map", kind, found.dtype)
    return map_of(builder, found, modes, kind, corners)


def _corners(
    kernel: object, padding: object, stride: object, dilation: object, spatial: int
) -> list[tuple[int, int, int]]:
    """Range of a kernel's first element along each spatial dimension.

    The first place, the last one counted from the end, and the step between places.
    """
    extents, steps, dilations = (
        _numbers(name, value, spatial, 1)
        for name, value in (("kernel", kernel), ("stride", stride), ("dilation", dilation))
    )
    if max(steps) > _MOST_STEP:
        raise ValueRangeError(
            "IM2COL", f"im2col_map: stride is {steps}; expected 1 to {_MOST_STEP}"
        )
    around = _padding(padding, spatial)
    lower = tuple(-before for before, _ in around)
    upper = tuple(
        after - step * (extent - 1)
        for (_, after), step, extent in zip(around, dilations, extents, strict=True)
    )
    limit = _CORNERS[spatial]
    if min(*lower, *upper) < -limit or max(*lower, *upper) >= limit:
        raise ValueRangeError(
            "IM2COL",
            f"im2col_map: a kernel of {extents} with padding {around} and dilation {dilations} reaches from {lower} to "
            f"{upper}; with {spatial} spatial dimensions TMA has -{limit} to {limit - 1}",
        )
    return list(zip(lower, upper, steps, strict=True))


def _each(value: object, count: int) -> tuple[object, ...]:
    """A tuple as it is; anything else for each spatial dimension."""
    return cast("tuple[object, ...]", value) if isinstance(value, tuple) else (value,) * count


def _numbers(name: str, value: object, count: int, least: int) -> tuple[int, ...]:
    """A constant for each spatial dimension."""
    given = _each(value, count)
    numbers = [one for one in given if isinstance(one, int) and not isinstance(one, bool)]
    if len(numbers) != len(given) or len(given) != count:
        raise TypeMismatchError(
            "IM2COL",
            f"im2col_map: {name} is {describe(value)}; expected a constant, or {count} of them",
        )
    if min(numbers) < least:
        raise ValueRangeError(
            "IM2COL", f"im2col_map: {name} is {describe(value)}; expected {least} or more"
        )
    return tuple(numbers)


def _padding(value: object, count: int) -> tuple[tuple[int, int], ...]:
    """Pixels before and after along each spatial dimension."""
    given = _each(value, count)
    if len(given) != count:
        _numbers("padding", value, count, 0)
    return tuple(cast("tuple[int, int]", _numbers("padding", one, 2, 0)) for one in given)


@operation(name="tma.copy_map")
def copy_map(builder: Builder, tensor_map: object, place: object) -> TensorMap:
    """Writes a tensor map to memory, where `edit_map` may change it; the value is the map there.

    All threads of a warp call it together, and copies of this warp may use it then. Others find it by `map_at`.

    Args:
        tensor_map: a parameter of the kernel, or a map in memory.
        place: 128 bytes of global memory at a multiple of 128, this warp's own: ``weft.global_scratch(16, weft.u64)``,
            or a row of ``weft.scratch((n, 16), weft.u64)``.

    Raises:
        TypeMismatchError: for anything else.
        UnavailableError: as `edit_map`.

    Example:
        ``mine = weft.tma.copy_map(source, weft.global_scratch(16, weft.u64))``
    """
    found = checked_map(tensor_map, "copy_map")
    target = _checked_place(place, "copy_map", "global")
    elected = builder.emit(ElectOneOp()).result
    made = builder.emit(CopyMapOp(found.ssa, target.ssa, elected), found.name).result
    _sync_warp(builder)
    return TensorMap(made, found.dtype, found.name)


@operation(name="tma.edit_map")
def edit_map(builder: Builder, tensor_map: object, tensor: object, slot: object) -> None:
    """Makes a map in memory that of another tensor, of another address, shape and strides; its boxes stay.

    All threads of a warp call it together, with the same tensor. Copies that the warp starts then find the tensor;
    those that its `elect_one` thread has started before do not. Copies that others have started with this map must have
    ended. The tensor is any that `tensor_map` takes, such as ``a[first:end]``, but has elements, which the CPU checks:
    a GPU has no map of one without.

    Args:
        tensor_map: of `copy_map` or `map_at`.
        tensor: in global memory, of the map's element type and rank.
        slot: 128 bytes of shared memory at a multiple of 128, such as ``weft.shared(16, weft.u64)``, in which the warp
            puts the map together: its own.

    Raises:
        TypeMismatchError: for anything else, such as a map that the launch has given, or one of `im2col_map`.
        ValueRangeError: for a constant stride that is not a multiple of 16 bytes.
        UnavailableError: on other architectures than sm_90a and later ones of their own, such as sm_100a.

    Example:
        ``mine = weft.tma.copy_map(source, place); weft.tma.edit_map(mine, rows[8:], weft.shared(16, weft.u64))``
    """
    found, target = checked_map(tensor_map, "edit_map"), tensor
    if not found.type.in_memory or found.type.is_im2col:
        what = "of im2col_map" if found.type.is_im2col else "an argument of the launch"
        raise TypeMismatchError(
            "TMA_EDIT",
            f"tma.edit_map: {found.name} is {what}, which no kernel can edit",
            hint="edit what weft.tma.copy_map returns, of a map of weft.tensor_map",
        )
    if not isinstance(target, Tensor) or target.type.is_pointer:
        raise TypeMismatchError(
            "TMA_EDIT", f"tma.edit_map: received {describe(tensor)}; expected a tensor"
        )
    kind = target.type
    if kind.space.data != "global" or (target.dtype, kind.rank) != (found.dtype, found.type.rank):
        raise TypeMismatchError(
            "TMA_EDIT",
            f"tma.edit_map: {tensor_text(target, target.name)}; expected a tensor of rank {found.type.rank} and "
            f"{found.dtype} in global memory, as {found.name} is of one",
        )
    check_strides(target, "tma.edit_map")
    where = _checked_place(slot, "edit_map", "shared")
    elected = builder.emit(ElectOneOp()).result
    builder.emit(EditMapOp(found.ssa, target.ssa, where.ssa, elected))
    _sync_warp(builder)


@operation(name="tma.map_at")
def map_at(builder: Builder, place: object, like: object) -> TensorMap:
    """The map that another warp, or another kernel, has written to a place by `copy_map` and `edit_map`.

    Each thread that starts copies with it calls it, after it has met the warp that wrote the map, or has waited for
    the kernel. An array of maps is a tensor whose rows are the places.

    Args:
        place: as for `copy_map`.
        like: a map of the same element type, box and swizzle, such as the one that was copied there.

    Raises:
        TypeMismatchError: for anything else.
        UnavailableError: as `edit_map`.

    Example:
        ``weft.tma.prefetch(weft.tma.map_at(place, like=source))``
    """
    where, found = _checked_place(place, "map_at", "global"), checked_map(like, "map_at")
    made = builder.emit(MapAtOp(where.ssa, found.type), found.name).result
    return TensorMap(made, found.dtype, where.name)


def are_maps(value: object) -> TypeGuard[tuple[TensorMap, ...] | list[TensorMap]]:
    """Whether a value is a tuple or list of maps of one type, which a run-time number may index."""
    if not isinstance(value, tuple | list) or not value:
        return False
    items = cast("list[Any]", value)
    first = items[0]
    return isinstance(first, TensorMap) and all(
        isinstance(one, TensorMap) and (one.type, one.dtype) == (first.type, first.dtype)
        for one in items
    )


def chosen_map(
    builder: Builder, maps: tuple[TensorMap, ...] | list[TensorMap], index: Scalar
) -> TensorMap:
    """``maps[index]``, which is checked like an `assert`.

    Raises:
        TypeMismatchError: for an index that is not an integer.
    """
    if not index.dtype.is_integer or index.dtype.is_bool:
        raise TypeMismatchError(
            "INDEX_TYPE", f"a tuple of tensor maps is indexed by {describe(index)}"
        )
    text = f"an index of {len(maps)} tensor maps is 0 to {len(maps) - 1}"
    emit_assert(builder, compare(builder, ">=", index, 0), text)
    emit_assert(builder, compare(builder, "<", index, len(maps)), text)
    number = convert(builder, index, types.i32).ssa
    chosen = maps[-1].ssa
    for place, one in enumerate(maps[:-1]):
        here = builder.emit(arith.CmpiOp(number, builder.constant(i32, place), "eq")).result
        chosen = builder.emit(arith.SelectOp(here, one.ssa, chosen)).result
    return TensorMap(chosen, maps[0].dtype, maps[0].name)


def _sync_warp(builder: Builder) -> None:
    builder.emit(WarpBarrierOp(lane_mask(builder, FULL_MASK, "sync_warp")))


def _checked_place(value: object, name: str, space: str) -> Tensor:
    """128 bytes in a space.

    Raises:
        TypeMismatchError, ValueRangeError: as `copy_map` and `edit_map`.
    """
    where = (
        "weft.shared(16, weft.u64)"
        if space == "shared"
        else "a row of weft.scratch((n, 16), weft.u64)"
    )
    if not isinstance(value, Tensor) or value.type.is_pointer or value.type.space.data != space:
        raise TypeMismatchError(
            "TMA_PLACE",
            f"tma.{name}: a place for a map is {describe(value)}; expected {MAP_BYTES} bytes of {space} memory",
            hint=f"give it {where}",
        )
    kind = value.type
    is_whole = kind.layout.data == "contiguous" or (kind.rank == 1 and kind.layout.data == "inner")
    size = None if -1 in kind.dims else array_bytes(kind.dims, kind.element_type)
    if size != MAP_BYTES or not is_whole or kind.swizzle_atoms is not None:
        raise TypeMismatchError(
            "TMA_PLACE",
            f"tma.{name}: {tensor_text(value, value.name)} is not known to be {MAP_BYTES} bytes in a row",
            hint=f"give it {where}",
        )
    if kind.alignment_bytes.data % MAP_BYTES:
        raise ValueRangeError(
            "TMA_PLACE",
            f"tma.{name}: {value.name} is known to begin at a multiple of {kind.alignment_bytes.data} bytes; "
            f"expected {MAP_BYTES}",
            hint=f"give it {where}, or say alignment_bytes={MAP_BYTES} of the tensor",
        )
    return value


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
