# SPDX-License-Identifier: Apache-2.0
"""What importing weft may not load, seen in fresh interpreters: this one has loaded everything."""

from __future__ import annotations

import pytest

from tests.architecture.source_tree import run_python

COMPILER = ["xdsl", "llvmlite"]
# Slow to import (13 to 49 ms together), so the rooms that a call needs do without them.
SLOW = ["dataclasses", "inspect", "importlib.metadata"]
ROOMS = ["runtime", "driver", "ffi", "types", "errors", "location", "config"]
FOREIGN = ["numpy", "torch", "tvm_ffi", "cupy", "jax"]
LOADED = "print(*(name for name in {names!r} if name in sys.modules))"


def loaded_after(statement: str, names: list[str]) -> list[str]:
    return run_python(f"import sys\n{statement}\n{LOADED.format(names=names)}").split()


@pytest.mark.parametrize(
    "room",
    ["weft", *(f"weft.{room}" for room in ROOMS)],
)
def test_importing_a_runtime_room_loads_no_compiler(room: str):
    assert loaded_after(f"import {room}", COMPILER + SLOW + FOREIGN) == []


def test_naming_the_kernel_language_loads_no_compiler():
    statement = "from weft import thread_idx, printf, atomic_add, math, f32, Tensor, sym"
    assert loaded_after(statement, COMPILER + FOREIGN) == []


def test_decorating_a_function_loads_no_compiler():
    statement = (
        "import weft\n@weft.jit\ndef host(n: weft.i32): pass\n@weft.kernel\ndef kernel(): pass"
    )
    assert loaded_after(statement, COMPILER + FOREIGN) == []


def test_compiling_and_running_need_no_array_library():
    libraries = [name for name in FOREIGN if name != "tvm_ffi"]  # its files are looked for
    statement = (
        f"for name in {libraries!r}: sys.modules[name] = None  # cannot be imported\n"
        "from benchmarks.first_result import add_one, main, weft\n"
        "main()\n"
        "vector = weft.fake_tensor(weft.f32, ('n',))\n"
        "assert 'FADD' in weft.compile(add_one, vector, vector, options='--gpu-arch sm_90a').sass\n"
        f"for name in {libraries!r}: del sys.modules[name]"
    )
    assert loaded_after(statement, FOREIGN) == []


def test_importing_weft_installs_no_signal_handler():
    handlers = "tuple(signal.getsignal(number) for number in signal.valid_signals())"
    code = f"import signal\nbefore = {handlers}\nimport weft.runtime\nassert before == {handlers}"
    assert run_python(code) == ""


def test_importing_weft_opens_neither_the_driver_nor_tvm_ffi():
    code = "import weft, weft.runtime, weft.driver\nprint(open('/proc/self/maps').read())"
    maps = run_python(code)
    assert "libcuda" not in maps
    assert "libtvm_ffi" not in maps


def test_importing_weft_starts_no_thread():
    code = "import os, weft, weft.runtime\nprint(len(os.listdir('/proc/self/task')))"
    assert run_python(code).strip() == "1"


def test_public_names_are_listed_without_importing_them():
    statement = "import weft\nassert 'thread_idx' in dir(weft)\nassert 'compile' in weft.__all__"
    assert loaded_after(statement, COMPILER + SLOW) == []


def test_an_unknown_name_suggests_the_nearest_one():
    code = "import weft\ntry: weft.thread_id\nexcept AttributeError as error: print(error)"
    assert "thread_idx" in run_python(code)
