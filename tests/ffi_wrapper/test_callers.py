# SPDX-License-Identifier: Apache-2.0
"""The same function, results and errors from Python, from the tvm_ffi package and from C."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy
import pytest

import weft
from tests.ffi_wrapper.kernels import add_one
from weft.ffi.library import find_ffi_library

SIGNATURE = "add_one(a: Tensor[f32, (n,)], b: Tensor[f32, (n,)])"


def vector(size: int) -> numpy.ndarray:
    return numpy.arange(size, dtype=numpy.float32)


@pytest.fixture(scope="module")
def compiled():
    return weft.compile(add_one, vector(4), vector(4), options="--enable-tvm-ffi")


@pytest.fixture(scope="module")
def package_function(compiled):
    pytest.importorskip("tvm_ffi")
    return compiled.as_tvm_ffi()


@pytest.fixture(scope="module")
def c_caller(tmp_path_factory):
    ffi = Path(find_ffi_library())
    target = tmp_path_factory.mktemp("caller") / "caller.so"
    compiler = os.environ.get("CC") or shutil.which("cc") or "gcc"
    command = [compiler, "-std=c11", "-shared", "-fPIC", "-Wall", "-Werror"]
    command += [f"-I{ffi.parent.parent / 'include'}", str(Path(__file__).with_name("caller.c"))]
    subprocess.run([*command, str(ffi), f"-Wl,-rpath,{ffi.parent}", "-o", str(target)], check=True)
    return ctypes.CDLL(str(target)).call_with_vectors


def memory_of(array) -> tuple[ctypes.c_void_p, ctypes.c_int64]:
    """Address and size of a vector of NumPy or torch."""
    if isinstance(array, numpy.ndarray):
        return ctypes.c_void_p(array.ctypes.data), ctypes.c_int64(array.size)
    return ctypes.c_void_p(array.data_ptr()), ctypes.c_int64(array.numel())


def call_from_c(caller, compiled, a, b) -> str:
    """The message of a call from C with the memory of two vectors, or nothing."""
    message = ctypes.create_string_buffer(1000)
    code = caller(
        ctypes.c_void_p(compiled.engine.lookup("__tvm_ffi_add_one")),
        *memory_of(a),
        *memory_of(b),
        message,
        ctypes.c_int64(1000),
    )
    assert (code == 0) == (message.value == b"")
    return message.value.decode()


def test_the_package_gets_a_function_of_its_own_kind(package_function):
    import tvm_ffi

    assert isinstance(package_function, tvm_ffi.Function)


@pytest.mark.slow
def test_the_package_is_imported_when_a_function_is_asked_for():
    pytest.importorskip("tvm_ffi")
    program = (
        "import sys, weft\n"
        "from tests.ffi_wrapper.kernels import add_one\n"
        "function = weft.compile(add_one)\n"
        "assert 'tvm_ffi' not in sys.modules\n"
        "assert type(function.as_tvm_ffi()).__name__ == 'Function'\n"
    )
    root = Path(__file__).parents[2]
    subprocess.run([sys.executable, "-c", program], check=True, cwd=root)


def test_every_caller_gets_the_same_result(compiled, package_function, c_caller):
    import tvm_ffi

    a = vector(1000)
    results = [numpy.zeros_like(a) for _ in range(4)]
    compiled(a, results[0])
    compiled(b=results[1], a=a)
    package_function(tvm_ffi.from_dlpack(a), tvm_ffi.from_dlpack(results[2]))
    assert call_from_c(c_caller, compiled, a, results[3]) == ""
    for result in results:
        assert (result == a + 1).all()


MISTAKES = {
    "size": (12, "argument #1 'b': shape[0] is 12, expected 10 to match a.shape[0]"),
    "nothing": (0, "argument #1 'b': shape[0] is 0, expected 10 to match a.shape[0]"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_every_caller_gets_the_same_error(compiled, package_function, c_caller, mistake):
    import tvm_ffi

    size, text = MISTAKES[mistake]
    a, b = vector(10), vector(size)
    for call in (
        lambda: compiled(a, b),
        lambda: package_function(tvm_ffi.from_dlpack(a), tvm_ffi.from_dlpack(b)),
    ):
        with pytest.raises(ValueError) as caught:
            call()
        assert str(caught.value) == f"{SIGNATURE}: {text}"
    assert call_from_c(c_caller, compiled, a, b) == f"{SIGNATURE}: {text}"


@pytest.mark.parametrize(
    ("value", "received"),
    [
        (3, "an int 3"),
        (None, "None"),
        ("abc", "a str 'abc'"),
        ((1, 2), "a list or tuple of 2 items"),
    ],
)
def test_the_package_gets_the_same_type_errors(compiled, package_function, value, received):
    text = f"{SIGNATURE}: argument #0 'a': expected a tensor, received {received}"
    for function in (compiled, package_function):
        with pytest.raises(TypeError) as caught:
            function(value, value)
        assert str(caught.value) == text


def test_a_count_error_has_the_functions_own_name(compiled, package_function):
    with pytest.raises(TypeError, match="expected 2 arguments, received 1") as caught:
        package_function(3)
    assert str(caught.value).startswith(f"{SIGNATURE}: ")
    with pytest.raises(TypeError, match=r"add_one\(\) missing 1 required positional argument: 'b'"):
        compiled(vector(3))


@pytest.mark.torch
def test_torch_tensors_through_every_caller(compiled, package_function, c_caller):
    import torch

    a = torch.arange(1000, dtype=torch.float32)
    b = torch.zeros_like(a)
    assert call_from_c(c_caller, compiled, a, b) == ""
    assert torch.equal(b, a + 1)
    text = "argument #1 'b': shape[0] is 12, expected 10 to match a.shape[0]"
    assert call_from_c(c_caller, compiled, a[:10], b[:12]) == f"{SIGNATURE}: {text}"
    for function in (compiled, package_function):
        b = torch.zeros_like(a)
        function(a, b)
        assert torch.equal(b, a + 1)
        with pytest.raises(ValueError, match=r"argument #1 'b': dtype is f64, expected f32"):
            function(a, b.double())


NO_DRIVER = """
import ctypes, tvm_ffi, weft
from tests.ffi_wrapper.golden_callers import Tensor, c_program, c_text
from tests.ffi_wrapper.kernels import add_one

