# SPDX-License-Identifier: Apache-2.0
"""NumPy arrays on the GPU with nothing but the driver, so that tests need neither torch nor CuPy.

In: an array of any strides. Out: an object that any library reads by `__cuda_array_interface__`, and its memory
back.
"""

from __future__ import annotations

import ctypes
import functools

import numpy as np

import weft
from weft import driver


@functools.cache
def libcuda() -> ctypes.CDLL:
    """The driver itself, for what weft does not offer."""
    driver.open_driver()
    return ctypes.CDLL("libcuda.so.1")


def check(code: int) -> None:
    """The driver's answer is success."""
    assert code == 0, f"the driver answered {code}"


class DeviceArray:
    """A copy of a NumPy array's memory on a device, with the array's own strides.

    The memory lives as long as this object. `fetch` copies it back over the host array's.
    """

    def __init__(self, array: np.ndarray, device: int = 0) -> None:
        self.device = device
        driver.set_current_device(device)
        low, high = np.lib.array_utils.byte_bounds(array)
        # The span that the array's elements lie in, which strides may walk in any direction.
        self.span = np.ctypeslib.as_array((ctypes.c_uint8 * (high - low)).from_address(low))
        self.kept = array
        self.tensor = driver.empty(self.span.nbytes, weft.u8, device)
        # The first field of a DLTensor, which follows the object's header.
        self.address = ctypes.c_uint64.from_address(self.tensor.address + 24)
        self._copy(libcuda().cuMemcpyHtoD_v2, self.address, self._host())
        own = array.__array_interface__
        self.interface = {
            "version": 3,
            "shape": array.shape,
            "typestr": own["typestr"],
            "data": (self.address.value + own["data"][0] - low, False),
            "strides": array.strides,
            "stream": 1,
        }

    @property
    def __cuda_array_interface__(self) -> dict[str, object]:
        return self.interface

    def _host(self) -> ctypes.c_void_p:
        return self.span.ctypes.data_as(ctypes.c_void_p)

    def _copy(self, copy: object, target: object, source: object) -> None:
        if self.span.nbytes:
            check(copy(target, source, ctypes.c_size_t(self.span.nbytes)))  # type: ignore[operator]

    def fetch(self) -> np.ndarray:
        """Waits for the device and copies its memory over the host array's, which it returns."""
        driver.synchronize(self.device)
        driver.set_current_device(self.device)
        self._copy(libcuda().cuMemcpyDtoH_v2, self._host(), self.address)
        return self.kept


def on_device(value: object) -> object:
    """An array as `DeviceArray`; anything else as it is."""
    return DeviceArray(value) if isinstance(value, np.ndarray) else value


def fetch_all(values: object) -> None:
    """Copies every `DeviceArray` among the values back."""
    for value in values:  # type: ignore[attr-defined]
        if isinstance(value, DeviceArray):
            value.fetch()
