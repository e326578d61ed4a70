# SPDX-License-Identifier: Apache-2.0
"""Tensor maps of images for convolutions: ``im2col_map``.

In: a tensor of images, channels last; the kernel's size, padding, stride and dilation. Out: a `TensorMap`, whose boxes
are pixels by channels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from weft.dialects.nvgpu.tensor_map import MOST_BOX, MOST_PIXELS, TensorMapType
from weft.errors import TypeMismatchError, ValueRangeError
from weft.language.asynchronous.tensor_map import check_box, checked_tensor, map_modes, map_of
from weft.language.ir_types import ir_type
from weft.language.memory.local import static_shape
from weft.language.operation import operation
from weft.language.values import TensorMap, describe

if TYPE_CHECKING:
    from weft.dialects.builder import Builder

_LEAST_RANK: Final = 3
_MOST_STEP: Final = 8
# Offsets of the corners of what a kernel's first element passes over, by the number of spatial dimensions.
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

    A convolution is a matrix product whose rows are the pixels of the result, row after row and image after image, and
    whose K is the elements of the kernel times the channels. A box is such a part of the left operand: so many pixels
    of the result by so many channels, for one element of the kernel, which ``offsets=`` of `tma.load` says. Where the
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
        TypeMismatchError: for what is not a tensor with a last stride of 1, or numbers that are not constants.
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
    """Where a kernel's first element goes along each spatial dimension.

    The first place, the last one counted from the end, and the step between places.
    """
    extents, steps, spread = (
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
        for (_, after), step, extent in zip(around, spread, extents, strict=True)
    )
    limit = _CORNERS[spatial]
    if min(*lower, *upper) < -limit or max(*lower, *upper) >= limit:
        raise ValueRangeError(
            "IM2COL",
            f"im2col_map: a kernel of {extents} with padding {around} and dilation {spread} reaches from {lower} to "
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
