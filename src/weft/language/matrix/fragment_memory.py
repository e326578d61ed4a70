# SPDX-License-Identifier: Apache-2.0
"""Fragments and memory: `f.store(...)`, `f.load(...)`, `f.red_add(...)`.

In: a fragment, a tile or a tensor, and where its first element goes. Out: one operation, with a region for an element
by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import i32
from xdsl.ir import Block, Region

from weft.dialects.simt.fragment import FragmentRedAddOp, FragmentStoreOp, FragmentYieldOp
from weft.dialects.simt.types import DYNAMIC
from weft.errors import TypeMismatchError, ValueRangeError
from weft.language.matrix.fragment import expect_fragment, mapped, origin, to
from weft.language.memory import access
from weft.language.memory.atomics import atomic_add
from weft.language.numbers.convert import convert, wide_dtype
from weft.language.numbers.operators import binary
from weft.language.operation import operation
from weft.language.values import Fragment, Scalar, Tensor, describe, shape_text, tensor_text
from weft.types import dtype as types

if TYPE_CHECKING:
    from collections.abc import Callable

    from xdsl.ir import SSAValue

    from weft.dialects.builder import Builder

_START: Final = (0, 0)


@operation(name="Fragment.store")
def store(builder: Builder, fragment: Fragment, tensor: Tensor, place: object = _START) -> None:
    """Stores a fragment into a tile, or into a tensor from a row and a column on.

    All threads that hold the fragment call it together. What lies outside of a tensor is left out. GPUs store 16 bytes
    at a time where the tensor's address, strides and dims allow it, and 16-bit elements into tiles in shared memory by
    `stmatrix` from sm_90 on.

    Args:
        fragment: of the tensor's type, or of its wide type (f32 for bf16, f16 and 8-bit floats), which is rounded.
        tensor: of two dimensions.
        place: row and column of the tensor at which the fragment's first element goes.

    Raises:
        TypeMismatchError: for another rank or type.
        ValueRangeError: for a tile of constant shape into which the fragment does not fit.

    Example:
        ``acc.store(weft.shared((16, 8), weft.f32))``
    """
    _put(builder, FragmentStoreOp, "store", fragment, tensor, place)


@operation(name="Fragment.load")
def load(builder: Builder, fragment: Fragment, tensor: Tensor, place: object = _START) -> Fragment:
    """A fragment of this one's shape and layout with a tensor's elements, from a row and a column on.

    What lies outside of the tensor is 0.

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
    source = _checked(tensor, "load")
    start = _start(builder, source, place, "load")
    whole = _fits(fragment, source, start, "load")

    def element(block: Block, row: Scalar, column: Scalar) -> Scalar:
        indices = _moved(builder, start, row, column)
        if whole:
            return access.load(builder, source, indices)
        inside = _inside(builder, source, indices)
        zero = convert(builder, 0, source.dtype)
        found = Block()
        with builder.at(found):
            builder.emit(scf.YieldOp(access.load(builder, source, indices).ssa))
        other = Block([scf.YieldOp(zero.ssa)])
        made = scf.IfOp(inside, [zero.ssa.type], Region(found), Region(other))
        return Scalar(builder.emit(made).results[0], source.dtype)

    return mapped(builder, fragment.type, source.dtype, element, (), coordinates=True)


