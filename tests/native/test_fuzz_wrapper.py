# SPDX-License-Identifier: Apache-2.0
"""A wrapper of every kind of argument stands random ones, under the address sanitizer.

Each run takes another seed, which a failure prints. `WEFT_TEST_FUZZ_CALLS` sets the number of calls; the default is
what a few seconds allow.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

from tests.ffi_wrapper.wrapped import Parameter, llvm_text, module_of, signature_of
from weft.arguments.pointer import Pointer
from weft.arguments.shape import Shape
from weft.arguments.stream import Stream
from weft.arguments.tensor_spec import Tensor, fake_tensor
from weft.backends.host import host_machine
from weft.codegen.llvm.optimize import emit_object, parse
from weft.dialects.ffi.function import argument_result, none_result, scalar_result, tuple_result
from weft.ffi.library import find_ffi_library
from weft.types.dims import sym
from weft.types.dtype import bf16, bool_, f8e4m3, f16, f32, f64, i8, i32, i64, u8, u64

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
CALLS = int(os.environ.get("WEFT_TEST_FUZZ_CALLS", "1000000"))
SOURCES = ("failure", "describe", "scalar", "shape", "array")
VECTOR = Tensor[f32, ("n",)]


def host_object() -> bytes:
    """The wrapper of `f`, whose parameters fuzz_wrapper.cpp knows by position."""
    annotations = (
        Tensor[f32, ("n", 4), "strided"],
        VECTOR,
        Tensor[u8, (None, None), "inner"],
        i8,
        u64,
        f16,
        f32,
        bool_,
        None,
        Shape["n", None, 3],
        Pointer[f32, "global", 16],
        tuple[i32, tuple[VECTOR, f64], Shape["m"]],
        Stream,
        Tensor[bf16, ()],
        fake_tensor(
            f32,
            (sym("k", divisibility=2, width=64), "n"),
            strides=(sym("s", divisibility=2, width=64), 1),
            alignment_bytes=8,
        ),
        f8e4m3,
        i64,
    )
    parameters = [
        Parameter(name, spec) for name, spec in zip("abcdefghijklmnopq", annotations, strict=True)
    ]
    results = (("dim", "a", 0), "d", "e", "f", "h", "p", "q", ("dim", "o", 0))
    tree = tuple_result(
        [
            scalar_result(0, i32),
            argument_result("b"),
            tuple_result([scalar_result(1, i8), argument_result("l[1][0]"), none_result()]),
            scalar_result(2, u64),
            scalar_result(3, f16),
            scalar_result(4, bool_),
            scalar_result(5, f8e4m3),
            scalar_result(6, i64),
            scalar_result(7, i64),
        ]
    )
    text = llvm_text(module_of(signature_of("f", *parameters), results, tree))
    return emit_object(parse(text, "host"), host_machine().machine)


@pytest.fixture(scope="module")
def fuzzer(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("fuzzer")
    (folder / "host.o").write_bytes(host_object())
    ffi = Path(find_ffi_library())
    compiler = os.environ.get("CXX") or shutil.which("c++") or "g++"
    flags = ["-std=c++17", "-O1", "-g", "-no-pie", "-fno-omit-frame-pointer", "-Wall", "-Wextra"]
    flags += ["-Werror", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"]
    flags += [f"-I{ROOT / 'native'}", f"-I{ROOT / 'native' / 'include'}"]
    flags += ["-isystem", str(ffi.parent.parent / "include")]
    flags += ["-isystem", sysconfig.get_path("include")]
    sources = [ROOT / "native" / "runtime" / f"{name}.cpp" for name in SOURCES]
    sources += [
        ROOT / "native" / "ffi_types.cpp",
        ROOT / "native" / "exported" / "no_interpreter.cpp",
    ]
    target = folder / "fuzz_wrapper"
    files = [Path(__file__).with_name("fuzz_wrapper.cpp"), *sources, folder / "host.o", ffi]
    command = [compiler, *flags, *map(str, files), f"-Wl,-rpath,{ffi.parent}", "-o", str(target)]
    subprocess.run(command, check=True)
    return target


def test_random_arguments_neither_crash_nor_leak(fuzzer: Path):
    seed = random.randrange(1 << 32)
    done = subprocess.run(
        [str(fuzzer), str(CALLS), str(seed)],
        capture_output=True,
        text=True,
        env={**os.environ, "ASAN_OPTIONS": "detect_leaks=1"},
    )
    assert done.returncode == 0, f"seed {seed}: {done.stderr[-4000:]}"
    calls, succeeded = map(int, re.findall(r"\d+", done.stdout))
    # Neither kind of call is rare, or there was nothing to find.
    assert calls == CALLS
    assert 0.1 * CALLS < succeeded < 0.9 * CALLS
