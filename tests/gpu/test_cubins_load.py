# SPDX-License-Identifier: Apache-2.0
"""The driver accepts the cubins of the examples, compiled for the device that is there."""

from __future__ import annotations

import ctypes

import pytest

import weft
from examples.catalog import EXAMPLES

pytestmark = pytest.mark.gpu

MAJOR, MINOR = 75, 76  # CUdevice_attribute: compute capability


@pytest.fixture(scope="module")
def driver() -> ctypes.CDLL:
    library = ctypes.CDLL("libcuda.so.1")
    assert library.cuInit(0) == 0
    return library


@pytest.fixture(scope="module")
def architecture(driver: ctypes.CDLL) -> str:
    device, major, minor = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
    assert driver.cuDeviceGet(ctypes.byref(device), 0) == 0
    assert driver.cuDeviceGetAttribute(ctypes.byref(major), MAJOR, device) == 0
    assert driver.cuDeviceGetAttribute(ctypes.byref(minor), MINOR, device) == 0
    return f"sm_{major.value}{minor.value}" + ("a" if major.value >= 9 else "")


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_driver_loads_the_cubin_and_finds_each_kernel(
    driver: ctypes.CDLL, architecture: str, example
):
    compiled = weft.compile[weft.GPUArch(architecture)](example.function, *example.fake_arguments())
    library, kernel = ctypes.c_void_p(), ctypes.c_void_p()
    none = (None, None, 0, None, None, 0)
    assert driver.cuLibraryLoadData(ctypes.byref(library), compiled.cubin, *none) == 0
    for name in compiled.kernels:
        assert driver.cuLibraryGetKernel(ctypes.byref(kernel), library, name.encode()) == 0
    assert driver.cuLibraryUnload(library) == 0
