# SPDX-License-Identifier: Apache-2.0
"""Devices as dispatch sees them: the compute capability and the number of multiprocessors."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from weft.driver.device import device_properties

if TYPE_CHECKING:
    from weft.ffi.device import Device


@cache
def capability(device: Device) -> tuple[int, int]:
    """The compute capability of a GPU, or (0, 0) for the CPU."""
    if device.type != "cuda":
        return (0, 0)
    return device_properties(device.index).compute_capability


@cache
def multiprocessors_of(device: Device) -> int:
    """The multiprocessors of a GPU, or 0 for the CPU."""
    if device.type != "cuda":
        return 0
    return device_properties(device.index).multiprocessor_count
