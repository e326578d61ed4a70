# SPDX-License-Identifier: Apache-2.0
"""Validation, allocation and overlap checks of arrays of any library.

In: an array as a user passes it, and maybe one to write to. Out: its description; an output of the same library.
"""

from __future__ import annotations

import sys
from functools import cache, partial
from math import gcd, prod
from operator import index
from typing import TYPE_CHECKING, Any, NamedTuple, SupportsFloat, SupportsIndex, cast

import weft
from weft.config import overrides
from weft.errors import brief
from weft.kernels.annotations import Array, ElementType, Float64, Int64, Number
from weft.runtime.warmup import running
from weft.types.dims import MAX_RANK

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence


class ArrayInfo(NamedTuple):
    """An array of any library.

    Attributes:
        array: as the user passed it.
        shape: its dimensions.
        dtype: weft's element type.
        type_name: the element type's name in array libraries.
        device: where it is.
        strides: in elements.
        address: of the first element.
    """

    array: Any
    shape: tuple[int, ...]
    dtype: weft.DType
    type_name: str
    device: Any
    strides: tuple[int, ...]
    address: int

    @property
    def rows(self) -> int:
        """The number of rows of the last dimension."""
        return prod(self.shape[:-1])

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    @property
    def is_contiguous(self) -> bool:
        """Whether it is contiguous in C order."""
        expected = 1
        for length, stride in zip(self.shape[::-1], self.strides[::-1], strict=True):
            if length != 1 and stride != expected:
                return False
            expected *= length
        return True

    @property
    def extent(self) -> tuple[int, int]:
        """The address range that its elements span: first byte, and one past the last."""
        spans = [(n - 1) * stride for n, stride in zip(self.shape, self.strides, strict=True)]
        size = self.dtype.itemsize
        first = self.address + size * sum(span for span in spans if span < 0)
        return first, self.address + size * (sum(span for span in spans if span > 0) + 1)

    @property
    def flat_width(self) -> int:
        """`width` of all elements as one row, if it is contiguous."""
        bits = self.address | weft.VECTOR_BYTES | self.size * self.dtype.itemsize
        return (bits & -bits) // self.dtype.itemsize or 1

    @property
    def has_chunks(self) -> bool:
        """Whether rows take 16-byte accesses."""
        return self.width * self.dtype.itemsize == weft.VECTOR_BYTES

    @property
    def width(self) -> int:
        """Elements per access, of up to 16 bytes, that every row's alignment allows: a power of two."""
        if self.strides[-1] != 1:
            return 1
        size = self.dtype.itemsize
        bits = self.address | weft.VECTOR_BYTES
        for length, stride in zip(self.shape[:-1], self.strides, strict=False):
            if length != 1:
                bits |= stride * size
        bits |= self.shape[-1] * size
        return (bits & -bits) // size or 1


def common_width(*arrays: ArrayInfo) -> int:
    """The `width` that rows of all these arrays allow."""
    return min(array.width for array in arrays)


