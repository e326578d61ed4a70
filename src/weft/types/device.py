# SPDX-License-Identifier: Apache-2.0
"""Names of devices: `cpu`, `cuda`, `cuda:1`, and others for messages.

In: a DLPack device type and index, or a text. Out: the other.
"""

from __future__ import annotations

from typing import Final

# DLDeviceType of dlpack.h.
CPU: Final = 1
CUDA: Final = 2

DEVICE_TYPES: Final = {"cpu": CPU, "cuda": CUDA}
"""Device types that kernels run on, with their DLDeviceType."""

_NAMES: Final = {
    CPU: "cpu",
    CUDA: "cuda",
    3: "cuda_host",
    4: "opencl",
    7: "vulkan",
    8: "metal",
    10: "rocm",
    11: "rocm_host",
    12: "ext_dev",
    13: "cuda_managed",
    14: "oneapi",
    15: "webgpu",
    16: "hexagon",
    17: "maia",
    18: "trn",
}


def device_name(device_type: int, index: int | None = None) -> str:
    """A device's name in messages; the CPU has no index.

    Example:
        >>> device_name(2, 1), device_name(1, 0), device_name(2), device_name(99, 0)
        ('cuda:1', 'cpu', 'cuda', 'device_type_99:0')
    """
    name = _NAMES.get(device_type, f"device_type_{device_type}")
    return name if index is None or device_type == CPU else f"{name}:{index}"


def parse_device(text: str) -> tuple[str, int | None]:
    """The device type's name and the index, None where the text has none.

    Raises:
        ValueError: if the text is not one of ``"cpu"``, ``"cuda"``, ``"cuda:<index>"``.

    Example:
        >>> parse_device("cuda:1"), parse_device("cpu")
        (('cuda', 1), ('cpu', None))
    """
    name, colon, index = text.partition(":")
    if name == "cpu" and not colon:
        return name, None
    if name == "cuda" and (not colon or (index.isascii() and index.isdecimal())):
        return name, int(index) if colon else None
    raise ValueError(f"unknown device {text!r}, expected 'cpu', 'cuda' or 'cuda:<index>'")
