# SPDX-License-Identifier: Apache-2.0
"""Memory: weft's own tensors, and the allocators of launch scratch.

In: shapes, sizes, users' allocators. Out: tensors with DLPack; scratch for native launches.
"""

from __future__ import annotations

import operator
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol

from weft import _native
from weft.driver.device import ordinal_of
from weft.driver.library import open_driver
from weft.errors import brief
from weft.ffi.library import open_ffi_library
from weft.types.dtype import DType

if TYPE_CHECKING:
    from collections.abc import Sequence


def empty(shape: int | Sequence[int], dtype: DType, device: object = "cpu") -> _native.Object:
    """A contiguous tensor with uninitialized memory of its own.

    Host memory is 64-byte aligned, device memory 256-byte. Any library reads it through DLPack (``torch.from_dlpack``,
    ``numpy.from_dlpack``); weft's functions accept it directly. Device memory is freed once unreferenced, at the next
    allocation, load or `weft.synchronize`.

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
    if not isinstance(dtype, DType):
        raise TypeError(f"dtype is {brief(dtype)}, expected an element type such as weft.f32")
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