def integer(value: object) -> int | None:
    """An int, also of NumPy; None for anything else."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        return None
    return index(cast("SupportsIndex", value))


class Scalar(NamedTuple):
    """A number of any element type as an argument of kernels; one of the two is not None.

    Attributes:
        bits: an integer's 64 bits, signed.
        real: a float.
    """

    bits: Int64 | None = None
    real: Float64 | None = None

    def of(self, dtype: ElementType) -> Number:
        """The number in its type; traced in kernels."""
        return dtype(self.bits if self.real is None else self.real)


def unexpected(name: str, value: object, expected: str) -> str:
    """The message that refuses an argument: received and expected.

    Example:
        >>> unexpected("style", "full", "'half' or 'interleaved'")
        "style is 'full', expected 'half' or 'interleaved'"
    """
    return f"{name} is {brief(value)}, expected {expected}"


def number_of(value: object, name: str, dtype: weft.DType) -> Scalar:
    """Validates a number for elements of a type.

    Raises:
        TypeError: for something else than a number, or a float for integers.
        ValueError: for an integer that is too large or too small.
    """
    if not isinstance(value, int | float):
        raise TypeError(unexpected(name, value, "a number"))
    if dtype.is_float:
        return Scalar(real=float(value))
    if isinstance(value, float):
        raise TypeError(unexpected(name, value, f"an integer for elements of {dtype}"))
    least, most = int(dtype.minimum), int(dtype.maximum)
    if not least <= value <= most:
        raise ValueError(f"{name} is {value}, expected an integer from {least} to {most}")
    return Scalar((value + (1 << 63)) % (1 << 64) - (1 << 63))


def integer_from(value: object, name: str, least: int, beyond: int) -> int:
    """Validates an integer: `least` <= value < `beyond`.

    Raises:
        TypeError: for something else than an integer.
        ValueError: for another integer.
    """
    found = integer(value)
    if found is None or not least <= found < beyond:
        wanted = f"an integer from {least} to {beyond - 1}"
        error = TypeError if found is None else ValueError
        raise error(unexpected(name, value, wanted))
    return found


def number(value: object, name: str) -> float:
    """Validates a real number, also of an array library, and returns a float.

    Raises:
        TypeError: for anything else.
    """
    if not isinstance(value, str | bytes):
        try:
            return float(cast("SupportsFloat", value))
        except (TypeError, ValueError):
            pass
    raise TypeError(unexpected(name, value, "a number"))


@cache
def element_type(dtype: weft.ffi.DataType) -> tuple[weft.DType | None, str]:
    """Weft's element type, or None, and its name in array libraries."""
    return weft.ffi.DataType(dtype).weft, weft.ffi.DataType(dtype).name


def tensor_of(array: object, name: str) -> weft.ffi.Tensor:
    """The memory of an argument.

    Raises:
        TypeError: if it is not an array, or has elements or a form that has no dense memory; with the argument's name.
        ValueError: if the memory needs interpretation, such as a negative view's.
    """
    try:
        return weft.ffi.from_dlpack(array)
    except (TypeError, ValueError) as error:
        reason = str(error)
        if reason.startswith("from_dlpack: "):
            raise TypeError(unexpected(name, array, "an array")) from None
        raise type(error)(f"{name}: {reason}") from None


def describe(array: object, name: str, *, is_float: bool = False) -> ArrayInfo:
    """Validates an array argument, and describes it.

    Args:
        array: of any library.
        name: of the argument, for messages.
        is_float: whether its elements have to be floats.

    Raises:
        TypeError: if it is not an array, or has other elements.
        ValueError: if it has no dimension.
    """
    tensor = tensor_of(array, name)
    dtype, type_name = element_type(tensor.dtype)
    if (
        dtype is None
        or dtype.is_complex
        or (is_float and not (dtype.is_float and dtype.bits >= 16))
    ):
        wanted = "16, 32 or 64-bit floats" if is_float else "real numbers"
        raise TypeError(f"{name} has elements of {tensor.dtype}, expected {wanted}")
    if not 0 < len(tensor.shape) <= MAX_RANK:
        count = f"{len(tensor.shape)} dimensions" if tensor.shape else "no dimension"
        raise ValueError(f"{name} has {count}, expected 1 to {MAX_RANK}")
    return _info(array, tensor, dtype, type_name)


def _info(array: object, tensor: weft.ffi.Tensor, dtype: weft.DType, type_name: str) -> ArrayInfo:
    return ArrayInfo(
        array,
        tensor.shape,
        dtype,
        type_name,
        tensor.device,
        tensor.strides,
        tensor.data + tensor.byte_offset,
    )


def describe_vector(source: ArrayInfo, name: str, vector: object) -> ArrayInfo:
    """Validates a vector with an element for each column of an array, and describes it.

    Raises:
        TypeError: if it is not an array of floats.
        ValueError: if it has another length or device.
    """
    found = describe(vector, name, is_float=True)
    check_shape(found, name, source, source.shape[-1:])
    return found


