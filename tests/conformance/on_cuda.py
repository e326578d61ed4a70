# SPDX-License-Identifier: Apache-2.0
"""Direct calls of the conformance tests on a GPU: their NumPy arrays are copied there and back.

In: a host function and a test's arguments. Out: the arrays, filled by the GPU. Two arguments that are one array
are one copy; other overlaps are not kept, so tests of aliasing stay on the CPU.
"""

from __future__ import annotations

import copy
from functools import update_wrapper
from typing import Any

import numpy as np

from tests.conformance.harness import EXPORTED_TYPES, Exported
from tests.gpu.device_memory import DeviceArray
from weft import api

CUDA_DEVICE = 2  # kDLCUDA


class DeviceExport(DeviceArray):
    """An array on the device that is given by `__dlpack__`, for the types that NumPy has no text for."""

    def __init__(self, exported: Exported) -> None:
        super().__init__(exported.array)
        self.export = copy.copy(exported)
        self.export.data = self.interface["data"][0] - exported.byte_offset  # type: ignore[index]
        self.export.device = CUDA_DEVICE, 0

    @property
    def __cuda_array_interface__(self) -> dict[str, object]:
        raise AttributeError("this array is given by __dlpack__ alone")

    def __dlpack__(self, **_: object) -> object:
        return self.export.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.export.device


class Copies:
    """The arguments of one call on the device."""

    def __init__(self) -> None:
        self.made: dict[int, DeviceArray] = {}

    def of(self, value: Any) -> Any:
        """An array or exported array on the device, once for each object; containers item by item."""
        if isinstance(value, tuple):
            items = [self.of(item) for item in value]
            return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
        if not isinstance(value, np.ndarray | Exported):
            return value
        if id(value) not in self.made:
            if isinstance(value, np.ndarray) and value.dtype in EXPORTED_TYPES:
                value_of_dlpack = Exported(value)
                self.made[id(value)] = DeviceExport(value_of_dlpack)
            else:
                kind = DeviceExport if isinstance(value, Exported) else DeviceArray
                self.made[id(value)] = kind(value)
        return self.made[id(value)]

    def fetch(self) -> None:
        """Everything back into the host's arrays."""
        for array in self.made.values():
            array.fetch()


class OnCuda(api.JitFunction):
    """A host function whose direct calls run on the GPU."""

    __slots__ = ()

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        copies = Copies()
        given = [copies.of(value) for value in arguments]
        named = {name: copies.of(value) for name, value in keywords.items()}
        result = super().__call__(*given, **named)
        copies.fetch()
        return result


def on_cuda(function: api.JitFunction) -> OnCuda:
    """The same function, called on the GPU."""
    made = OnCuda(function.function, function.default_options)
    update_wrapper(made, function.function)
    return made
