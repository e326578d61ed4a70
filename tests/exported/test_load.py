# SPDX-License-Identifier: Apache-2.0
"""`weft.load` and pickles give the callable that was exported."""

from __future__ import annotations

import ctypes
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tvm_ffi

import weft
from tests.exported import functions
from tests.exported.functions import FFI, Sums, compiled, folder, gpu_library, library
from tests.native.callee import CUDA, INT, TENSOR_VIEW, AnyValue, DLTensor
from tests.native.fake_cuda.cpu_builds import Compiled
from tests.native.fake_cuda.fake import build, in_child, start
from weft.compiler.exported import load, record
from weft.errors import ExportError


def check(function: object) -> None:
    a, b = np.arange(300, dtype=np.float32), np.zeros(300, np.float32)
    function(a, b)
    assert (b == 2 * a).all()
    function(b=b, a=a, factor=3.0)
    assert (b == 3 * a).all()
    with pytest.raises(ValueError, match=r"shape\[0\] is 2, expected 300 to match a.shape\[0\]"):
        function(a, b[:2])


@pytest.mark.parametrize("suffix", [".so", ".a", ".o"])
def test_a_loaded_function_is_the_exported_one(suffix: str):
    path = folder() / f"loaded{suffix}"
    compiled("scale").export(path)
    loaded = weft.load(path)
    check(loaded)
    assert str(loaded.signature) == str(compiled("scale").signature)
    assert loaded.__doc__ == "b = factor * a."


def test_a_function_of_several_is_named(monkeypatch: pytest.MonkeyPatch):
    check(weft.load(library(), "scale"))
    assert weft.load(library(), "sums")(np.zeros(3, np.float32)) == Sums(3, 6)
    with pytest.raises(
        ExportError, match=r"functions\.so has 3 functions\n.*block_sum, scale, sums"
    ):
        weft.load(library())
    with pytest.raises(ExportError, match="has no function 'other'"):
        weft.load(library(), "other")
    monkeypatch.setattr(load, "_LISTED", 2)
    with pytest.raises(ExportError, match=r"one of them: block_sum, scale and 1 more"):
        weft.load(library())


@pytest.mark.parametrize("suffix", ["so", "a"])
def test_functions_of_one_file_may_launch_kernels_of_one_name(suffix: str, tmp_path: Path):
    path = tmp_path / f"library.{suffix}"
    weft.export(path, [compiled("add_one"), compiled("add_two")])
    values = np.zeros(5, np.int32)
    weft.load(path, "add_one")(values)
    weft.load(path, "add_two")(values)
    assert values.tolist() == [3] * 5
    if suffix == "a":  # as a program links all of it
        library = tmp_path / "again.so"
        words = [
            "-Wl,--whole-archive",
            str(path),
            "-Wl,--no-whole-archive",
            f"-L{FFI}",
            "-ltvm_ffi",
        ]
        subprocess.run(["c++", "-shared", "-o", str(library), *words], check=True)
        path = library
    module = tvm_ffi.load_module(str(path))
    module.add_one(values)
    module.add_two(values)
    assert values.tolist() == [6] * 5


