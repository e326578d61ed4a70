# SPDX-License-Identifier: Apache-2.0
"""The same memory as elements of another type; of less than a byte: several lie in one, the first in its lowest bits.

In: a tensor of `i4` or `u4`. Out: its memory as integers of whole bytes, elements taken out of them or put together;
``weft.packed``, a tensor of bytes as one of packed elements. ``a.view(dtype)`` is for whole bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from xdsl.dialects import arith

from weft.dialects.simt.memory import LoadOp, LoadVectorOp, ReinterpretOp, StoreOp, StoreVectorOp
from weft.dialects.simt.types import DYNAMIC, Swizzle
from weft.errors import TypeMismatchError, ValueRangeError
from weft.language.ir_types import ir_tensor_type, ir_type
from weft.language.memory.access import dim
from weft.language.numbers.convert import convert, named_dtype, to_common
from weft.language.numbers.operators import binary
from weft.language.operation import operation
from weft.language.values import Scalar, Tensor, describe
from weft.types import dtype as types
from weft.types.dtype import DType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.dialects.builtin import StringAttr
    from xdsl.ir import SSAValue

    from weft.dialects.builder import Builder

_WORDS: Final = {8: types.u8, 16: types.u16, 32: types.u32}
_WORD_BITS: Final = max(_WORDS)


def reinterpreted(builder: Builder, tensor: Tensor, dtype: DType) -> Tensor:
    """The same memory as elements of another type; the rest of a row after whole ones is not in it.

    Bytes are all there: a row of 3 packed elements has 2.
    """
    before, after = tensor.dtype.bits, dtype.bits
    kind = tensor.type
    dims = list(kind.dims)
    sizes = [_size(builder, tensor, number) for number, size in enumerate(dims) if size == DYNAMIC]
    if dims[-1] == DYNAMIC:
        sizes[-1] = _scaled(builder, sizes[-1], before, after)
    else:
        dims[-1] = _whole(dims[-1], before, after)
    made = ReinterpretOp(
        tensor.ssa,
        [size.ssa for size in sizes],
        ir_tensor_type(
            dtype,
            dims,
            layout=kind.layout.data,
            space=kind.space.data,
            dim_bits=kind.dim_bits.data,
            offset_bits=kind.offset_bits.data,
            alignment_bytes=kind.alignment_bytes.data,
            swizzle=_with_elements(kind.swizzle_atoms, before, after),
        ),
    )
    return Tensor(builder.emit(made, tensor.name).result, dtype, tensor.name)


def _with_elements(atoms: Swizzle | None, before: int, after: int) -> Swizzle | None:
    """The same swizzle, which moves chunks of 16 bytes, with its distances in other elements."""
    if atoms is None:
        return None
    return Swizzle.get(atoms.row_bytes.data, atoms.atom_stride.data * before // after)


def _size(builder: Builder, tensor: Tensor, dimension: int) -> Scalar:
    dtype = types.i32 if tensor.type.dim_bits.data == 32 else types.i64
    return to_common(builder, dim(builder, tensor, dimension), dtype)


def _whole(count: int, before: int, after: int) -> int:
    bits = count * before
    return -(-bits // after) if after == 8 else bits // after


def _scaled(builder: Builder, count: Scalar, before: int, after: int) -> Scalar:
    if after < before:
        return binary(builder, "*", count, before // after)
    if after == 8:
        count = binary(builder, "+", count, after // before - 1)
    shift = (after // before).bit_length() - 1
    return binary(builder, ">>", count, shift)


def load_element(
    builder: Builder,
    tensor: Tensor,
    places: Sequence[SSAValue],
    *,
    volatile: bool = False,
    cache: str | None = None,
) -> Scalar:
    """An element, out of its byte."""
    whole = reinterpreted(builder, tensor, types.u8)
    last = _index(places[-1])
    each = 8 // tensor.dtype.bits
    byte = binary(builder, ">>", last, each.bit_length() - 1)
    loaded = builder.emit(
        LoadOp(whole.ssa, [*places[:-1], _ssa(builder, byte)], volatile=volatile, cache=cache)
    )
    bits = binary(builder, "*", binary(builder, "&", last, each - 1), tensor.dtype.bits)
    word = convert(builder, Scalar(loaded.result, types.u8), types.u32)
    return _element(
        builder, binary(builder, ">>", word, convert(builder, bits, types.u32)), tensor.dtype
    )


def load_elements(
    builder: Builder,
    tensor: Tensor,
    places: Sequence[SSAValue],
    count: int,
    cache: StringAttr | None,
) -> tuple[Scalar, ...]:
    """Adjacent elements that take whole bytes, in one access."""
    whole, indices, words = _words(builder, tensor, places, count)
    found: Sequence[SSAValue]
    if words == 1:
        loaded = LoadOp(whole.ssa, indices, cache=cache and cache.data)
        found = (builder.emit(loaded).result,)
    else:
        found = builder.emit(LoadVectorOp(whole.ssa, indices, words, cache)).elements
    each = whole.dtype.bits // tensor.dtype.bits
    return tuple(
        _element(
            builder,
            _shifted(builder, Scalar(word, whole.dtype), number * tensor.dtype.bits),
            tensor.dtype,
        )
        for word in found
        for number in range(each)
    )


def store_elements(
    builder: Builder,
    tensor: Tensor,
    places: Sequence[SSAValue],
    elements: Sequence[SSAValue],
    cache: StringAttr | None,
) -> None:
    """Write adjacent elements that take whole bytes, in one access."""
    whole, indices, words = _words(builder, tensor, places, len(elements))
    bits, each = tensor.dtype.bits, len(elements) // words
    word_type = ir_type(whole.dtype)
    found: list[SSAValue] = []
    for first in range(0, len(elements), each):
        joined: SSAValue | None = None
        for number, element in enumerate(elements[first : first + each]):
            part = builder.compute(arith.ExtUIOp, element, to=word_type)
            if number:
                part = builder.compute(
                    arith.ShLIOp, part, builder.constant(word_type, number * bits)
                )
            joined = part if joined is None else builder.compute(arith.OrIOp, joined, part)
        assert joined is not None
        found.append(joined)
    if words == 1:
        builder.emit(StoreOp(found[0], whole.ssa, indices, cache=cache and cache.data))
    else:
        builder.emit(StoreVectorOp(found, whole.ssa, indices, cache))


def _words(
    builder: Builder, tensor: Tensor, places: Sequence[SSAValue], count: int
) -> tuple[Tensor, list[SSAValue], int]:
    """The memory as the widest integers that `count` elements fill, the indices of the first, and their number."""
    bits = count * tensor.dtype.bits
    word = _WORDS[min(bits, _WORD_BITS)]
    whole = reinterpreted(builder, tensor, word)
    shift = (word.bits // tensor.dtype.bits).bit_length() - 1
    last = binary(builder, ">>", _index(places[-1]), shift)
    return whole, [*places[:-1], _ssa(builder, last)], bits // word.bits


def _index(place: SSAValue) -> Scalar:
    return Scalar(place, types.i32 if place.type == ir_type(types.i32) else types.i64)


def _ssa(builder: Builder, index: Scalar) -> SSAValue:
    known = index.constant
    return index.ssa if known is None else builder.constant(index.ssa.type, int(known))


def _shifted(builder: Builder, word: Scalar, bits: int) -> Scalar:
    if not bits:
        return word
    by = builder.constant(ir_type(word.dtype), bits)
    return Scalar(builder.compute(arith.ShRUIOp, word.ssa, by), word.dtype)


def _element(builder: Builder, word: Scalar, dtype: DType) -> Scalar:
    return Scalar(builder.compute(arith.TruncIOp, word.ssa, to=ir_type(dtype)), dtype)


@operation(packed=True)
def packed(builder: Builder, tensor: object, dtype: object) -> Tensor:
    """A tensor of bytes as one of packed elements, in the same memory: the last dimension has twice as many.

    Outside compiled code, an array of bytes of any library becomes an argument.

    Args:
        tensor: of ``u8`` or ``i8`` elements, with a last stride of 1, not swizzled.
        dtype: ``weft.i4`` or ``weft.u4``; the first of two elements is in the lower four bits of a byte.

    Raises:
        TypeMismatchError: for anything else.

    Example:
        ``tile = weft.packed(weft.shared((64, 32), weft.u8), weft.i4)`` has the shape (64, 64).
    """
    if not isinstance(dtype, DType) or not dtype.is_packed:
        raise TypeMismatchError(
            "PACKED_TYPE", f"packed: expected weft.i4 or weft.u4, received {describe(dtype)}"
        )
    if not isinstance(tensor, Tensor) or tensor.dtype not in (types.u8, types.i8):
        raise TypeMismatchError(
            "PACKED_BYTES", f"packed: expected a tensor of u8 or i8, received {describe(tensor)}"
        )
    kind = tensor.type
    if kind.is_pointer or not tensor.rank or kind.layout.data not in ("contiguous", "inner"):
        raise TypeMismatchError(
            "PACKED_BYTES",
            f"packed: {tensor.name} is {describe(tensor)}, whose bytes are not known to be adjacent",
            hint='annotate a layout of "contiguous" or "inner"',
        )
    return reinterpreted(builder, tensor, dtype)


@operation(name="Tensor.view")
def view(builder: Builder, tensor: Tensor, dtype: object) -> Tensor:
    """The same bytes as elements of another type; the last dimension holds as many as fit.

    Args:
        tensor: contiguous or swizzled, of `weft.shared` or `weft.local`; ``a.view(...)`` passes it.
        dtype: the elements' type; rows take whole elements of it, and the array is aligned for them.

    Raises:
        TypeMismatchError: for no element type, bools, packed elements, or an array of another kind.
        ValueRangeError: for rows that do not take whole elements, or an array that is aligned for smaller ones.

    Example:
        ``words = weft.shared((16, 8), weft.bf16).view(weft.u32)`` has the shape (16, 4).
    """
    kind = tensor.type
    dtype = named_dtype(dtype)
    if not isinstance(dtype, DType):
        raise TypeMismatchError(
            "VIEW_DTYPE",
            f"{tensor.name}.view: expected an element type, received {describe(dtype)}",
            hint=f"write {tensor.name}.view(weft.u32)",
        )
    if types.bool_ in (dtype, tensor.dtype) or dtype.is_packed or tensor.dtype.is_packed:
        raise TypeMismatchError(
            "VIEW_DTYPE",
            f"{tensor.name}.view({dtype}): elements of {tensor.dtype} are not taken as {dtype}",
            hint="weft.packed takes bytes as packed elements; compare with 0 for a bool",
        )
    atoms = kind.swizzle_atoms
    is_whole = kind.layout.data == "contiguous" or (atoms and not atoms.is_transposed.data)
    is_own = kind.space.data in ("shared", "local") and is_whole
    if not is_own or not kind.rank or DYNAMIC == kind.dims[-1]:
        raise TypeMismatchError(
            "VIEW_DTYPE",
            f"{tensor.name}.view({dtype}): {tensor.name} is {describe(tensor)}; expected an array of weft.shared "
            "or weft.local, contiguous or swizzled, whose rows have constant sizes",
            hint="the caller passes a view of its own, such as a.view(torch.int32); or take the registers: "
            "weft.bitcast(weft.load_vector(a, i, n), dtype)"
            if kind.space.data == "global"
            else "",
        )
    row_bytes = kind.dims[-1] * tensor.dtype.itemsize
    if row_bytes % dtype.itemsize:
        raise ValueRangeError(
            "VIEW_DTYPE",
            f"{tensor.name}.view({dtype}): rows take {row_bytes} bytes, which is not a multiple of {dtype.itemsize}",
            hint="use rows that take whole elements of both types",
        )
    if kind.alignment_bytes.data % dtype.itemsize:
        raise ValueRangeError(
            "VIEW_DTYPE",
            f"{tensor.name}.view({dtype}): {tensor.name} is aligned to {kind.alignment_bytes.data} bytes "
            f"as far as is known, and {dtype} to {dtype.itemsize}",
            hint="make the array of the wider type, and take its view as the narrower one",
        )
    return reinterpreted(builder, tensor, dtype)


def check_view(tensor: Tensor, layout: str, multiples: Sequence[int], text: str) -> None:
    """Check that a part begins with a byte and keeps elements adjacent.

    Args:
        tensor: of packed elements.
        layout: of the part.
        multiples: divisors of the number of elements before it, along each dimension; 0 where there are none.
        text: the part as written.

    Raises:
        TypeMismatchError: if elements of the part are not adjacent.
        ValueRangeError: if it is not known to begin with a byte.
    """
    if layout not in ("contiguous", "inner"):
        raise TypeMismatchError(
            "PACKED_VIEW",
            f"{text}: the elements of the part are not adjacent, and {tensor.dtype} are packed",
            hint="index the elements one by one, or slice other dimensions",
        )
    each = 8 // tensor.dtype.bits
    if any(multiple % each for multiple in multiples):
        raise ValueRangeError(
            "PACKED_VIEW",
            f"{text}: the part is not known to begin at a multiple of {each} elements, and {each} "
            f"{tensor.dtype} take a byte",
            hint=f"begin at {each} * i, or promise it before: weft.assume(i % {each} == 0)",
        )
