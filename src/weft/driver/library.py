# SPDX-License-Identifier: Apache-2.0
"""libcuda: which one, and whether it is usable; numbers given to it.

In: the configuration; ints of Python, NumPy, or any class with `__index__`. Out: the extension knows the driver's path,
and opens it on first use; Python ints in range: errors name the parameter and the received value.
"""

from __future__ import annotations

import operator
from typing import Any, Final

from weft import _native
from weft.config import config
from weft.errors import CudaError, brief
from weft.types.device import CUDA

DEVICE_TYPE: Final = CUDA
"""The DLDeviceType that this driver launches on."""


def prepare_driver() -> None:
    """Tell the extension which driver library to open on first use; opens nothing.

    Called once by the makers of objects with device code, so that generated code later finds the driver, and its errors
    become `weft.CudaError`.

    Raises:
        RuntimeError: another driver library is in use already.
    """
    _native.register_error_kind("CudaError", CudaError)
    _native.set_driver_library(config.libcuda or "")
    _native.set_launch_gil(config.launch_gil or "auto")


def open_driver() -> None:
    """Open and initialize the CUDA driver, unless it is open.

    Raises:
        weft.CudaError: there is no driver, it is older than 12.0, it sees no device, or this process was forked after
            its parent initialized it. The message says what to do.

    Example:
        >>> open_driver()  # doctest: +SKIP
    """
    prepare_driver()
    _native.open_driver()


def driver_is_open() -> bool:
    """Whether the driver is open and usable in this process.

    Example:
        >>> driver_is_open()
        False
    """
    return _native.driver_is_open()


def driver_version() -> tuple[int, int]:
    """The driver's newest supported CUDA version, such as ``(12, 4)``.

    Raises:
        weft.CudaError: the driver cannot be used.
    """
    open_driver()
    version = _native.driver_version()
    return version // 1000, version % 1000 // 10


MOST: Final = 2**63 - 1  # of a 64-bit int


def as_int(value: Any, name: str, least: int = -MOST - 1, most: int = MOST) -> int:
    """An int, checked.

    Raises:
        TypeError: it is not one.
        ValueError: it is out of range.

    Example:
        >>> as_int(128, "threads", 1, 1024)
        128
    """
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is {brief(value)}, expected an int") from None
    if not least <= number <= most:
        raise ValueError(f"{name} is {number}, expected {least} to {most}")
    return number


def as_ints(values: Any, name: str) -> tuple[int, ...]:
    """A sequence of ints, checked but for their range.

    Raises:
        TypeError: it is not one.

    Example:
        >>> as_ints([64, 64], "shape")
        (64, 64)
    """
    try:
        return tuple(map(operator.index, values))
    except TypeError:
        raise TypeError(f"{name} is {brief(values)}, expected a sequence of ints") from None
