# SPDX-License-Identifier: Apache-2.0
"""Memory: weft's own tensors, copies between tensors, and the allocators of launch scratch.

In: shapes, sizes, arrays of any library, users' allocators. Out: tensors with DLPack; scratch for native launches.
"""

from __future__ import annotations

import operator
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from weft import _native
from weft.driver.device import ordinal_of
from weft.driver.library import open_driver, prepare_driver
from weft.errors import brief
from weft.ffi.library import open_ffi_library
from weft.types.dtype import DType, as_dtype

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weft.ffi.tensor import Tensor

_Array = TypeVar("_Array")


def empty(shape: int | Sequence[int], dtype: DType, device: object = "cpu") -> Tensor:
    """A contiguous tensor with uninitialized memory of its own.

    Host memory is 64-byte aligned, device memory 256-byte. It is a `weft.ffi.Tensor`, which on the host is an array in
    its own right; any library reads it through DLPack (``torch.from_dlpack``, ``numpy.from_dlpack``), and weft's
    functions accept it directly. Device memory is freed once unreferenced, at the next allocation, load or
    `weft.synchronize`. In a host function ``weft.empty(shape, dtype)``, and `zeros` and `full`, make a tensor of the
    caller's library and on the call's device, which the function may return.

    Args:
        shape: an int or a sequence of them.
        dtype: such as ``weft.f32``.
        device: ``"cpu"``, or anything that names a CUDA device.

    Raises:
        TypeError: `shape` or `dtype` has the wrong type.
        ValueError: a size is negative or far too large, or there is no such device.
        weft.CudaError: the device is out of memory, or there is no usable driver.
        MemoryError: the host is out of memory.

    Example:
        >>> weft.empty((2, 3), weft.f32).type_key
        'ffi.Tensor'
    """
    sizes = _sizes(shape)
    dtype = as_dtype(dtype)
    if not isinstance(dtype, DType):
        raise TypeError(f"dtype is {brief(dtype)}, expected an element type such as weft.f32")
    if dtype.is_packed:
        raise TypeError(
            f"dtype is {dtype!r} (packed: several lie in a byte): make an array of weft.u8, and pass it as "
            f"weft.packed(array, {dtype!r})"
        )
    open_ffi_library()
    if isinstance(device, str) and device == "cpu":
        return _native.empty_tensor(sizes, dtype.dlpack_code, dtype.bits, -1)
    ordinal = ordinal_of(device)
    open_driver()
    if not 0 <= ordinal < _native.device_count():
        raise ValueError(
            f"there is no device cuda:{ordinal}; the driver sees {_native.device_count()}"
        )
    return _native.empty_tensor(sizes, dtype.dlpack_code, dtype.bits, ordinal)


def zeros(
    shape: int | Sequence[int], dtype: DType, device: object = "cpu", *, stream: object = None
) -> Tensor:
    """A contiguous tensor of zeros, or of False, with memory of its own.

    The same as `weft.full` with 0.

    Args:
        shape, dtype, device: as of `weft.empty`.
        stream: as of `weft.full`.

    Raises:
        TypeError, ValueError, weft.CudaError, MemoryError: as `weft.empty`, and if `stream` is not a stream.

    Example:
        >>> weft.zeros((2, 2), weft.i32).tolist()
        [[0, 0], [0, 0]]
    """
    return full(shape, 0, dtype, device, stream=stream)


def full(
    shape: int | Sequence[int],
    value: object,
    dtype: DType,
    device: object = "cpu",
    *,
    stream: object = None,
) -> Tensor:
    """A contiguous tensor with one value everywhere and with memory of its own.

    Args:
        shape, dtype, device: as of `weft.empty`.
        value: a number of Python or NumPy in the range of `dtype`; a float is rounded to the nearest of the type, ties
            to even. Infinities fit if the type has them (f8e4m3 does not); NaN does.
        stream: in whose order a device writes; None is the one that calls run on there (`weft.ffi.use_stream`), the
            default stream unless another was chosen. On the host the writes are complete when this returns.

    Raises:
        ValueError: the value is beyond the type's range, or as `weft.empty`.
        TypeError: the value is not a number of the type's kind, such as 0.5 for an integer; or as `weft.empty`.
        weft.CudaError, MemoryError: as `weft.empty`.

    Example:
        >>> weft.full(3, 0.5, weft.bf16).tolist(), weft.full((), 7, weft.u8).item()
        ([0.5, 0.5, 0.5], 7)
        >>> weft.full(3, 300, weft.u8)
        Traceback (most recent call last):
            ...
        ValueError: expected an int from 0 to 255 (u8), received 300
    """
    tensor = empty(shape, dtype, device)
    _native.fill_tensor(tensor, value, stream)
    return tensor


