# SPDX-License-Identifier: Apache-2.0
"""Fragments and memory: `f.store(...)`, `f.load(...)`, `f.red_add(...)`.

In: a fragment, a tile or a tensor, and where its first element goes. Out: one operation, with a region for an element
by itself.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, cast

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import i32
from xdsl.ir import Block, Region

from weft.dialects.simt.fragment import (
    FragmentLoadOp,
    FragmentRedAddOp,
    FragmentStoreOp,
    FragmentYieldOp,
)
from weft.dialects.simt.types import DYNAMIC
from weft.errors import TypeMismatchError, ValueRangeError
from weft.language.matrix.fragment import expect_fragment, loaded_type, origin, to
from weft.language.memory import access
from weft.language.memory.atomics import atomic_add
from weft.language.numbers.convert import convert, wide_dtype
from weft.language.numbers.operators import binary, compare
from weft.language.operation import operation
from weft.language.threads.warp import lane_id, warp_id
from weft.language.values import Fragment, Scalar, Tensor, describe, shape_text, tensor_text
from weft.types import dtype as types

if TYPE_CHECKING:
    from xdsl.ir import SSAValue

    from weft.dialects.builder import Builder


@operation(name="Fragment.store")
def store(builder: Builder, fragment: Fragment, tensor: Tensor, place: object = None) -> None:
    """Stores a fragment into a tile, or into a tensor from a row and a column on.

    All threads that hold the fragment call it together. Elements outside the tensor are left out. GPUs store 16 bytes
    at a time where the tensor's address, strides and dims allow it, and 16-bit elements into tiles in shared memory by
    `stmatrix` from sm_90 on.

    Values of rows or columns go into a vector, each once: one of the threads that have a value writes it.

    Args:
        fragment: of the tensor's type, or of its wide type (f32 for bf16, f16 and 8-bit floats), which is rounded.
        tensor: of two dimensions; of one for values of rows or columns.
        place: row and column of the tensor at which the fragment's first element goes; of a vector the first index.

    Raises:
        TypeMismatchError: for another rank or type.
        ValueRangeError: for a tile of constant shape into which the fragment does not fit.

    Example:
        ``acc.store(weft.shared((16, 8), weft.f32))``
    """
    _put(builder, FragmentStoreOp, "store", fragment, tensor, place)


@operation(name="Fragment.load")
def load(builder: Builder, fragment: Fragment, tensor: Tensor, place: object = None) -> Fragment:
    """A fragment of this one's shape and layout with a tensor's elements, from a row and a column on.

    Elements outside the tensor are 0. All threads that hold the fragment call it together. GPUs load 16 bytes at a
    time where the tensor's address, strides and dims allow it.

    Args:
        fragment: whose layout the result has.
        tensor: of two dimensions.
        place: row and column of the tensor where the fragment's first element lies.

    Raises:
        TypeMismatchError, ValueRangeError: as `store`.

    Example:
        ``acc = acc.load(weft.shared((16, 8), weft.f32))``
    """
    expect_fragment(fragment, "load")
    if len(fragment.type.dims) != 2:
        raise TypeMismatchError(
            "FRAGMENT_LAYOUT",
            f"load: {describe(fragment)} has no rows and columns",
            hint="write acc.rows(lambda row: a[row]), of a fragment of two dimensions",
        )
    source = _checked(tensor, "load", 2, fragment)
    start = _start(builder, source, place, "load")
    whole = _fits(fragment, source, start, "load")

    block = Block(arg_types=[i32, i32])
    with builder.at(block):
        indices = _moved(builder, start, *(Scalar(one, types.i32) for one in block.args))
        if whole:
            value = access.load(builder, source, indices)
        else:
            inside = _inside(builder, source, indices)
            zero, found = convert(builder, 0, source.dtype), Block()
            with builder.at(found):
                builder.emit(scf.YieldOp(access.load(builder, source, indices).ssa))
            other = Block([scf.YieldOp(zero.ssa)])
            made = scf.IfOp(inside, [zero.ssa.type], Region(found), Region(other))
            value = Scalar(builder.emit(made).results[0], source.dtype)
        builder.emit(FragmentYieldOp([value.ssa]))
    kind = loaded_type(fragment, source.dtype)
    places, own = [one.ssa for one in start], origin(builder, fragment.type)
    loaded = FragmentLoadOp(source.ssa, places, own, kind, block, whole=whole)
    return Fragment(builder.emit(loaded).result, source.dtype)


@operation(name="Fragment.red_add")
def red_add(builder: Builder, fragment: Fragment, tensor: Tensor, place: object = None) -> None:
    """Adds a fragment to a tensor's elements, each in one step, from a row and a column on.

    Elements outside the tensor are left out. The order of sums of several threads is not defined. GPUs from sm_90 on
    add 16 bytes of f32, f16 or bf16 at a time to tensors in global memory whose address, strides and dims allow it.

    Args:
        fragment, tensor, place: as in `store`.

    Raises:
        TypeMismatchError, ValueRangeError: as `store`.

    Example:
        ``acc.red_add(weft.shared((16, 8), weft.f32))``
    """
    _put(builder, FragmentRedAddOp, "red_add", fragment, tensor, place)


def _put(
    builder: Builder,
    kind: type[FragmentStoreOp | FragmentRedAddOp],
    name: str,
    fragment: Fragment,
    tensor: object,
    place: object,
) -> None:
    """One operation, with its access to an element."""
    expect_fragment(fragment, name)
    rank = len(fragment.type.dims)
    target = _checked(tensor, name, rank, fragment)
    if fragment.dtype is not target.dtype:
        fragment = _converted(builder, fragment, target)
    start = _start(builder, target, place, name)
    whole = _fits(fragment, target, start, name)
    own = origin(builder, fragment.type)
    has_value: SSAValue | None = None
    if rank == 1:
        is_row = fragment.type.role.data == "row"
        own = own[:1] if is_row else own[1:]
        has_value = _writes(builder, fragment, is_row=is_row)

    def element(block: Block, value: Scalar, indices: tuple[Scalar, ...]) -> None:
        with builder.at(block):
            if kind is FragmentStoreOp:
                access.store(builder, target, indices, value)
            else:
                atomic_add.emit(builder, target, indices, value)

    block = Block(arg_types=[fragment.type.element_type, *[i32] * rank])
    value, *places = block.args
    with builder.at(block):
        moved = [Scalar(one, types.i32) for one in places]
        indices = _moved(builder, start, *moved)
        inside = None if whole else _inside(builder, target, indices)
        conditions = [one for one in (has_value, inside) if one is not None]
        if conditions:
            then = Block()
            element(then, Scalar(value, fragment.dtype), indices)
            with builder.at(then):
                builder.emit(scf.YieldOp())
            both = functools.reduce(functools.partial(builder.compute, arith.AndIOp), conditions)
            builder.emit(scf.IfOp(both, [], Region(then)))
        else:
            element(block, Scalar(value, fragment.dtype), indices)
        builder.emit(FragmentYieldOp())
    builder.emit(
        kind(fragment.ssa, target.ssa, [one.ssa for one in start], own, block, whole=whole)
    )


def _writes(builder: Builder, fragment: Fragment, *, is_row: bool) -> SSAValue:
    """Whether this thread is the one, of those that have the same values, which writes them."""
    lane = lane_id.emit(builder)
    rank = binary(builder, "%" if is_row else "//", lane, 4)
    found = compare(builder, "==", rank, 0).ssa
    if fragment.type.unit.data == "wgmma" and not is_row:
        warp = binary(builder, "%", warp_id.emit(builder), 4)
        found = builder.compute(arith.AndIOp, found, compare(builder, "==", warp, 0).ssa)
    return found


def _moved(builder: Builder, start: tuple[Scalar, ...], *places: Scalar) -> tuple[Scalar, ...]:
    """The tensor's indices of a place in a fragment."""
    return tuple(binary(builder, "+", *both) for both in zip(start, places, strict=True))


