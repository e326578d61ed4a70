# SPDX-License-Identifier: Apache-2.0
"""Loads and stores of several adjacent elements in one access, and with a hint for the caches.

In: for ``load_vector`` and ``store_vector`` a tensor of known alignment, and the index of the first element. Out: a
tuple of scalars, read or written in one access of up to 16 bytes, of global memory 32. In: for ``load_element`` and
``store_element`` a tensor in global memory, an index, a hint. Out: a load or a store with the hint. ``prefetch`` is a
hint alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from xdsl.dialects.builtin import StringAttr, i32

from weft.dialects.nvgpu.inline_ptx import PrefetchOp
from weft.dialects.simt.memory import (
    LOAD_CACHES,
    STORE_CACHES,
    LoadVectorOp,
    StoreVectorOp,
    ViewOp,
)
from weft.errors import TypeMismatchError, ValueRangeError, WeftError
from weft.language.debug import emit_assert
from weft.language.memory import access
from weft.language.memory.access import index_values, stride
from weft.language.memory.packed import load_elements, store_elements
from weft.language.numbers.convert import constant, stored
from weft.language.numbers.operators import binary, compare
from weft.language.numbers.promises import factor_of, stride_factor
from weft.language.operation import operation
from weft.language.values import Scalar, Tensor, describe
from weft.types import dtype as types
from weft.types.launch_limits import VECTOR_BYTES

if TYPE_CHECKING:
    from xdsl.ir import SSAValue

    from weft.dialects.builder import Builder
    from weft.dialects.simt.types import TensorType


_COUNTS: Final = (2, 4, 8, 16)
_MOST_BYTES: Final = (
    2 * VECTOR_BYTES
)  # of global memory; one instruction from sm_100 on, two before


@operation(packed=True, takes_complex=True)
def load_vector(
    builder: Builder, tensor: object, index: object, count: object, *, cache: object = None
) -> tuple[Scalar, ...]:
    """Reads `count` adjacent elements along the last dimension in one access.

    The first address must be a multiple of the access's size. The tensor's alignment, constant indices and constant
    strides are checked at compile time, the rest like an `assert`: always on the CPU, on a GPU with
    ``--enable-assertions``.

    Args:
        tensor: with a last stride of 1, known to be aligned to the access's size: shared and local arrays of that size
            are, and in a direct call an argument whose memory is; for `weft.compile` annotate it
            ``weft.fake_tensor(weft.f32, ("n",), alignment_bytes=16)``, which each call checks.
        index: of the first element: an integer, or a tuple with one per dimension; the last is a multiple of
            `count`.
        count: 2, 4, 8, 16 or 32; a constant. At most 16 bytes in all, of global memory 32, for which GPUs have one
            instruction from sm_100 on, and two before; of packed elements 16.
        cache: as for `load`.

    Returns:
        A tuple of `count` scalars.

    Raises:
        TypeMismatchError: for a non-tensor, a wrong number of indices, a layout whose last stride is not 1, or too
            little known alignment.
        ValueRangeError: for another count, more bytes, an unaligned constant index, or another `cache`.

    Example:
        ``x, y, z, w = weft.load_vector(points, 4 * i, 4)``
    """
    found, places, number = vector_place(
        builder, "load_vector", tensor, index, count, _most(tensor)
    )
    hint = _hint("load_vector", found, cache, LOAD_CACHES)
    if found.dtype.is_packed:
        return load_elements(builder, found, places, number, hint)
    loaded = builder.emit(LoadVectorOp(found.ssa, places, number, hint))
    return tuple(Scalar(element, found.dtype) for element in loaded.elements)


@operation(packed=True, takes_complex=True)
def store_vector(
    builder: Builder, tensor: object, index: object, values: object, *, cache: object = None
) -> None:
    """Writes adjacent elements along the last dimension in one access; the counterpart of `load_vector`.

    Args:
        tensor: as for `load_vector`.
        index: as for `load_vector`.
        values: a tuple of 2, 4, 8, 16 or 32 numbers, as for `load_vector`; each must convert to the element type
            without loss.
        cache: as for `store`.

    Raises:
        TypeMismatchError: as `load_vector`; or for values that are not a tuple, or need an explicit conversion.
        ValueRangeError: as `load_vector`; or for a constant that does not fit.

    Example:
        ``weft.store_vector(points, 4 * i, (x, y, z, 1.0))``
    """
    if not isinstance(values, tuple | list):
        raise TypeMismatchError(
            "VECTOR_VALUES",
            f"store_vector: values must be a tuple of numbers, received {describe(values)}",
            hint="write store_vector(tensor, index, (x, y, z, w))",
        )
    items = cast("tuple[object, ...]", values)
    count = len(items)
    found, places, _ = vector_place(builder, "store_vector", tensor, index, count, _most(tensor))
    elements = [
        vector_element(builder, "store_vector", found, number, item)
        for number, item in enumerate(items)
    ]
    hint = _hint("store_vector", found, cache, STORE_CACHES)
    if found.dtype.is_packed:
        store_elements(builder, found, places, elements, hint)
    else:
        builder.emit(StoreVectorOp(elements, found.ssa, places, hint))


def _hint(name: str, tensor: Tensor, cache: object, allowed: tuple[str, ...]) -> StringAttr | None:
    hint = cache_hint(name, tensor, cache, allowed)
    return None if hint is None else StringAttr(hint)


def vector_element(
    builder: Builder, name: str, tensor: Tensor, number: int, item: object
) -> SSAValue:
    """The value in the tensor's element type; errors name the operation and which of its values it is."""
    try:
        return stored(builder, item, tensor.dtype).ssa
    except WeftError as error:
        text = f"{name}: value {number}: {tensor.name} holds {tensor.dtype}: {error.message}"
        raise type(error)(error.code, text, hint=error.hint) from None


