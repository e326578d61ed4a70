# SPDX-License-Identifier: Apache-2.0
"""The same memory as elements of another type; of less than a byte: several lie in one, the first in its lowest bits.

In: a tensor of `i4`, `u4` or a float of 4 or 6 bits. Out: its memory as integers of whole bytes, elements taken out of
them or put together; ``weft.packed``, a tensor of bytes as one of packed elements. ``a.view(dtype)`` is for whole
bytes.
"""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING, Final, NamedTuple

from xdsl.dialects import arith

from weft.dialects.simt.memory import LoadOp, LoadVectorOp, ReinterpretOp, StoreOp, StoreVectorOp
from weft.dialects.simt.types import DYNAMIC, Swizzle
from weft.errors import TypeMismatchError, ValueRangeError
from weft.language.ir_types import integer_type, ir_tensor_type, ir_type
from weft.language.memory.access import dim
from weft.language.numbers.convert import convert, named_dtype, to_common
from weft.language.numbers.operators import binary
from weft.language.operation import operation
from weft.language.values import Scalar, Tensor, describe
from weft.types import dtype as types
from weft.types.dtype import DType, packed_names

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
    shared = gcd(before, after)
    count = _times(builder, count, before // shared)
    if after == 8 > before:
        count = binary(builder, "+", count, after // shared - 1)
    return _divided(builder, count, after // shared)


def _times(builder: Builder, count: Scalar, factor: int) -> Scalar:
    return count if factor == 1 else binary(builder, "*", count, factor)


def _divided(builder: Builder, count: Scalar, divisor: int) -> Scalar:
    """A count, or an index from 0 on, divided and rounded down."""
    if divisor & (divisor - 1):
        return binary(builder, "//", count, divisor)
    return count if divisor == 1 else binary(builder, ">>", count, divisor.bit_length() - 1)


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
    last, width = _index(places[-1]), tensor.dtype.bits
    each, scale = tensor.dtype.info.in_whole_bytes, gcd(width, 8)

    def load_byte(place: Scalar) -> Scalar:
        indices = [*places[:-1], _ssa(builder, place)]
        loaded = builder.emit(LoadOp(whole.ssa, indices, volatile=volatile, cache=cache))
        return convert(builder, Scalar(loaded.result, types.u8), types.u32)

    begin = _times(builder, last, width // scale)
    byte = _divided(builder, begin, 8 // scale)
    word = load_byte(byte)
    if each * width > 8:  # the element may end in the following byte
        end = _divided(builder, binary(builder, "+", begin, width // scale - 1), 8 // scale)
        word = binary(builder, "|", word, binary(builder, "<<", load_byte(end), 8))
    bits = binary(builder, "&", binary(builder, "*", last, width), 7)
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
    words = _words(builder, tensor, places, count)
    found: Sequence[SSAValue] = (
        builder.emit(LoadVectorOp(words.whole.ssa, words.indices[0], words.number, cache)).elements
        if words.are_adjacent
        else [
            builder.emit(LoadOp(words.whole.ssa, indices, cache=cache and cache.data)).result
            for indices in words.indices
        ]
    )
    width, bits = words.whole.dtype.bits, tensor.dtype.bits
    elements: list[Scalar] = []
    for begin in range(0, count * bits, bits):
        number, shift = divmod(begin, width)
        part = _moved(builder, Scalar(found[number], words.whole.dtype), ">>", shift)
        if shift + bits > width:
            following = Scalar(found[number + 1], words.whole.dtype)
            part = _joined(builder, part, _moved(builder, following, "<<", width - shift))
        elements.append(_element(builder, part, tensor.dtype))
    return tuple(elements)


def store_elements(
    builder: Builder,
    tensor: Tensor,
    places: Sequence[SSAValue],
    elements: Sequence[SSAValue],
    cache: StringAttr | None,
) -> None:
    """Write adjacent elements that take whole bytes, in one access."""
    words = _words(builder, tensor, places, len(elements))
    dtype, bits = words.whole.dtype, tensor.dtype.bits
    found: list[Scalar | None] = [None] * words.number
    for place, element in enumerate(elements):
        if tensor.dtype.is_float:
            element = builder.compute(arith.BitcastOp, element, to=integer_type(bits))
        value = Scalar(builder.compute(arith.ExtUIOp, element, to=ir_type(dtype)), dtype)
        number, shift = divmod(place * bits, dtype.bits)
        parts = {number: _moved(builder, value, "<<", shift)}
        if shift + bits > dtype.bits:
            parts[number + 1] = _moved(builder, value, ">>", dtype.bits - shift)
        for one, part in parts.items():
            joined = found[one]
            found[one] = part if joined is None else _joined(builder, joined, part)
    values = [value.ssa for value in found if value is not None]
    if words.are_adjacent:
        builder.emit(StoreVectorOp(values, words.whole.ssa, words.indices[0], cache))
        return
    for value, indices in zip(values, words.indices, strict=True):
        builder.emit(StoreOp(value, words.whole.ssa, indices, cache=cache and cache.data))


class _Words(NamedTuple):
    """The memory of adjacent elements as integers.

    Attributes:
        whole: the memory.
        indices: of the first integer, if one access has them all; else of each.
        number: of the integers.
    """

    whole: Tensor
    indices: list[list[SSAValue]]
    number: int

    @property
    def are_adjacent(self) -> bool:
        return len(self.indices) < self.number


def _words(builder: Builder, tensor: Tensor, places: Sequence[SSAValue], count: int) -> _Words:
    """The memory as the widest integers that `count` elements fill."""
    bits = count * tensor.dtype.bits
    word = _WORDS[min(bits & -bits, _WORD_BITS)]
    whole, number = reinterpreted(builder, tensor, word), bits // word.bits
    last, leading = _index(places[-1]), places[:-1]
    if number & (number - 1) == 0:
        first = _divided(builder, last, word.bits // tensor.dtype.bits)
        return _Words(whole, [[*leading, _ssa(builder, first)]], number)
    # Three words of 8, 16 or 32 bits: no access has as many. Elements begin at a multiple of their number.
    first = _times(builder, _divided(builder, last, count), number)
    each = [first, *(binary(builder, "+", first, step) for step in range(1, number))]
    return _Words(whole, [[*leading, _ssa(builder, place)] for place in each], number)


def _index(place: SSAValue) -> Scalar:
    return Scalar(place, types.i32 if place.type == ir_type(types.i32) else types.i64)


def _ssa(builder: Builder, index: Scalar) -> SSAValue:
    known = index.constant
    return index.ssa if known is None else builder.constant(index.ssa.type, int(known))


def _moved(builder: Builder, word: Scalar, direction: str, bits: int) -> Scalar:
    """A word shifted by a constant."""
    if not bits:
        return word
    by = builder.constant(ir_type(word.dtype), bits)
    kind = arith.ShRUIOp if direction == ">>" else arith.ShLIOp
    return Scalar(builder.compute(kind, word.ssa, by), word.dtype)


def _joined(builder: Builder, first: Scalar, second: Scalar) -> Scalar:
    return Scalar(builder.compute(arith.OrIOp, first.ssa, second.ssa), first.dtype)


def _element(builder: Builder, word: Scalar, dtype: DType) -> Scalar:
    """An element, of which a word has the bits lowest."""
    bits = builder.compute(arith.TruncIOp, word.ssa, to=integer_type(dtype.bits))
    if dtype.is_float:
        bits = builder.compute(arith.BitcastOp, bits, to=ir_type(dtype))
    return Scalar(bits, dtype)


@operation(packed=True)
def packed(builder: Builder, tensor: object, dtype: object) -> Tensor:
    """A tensor of bytes as one of packed elements, in the same memory.

    The last dimension has twice as many of 4 bits as bytes, and four of 6 bits for three bytes.

    Outside compiled code, an array of bytes of any library becomes an argument.

    Args:
        tensor: of ``u8`` or ``i8`` elements, with a last stride of 1, not swizzled.
        dtype: ``weft.i4``, ``weft.u4``, ``weft.f4e2m1``, ``weft.f6e2m3`` or ``weft.f6e3m2``; the first element is in
            the lowest bits of its byte.

    Raises:
        TypeMismatchError: for anything else.

    Example:
        ``tile = weft.packed(weft.shared((64, 32), weft.u8), weft.i4)`` has the shape (64, 64).
    """
    if not isinstance(dtype, DType) or not dtype.is_packed:
        raise TypeMismatchError(
            "PACKED_TYPE", f"packed: expected {packed_names()}, received {describe(dtype)}"
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
    whole = dtype.info.in_whole_bytes * dtype.bits // 8
    if kind.dims[-1] != DYNAMIC and kind.dims[-1] % whole:
        raise ValueRangeError(
            "PACKED_ROWS",
            f"packed: rows of {tensor.name} have {kind.dims[-1]} bytes; {dtype.info.in_whole_bytes} {dtype} take "
            f"{_bytes_text(whole)}",
            hint=f"use rows of a multiple of {whole} bytes",
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


def _bytes_text(count: int) -> str:
    return "a byte" if count == 1 else f"{count} bytes"


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
    each = tensor.dtype.info.in_whole_bytes
    if any(multiple % each for multiple in multiples):
        raise ValueRangeError(
            "PACKED_VIEW",
            f"{text}: the part is not known to begin at a multiple of {each} elements, and {each} "
            f"{tensor.dtype} take {_bytes_text(each * tensor.dtype.bits // 8)}",
            hint=f"begin at {each} * i, or promise it before: weft.assume(i % {each} == 0)",
        )
