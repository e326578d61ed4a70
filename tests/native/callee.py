# SPDX-License-Identifier: Apache-2.0
"""Builds callee.cpp once and makes weft functions of what is in it."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from weft import _native
from weft.ffi.library import find_ffi_library
from weft.ffi.tensor import DLTensor

NONE, INT, BOOL, FLOAT, POINTER, TENSOR_VIEW, SMALL_STR, SMALL_BYTES = 0, 1, 2, 3, 4, 7, 11, 12
STR, BYTES, FUNCTION, TENSOR, ARRAY, BIG_INT = 65, 66, 68, 70, 71, 78
CPU, CUDA = 1, 2
MAX_RANK = 64


class AnyValue(ctypes.Structure):
    """TVMFFIAny."""

    _fields_ = (
        ("type_index", ctypes.c_int32),
        ("padding", ctypes.c_uint32),
        ("int64", ctypes.c_int64),
    )

    @property
    def float64(self) -> float:
        return ctypes.c_double.from_buffer_copy(self, 8).value


class SeenTensor:
    """A tensor argument as the callee saw it."""

    def __init__(self, tensor: DLTensor, dims) -> None:
        self.data = tensor.data
        self.device = (tensor.device_type, tensor.device_id)
        self.dtype = (tensor.code, tensor.bits, tensor.lanes)
        self.shape = tuple(dims[: tensor.ndim])
        self.strides = tuple(dims[MAX_RANK : MAX_RANK + tensor.ndim])
        self.byte_offset = tensor.byte_offset


def build() -> Path:
    """The test library, compiled against the installed package's headers; built once per version."""
    source = Path(__file__).with_name("callee.cpp")
    ffi = Path(find_ffi_library())
    made_of = source.read_bytes() + str(ffi).encode() + str(ffi.stat().st_mtime_ns).encode()
    name = f"weft-callee-{os.getuid()}-{hashlib.sha256(made_of).hexdigest()[:16]}.so"
    target = Path(tempfile.gettempdir()) / name
    if target.is_file() and target.stat().st_uid == os.getuid():
        return target
    compiler = os.environ.get("CXX") or shutil.which("c++") or "g++"
    command = [compiler, "-std=c++17", "-O1", "-shared", "-fPIC", "-pthread", "-Wall", "-Werror"]
    command += [f"-I{ffi.parent.parent / 'include'}", str(source), str(ffi)]
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / name
        plain = {**os.environ, "LD_PRELOAD": ""}  # the compiler itself needs no sanitizer
        command += [f"-Wl,-rpath,{ffi.parent}", "-o", str(made)]
        subprocess.run(command, check=True, env=plain)
        staged = target.with_suffix(f".{os.getpid()}")
        shutil.copy(made, staged)
    staged.replace(target)
    return target


@functools.cache
def library() -> ctypes.CDLL:
    """The functions of callee.cpp, for ctypes."""
    loaded = ctypes.CDLL(str(build()))
    loaded.callee_arguments.restype = ctypes.POINTER(AnyValue)
    loaded.callee_tensor.restype = ctypes.POINTER(DLTensor)
    loaded.callee_dims.restype = ctypes.POINTER(ctypes.c_int64)
    loaded.callee_text.restype = ctypes.c_char_p
    for name in ("callee_handle", "callee_stream", "callee_kept"):
        getattr(loaded, name).restype = ctypes.c_void_p
    for name in (
        "callee_exchange_api",
        "callee_future_exchange_api",
        "callee_managed",
        "callee_environment_stream",
    ):
        getattr(loaded, name).restype = ctypes.c_void_p
    return loaded


def address(name: str) -> int:
    """Where a function of the library is."""
    value = ctypes.cast(getattr(library(), name), ctypes.c_void_p).value
    assert value is not None
    return value


def foreign(name: str, owner: object = None, handle: int | None = None) -> _native.Function:
    """A function of which nothing is known: tensors are passed as objects."""
    return _native.Function.from_address(address(name), handle, owner)


def planned(code: str, *parameters: str, **plan) -> _native.Function:
    """A function with a plan: tensors are passed as DLTensor*, unless it says otherwise."""
    name = plan.pop("name", code)
    text = plan.pop("signature_text", f"{name}({', '.join(parameters)})")
    details = plan.pop("details", None)
    call_plan = _native.CallPlan(name, text, parameters, **plan)
    return _native.Function.from_address(address(code), None, None, call_plan, details)


def seen(*arguments, **plan) -> list[AnyValue]:
    """The values that reach a callee with these arguments."""
    names = [f"a{index}" for index in range(len(arguments))]
    planned("record", *names, **plan)(*arguments)
    assert library().callee_count() == len(arguments)
    return library().callee_arguments()[: len(arguments)]


def seen_tensor(argument: object, **plan) -> SeenTensor:
    """What reaches a callee for one tensor."""
    (value,) = seen(argument, **plan)
    assert value.type_index == (TENSOR if plan.get("owned_tensors") else TENSOR_VIEW)
    return SeenTensor(library().callee_tensor(0)[0], library().callee_dims(0))