def vector_place(
    builder: Builder,
    name: str,
    tensor: object,
    index: object,
    count: object,
    most: int = VECTOR_BYTES,
) -> tuple[Tensor, list[SSAValue], int]:
    """The checked tensor, indices of the first element, and number of elements, of at most `most` bytes."""
    if not isinstance(tensor, Tensor):
        raise TypeMismatchError(
            "VECTOR_TENSOR",
            f"{name}: the first argument must be a tensor, received {describe(tensor)}",
        )
    number = _count(name, tensor, count, most)
    return tensor, adjacent_place(builder, name, tensor, index, number), number


def adjacent_place(
    builder: Builder, name: str, tensor: Tensor, index: object, number: int
) -> list[SSAValue]:
    """The indices of the first of `number` elements, checked to be adjacent and aligned to their whole size."""
    places = index_values(builder, tensor, index)
    atoms = tensor.type.swizzle_atoms
    is_transposed = atoms is not None and bool(atoms.is_transposed.data)
    if not places or is_transposed or tensor.type.layout.data == "strided":
        raise TypeMismatchError(
            "VECTOR_LAYOUT",
            f"{name}: {tensor.name} "
            f"{'is transposed' if is_transposed else 'has any strides' if places else 'has rank 0'}; "
            "its elements are not known to be adjacent",
            hint='annotate a layout of "contiguous" or "inner", or copy the elements one by one',
        )
    size = tensor.dtype.storage_bytes(number)
    size &= -size  # three words of 6-bit elements are aligned to one
    known = tensor.type.alignment_bytes.data
    if known % size:
        raise TypeMismatchError(
            "VECTOR_ALIGNMENT",
            f"{name}: {number} {tensor.dtype} take {size} bytes, and {tensor.name} is known to be aligned "
            f"to {known}",
            hint=_alignment_hint(tensor, number, size),
        )
    for dimension in range(tensor.rank - 1):
        step = stride(builder, tensor, dimension)
        what = f"{tensor.name}.strides[{dimension}]"
        if isinstance(step, Scalar):
            if stride_factor(builder, tensor.ssa, dimension) % number:
                _check_multiple(builder, name, what, step, number)
        elif step % number:
            raise ValueRangeError(
                "VECTOR_INDEX", f"{name}: {what} is {step}, which is not a multiple of {number}"
            )
    last = places[-1]
    dtype = types.i32 if last.type == i32 else types.i64
    _check_multiple(builder, name, f"the last index of {tensor.name}", Scalar(last, dtype), number)
    return places


