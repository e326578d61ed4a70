# SPDX-License-Identifier: Apache-2.0
"""Programs in other languages, and Python without weft, call exported functions."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import weft
from tests.exported.functions import FFI, compiled, folder, library

HERE = Path(__file__).parent
INCLUDE = FFI.parent / "include"
WRONG_SIZE = (
    "ValueError: scale(a: Tensor[f32, (n,)], b: Tensor[f32, (n,)], *, factor: f32 = 2.0): "
    "argument #1 'b': shape[0] is 3, expected 1000 to match a.shape[0]"
)


def output(command: list[str]) -> list[str]:
    environment = {"LD_LIBRARY_PATH": f"{FFI}:{folder()}", "PATH": os.environ["PATH"]}
    result = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert result.returncode == 0, result.stderr
    return result.stdout.splitlines()


def build(compiler: str, source: str, *words: str | Path) -> str:
    made = folder() / f"{source}.program"
    subprocess.run([compiler, *map(str, words), "-o", str(made)], check=True, timeout=60)
    return str(made)


def test_a_c_program_is_linked_with_a_library():
    words = (
        HERE / "program.c",
        f"-I{library().parent}",
        f"-I{INCLUDE}",
        "-Wall",
        "-Wextra",
        "-Werror",
    )
    made = build("cc", "c", *words, library(), f"-L{FFI}", "-ltvm_ffi")
    assert output([made]) == ["3 2997", WRONG_SIZE]


def test_a_c_program_links_an_archive_and_libtvm_ffi_alone():
    archive = folder() / "functions2.a"
    weft.export(archive, [compiled("scale"), compiled("block_sum")])
    shutil.copyfile(archive.with_suffix(".h"), folder() / "functions.h")
    words = (HERE / "program.c", f"-I{folder()}", f"-I{INCLUDE}", archive)
    made = build(
        "c++",
        "static",
        "-x",
        "c",
        words[0],
        *words[1:3],
        "-x",
        "none",
        archive,
        f"-L{FFI}",
        "-ltvm_ffi",
    )
    assert output([made]) == ["3 2997", WRONG_SIZE]


def test_an_object_is_linked_with_the_runtime_of_the_package():
    made_of = folder() / "alone.o"
    compiled("scale").export(made_of)
    words = ("-x", "c", HERE / "program.c", f"-I{folder()}", f"-I{INCLUDE}", "-x", "none")
    shutil.copyfile(made_of.with_suffix(".h"), folder() / "functions.h")
    made = build("c++", "object", *words, made_of, weft.runtime_archive(), f"-L{FFI}", "-ltvm_ffi")
    assert output([made]) == ["3 2997", WRONG_SIZE]


def test_a_c_program_gets_a_tensor_of_its_own():
    archive = folder() / "tensors.a"
    compiled("doubled").export(archive)
    words = ("-x", "c", HERE / "tensor.c", f"-I{folder()}", f"-I{INCLUDE}", "-x", "none", archive)
    made = build("c++", "tensor", *words, f"-L{FFI}", "-ltvm_ffi")
    assert output([made]) == ["2 3 4: 2 8", "ValueError"]


@pytest.mark.slow  # TVM-FFI's headers take seconds
def test_a_cpp_program_loads_a_library():
    made = build(
        "c++", "cpp", "-std=c++17", HERE / "program.cpp", f"-I{INCLUDE}", f"-L{FFI}", "-ltvm_ffi"
    )
    lines = output([made, str(library())])
    assert lines[0] == "3 2997"
    assert lines[1].startswith("TypeError: scale(")
    assert lines[1].endswith("expected 3 arguments, received 1")


@pytest.mark.slow
@pytest.mark.skipif(
    shutil.which("rustc") is None, reason="rustc is not installed, and pip has none"
)
def test_a_rust_program_is_linked_with_a_library():
    shutil.copyfile(library(), folder() / "libfunctions.so")
    words = ("-L", folder(), "-l", "dylib=functions", "-L", FFI, "-l", "dylib=tvm_ffi")
    made = build(
        "rustc", "rust", HERE / "program.rs", *words, "-C", f"link-arg=-Wl,-rpath-link,{FFI}"
    )
    assert output([made]) == ["0 3 2997"]


@pytest.mark.slow
def test_python_without_weft_calls_a_library():
    code = (
        "import sys; sys.modules['weft'] = None\n"
        "import numpy, tvm_ffi\n"
        f"module = tvm_ffi.load_module({str(library())!r})\n"
        "a = numpy.arange(1000, dtype='float32'); b = numpy.zeros_like(a)\n"
        "module.scale(tvm_ffi.from_dlpack(a), tvm_ffi.from_dlpack(b), 3.0)\n"
        "print(b[1], b[999])\n"
        "c = numpy.ones(256, 'float32'); d = numpy.zeros(2, 'float32')\n"
        "module.block_sum(tvm_ffi.from_dlpack(c), tvm_ffi.from_dlpack(d))\n"
        "print(*d)\n"
        "try: module.scale(1)\n"
        "except TypeError as error: print(error)\n"
    )
    assert output([sys.executable, "-c", code]) == [
        "3.0 2997.0",
        "128.0 128.0",
        WRONG_SIZE.partition(" argument")[0].partition(" ")[2]
        + " expected 3 arguments, received 1",
    ]


def test_a_library_exports_its_functions_alone_and_needs_no_python():
    listed = subprocess.run(
        ["nm", "-D", "--defined-only", library()], capture_output=True, text=True, check=True
    )
    names = {line.split()[-1] for line in listed.stdout.splitlines()}
    assert names == {"__tvm_ffi_scale", "__tvm_ffi_block_sum", "__tvm_ffi_sums"}
    wanted = subprocess.run(
        ["nm", "-D", "--undefined-only", library()], capture_output=True, text=True, check=True
    )
    assert not [line for line in wanted.stdout.splitlines() if " Py" in line or " _Py" in line]