def describe_alike(
    source: ArrayInfo, array: object, name: str, shape: tuple[int, ...] | None = None
) -> ArrayInfo:
    """Validates an array of the shape (or another one), type and device of another one, and describes it.

    Raises:
        TypeError: if it is not an array, or has other elements.
        ValueError: if it has another shape or device.
    """
    found = describe(array, name)
    if found.dtype is not source.dtype:
        raise TypeError(f"{name} has elements of {found.type_name}, expected {source.type_name}")
    check_shape(found, name, source, source.shape if shape is None else shape)
    return found


def check_shape(
    found: ArrayInfo | weft.ffi.Tensor,
    name: str,
    like: ArrayInfo,
    shape: tuple[int, ...],
    reason: str = "",
) -> None:
    """Raises a ValueError unless an array has this shape, for a reason, and the device of another one."""
    if found.shape != shape:
        why = f": {reason}" if reason else ""
        raise ValueError(f"{name} has shape {found.shape}, expected {shape}{why}")
    check_device(found, name, like)


def check_device(found: ArrayInfo | weft.ffi.Tensor, name: str, like: ArrayInfo) -> None:
    """Raises a ValueError unless an array is on the device of another one."""
    if found.device != like.device:
        raise ValueError(f"{name} is on {found.device}, expected {like.device}")


def output(
    like: ArrayInfo,
    shape: Sequence[int],
    dtype: weft.DType,
    type_name: str,
    out: object = None,
    itself: Collection[str] = (),
    **inputs: object,
) -> Array:
    """Validates the user's output array, or allocates one of the same library and device as `like`.

    Args:
        like: an input.
        shape: the result's.
        dtype: the result's.
        type_name: the result's, in array libraries.
        out: the user's array, or None.
        itself: names of inputs that it may alias, since each element is read before it is written.
        inputs: arrays or None, by name, that it must not overlap otherwise.

    Raises:
        TypeError: if the user's is not an array, or has other elements.
        ValueError: if it has another shape or device; if it is read-only; if it overlaps with an input.
    """
    if out is None:
        return _new(like, tuple(shape), dtype, type_name)
    target = checked_output(like, shape, dtype, type_name, out)
    for name, one in inputs.items():
        if one is not None:
            refuse_overlap(describe(one, name), target, may_be_same=name in itself, name=name)
    return out


def output_like(
    like: ArrayInfo, out: object = None, itself: Collection[str] = (), **inputs: object
) -> Array:
    """As `output`, of the shape and type of `like`."""
    return output(like, like.shape, like.dtype, like.type_name, out, itself, **inputs)


def refuse_overlap(
    source: ArrayInfo,
    target: ArrayInfo,
    *,
    may_be_same: bool,
    name: str = "x",
    target_name: str = "out",
) -> None:
    """Refuses an output that may overlap an input.

    Args:
        source: the input.
        target: the output.
        may_be_same: whether it may be the input itself.
        name: of the input, for messages.
        target_name: of the output.

    Raises:
        ValueError: if it overlaps.
    """
    if _are_apart(source, target):
        return
    is_same = (
        source.address == target.address
        and source.shape == target.shape
        and all(
            size == 1 or stride == other_stride
            for size, stride, other_stride in zip(
                source.shape, source.strides, target.strides, strict=True
            )
        )
    )
    if not (may_be_same and is_same and source.dtype.itemsize == target.dtype.itemsize):
        allowed = f"{name} itself or memory of its own" if may_be_same else "memory of its own"
        raise ValueError(f"{target_name} overlaps with {name}, expected {allowed}")