def copy(to: _Array, from_: object, *, stream: object = None) -> _Array:
    """Copy the elements of one array into another, wherever both are, and give back that other.

    Either is an array of any library, a buffer or a `weft.ffi.Tensor`, on the host or on a CUDA device, of the same
    shape and element type; nothing is converted. On the host strides may be any, and the two may overlap: the result is
    as if all had been read before anything was written. On a device a copy is one of contiguous memory, or of rows at
    equal distances and layers of them (a slice of a matrix or of several, not a transposition); between two devices it
    is one of contiguous memory.

    A device copies in the order of a stream, and this returns before it has. What touches the host's memory is waited
    for: `from_` may be changed and `to` be read at once. The exception is contiguous pinned memory on a stream that was
    named: both are to be kept, and left alone, until the stream has got there. That is also the only host memory that
    can be copied while the stream is captured into a graph.

    Args:
        to: where the elements go; not read-only.
        from_: where they come from.
        stream: of the device; None is the stream that a call with these arrays would run on: the current one of `to`'s
            library, else of `from_`'s, else the environment's (`weft.ffi.use_stream`). Between two devices None is the
            source's, which waits for the target's and for which the target's waits; a stream that is named may be of
            either, and nothing else is ordered. Copies within the host ignore it.

    Returns:
        `to`, as it was given.

    Raises:
        ValueError: shapes, types or devices do not go together, `to` cannot be written, its elements overlap each
            other, or a device has no copy between these strides.
        TypeError: one of them is not an array, or `stream` is not a stream.
        weft.CudaError: the driver refuses, or there is none.
        MemoryError: the host has no room for a contiguous copy, which one with gaps needs on its way to a device.

    Example:
        >>> matrix = weft.copy(weft.empty((2, 3), weft.f32), weft.full((2, 3), 1.5, weft.f32))
        >>> weft.copy(matrix[:, 1], weft.zeros(2, weft.f32)).shape, matrix.tolist()
        ((2,), [[1.5, 0.0, 1.5], [1.5, 0.0, 1.5]])
        >>> weft.copy(matrix, weft.zeros(2, weft.f32))
        Traceback (most recent call last):
            ...
        ValueError: to has shape (2, 3), from_ has shape (2,); expected the same shape
    """
    open_ffi_library()
    prepare_driver()
    _native.copy_tensor(to, from_, stream)
    return to


def _sizes(shape: object) -> tuple[int, ...]:
    items: Any = shape if isinstance(shape, list | tuple) else (shape,)  # pyright: ignore[reportUnknownVariableType]
    try:
        sizes = tuple(map(operator.index, items))
    except TypeError:
        raise TypeError(f"shape is {brief(items)}, expected an int or a tuple of ints") from None
    if any(size >= 1 << 63 for size in sizes):
        raise ValueError(f"shape is {brief(sizes)}, expected sizes of at most 64 bits")
    return sizes


class Allocator(Protocol):
    """An allocator for `set_allocator`: returns at least `size` bytes, usable on `stream`.

    The result is an address or an object with ``data_ptr()``, a multiple of `alignment` and not 0; the launch
    keeps it until it has queued the kernel, and its owner must keep it until the kernel has run.
    """

    def __call__(self, size: int, alignment: int, stream: int) -> object:
        """Returns an address of device memory, or an object with `data_ptr()`."""
        ...


_allocator: ContextVar[Allocator | None] = ContextVar("weft allocator", default=None)
_profile_allocator: ContextVar[Allocator | None] = ContextVar(
    "weft profile allocator", default=None
)


def set_allocator(allocator: Allocator | None) -> None:
    """Set the allocator of kernels' global scratch memory, in this context (thread or task).

    It serves both compiled functions and `Launcher`.

    Args:
        allocator: called with bytes, alignment and stream; None is the driver's stream-ordered pool, which
            also works while the stream is captured into a graph. Its exceptions are raised by the call.

    Raises:
        TypeError: it cannot be called.

    Example:
        >>> weft.set_allocator(None)
    """
    _allocator.set(_checked(allocator))
    _native.set_scratch_source(_source)


def set_profile_allocator(allocator: Allocator | None) -> None:
    """Set the allocator of `Launcher`'s profile scratch, which a profiler reads after the launch.

    It keeps its arrays. Without one, a kernel with profile scratch is not launched (RuntimeError): memory of the
    pool would be freed unread.

    Compiled functions have no profile scratch: `weft.profiler` records into the memory of its capture.

    Args:
        allocator: as for `set_allocator`.

    Raises:
        TypeError: it cannot be called.

    Example:
        >>> weft.set_profile_allocator(None)
    """
    _profile_allocator.set(_checked(allocator))
    _native.set_scratch_source(_source)


def _source(kind: int, size: int, alignment: int, stream: int) -> object:
    """This context's source of scratch for a launch; None stands for the pool."""
    allocator = (_allocator, _profile_allocator)[kind].get()
    if allocator is None:
        return None
    memory = allocator(size, alignment, stream)
    if memory is None:
        raise TypeError(
            f"the allocator returned None for {size} bytes of scratch, "
            "expected an address or an object with data_ptr()"
        )
    return memory


def _checked(allocator: Allocator | None) -> Allocator | None:
    if allocator is not None and not callable(allocator):
        raise TypeError(
            f"expected a function (size, alignment, stream) or None, received {brief(allocator)}"
        )
    return allocator