def _alignment_hint(tensor: Tensor, number: int, size: int) -> str:
    """Missing fact: for a part of an aligned tensor a divisor of its strides, else the alignment."""
    whole, name = tensor.ssa, tensor.name.partition("[")[0]
    while isinstance(whole.owner, ViewOp):
        whole = whole.owner.source
    kind = cast("TensorType", whole.type)
    if whole is tensor.ssa or kind.alignment_bytes.data % size or kind.rank < 2:
        return f"annotate it weft.fake_tensor(weft.{tensor.dtype}, shape, alignment_bytes={size})"
    return (
        f"{name} is aligned; promise that so are its parts, as by "
        f"weft.assume({name}.strides[0] % {number} == 0), and begin them at multiples of {number}"
    )


def _most(tensor: object) -> int:
    """The most bytes of a load or a store."""
    if (
        not isinstance(tensor, Tensor)
        or tensor.type.space.data != "global"
        or tensor.dtype.is_packed
    ):
        return VECTOR_BYTES
    return _MOST_BYTES


def _count(name: str, tensor: Tensor, count: object, most: int) -> int:
    dtype = tensor.dtype
    is_wide = dtype.is_packed or (most > VECTOR_BYTES and dtype.bits == 8)
    allowed = (*_COUNTS, 32) if is_wide else _COUNTS
    if count not in allowed or isinstance(count, bool | float):
        listed = f"{', '.join(map(str, allowed[:-1]))} or {allowed[-1]}"
        raise ValueRangeError(
            "VECTOR_COUNT",
            f"{name}: the number of elements is {describe(count)}; expected {listed}, a constant",
        )
    number = cast("int", count)
    if number % dtype.info.in_whole_bytes:
        raise ValueRangeError(
            "VECTOR_COUNT",
            f"{name}: {number} {dtype} do not take whole bytes, of {dtype.info.in_whole_bytes} each",
        )
    if dtype.storage_bytes(number) > most:
        raise ValueRangeError(
            "VECTOR_COUNT",
            f"{name}: {number} {dtype} take {dtype.storage_bytes(number)} bytes; "
            f"one access has at most {most}",
            hint=f"access {8 * most // dtype.bits} at a time",
        )
    return number


def _check_multiple(builder: Builder, name: str, what: str, value: Scalar, count: int) -> None:
    known = value.constant
    if known is not None:
        if int(known) % count:
            raise ValueRangeError(
                "VECTOR_INDEX", f"{name}: {what} is {known}, which is not a multiple of {count}"
            )
        return
    if factor_of(builder, value.ssa) % count == 0:
        return
    rest = binary(builder, "&", value, count - 1)
    emit_assert(
        builder, compare(builder, "==", rest, 0), f"{name}: {what} is a multiple of {count}"
    )


@operation(takes_complex=True)
def load_element(
    builder: Builder, tensor: object, index: object, *, cache: object = None
) -> Scalar:
    """``tensor[index]``, with a hint for a GPU's caches.

    A hint never changes a value. The CPU leaves it out, and so does a GPU without it: `no_allocate` is of sm_70 and
    later, `evict_first` and `evict_last` of sm_80 and later. In `each`, elements are read 16 bytes at a time as ever.

    Args:
        tensor: in global memory.
        index: an integer, or a tuple with one per dimension.
        cache: ``"streaming"``: read once, so it leaves the caches first. ``"last_use"``: not read again, so it need
            not be written back. ``"l2_only"``: not in the multiprocessor's L1 cache. ``"no_allocate"``: it displaces
            nothing in the L1 cache. ``"evict_first"``, ``"evict_last"``: the first or last to leave the L2 cache. None:
            as ever.

    Raises:
        TypeMismatchError: for a non-tensor, a tensor elsewhere, or a wrong index.
        ValueRangeError: for another `cache`, or a constant index out of range.

    Example:
        ``x = weft.load_element(a, i, cache="streaming")``
    """
    found = _tensor("load_element", tensor)
    hint = cache_hint("load_element", found, cache, LOAD_CACHES)
    return access.load(builder, found, index, cache=hint)