def _are_apart(source: ArrayInfo, target: ArrayInfo) -> bool:
    """Whether two arrays are proven disjoint by their strides: rows may interleave."""
    if not (source.size and target.size):
        return True
    (first, end), (other, other_end) = source.extent, target.extent
    if first >= other_end or other >= end:
        return True
    both = _steps(source), _steps(target)
    for least in {stride for steps in both for stride, _ in steps}:
        # Strides of `least` or more are multiples of a period, within which the others must not overlap.
        period = gcd(*(stride for steps in both for stride, _ in steps if stride >= least))
        own, others = (
            array.dtype.itemsize + sum(stride * n for stride, n in steps if stride < least)
            for array, steps in zip((source, target), both, strict=True)
        )
        distance = (other - first) % period
        if own <= distance <= period - others:
            return True
    return False


def _steps(array: ArrayInfo) -> list[tuple[int, int]]:
    """Byte stride and number of steps of each dimension, without those of stride 0 or size 1."""
    size = array.dtype.itemsize
    pairs = zip(array.shape, array.strides, strict=True)
    return [(size * abs(stride), n - 1) for n, stride in pairs if n > 1 and stride]


def checked_output(
    like: ArrayInfo,
    shape: Sequence[int],
    dtype: weft.DType,
    type_name: str,
    out: object,
    name: str = "out",
) -> ArrayInfo:
    """Validates an array to write to, and describes it.

    Raises:
        TypeError: if it is not an array, or has other elements.
        ValueError: if it has another shape or device; if it is read-only; if it overlaps with itself.
    """
    tensor = tensor_of(out, name)
    if element_type(tensor.dtype)[0] is not dtype:
        raise TypeError(f"{name} has elements of {tensor.dtype}, expected {type_name}")
    check_shape(tensor, name, like, tuple(shape))
    if tensor.read_only:
        raise ValueError(f"{name} is read-only, expected writable memory")
    if _may_overlap_itself(tensor.shape, tensor.strides):
        raise ValueError(
            f"{name} has strides {tensor.strides} for shape {tensor.shape}: several of its elements share memory, "
            "expected an element of its own for each"
        )
    return _info(out, tensor, dtype, type_name)


def _may_overlap_itself(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether elements may share memory: unless each stride exceeds the span of all smaller ones."""
    if 0 in shape:
        return False
    beyond = 1
    for stride, length in sorted(
        (abs(stride), length) for stride, length in zip(strides, shape, strict=True) if length > 1
    ):
        if stride < beyond:
            return True
        beyond += stride * (length - 1)
    return False


def maker_of(array: Array) -> Callable[[], Any]:
    """An allocator of arrays like another one: its library, shape, type and device."""
    tensor = weft.ffi.from_dlpack(array)
    return _maker(type(array), tensor.shape, *element_type(tensor.dtype), tensor.device)


def _new(like: ArrayInfo, shape: tuple[int, ...], dtype: weft.DType, type_name: str) -> Array:
    warmup = running() if overrides() else None
    if warmup is not None and isinstance(like.array, weft.ffi.Tensor):
        return warmup.array(shape, dtype, tuple(like.device))
    return _maker(type(like.array), shape, dtype, type_name, like.device)()


def _maker(
    kind: Any, shape: tuple[int, ...], dtype: ElementType, type_name: str, device: Any
) -> Array:
    for name, own in (("torch", "Tensor"), ("numpy", "ndarray")):  # from their own allocators
        library: Any = sys.modules.get(name)
        if library is None or not issubclass(kind, getattr(library, own)):
            continue
        element = getattr(
            library, "bool_" if name == "numpy" and type_name == "bool" else type_name, None
        )
        if element is not None:
            if (
                name == "torch"
            ):  # one without elements names type and device in less time than they do
                return partial(library.empty(0, dtype=element, device=str(device)).new_empty, shape)
            return partial(library.empty, shape, dtype=element)
    place = str(device)

    def make() -> Array:
        made = weft.empty(shape, dtype, place)
        return made if isinstance(made, kind) else made.to(kind)

    return make