@operation(name="Fragment.red_add")
def red_add(builder: Builder, fragment: Fragment, tensor: Tensor, place: object = _START) -> None:
    """Adds a fragment to a tensor's elements, each in one step, from a row and a column on.

    What lies outside of the tensor is left out. The order of sums of several threads is not defined. GPUs from sm_90 on
    add 16 bytes of f32, f16 or bf16 at a time to tensors in global memory whose address, strides and dims allow it.

    Args:
        fragment: as in `store`.
        tensor: of two dimensions.
        place: as in `store`.

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
    """One operation, with what it does to an element."""
    expect_fragment(fragment, name)
    target = _checked(tensor, name)
    if fragment.dtype is not target.dtype:
        fragment = _converted(builder, fragment, target)
    start = _start(builder, target, place, name)
    whole = _fits(fragment, target, start, name)

    def element(value: Scalar, indices: tuple[Scalar, Scalar]) -> None:
        if kind is FragmentStoreOp:
            access.store(builder, target, indices, value)
        else:
            atomic_add.emit(builder, target, indices, value)

    block = _region(builder, fragment, target, start, element, whole=whole)
    indices = [one.ssa for one in start]
    own = origin(builder, fragment.type)
    builder.emit(kind(fragment.ssa, target.ssa, indices, own, block, whole=whole))


def _region(
    builder: Builder,
    fragment: Fragment,
    tensor: Tensor,
    start: tuple[Scalar, Scalar],
    element: Callable[[Scalar, tuple[Scalar, Scalar]], None],
    *,
    whole: bool,
) -> Block:
    """Accesses one element, if the tensor has its place."""
    block = Block(arg_types=[fragment.type.element_type, i32, i32])
    own, row, column = block.args
    value = Scalar(own, fragment.dtype)
    with builder.at(block):
        indices = _moved(builder, start, Scalar(row, types.i32), Scalar(column, types.i32))
        if whole:
            element(value, indices)
        else:
            inside, then = _inside(builder, tensor, indices), Block()
            with builder.at(then):
                element(value, indices)
                builder.emit(scf.YieldOp())
            builder.emit(scf.IfOp(inside, [], Region(then)))
        builder.emit(FragmentYieldOp())
    return block


def _moved(
    builder: Builder, start: tuple[Scalar, Scalar], row: Scalar, column: Scalar
) -> tuple[Scalar, Scalar]:
    """The tensor's indices of a fragment's row and column."""
    return binary(builder, "+", start[0], row), binary(builder, "+", start[1], column)


def _inside(builder: Builder, tensor: Tensor, indices: tuple[Scalar, Scalar]) -> SSAValue:
    """Whether a tensor has the element; one compare per dimension, since negative indices are large ones."""
    found: list[SSAValue] = []
    for dimension, index in enumerate(indices):
        wide = convert(builder, index, types.i64)
        size = access.dim(builder, tensor, dimension)
        limit = convert(builder, size, types.i64)
        found.append(builder.emit(arith.CmpiOp(wide.ssa, limit.ssa, "ult")).result)
    return builder.compute(arith.AndIOp, *found)


def _checked(tensor: object, name: str) -> Tensor:
    if not isinstance(tensor, Tensor) or tensor.rank != 2:
        what = tensor_text(tensor, tensor.name) if isinstance(tensor, Tensor) else describe(tensor)
        raise TypeMismatchError(
            "FRAGMENT_TENSOR",
            f"{name} takes a tensor of two dimensions, received {what}",
            hint="give a view of two dimensions, such as a[batch]",
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


def _start(builder: Builder, tensor: Tensor, place: object, name: str) -> tuple[Scalar, Scalar]:
    parts = cast("tuple[object, ...]", place) if isinstance(place, tuple) else ()
    if len(parts) != 2:
        raise TypeMismatchError(
            "FRAGMENT_PLACE",
            f"{name}: a place in {tensor.name} is a row and a column, received {describe(cast('object', place))}",
            hint=f"write f.{name}({tensor.name}, (row, column))",
        )
    found = [access.index_part(builder, tensor, number, part) for number, part in enumerate(parts)]
    row, column = (
        one if isinstance(one, Scalar) else convert(builder, one, types.i32) for one in found
    )
    return row, column


def _fits(fragment: Fragment, tensor: Tensor, start: tuple[Scalar, Scalar], name: str) -> bool:
    """Whether all of a fragment surely lies in the tensor.

    Raises:
        ValueRangeError: if it surely does not, in shared memory.
    """
    known = [place.constant for place in start]
    dims = tensor.type.dims
    shape = fragment.type.dims
    if len(shape) != 2:
        raise TypeMismatchError(
            "FRAGMENT_LAYOUT", f"{name}: {describe(fragment)} has no rows and columns"
        )
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
            hint="a tile has the fragment's shape; take f[:, a:b], or tile.tile(shape, index)",
        )
    return fits
