# SPDX-License-Identifier: Apache-2.0
"""Names of devices: `cpu`, `cuda`, `cuda:1`, and DLPack's others.

In: a DLPack device type and index, or a text. Out: the other.
"""

from __future__ import annotations

from typing import Final

# DLDeviceType of dlpack.h.
CPU: Final = 1
CUDA: Final = 2

DEVICE_TYPES: Final = {
    "cpu": CPU,
    "cuda": CUDA,
    "cuda_host": 3,
    "opencl": 4,
    "vulkan": 7,
    "metal": 8,
    "rocm": 10,
    "rocm_host": 11,
    "ext_dev": 12,
    "cuda_managed": 13,
    "oneapi": 14,
    "webgpu": 15,
    "hexagon": 16,
    "maia": 17,
    "trn": 18,
}
"""DLPack's names, with their DLDeviceType."""

_NAMES: Final = {number: name for name, number in DEVICE_TYPES.items()}


def device_name(device_type: int, index: int | None = None) -> str:
    """A device's name in messages; the CPU has no index.

    Example:
        >>> device_name(2, 1), device_name(1, 0), device_name(2), device_name(99, 0)
        ('cuda:1', 'cpu', 'cuda', 'device_type_99:0')
    """
    name = _NAMES.get(device_type, f"device_type_{device_type}")
    return name if index is None or device_type == CPU else f"{name}:{index}"


def parse_device(text: str) -> tuple[int, int | None]:
    """The DLDeviceType and the index, None where the text has none.

    Raises:
        ValueError: if the text is not a name of a device type, with ``:<index>`` unless it is ``"cpu"``.

    Example:
        >>> parse_device("cuda:1"), parse_device("cpu")
        ((2, 1), (1, None))
    """
    name, colon, index = text.partition(":")
    has_index = bool(colon) and name != "cpu" and index.isascii() and index.isdecimal()
    if name not in DEVICE_TYPES or (colon and not has_index):
        raise ValueError(f"unknown device {text!r}, expected 'cpu', 'cuda' or 'cuda:<index>'")
    return DEVICE_TYPES[name], int(index) if has_index else None
