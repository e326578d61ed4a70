# SPDX-License-Identifier: Apache-2.0
"""Devices: their number, properties, the current one, synchronization. Streams of any library as CUDA handles.

In: ordinals, or anything that names a CUDA device or a stream. Out: numbers with units; a CUstream.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from weft import _native
from weft.driver.library import as_int, open_driver
from weft.errors import CudaError, brief

if TYPE_CHECKING:
    from collections.abc import Mapping


# Names of CUdevice_attribute that `DeviceProperties` reads, with their numbers (cuda.h).
_ATTRIBUTES: Final[Mapping[str, int]] = {
    "max_threads_per_block": 1,
    "warp_size": 10,
    "max_registers_per_block": 12,
    "clock_rate_khz": 13,
    "multiprocessor_count": 16,
    "memory_clock_rate_khz": 36,
    "memory_bus_width_bits": 37,
    "l2_cache_bytes": 38,
    "max_threads_per_multiprocessor": 39,
    "max_shared_memory_per_multiprocessor_bytes": 81,
    "max_shared_memory_per_block_bytes": 97,
    "max_access_policy_window_bytes": 109,
    "memory_sync_domains": 126,
}
_COMPUTE_CAPABILITY: Final = (75, 76)
_MOST_ORDINAL: Final = 2**31 - 1


class DeviceProperties:
    """A device's properties and limits. Sizes are in bytes, rates in kHz.

    Attributes:
        ordinal: its number in this process.
        name: such as ``"NVIDIA H200"``.
        compute_capability: ``(9, 0)`` for sm_90.
        memory_bytes: its total memory.
        max_threads_per_block: for any kernel; one with many registers allows fewer.
        max_shared_memory_per_block_bytes: the most that a block can request.
        memory_sync_domains: how many domains `launch_attributes.MemorySyncDomainMap` can name.
        warp_size, multiprocessor_count, max_registers_per_block, max_threads_per_multiprocessor,
        max_shared_memory_per_multiprocessor_bytes, l2_cache_bytes, clock_rate_khz,
        memory_clock_rate_khz, memory_bus_width_bits, max_access_policy_window_bytes: as named.
    """

    __slots__ = ("compute_capability", "memory_bytes", "name", "ordinal", *_ATTRIBUTES)

    max_threads_per_block: int
    warp_size: int
    max_registers_per_block: int
    clock_rate_khz: int
    multiprocessor_count: int
    memory_clock_rate_khz: int
    memory_bus_width_bits: int
    l2_cache_bytes: int
    max_threads_per_multiprocessor: int
    max_shared_memory_per_multiprocessor_bytes: int
    max_shared_memory_per_block_bytes: int
    max_access_policy_window_bytes: int
    memory_sync_domains: int

    def __init__(self, ordinal: int) -> None:
        self.ordinal = ordinal
        self.name, self.memory_bytes = _native.device_name_and_memory(ordinal)
        major, minor = (_native.device_attribute(ordinal, number) for number in _COMPUTE_CAPABILITY)
        self.compute_capability = (major, minor)
        for name, number in _ATTRIBUTES.items():
            setattr(self, name, _native.device_attribute(ordinal, number))

    @property
    def architecture(self) -> str:
        """The architecture that weft compiles for there, as in `--gpu-arch`: ``"sm_89"``, ``"sm_90a"``."""
        return _native.device_architecture(self.ordinal)

    def __repr__(self) -> str:
        return f"<cuda:{self.ordinal} {self.name}, {self.architecture}>"


def ordinal_of(device: object) -> int:
    """The ordinal of a device given as an int, ``"cuda:1"``, ``"cuda"`` (0), or a torch or CuPy device.

    Raises:
        TypeError: it names no device.
        ValueError: it names a non-CUDA device, or is negative or beyond 32 bits.

    Example:
        >>> ordinal_of(1), ordinal_of("cuda:2"), ordinal_of("cuda")
        (1, 2, 0)
    """
    if isinstance(device, int) and not isinstance(device, bool):
        return _within_ordinals(device)
    if isinstance(device, str):
        kind, _, number = device.partition(":")
        if kind != "cuda" or (number and not number.isdecimal()):
            raise ValueError(f"device is {brief(device)}, expected 'cuda' or 'cuda:<ordinal>'")
        return _within_ordinals(int(number or 0))
    index: Any = getattr(device, "index", None) if hasattr(device, "type") else None
    if index is None:
        index = getattr(device, "id", None)
    kind = getattr(device, "type", "cuda")
    if isinstance(kind, str) and kind != "cuda":
        raise ValueError(f"device is {brief(device)}, expected a CUDA device")
    if hasattr(device, "type") and index is None:
        return 0
    if isinstance(index, int):
        return _within_ordinals(index)
    raise TypeError(
        f"device is {brief(device)}, expected an ordinal, 'cuda:<ordinal>' or a device object"
    )


def _within_ordinals(ordinal: int) -> int:
    if not 0 <= ordinal <= _MOST_ORDINAL:
        raise ValueError(f"device is {ordinal}, expected an ordinal from 0 to {_MOST_ORDINAL}")
    return ordinal


def device_count() -> int:
    """Number of devices that the driver reports.

    Raises:
        weft.CudaError: there is no usable driver.
    """
    open_driver()
    return _native.device_count()


def device_properties(device: object = 0) -> DeviceProperties:
    """A device's properties and limits.

    Raises:
        weft.CudaError: there is no usable driver.
        ValueError: there is no such device.
    """
    open_driver()
    return DeviceProperties(ordinal_of(device))


def find_architecture(ordinal: int | None = None) -> str | None:
    """The architecture to compile for a device: ``"sm_89"``, ``"sm_90a"``; None without a driver to ask.

    Args:
        ordinal: of the device; None, or one that this machine does not have, is the current device.
    """
    try:
        open_driver()
    except CudaError:
        return None
    if ordinal is None or not 0 <= ordinal < _native.device_count():
        ordinal = max(_native.current_device(), 0)
    return _native.device_architecture(ordinal)


def current_device() -> int:
    """The ordinal of the device whose context is current in this thread; 0 if none is.

    Raises:
        weft.CudaError: there is no usable driver.
    """
    open_driver()
    return max(_native.current_device(), 0)


def set_current_device(device: object) -> None:
    """Make the primary context of a device current in this thread.

    Raises:
        weft.CudaError: there is no usable driver.
        ValueError: there is no such device.
    """
    open_driver()
    _native.set_current_device(ordinal_of(device))


def memory_info(device: object = None) -> tuple[int, int]:
    """Free and total memory of a device, in bytes; of the current one for None.

    Raises:
        weft.CudaError: there is no usable driver, or it refuses.
        ValueError: there is no such device.
    """
    open_driver()
    return _native.memory_info(-1 if device is None else ordinal_of(device))


def synchronize(device: object = None) -> None:
    """Wait until all work on a device is done, then unload unused code.

    Args:
        device: an ordinal, ``"cuda:1"``, or a device object; None is the current one. With ``"cpu"``, or when no driver
            is open, this returns at once.

    Raises:
        weft.CudaError: a kernel failed; the text lists the last launches.

    Example:
        >>> weft.synchronize("cpu")
    """
    if (isinstance(device, str) and device == "cpu") or (
        device is None and not _native.driver_is_open()
    ):
        return
    open_driver()
    _native.synchronize(-1 if device is None else ordinal_of(device))


def set_printf_buffer(size: int, device: object = None) -> None:
    """Set the size in bytes of a device's `printf` buffer, which is kept until the next synchronization.

    Raises:
        weft.CudaError: a kernel with printf has run already, or there is no usable driver.
        ValueError: `size` is not positive.
        TypeError: `size` is not an int.
    """
    size_bytes = as_int(size, "size")
    if size_bytes <= 0:
        raise ValueError(f"printf's buffer is {size_bytes} bytes, expected a positive number")
    ordinal = -1 if device is None else ordinal_of(device)
    open_driver()
    _native.set_printf_buffer(ordinal, size_bytes)


def stream_handle(stream: object) -> int:
    """The CUstream of a stream object, as a number; None is 0, the legacy default stream.

    Accepted: an int, an object with ``__cuda_stream__`` (cuda.core, cuda.compute), torch's streams
    (``cuda_stream``), CuPy's (``ptr``). JAX has no stream objects; its arrays order themselves through DLPack.

    Raises:
        TypeError: it is not a stream.

    Example:
        >>> stream_handle(None), stream_handle(2)
        (0, 2)
    """
    return _native.stream_handle(stream)


def stream_device(stream: object) -> int | None:
    """The ordinal of a stream's device; None for the default streams 0, 1 and 2.

    Raises:
        weft.CudaError: the stream does not exist, or there is no usable driver.
    """
    open_driver()
    device = _native.stream_device(stream)
    return None if device < 0 else device


def is_capturing(stream: object) -> bool:
    """Whether a stream is being captured into a graph; then no code can be loaded.

    Raises:
        weft.CudaError: the stream does not exist, or there is no usable driver.
    """
    open_driver()
    return _native.is_stream_capturing(stream)