def test_loading_imports_no_compiler():
    code = (
        "import sys, weft\n"
        f"weft.load({str(library())!r}, 'scale')\n"
        "print(*{'xdsl', 'llvmlite', 'numpy'}.intersection(sys.modules))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout == "\n"


@pytest.mark.parametrize("end", [10, 70, 4000, 9000, -100])
def test_a_truncated_file_is_an_error(end: int, tmp_path: Path):
    whole = folder() / "whole.o"
    compiled("scale").export(whole)
    path = tmp_path / "part.o"
    path.write_bytes(whole.read_bytes()[:end])
    with pytest.raises(ExportError, match=r"part\.o (is truncated|holds no function)"):
        weft.load(path)


def test_a_damaged_or_foreign_file_is_an_error(tmp_path: Path):
    whole = folder() / "whole2.o"
    compiled("scale").export(whole)
    data = bytearray(whole.read_bytes())
    place = data.index(b"facts")
    data[place + 50] ^= 1
    (tmp_path / "damaged.o").write_bytes(data)
    with pytest.raises(
        ExportError, match=r"damaged\.o is truncated, damaged, or not of this version"
    ):
        weft.load(tmp_path / "damaged.o")
    for path, message in (
        (sys.executable, "holds no function that weft exported"),
        ("nothing.so", "cannot read"),
    ):
        with pytest.raises(ExportError, match=message):
            weft.load(path)


def test_code_for_another_cpu_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path, _ = compiled("scale").export(tmp_path / "arm.o", cpu="aarch64")
    with pytest.raises(
        ExportError, match="scale is for CPUs with the architecture aarch64, and its text is not"
    ):
        weft.load(path)
    monkeypatch.setattr(record, "_flags", lambda: frozenset(("sse4_2", "popcnt")))
    with pytest.raises(ExportError, match="is for CPUs with avx2, fma, "):
        weft.load(library(), "scale")


@pytest.mark.parametrize("name", ["scale", "sums"])
def test_a_pickle_gives_the_function(name: str):
    again = pickle.loads(pickle.dumps(compiled(name)))
    if name == "scale":
        check(again)
        check(pickle.loads(pickle.dumps(weft.load(library(), "scale"))))
    else:
        assert again(np.zeros(4, np.float32)) == Sums(4, 8)
    assert again.ir_module == compiled(name).ir_module
    assert again.llvm_ir == compiled(name).llvm_ir


def test_a_pickle_runs_in_another_process(tmp_path: Path):
    (tmp_path / "pickle").write_bytes(pickle.dumps(compiled("scale")))
    code = (
        "import pickle, sys, numpy\n"
        f"function = pickle.load(open({str(tmp_path / 'pickle')!r}, 'rb'))\n"
        "a = numpy.ones(3, 'float32'); function(a, a); print(*a, 'xdsl' in sys.modules)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout == "2.0 2.0 2.0 False\n"


def test_a_pickle_of_another_cpu_is_compiled_again(monkeypatch: pytest.MonkeyPatch):
    data = pickle.dumps(compiled("block_sum"))
    monkeypatch.setattr(record, "this_cpu", lambda: "another")
    again = pickle.loads(data)
    b = np.zeros(2, np.float32)
    again(np.ones(256, np.float32), b)
    assert b.tolist() == [128, 128]


def test_an_unknown_cpu_is_the_same_as_no_other(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(record, "cpu_version", lambda: None)
    data = pickle.dumps(compiled("block_sum"))
    code = "import pickle, sys; pickle.load(sys.stdin.buffer); print('xdsl' in sys.modules)"
    result = subprocess.run(
        [sys.executable, "-c", code], input=data, capture_output=True, check=True
    )
    assert result.stdout == b"True\n"  # compiled again


def test_a_class_that_cannot_be_named_is_an_error():
    class Local(Sums):
        pass

    @weft.jit
    def local(a: weft.Tensor[weft.f32, ("n",)]):
        return Local(a.shape[0], 1)

    with pytest.raises(
        ExportError, match="local takes or returns something that another process cannot name"
    ):
        pickle.dumps(weft.compile(local))


def test_a_function_that_weft_did_not_compile_is_not_pickled():
    with pytest.raises(TypeError, match="cannot be pickled: it was not compiled by weft"):
        pickle.dumps(weft.ffi.get_global("ffi.Array"))


def test_an_exported_function_launches_without_python():
    build()
    path = gpu_library()
    placeholder = weft.fake_tensor(weft.f32, (weft.sym("n"),), device="cuda")
    builds = Compiled(functions.scale, placeholder, placeholder)

    def call() -> None:
        fake = start()
        builds.register(fake)
        os.environ["WEFT_LIBCUDA"] = str(fake.path)
        a, b = np.arange(300, dtype=np.float32), np.zeros(300, np.float32)
        shape, strides = (ctypes.c_int64 * 1)(300), (ctypes.c_int64 * 1)(1)
        views = [
            DLTensor(array.ctypes.data, CUDA, 0, 1, 2, 32, 1, shape, strides, 0) for array in (a, b)
        ]
        arguments, result = (AnyValue * 3)(), AnyValue()
        for argument, view in zip(arguments, views, strict=False):
            argument.type_index, argument.int64 = TENSOR_VIEW, ctypes.addressof(view)
        arguments[2].type_index, arguments[2].int64 = INT, 5
        symbol = ctypes.CDLL(str(path))["__tvm_ffi_scale"]
        assert symbol(None, arguments, 3, ctypes.byref(result)) == 0
        assert (b == 5 * a).all()
        assert fake.count("cuLibraryLoadData") == 1
        assert len(fake.launches()) == 1

    in_child(call)


def test_complex_numbers_and_promises_hold_in_a_file(tmp_path):
    library, header = compiled("accumulate").export(tmp_path / "accumulate.so")
    assert "arguments[2]: z: c64, an ffi.Array of two floats" in header.read_text()
    accumulate = weft.load(library)
    a, b = weft.full(4, 1j, weft.c64), weft.zeros(6, weft.c64)
    accumulate(a, b, 2 + 1j)
    assert b.tolist() == [-1 + 2j] * 4 + [0, 0]
    with pytest.raises(AssertionError, match=r"^accumulate: weft\.assume, which promises this"):
        accumulate(a, weft.zeros(2, weft.c64), 1j)
    with pytest.raises(ValueError, match="its memory, from"):
        accumulate(a, a, 1j)
    with pytest.raises(ValueError, match="expected a multiple of 2"):
        accumulate(weft.zeros(3, weft.c64), b, 1j)
    odd = np.frombuffer(weft.zeros(9, weft.c64), np.complex64)[1:7]
    with pytest.raises(ValueError, match="expected an address divisible by 16"):
        accumulate(odd, b, 1j)