@operation(takes_complex=True)
def store_element(
    builder: Builder, tensor: object, index: object, value: object, *, cache: object = None
) -> None:
    """``tensor[index] = value``, with a hint for a GPU's caches; the counterpart of `load_element`.

    Args:
        tensor, index: as for `load_element`.
        value: a number that must convert to the element type without loss.
        cache: as for `load_element`, but not ``"last_use"``.

    Raises:
        TypeMismatchError: as `load_element`; or for a value that needs an explicit conversion.
        ValueRangeError: as `load_element`; or for a constant that does not fit.

    Example:
        ``weft.store_element(a, i, 0.0, cache="evict_first")``
    """
    found = _tensor("store_element", tensor)
    hint = cache_hint("store_element", found, cache, STORE_CACHES)
    access.store(builder, found, index, value, cache=hint)


@operation
def prefetch(builder: Builder, tensor: object, index: object) -> None:
    """Asks a GPU to bring the line of ``tensor[index]``, 128 bytes, into its L2 cache: `prefetch.global.L2`.

    A hint, which changes no value and never fails: an index outside the tensor is left out, so that loops may prefetch
    beyond the end; of a pointer without a shape, the address must be the program's own. The CPU does nothing.

    Args:
        tensor: in global memory.
        index: an integer, or a tuple with one per dimension.

    Raises:
        TypeMismatchError: for a non-tensor, a tensor elsewhere, or a wrong index.
        ValueRangeError: for a constant index out of range.

    Example:
        ``weft.prefetch(a, i + 4 * weft.block_dim.x)``
    """
    found = _tensor("prefetch", tensor)
    if found.type.space.data != "global":
        owner = (
            "in the thread's own memory" if found.type.space.data == "local" else "in shared memory"
        )
        raise TypeMismatchError(
            "CACHE_SPACE",
            f"prefetch: {found.name} is {owner}; the L2 cache is for tensors in global memory",
        )
    places = index_values(builder, found, index)
    inside = constant(builder, True, types.bool_)
    for dimension, place in enumerate(() if found.type.is_pointer else places):
        at = Scalar(place, types.i32 if place.type == i32 else types.i64)
        for operator, bound in ((">=", 0), ("<", access.dim(builder, found, dimension))):
            inside = binary(builder, "&", inside, compare(builder, operator, at, bound))
    builder.emit(PrefetchOp(inside.ssa, found.ssa, places))


def cache_hint(name: str, tensor: Tensor, cache: object, allowed: tuple[str, ...]) -> str | None:
    """A hint for an access of the tensor, or None.

    Raises:
        TypeMismatchError: for a tensor that is not in global memory.
        ValueRangeError: for a hint that is not allowed.
    """
    if cache is None:
        return None
    if not isinstance(cache, str) or cache not in allowed:
        listed = ", ".join(map(repr, allowed[:-1]))
        raise ValueRangeError(
            "CACHE_HINT",
            f"{name}: cache is {describe(cache)}; expected None, {listed} or {allowed[-1]!r}",
        )
    space = tensor.type.space.data
    if space != "global":
        owner = "in the thread's own memory" if space == "local" else "in shared memory"
        raise TypeMismatchError(
            "CACHE_SPACE",
            f"{name}: {tensor.name} is {owner}; cache= is for tensors in global memory",
            hint="leave out cache=",
        )
    if tensor.dtype.bits > 64:
        raise TypeMismatchError(
            "CACHE_TENSOR",
            f"{name}: {tensor.name} holds {tensor.dtype}; cache= is for elements of at most 8 bytes",
            hint="leave out cache=, or pass the parts as a tensor of floats with a last dimension of 2",
        )
    return cache


def _tensor(name: str, tensor: object) -> Tensor:
    if not isinstance(tensor, Tensor):
        raise TypeMismatchError(
            "CACHE_TENSOR",
            f"{name}: the first argument must be a tensor, received {describe(tensor)}",
            hint=f"write {name}(tensor, index, ...), not {name}(tensor[index], ...)",
        )
    return tensor
