# SPDX-License-Identifier: Apache-2.0
"""The ends of a process: exit with live objects on both sides, fork, and what loading changes."""

from __future__ import annotations

import os
import sysconfig
from pathlib import Path

import pytest

from tests.ffi.building import FOLDER, build, run_python

PRELUDE = """
import gc, os, sys, threading
import numpy as np
from tests.ffi.building import build
from weft import ffi
library = ffi.load_module(build('library.cpp'))
"""


def test_nothing_is_released_into_an_interpreter_that_has_ended():
    run_python(
        PRELUDE + "library.keep_value([np.zeros(3), 'text of some length', lambda: 1, object()])\n"
        "library.keep_function(lambda: np.zeros(3))\n"
        "kept = ffi.from_dlpack(np.zeros(3))\n"
        "view = np.from_dlpack(kept)\n"
        "cycle = ffi.List([kept]); cycle.append(cycle)\n"
    )


def test_callbacks_at_process_exit_are_harmless():
    run_python(
        PRELUDE
        + "thread = threading.Thread(target=lambda: library.sum_on_threads(lambda a, b: 1, 4, 10**6), daemon=True)\n"
        "thread.start()\n"
        "import time; time.sleep(0.2)\n"
        "os._exit(0)\n"
    )


def test_a_forked_child_uses_and_releases_what_it_inherited():
    run_python(
        PRELUDE + "array, shared = np.arange(3.0), ffi.List([1])\n"
        "tensor = ffi.from_dlpack(array)\n"
        "function = ffi.wrap_function(lambda x: x + 1)\n"
        "library.keep_value(array); library.keep_function(function)\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    assert library.kept_value() is array\n"
        "    assert library.call_kept(1) == 2\n"
        "    assert np.from_dlpack(tensor).tolist() == [0, 1, 2]\n"
        "    shared.append(2)\n"
        "    library.forget_value_on_thread(); library.forget_function_on_thread()\n"
        "    del tensor, shared, function\n"
        "    gc.collect()\n"
        "    assert library.apply(lambda: 'in the child') == 'in the child'\n"
        "    sys.exit(0)\n"
        "assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0\n"
        "assert shared == [1]\n"
        "assert library.call_kept(1) == 2\n"
    )


def test_children_forked_while_threads_call_are_sound():
    run_python(
        PRELUDE + "stop = threading.Event()\n"
        "array = np.zeros(3)\n"
        "def work():\n"
        "    while not stop.is_set():\n"
        "        library.echo(array); library.apply(lambda: 1)\n"
        "threads = [threading.Thread(target=work) for _ in range(4)]\n"
        "[thread.start() for thread in threads]\n"
        "for _ in range(5):\n"
        "    child = os.fork()\n"
        "    if child == 0:\n"
        "        for _ in range(100):\n"
        "            library.echo(array); library.apply(lambda: 1)\n"
        "        os._exit(0)\n"
        "    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0\n"
        "stop.set()\n"
        "[thread.join() for thread in threads]\n",
    )


def test_loading_the_library_keeps_the_program_s_fault_handler():
    printed = run_python(
        "import ctypes, faulthandler\n"
        "faulthandler.enable()\n"
        "def handler():\n"
        "    action = (ctypes.c_uint64 * 20)()\n"
        "    ctypes.CDLL(None).sigaction(11, None, ctypes.byref(action))\n"
        "    return action[0]\n"
        "before = handler()\n"
        "from weft import ffi\n"
        "ffi.get_global('ffi.Array')\n"
        "assert handler() == before != 0\n"
        "print('same')\n"
    )
    assert printed == "same\n"


def test_the_room_needs_no_numpy_torch_or_tvm_ffi():
    run_python(
        "import sys\n"
        "from weft import ffi\n"
        "library_functions = ffi.list_global()\n"
        "made = ffi.Any([1, 'two', {'a': (2.5, None)}]).take()\n"
        "assert made == (1, 'two', {'a': (2.5, None)})\n"
        "assert ffi.wrap_function(lambda x: x + 1)(1) == 2\n"
        "tensor = ffi.from_dlpack(bytearray(4))\n"
        "assert tensor.shape == (4,)\n"
        "assert not {'numpy', 'torch', 'tvm_ffi', 'xdsl', 'llvmlite'} & set(sys.modules)\n"
        "try:\n"
        "    tensor.__tvm_ffi_object__()\n"
        "except RuntimeError as error:\n"
        "    assert 'not imported' in str(error)\n"
    )


def test_another_library_can_be_named():
    from weft.config import override
    from weft.ffi.library import find_ffi_library

    with override(libtvm_ffi="/opt/libtvm_ffi.so"):
        assert find_ffi_library() == "/opt/libtvm_ffi.so"


def test_the_gil_can_be_held_for_all_foreign_functions():
    program = "from weft import ffi\nprint(ffi.get_global('ffi.Array').release_gil)\n"
    assert run_python(program) == "True\n"
    assert run_python(program, WEFT_HOLD_GIL="1") == "False\n"


@pytest.mark.slow
def test_a_cpp_program_calls_functions_of_weft_and_outlives_them():
    folder, name = sysconfig.get_config_var("LIBDIR"), sysconfig.get_config_var("LDLIBRARY")
    if not (Path(folder) / name).exists() or not name.endswith(".so"):
        pytest.skip("needs another build of Python, with a shared library")
    program = build(
        "program.cpp",
        f"-I{sysconfig.get_path('include')}",
        f"-L{folder}",
        f"-l:{name}",
        f"-Wl,-rpath,{folder}",
        program=True,
    )
    import subprocess
    import sys

    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    environment["PYTHONHOME"] = sys.base_prefix
    result = subprocess.run(
        [str(program), str(FOLDER / "program.py")],
        capture_output=True,
        text=True,
        env=environment,
        timeout=100,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.splitlines() == [
        "1 2 3 4",
        "ValueError: shape[0] is 2, expected 4 to match a.shape[0]",
        "a-b-c",
        "42",
        "after the end: RuntimeError: a Python callback was called after the interpreter has ended",
        "1.5 2.5 3.5 4.5",
    ]
