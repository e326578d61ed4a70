# SPDX-License-Identifier: Apache-2.0
"""An exported library on a real GPU: loaded by weft, and by a Python without it."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import weft
from tests.exported.functions import compiled
from tests.gpu.device_memory import fetch_all, on_device
from weft.driver.device import device_properties

pytestmark = pytest.mark.gpu

# The driver's own memory, reached without weft.
PROGRAM = """
import ctypes, struct, sys
sys.modules["weft"] = None
import numpy, tvm_ffi
driver = ctypes.CDLL("libcuda.so.1")
device, context, addresses = ctypes.c_int(), ctypes.c_void_p(), [ctypes.c_uint64(), ctypes.c_uint64()]
assert driver.cuInit(0) == 0
assert driver.cuDeviceGet(ctypes.byref(device), 0) == 0
assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device) == 0
assert driver.cuCtxSetCurrent(context) == 0
a = numpy.arange(1000, dtype="float32")
for address in addresses:
    assert driver.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(a.nbytes)) == 0
assert driver.cuMemcpyHtoD_v2(addresses[0], ctypes.c_void_p(a.ctypes.data), ctypes.c_size_t(a.nbytes)) == 0

class DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16), ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p),
                ("byte_offset", ctypes.c_uint64)]

class Any(ctypes.Structure):
    _fields_ = [("type_index", ctypes.c_int32), ("padding", ctypes.c_uint32), ("value", ctypes.c_uint64)]

shape, strides = (ctypes.c_int64 * 1)(1000), (ctypes.c_int64 * 1)(1)
views = [DLTensor(address.value, 2, 0, 1, 2, 32, 1, ctypes.addressof(shape), ctypes.addressof(strides), 0)
         for address in addresses]
arguments = (Any * 3)(*[Any(7, 0, ctypes.addressof(view)) for view in views],
                      Any(3, 0, struct.unpack("<Q", struct.pack("<d", 3.0))[0]))
result = Any()
symbol = ctypes.CDLL(sys.argv[1])["__tvm_ffi_scale"]
assert symbol(None, arguments, 3, ctypes.byref(result)) == 0
b = numpy.zeros_like(a)
assert driver.cuMemcpyDtoH_v2(ctypes.c_void_p(b.ctypes.data), addresses[1], ctypes.c_size_t(a.nbytes)) == 0
assert (b == 3 * a).all()
print("right")
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Code for an older GPU, for this one, and PTX."""
    major, minor = device_properties(0).compute_capability
    path = tmp_path_factory.mktemp("exported") / "scale.so"
    compiled("scale", "--gpu-arch sm_80").export(path, gpu_arch=f"sm_80,sm_{major}{minor}")
    return path


def test_a_python_without_weft_launches_an_exported_function(library: Path):
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(library)], capture_output=True, text=True, check=False
    )
    assert (result.returncode, result.stdout) == (0, "right\n"), result.stderr


def check(function: Callable[..., object], factor: float) -> None:
    a, b = np.arange(300, dtype=np.float32), np.zeros(300, np.float32)
    on = on_device(a), on_device(b)
    function(*on, factor=factor)
    fetch_all(on)
    assert (b == factor * a).all()


def test_weft_loads_it(library: Path):
    check(weft.load(library), 5.0)


def test_newer_gpus_run_the_ptx(tmp_path: Path):
    path = tmp_path / "ptx.so"
    compiled("scale", "--gpu-arch sm_75").export(path)
    check(weft.load(path), 2.0)


def test_a_pickled_function_launches():
    major, minor = device_properties(0).compute_capability
    function = compiled("scale", f"--gpu-arch sm_{major}{minor}")
    check(pickle.loads(pickle.dumps(function)), 3.0)