def _inside(builder: Builder, tensor: Tensor, indices: tuple[Scalar, ...]) -> SSAValue:
    """Whether a tensor has the element; one compare per dimension, since negative indices are large ones."""
    found: list[SSAValue] = []
    for dimension, index in enumerate(indices):
        wide = convert(builder, index, types.i64)
        size = access.dim(builder, tensor, dimension)
        limit = convert(builder, size, types.i64)
        found.append(builder.emit(arith.CmpiOp(wide.ssa, limit.ssa, "ult")).result)
    return functools.reduce(functools.partial(builder.compute, arith.AndIOp), found)


def _checked(tensor: object, name: str, rank: int, fragment: Fragment) -> Tensor:
    if not isinstance(tensor, Tensor) or tensor.rank != rank:
        what = tensor_text(tensor, tensor.name) if isinstance(tensor, Tensor) else describe(tensor)
        expected = "a tensor of two dimensions"
        if rank == 1:
            expected = f"a vector for {describe(fragment)}"
        raise TypeMismatchError(
            "FRAGMENT_TENSOR",
            f"{name} takes {expected}, received {what}",
            hint="give a view of two dimensions, such as a[batch]"
            if rank == 2
            else "give a view of one dimension, such as a[batch, head]",
        )
    return tensor


def _converted(builder: Builder, fragment: Fragment, tensor: Tensor) -> Fragment:
    """The fragment rounded to a tensor's smaller elements."""
    dtype = tensor.dtype
    if wide_dtype(dtype) is not fragment.dtype:
        raise TypeMismatchError(
            "FRAGMENT_TYPE",
            f"{tensor.name} holds {dtype}, and the fragment {fragment.dtype}",
            hint=f"write f.to(weft.{dtype})",
        )
    return to.emit(builder, fragment, dtype)


