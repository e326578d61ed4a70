# SPDX-License-Identifier: Apache-2.0
"""Devices as dispatch sees them: the compute capability and the number of multiprocessors."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

import weft
from weft.config import overrides
from weft.driver.device import device_properties
from weft.runtime.warmup import running
from weft.types.capabilities import capabilities as known_capabilities
from weft.types.capabilities import capabilities_of
from weft.types.launch_limits import MOST_SHARED_BYTES

if TYPE_CHECKING:
    from weft.types.capabilities import Capabilities


_WITHOUT_FEATURES: Final = known_capabilities("")


class DeviceInfo(NamedTuple):
    """Facts by which kernels are chosen; the CPU's capability and multiprocessors are 0.

    Attributes:
        capability: compute capability.
        multiprocessors: their number.
        shared_bytes: the most shared memory of a block.
    """

    capability: tuple[int, int]
    multiprocessors: int
    shared_bytes: int


def device_info(device: weft.ffi.Device) -> DeviceInfo:
    """The facts of a device, or of the GPU for which `weft.warmup` compiles."""
    warmup = running() if device.type == "cuda" and overrides() else None
    if warmup is not None and warmup.architecture is not None:
        return DeviceInfo(warmup.capability, warmup.multiprocessors, warmup.shared_bytes)
    return _known(device)


@cache
def _known(device: weft.ffi.Device) -> DeviceInfo:
    if device.type != "cuda":
        return DeviceInfo((0, 0), 0, MOST_SHARED_BYTES)
    found = device_properties(device.index)
    return DeviceInfo(
        found.compute_capability,
        found.multiprocessor_count,
        found.max_shared_memory_per_block_bytes,
    )


def capabilities(device: weft.ffi.Device) -> Capabilities:
    """Features of a GPU; the CPU, for which other kernels are chosen, has none."""
    version = device_info(device).capability
    return capabilities_of(version) if version > (0, 0) else _WITHOUT_FEATURES


def multiprocessors_of(device: weft.ffi.Device) -> int:
    """The multiprocessors of a GPU, or 0 for the CPU."""
    return device_info(device).multiprocessors


def shared_bytes_of(device: weft.ffi.Device) -> int:
    """The most shared memory of a block."""
    return device_info(device).shared_bytes
