# SPDX-License-Identifier: Apache-2.0
"""The stream of calls that have no other, per device and thread.

In: a stream of any library. Out: calls made inside the block run on it.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from weft import _native
from weft.ffi.device import Device

if TYPE_CHECKING:
    from collections.abc import Generator


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
