# SPDX-License-Identifier: Apache-2.0
"""Arrays of ml_dtypes' 4-bit and 6-bit types, a byte each, as bytes without gaps, and back.

In: a NumPy or JAX array. Out: a packed argument of compiled functions; the elements of one as an array.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from weft.ffi.tensor import Packed, packed
from weft.types.dtype import PACKED_DTYPES, packed_names

if TYPE_CHECKING:
    from weft.types.dtype import DType

_BY_NUMPY = {dtype.info.numpy: dtype for dtype in PACKED_DTYPES}


def pack(array: Any) -> Packed:
    """An array of a type of fewer than 8 bits as a packed argument: ml_dtypes and JAX keep such an element in a byte.

    Args:
        array: of ml_dtypes' `int4`, `uint4`, `float4_e2m1fn`, `float6_e2m3fn` or `float6_e3m2fn`, of NumPy or JAX. The
            last dimension is a multiple of 2, of 6-bit elements of 4. It is copied to the host's memory; for a GPU,
            move the bytes: ``weft.packed(torch.from_numpy(weft.pack(x).array).cuda(), weft.f4e2m1)``.

    Raises:
        TypeError: for an array of another type.
        ValueError: for rows that do not take whole bytes.

    Example:
        >>> import ml_dtypes, numpy
        >>> weft.pack(numpy.array([1.0, -2.0], ml_dtypes.float4_e2m1fn)).array.tolist()
        [194]
    """
    numpy = import_module("numpy")
    values: Any = numpy.asarray(array)
    dtype = _BY_NUMPY.get(values.dtype.name)
    if dtype is None or values.ndim == 0:
        raise TypeError(
            f"pack: expected an array of a type of ml_dtypes for {packed_names()}, received elements of "
            f"{values.dtype.name} and rank {values.ndim}; weft.packed takes bytes that are packed already"
        )
    each = dtype.info.in_whole_bytes
    if values.shape[-1] % each:
        raise ValueError(
            f"pack: shape[{values.ndim - 1}] is {values.shape[-1]}; rows of {dtype} take whole bytes, of {each} each"
        )
    bits = numpy.ascontiguousarray(values).view(numpy.uint8).astype(numpy.uint32) & (
        (1 << dtype.bits) - 1
    )
    rows = *values.shape[:-1], values.shape[-1] // each
    groups = bits.reshape(*rows, each)
    words = numpy.bitwise_or.reduce(
        groups << numpy.arange(each, dtype=numpy.uint32) * dtype.bits, -1
    )
    count = dtype.storage_bytes(each)
    places = numpy.arange(count, dtype=numpy.uint32) * 8
    found = (words[..., None] >> places & 0xFF).astype(numpy.uint8)
    return packed(found.reshape(*rows[:-1], rows[-1] * count), dtype)


def unpack(source: Packed) -> Any:
    """The elements of a packed argument as a NumPy array of ml_dtypes' type, a byte each; the counterpart of `pack`.

    Args:
        source: of `weft.pack` or `weft.packed`, whose array NumPy can read: in the host's memory.

    Raises:
        TypeError: for another object.

    Example:
        >>> import numpy
        >>> weft.unpack(weft.packed(numpy.array([0xC2], numpy.uint8), weft.f4e2m1)).tolist()
        [1.0, -2.0]
    """
    if not isinstance(source, Packed):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(
            f"unpack: expected an array of weft.packed, received {type(source).__name__}"
        )
    numpy = import_module("numpy")
    dtype: DType = source.dtype
    each, own = dtype.info.in_whole_bytes, source.array
    if str(getattr(own, "dtype", "")).startswith("torch."):
        own = own.view(import_module("torch").uint8)
    given: Any = numpy.asarray(own)
    count = dtype.storage_bytes(each)
    rows = *given.shape[:-1], given.shape[-1] // count
    groups = given.view(numpy.uint8).reshape(*rows, count).astype(numpy.uint32)
    words = numpy.bitwise_or.reduce(groups << numpy.arange(count, dtype=numpy.uint32) * 8, -1)
    places = numpy.arange(each, dtype=numpy.uint32) * dtype.bits
    bits = (words[..., None] >> places & (1 << dtype.bits) - 1).astype(numpy.uint8)
    kind = getattr(import_module("ml_dtypes"), dtype.info.numpy)
    return bits.reshape(source.shape).view(kind)


def unpacked_hint(value: object) -> str:
    """The way to pass an array of a type of fewer than 8 bits; empty for other values."""
    name = str(getattr(value, "dtype", "")).rpartition(".")[2]
    if name in _BY_NUMPY:
        return f"ml_dtypes keeps an element of {name} in a byte: pass weft.pack(array)"
    by_torch = {dtype.info.torch: dtype for dtype in PACKED_DTYPES if dtype.info.torch}
    if name in by_torch:
        return f"pass weft.packed(tensor, weft.{by_torch[name]})"
    return ""