function = weft.compile(add_one, options="--target cuda")
a, b = Tensor(10, device=(2, 0)), Tensor(10, device=(2, 0))
said = []
for call, convert in ((function, lambda x: x), (function.as_tvm_ffi(), tvm_ffi.from_dlpack)):
    try:
        call(convert(a), convert(b))
    except RuntimeError as error:
        said.append(f"{type(error).__name__}: {error}")
answer = ctypes.create_string_buffer(4000)
address = ctypes.c_void_p(function.engine.lookup("__tvm_ffi_add_one"))
text = " ".join((c_text(a), c_text(b))).encode()
assert c_program().call_with_text(address, text, 2, answer, ctypes.c_size_t(4000)) != 0
print(*said, answer.value.decode(), sep="\\n")
"""


@pytest.mark.slow
def test_every_caller_learns_that_there_is_no_driver():
    done = subprocess.run(
        [sys.executable, "-c", NO_DRIVER],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "WEFT_LIBCUDA": "/nowhere/libcuda.so.1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    kinds, texts = zip(*(line.split(": ", 1) for line in done.stdout.splitlines()), strict=True)
    # The package and C know the kinds of the ABI only.
    assert kinds == ("CudaError", "RuntimeError", "RuntimeError")
    for text in texts:
        assert text.startswith("cannot open the CUDA driver: /nowhere/libcuda.so.1")
        assert "the cpu target needs no driver" in text
