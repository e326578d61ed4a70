# SPDX-License-Identifier: Apache-2.0
"""Which libcuda, and whether it can be used.

In: the configuration. Out: the extension told where the driver is; the driver opened when something needs it.
"""

from __future__ import annotations

from weft import _native
from weft.config import config
from weft.errors import CudaError


def prepare_driver() -> None:
    """Tell the extension which driver library to open on first use; opens nothing.

    Whoever makes an object with device code calls this once, so that generated code finds the driver by
    itself later, and its errors become `weft.CudaError`.

    Raises:
        RuntimeError: another driver library is in use already.
    """
    _native.register_error_kind("CudaError", CudaError)
    _native.set_driver_library(config.libcuda or "")


def open_driver() -> None:
    """Open and initialize the CUDA driver; does nothing when it is open.

    Raises:
        weft.CudaError: there is no driver, it is older than 12.0, it sees no device, or this process was
            forked after its parent had initialized it. The text says what to do.

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
    """The newest CUDA version that the driver supports, such as ``(12, 4)``.

    Raises:
        weft.CudaError: the driver cannot be used.
    """
    open_driver()
    version = _native.driver_version()
    return version // 1000, version % 1000 // 10
