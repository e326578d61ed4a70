# SPDX-License-Identifier: Apache-2.0
"""Devices as values of the ABI, a DLPack device type and an index; the stream of calls without one, per device.

In: a text such as `cuda:1`, a pair of numbers, or a device of another library. Out: a pair.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from weft import _native
from weft.ffi.data_type import Numbers, as_integer, set_numbers
from weft.types.device import DEVICE_TYPES, device_name

if TYPE_CHECKING:
    from collections.abc import Generator

# Accepted names.
_TYPES: Final = {
    **DEVICE_TYPES,
    "gpu": DEVICE_TYPES["cuda"],
    "mps": DEVICE_TYPES["metal"],
    "vpi": 9,
}


class Device(Numbers):
    """A device: (DLDeviceType, index). Equal to the tuple of these numbers.

    Args:
        device: a name with or without an index, a DLDeviceType, or a device of torch or tvm_ffi.
        index: the ordinal; 0 if neither gives one.

    Raises:
        ValueError: if no device has that name, or the index is negative or given twice.
        TypeError: if `device` is not one of the above, or `index` not an int.

    Example:
        >>> Device("cuda:1"), Device("metal") == (8, 0), Device(2, 1).name
        (Device('cuda:1'), True, 'cuda:1')
    """

    __slots__ = ()

    def __new__(cls, device: object, index: int | None = None) -> Device:
        ordinal_given = None if index is None else as_integer(index)
        if index is not None and ordinal_given is None:
            raise TypeError(f"Device: expected an int as index, received {index!r}")
        number = as_integer(device)
        if isinstance(device, str):
            name, colon, ordinal = device.partition(":")
            if name not in _TYPES or (colon and not ordinal.isdecimal()):
                known = ", ".join(_TYPES)
                raise ValueError(
                    f"unknown device {device!r}; expected one of {known}, with or without :index"
                )
            if colon and index is not None:
                raise ValueError(f"the index of {device!r} is given twice")
            pair = (_TYPES[name], int(ordinal) if colon else ordinal_given or 0)
        elif number is not None:
            pair = (number, ordinal_given or 0)
        else:
            pair = _native.device_pair(device)
        if pair[0] < 0 or pair[1] < 0:
            raise ValueError(f"there is no device {pair}")
        made = super().__new__(cls)
        set_numbers(made, pair)
        return made

    @property
    def type(self) -> str:
        """The device type's name, such as ``"cuda"``."""
        return device_name(self[0])

    @property
    def index(self) -> int:
        """The ordinal."""
        return self[1]

    @property
    def name(self) -> str:
        """``"cuda:1"``; the CPU has no index."""
        return device_name(self[0], self[1])

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"Device({self.name!r})"

    def __dlpack_device__(self) -> tuple[int, int]:
        """The DLPack pair, for other bindings."""
        return (self[0], self[1])


def current_stream(device: object) -> int:
    """The address of the environment's stream of a device in this thread; 0 is the default stream.

    Args:
        device: a device or its name.

    Example:
        >>> current_stream("cuda:0")
        0
    """
    kind, index = Device(device)
    return _native.environment_stream(kind, index)


@contextmanager
def use_stream(stream: object, device: object = "cuda:0") -> Generator[None]:
    """Makes a stream the environment's for a device in this thread, for the time of a `with` block.

    A call runs on its stream argument, else on the current stream of its first tensor's library (torch has one), else
    on this one.

    Args:
        stream: an address, None for the default stream, or a stream of torch, CuPy or another library.
        device: a device or its name.

    Raises:
        TypeError: if it is not a stream.

    Example:
        >>> with use_stream(0x1000, "cuda:1"):
        ...     current_stream("cuda:1") == 0x1000
        True
    """
    kind, index = Device(device)
    former = _native.set_environment_stream(kind, index, stream)
    try:
        yield
    finally:
        _native.set_environment_stream(kind, index, former)
