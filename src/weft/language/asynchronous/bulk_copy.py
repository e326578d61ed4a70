# SPDX-License-Identifier: Apache-2.0
"""`weft.bulk_copy`: adjacent elements of a tensor into shared memory, or out of it, by TMA.

In: two tensors without gaps, one of them in shared memory, a barrier. Out: a copy that runs beside the threads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from xdsl.dialects.builtin import i32

from weft.dialects.nvgpu.async_copy import BULK_BYTES, BulkLoadOp, BulkStoreOp
from weft.errors import TypeMismatchError, ValueRangeError
from weft.language.asynchronous.copies import barrier_words, cache_policy
from weft.language.debug import emit_assert
from weft.language.memory.access import size
from weft.language.numbers.convert import convert
from weft.language.numbers.operators import binary, compare
from weft.language.numbers.promises import factor_of
from weft.language.operation import operation
from weft.language.values import Scalar, Tensor, describe, tensor_text
from weft.types import dtype as types

if TYPE_CHECKING:
    from xdsl.ir import SSAValue

    from weft.dialects.builder import Builder

_SPACES: Final = {("shared", "global"), ("global", "shared")}


@operation
def bulk_copy(
    builder: Builder,
    to: object,
    source: object,
    barrier: object = None,
    *,
    cache: object = None,
) -> None:
    """Copies adjacent elements asynchronously from a tensor into shared memory, or from shared memory into a tensor.

    One thread calls it, and TMA does the rest; no tensor map is needed. Into shared memory the bytes come
    to a barrier, as those of `tma.load`: a thread has arrived there with ``expect_bytes=``. Out of shared memory each
    copy is a group of its own, which `tma.wait` of the same thread waits for; those that wrote the array have said
    `fence_proxy`. On the CPU the copy runs as late as is legal, when a thread waits for it.

    Both begin at multiples of 16 bytes, and the size is one. The alignment, of tensors, of tiles, of slices that begin
    at ``128 * i`` or at the ``i`` of ``range(0, n, 128)``, is checked at compile time, and so are lengths if they are
    constants; others are checked like an `assert`: always on the CPU, on a GPU with ``--enable-assertions``.

    Args:
        to, source: a tensor of the kernel's parameters, or a slice or tile of one, and an array of shared memory, or a
            part of one, in either order; without gaps, of as many elements of one type. Arrays with a swizzle are for
            `tma.load` and `tma.store`.
        barrier: of `mbarrier`, such as ``full[state]``, for a copy into shared memory; otherwise None.
        cache: as for `tma.load`.

    Raises:
        TypeMismatchError: for other memory, elements that are not adjacent or not of one type, too little known
            alignment, or a barrier too many or too few.
        ValueRangeError: for sizes that differ, or are not a multiple of 16 bytes; another `cache`.
        UnavailableError: before sm_90.

    Example:
        ``full[0].arrive(expect_bytes=tile.nbytes); weft.bulk_copy(tile, a.tile(32, block), full[0])``
    """
    target, origin = (_checked(one) for one in (to, source))
    spaces = target.type.space.data, origin.type.space.data
    if spaces not in _SPACES:
        raise TypeMismatchError(
            "BULK_COPY",
            f"bulk_copy: from {spaces[1]} to {spaces[0]} memory; expected a tensor of the kernel's parameters and an "
            "array of weft.shared",
        )
    if target.dtype != origin.dtype:
        raise TypeMismatchError(
            "BULK_COPY",
            f"bulk_copy: {origin.name} holds {origin.dtype}, and {target.name} {target.dtype}",
        )
    count = _count(builder, target, origin)
    length = _bytes(builder, count, target.dtype.itemsize)
    policy = cache_policy("bulk_copy", cache)
    if spaces[0] == "shared" and barrier is None:
        raise TypeMismatchError(
            "TMA_BARRIER",
            "bulk_copy: a copy into shared memory reports to a barrier, and none is given",
            hint="make one with weft.mbarrier, and pass full[0]",
        )
    if spaces[0] == "shared":
        words = barrier_words("bulk_copy", barrier)
        builder.emit(BulkLoadOp(target.ssa, origin.ssa, length, *words, policy))
        return
    if barrier is not None:
        raise TypeMismatchError(
            "TMA_BARRIER",
            f"bulk_copy: {describe(barrier)} is given for a copy out of shared memory, which reports to none",
            hint="wait with weft.tma.wait() in the same thread",
        )
    builder.emit(BulkStoreOp(target.ssa, origin.ssa, length, policy))


def _checked(value: object) -> Tensor:
    """A tensor whose elements are adjacent, at a multiple of 16 bytes."""
    if not isinstance(value, Tensor) or value.type.is_pointer:
        raise TypeMismatchError(
            "BULK_COPY",
            f"bulk_copy: received {describe(value)}; expected a tensor, or a part of one",
            hint="give a pointer a length: p[a:b]" if isinstance(value, Tensor) else "",
        )
    kind = value.type
    if kind.layout.data != "contiguous" and (kind.rank != 1 or kind.layout.data != "inner"):
        raise TypeMismatchError(
            "BULK_COPY",
            f"bulk_copy: {tensor_text(value, value.name)} is not known to be contiguous",
            hint='annotate a layout of "contiguous", and take a part without gaps'
            if kind.space.data == "global"
            else "weft.tma copies boxes and swizzled tiles",
        )
    if kind.alignment_bytes.data % BULK_BYTES:
        raise TypeMismatchError(
            "VECTOR_ALIGNMENT",
            f"bulk_copy: {value.name} is known to begin at a multiple of {kind.alignment_bytes.data} bytes; expected "
            f"{BULK_BYTES}",
            hint=f"annotate weft.fake_tensor(..., alignment_bytes={BULK_BYTES}), and begin parts at products, such as "
            f"a[{BULK_BYTES // value.dtype.itemsize} * i:]"
            if kind.space.data == "global"
            else f"make arrays, and the items of an array, take a multiple of {BULK_BYTES} bytes",
        )
    return value


def _count(builder: Builder, to: Tensor, source: Tensor) -> int | Scalar:
    """How many elements both have."""
    one, other = size(builder, to), size(builder, source)
    if isinstance(one, int) and isinstance(other, int):
        if one != other:
            raise ValueRangeError(
                "BULK_COPY_SIZE",
                f"bulk_copy: {to.name} has {one} elements, and {source.name} {other}",
            )
    else:
        same = compare(builder, "==", one, other)
        emit_assert(builder, same, f"bulk_copy: {to.name} has as many elements as {source.name}")
    count = one if isinstance(one, int) else other
    multiple = BULK_BYTES // to.dtype.itemsize
    if isinstance(count, int):
        if count % multiple:
            raise ValueRangeError(
                "BULK_COPY_SIZE",
                f"bulk_copy: {count} {to.dtype} take {count * to.dtype.itemsize} bytes; expected a multiple of "
                f"{BULK_BYTES}",
                hint=f"copy a multiple of {multiple} elements",
            )
    elif factor_of(builder, count.ssa) % multiple:
        rest = binary(builder, "&", count, multiple - 1)
        text = f"bulk_copy: the number of elements is a multiple of {multiple}"
        emit_assert(builder, compare(builder, "==", rest, 0), text)
    return count


def _bytes(builder: Builder, count: int | Scalar, itemsize: int) -> SSAValue:
    """The size of as many elements, as an i32."""
    if isinstance(count, int):
        return builder.constant(i32, count * itemsize)
    return convert(builder, binary(builder, "*", count, itemsize), types.i32).ssa
