# SPDX-License-Identifier: Apache-2.0
"""One description of a call's arguments, three callers: the native callable, the tvm_ffi package, a C program.

Each gives what the function returned as text, or the kind and the message of the error.
"""

from __future__ import annotations

import ctypes
import functools
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from tests.ffi_wrapper.wrapped import Wrapped
from weft.ffi.library import find_ffi_library
from weft.ffi.tensor import Borrowed

DTYPES = {
    "f32": (2, 32, 1),
    "f64": (2, 64, 1),
    "f16": (2, 16, 1),
    "bf16": (4, 16, 1),
    "i32": (0, 32, 1),
    "u8": (1, 8, 1),
    "bool_": (6, 8, 1),
}
CPU = (1, 0)
MEMORY = (ctypes.c_char * 4096)()
ADDRESS = ctypes.addressof(MEMORY) + 63 & ~63


class Tensor(Borrowed):
    """A DLTensor with any fields; in Python an object with `__dlpack__`. Strides of None are a null pointer."""

    def __init__(
        self,
        *shape: int,
        dtype: str = "f32",
        strides: tuple[int, ...] | None = None,
        device: tuple[int, int] = CPU,
        data: int = ADDRESS,
        byte_offset: int = 0,
    ) -> None:
        super().__init__(data, shape, strides, DTYPES[dtype], device, byte_offset)

    def text(self) -> str:
        """As the C program reads it."""
        has_strides = self.strides is not None
        numbers = [*self.device, *self.dtype, self.data, self.byte_offset, int(has_strides)]
        numbers += [len(self.shape), *self.shape, *(self.strides or ())]
        return "t" + " ".join(map(str, numbers))


def c_text(value: Any) -> str:
    """A value as the C program reads it."""
    match value:
        case None:
            return "n"
        case bool():
            return f"b{int(value)}"
        case int():
            return f"i{value}" if value < 1 << 63 else f"u{value}"
        case float():
            return f"f{value!r}"
        case str():
            return f"s{value}"
        case ctypes.c_void_p():
            return f"p{value.value or 0}"
        case tuple():
            return " ".join([f"a{len(value)}", *map(c_text, value)])
        case _:
            return value.text()


def package_value(value: Any) -> Any:
    """A value as users of the tvm_ffi package pass it."""
    import tvm_ffi

    if isinstance(value, Tensor):
        return tvm_ffi.from_dlpack(value)
    return tuple(map(package_value, value)) if isinstance(value, tuple) else value


@functools.cache
def c_program() -> ctypes.CDLL:
    ffi = Path(find_ffi_library())
    folder = Path(tempfile.mkdtemp(prefix="weft-golden-"))
    compiler = os.environ.get("CC") or shutil.which("cc") or "gcc"
    command = [compiler, "-std=c11", "-O1", "-shared", "-fPIC", "-Wall", "-Werror"]
    command += [
        f"-I{ffi.parent.parent / 'include'}",
        str(Path(__file__).with_name("golden_caller.c")),
    ]
    target = folder / "golden_caller.so"
    subprocess.run([*command, str(ffi), f"-Wl,-rpath,{ffi.parent}", "-o", str(target)], check=True)
    loaded = ctypes.CDLL(str(target))
    shutil.rmtree(folder)
    return loaded


class Golden:
    """A wrapped function with its three callers."""

    def __init__(self, wrapped: Wrapped) -> None:
        self.wrapped = wrapped
        self.prefix = f"{wrapped.signature.text}: "

    def _answer(self, function: Any, values: tuple[Any, ...]) -> str:
        try:
            result = function(*values)
        except (TypeError, ValueError, RuntimeError) as error:
            return f"{type(error).__name__}: {str(error).removeprefix(self.prefix)}"
        return str(result)

    def native(self, *values: Any) -> str:
        """Messages for users of weft."""
        return self._answer(self.wrapped.function(), values)

    def package(self, *values: Any) -> str:
        """Messages for users of the tvm_ffi package."""
        import tvm_ffi

        function = self.wrapped.function().__tvm_ffi_object__()
        result = self._answer(function, tuple(map(package_value, values)))
        return result if not isinstance(result, tvm_ffi.Array) else str(tuple(result))

    def c(self, *values: Any) -> str:
        """Messages for a program in C."""
        answer = ctypes.create_string_buffer(4000)
        code = c_program().call_with_text(
            ctypes.c_void_p(self.wrapped.image.lookup(self.wrapped.symbol)),
            " ".join(map(c_text, values)).encode(),
            len(values),
            answer,
            ctypes.c_size_t(len(answer)),
        )
        text = answer.value.decode()
        kind, _, message = text.partition(": ")
        return text if code == 0 else f"{kind}: {message.removeprefix(self.prefix)}"


CALLERS = ("native", "package", "c")
