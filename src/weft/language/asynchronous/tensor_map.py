# SPDX-License-Identifier: Apache-2.0
"""Tensor maps in host functions: ``tensor_map``.

In: a tensor, a box, a swizzle. Out: a `TensorMap`, an argument of kernels.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from weft.dialects.nvgpu.tensor_map import MOST_RANK, SWIZZLES, MakeTensorMapOp, TensorMapType
from weft.dialects.simt.types import TILE_ALIGNMENT
from weft.errors import TypeMismatchError, ValueRangeError
from weft.language.ir_types import ir_type
from weft.language.memory.local import static_shape
from weft.language.operation import operation
from weft.language.values import Tensor, TensorMap, describe

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
    """A tensor's map: what the TMA unit of sm_90 and later GPUs needs to know of it. See `weft.tma`.

    Pass it to a kernel's parameter, annotated `weft.TensorMap`. It is encoded again only if the tensor's address, shape
    or strides differ from the last call's. On the CPU a map is those numbers.

    The tensor's address and all its strides but the last, which is 1, must be multiples of 16 bytes; what is not known
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
        TypeMismatchError: for what is not a tensor with a last stride of 1, or a box that is not constant.
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
    """How a map's boxes are copied, besides where they are."""

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
    return TensorMap(builder.emit(made, name).result, dtype, name)


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
            hint="use a smaller box; sizes up to 256 take one copy, and so does each panel of a swizzle",
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
