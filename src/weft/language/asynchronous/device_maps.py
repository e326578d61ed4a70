# SPDX-License-Identifier: Apache-2.0
"""Tensor maps in kernels: ``tma.copy_map``, ``tma.edit_map``, ``tma.map_at``; one of several, by a number.

In: maps of the launch, places in memory. Out: maps of tensors that only the kernel knows, such as the matrices of a
grouped product.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeGuard, cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import i32

from weft.dialects.nvgpu.tensor_map import MAP_BYTES, CopyMapOp, EditMapOp, MapAtOp
from weft.dialects.nvgpu.threads import ElectOneOp
from weft.dialects.simt.threads import WarpBarrierOp
from weft.dialects.simt.types import array_bytes
from weft.errors import TypeMismatchError, ValueRangeError
from weft.language.asynchronous.boxes import checked_map
from weft.language.asynchronous.tensor_map import check_strides
from weft.language.debug import emit_assert
from weft.language.numbers.convert import convert
from weft.language.numbers.operators import compare
from weft.language.operation import operation
from weft.language.threads.barrier import FULL_MASK, lane_mask
from weft.language.values import Scalar, Tensor, TensorMap, describe, tensor_text
from weft.types import dtype as types

if TYPE_CHECKING:
    from weft.dialects.builder import Builder


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
    the kernel. An array of maps is a tensor of which each row is a place.

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
    """Whether a value is a tuple or list of maps of one type, of which a number known at run time may choose."""
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
    if size != MAP_BYTES or not is_whole or kind.panels is not None:
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
