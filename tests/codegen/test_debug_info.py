# SPDX-License-Identifier: Apache-2.0
"""Every instruction knows its Python line: in LLVM metadata, in gdb, in PTX."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from xdsl.dialects.builtin import CallSiteLoc, FileLineColLoc, IntAttr, StringAttr, UnknownLoc

from weft.codegen.llvm.debug_info import LINE_TABLES, DebugInfo
from weft.codegen.llvm.types import quoted

PROGRAM = """\
import numpy as np
import weft

def twice(x):
    return x + x

@weft.kernel
def kernel(a: weft.Tensor):
    i = weft.thread_idx.x
    a[i] = twice(a[i])

@weft.jit(options="--generate-line-info")
def host(a: weft.Tensor):
    kernel(a).launch(grid=1, block=8)

host(np.ones(8, np.float32))
print("finished")
"""


def place(line: int, file: str = "/home/user/kernels.py") -> FileLineColLoc:
    return FileLineColLoc(StringAttr(file), IntAttr(line), IntAttr(5))


def test_an_inlined_line_keeps_the_line_that_called_it():
    debug = DebugInfo(LINE_TABLES)
    scope = debug.subprogram("kernel", place(8))
    assert scope is not None
    suffix = debug.suffix(CallSiteLoc(place(5), place(10)), scope, "")
    text = debug.text()
    number = suffix.removeprefix(", !dbg !")
    (node,) = (line for line in text.splitlines() if line.startswith(f"!{number} = "))
    assert "line: 5" in node
    caller = node.split("inlinedAt: !")[1].rstrip(")")
    (call,) = (line for line in text.splitlines() if line.startswith(f"!{caller} = "))
    assert f"line: 10, column: 5, scope: !{scope}" in call


def test_equal_locations_share_one_node():
    debug = DebugInfo(LINE_TABLES)
    scope = debug.subprogram("kernel", place(8))
    assert scope is not None
    assert debug.suffix(place(9), scope, "") == debug.suffix(place(9), scope, "")
    assert debug.suffix(UnknownLoc(), scope, ", !dbg !1") == ", !dbg !1"


def test_a_function_without_a_place_has_no_scope():
    assert DebugInfo(LINE_TABLES).subprogram("kernel", UnknownLoc()) is None


@pytest.mark.parametrize("name", ['a"b.py', "größe.py", "back\\slash.py", "new\nline.py"])
def test_unusual_file_names_are_escaped(name: str):
    text = quoted(name)
    assert text[1:-1].isascii()
    assert text[1:-1].isprintable()
    assert text.count('"') == 2


@pytest.mark.skipif(shutil.which("gdb") is None, reason="needs gdb")
def test_gdb_stops_on_a_kernel_line_and_shows_the_inlined_call(tmp_path: Path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    commands = [
        "set breakpoint pending on",
        "set debuginfod enabled off",
        f"break {program}:5",
        "run",
        "backtrace 2",
    ]
    done = subprocess.run(
        [
            "gdb",
            "-q",
            "-batch",
            *(part for c in commands for part in ("-ex", c)),
            "--args",
            sys.executable,
            program,
        ],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert "hit Breakpoint 1" in done.stdout, done.stdout + done.stderr
    frames = [line for line in done.stdout.splitlines() if line.startswith("#")]
    assert "program.py:5" in frames[0]
    assert "twice ()" in frames[0]
    assert frames[1].endswith("kernel () at program.py:10") or f"{program}:10" in frames[1]