def _start(builder: Builder, tensor: Tensor, place: object, name: str) -> tuple[Scalar, ...]:
    rank = tensor.rank
    if place is None:
        place = (0,) * rank
    elif rank == 1 and not isinstance(place, tuple):
        place = (place,)
    parts = cast("tuple[object, ...]", place) if isinstance(place, tuple) else ()
    if len(parts) != rank:
        raise TypeMismatchError(
            "FRAGMENT_PLACE",
            f"{name}: a place in {tensor.name} is {'a row and a column' if rank == 2 else 'an index'}, "
            f"received {describe(cast('object', place))}",
            hint=f"write f.{name}({tensor.name}, {'(row, column)' if rank == 2 else 'row'})",
        )
    found = [access.index_part(builder, tensor, number, part) for number, part in enumerate(parts)]
    return tuple(
        one if isinstance(one, Scalar) else convert(builder, one, types.i32) for one in found
    )


def _fits(fragment: Fragment, tensor: Tensor, start: tuple[Scalar, ...], name: str) -> bool:
    """Whether all of a fragment surely lies in the tensor.

    Raises:
        ValueRangeError: if it surely does not, in shared memory.
    """
    known = [place.constant for place in start]
    dims = tensor.type.dims
    shape = fragment.type.dims
    if DYNAMIC in dims or None in known:
        return False
    places = [int(place or 0) for place in known]
    fits = all(
        place >= 0 and place + size <= dim
        for place, size, dim in zip(places, shape, dims, strict=True)
    )
    if not fits and tensor.type.space.data != "global":
        raise ValueRangeError(
            "FRAGMENT_PLACE",
            f"{name}: a fragment of shape {shape} does not fit into {tensor.name} of shape {shape_text(tensor)}",
            hint="a tile has the fragment's shape; take f[:, a:b], or tile.tile(shape, index)"
            if len(shape) == 2
            else "an array for values of rows or columns has an element for each",
        )
    return fits
