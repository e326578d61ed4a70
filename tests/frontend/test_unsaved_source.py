# SPDX-License-Identifier: Apache-2.0
"""Functions without a file: typed at Python's prompt, given with `-c`, or read from standard input."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time

import pytest

from weft.frontend import source

PROGRAM = """\
import weft, numpy
@weft.kernel
def fill_kernel(out: weft.Tensor, value: weft.i32):
    i = weft.thread_idx.x
    if i < 4:
        out[i] = double(i) * value

def double(x):
    return x * 2

plus = lambda x, y: x + y
@weft.jit
def fill(out: weft.Tensor, value: weft.i32):
    fill_kernel(out, plus(value, 1)).launch(grid=1, block=32)

out = numpy.zeros(4, numpy.int32)
fill(out, 4); print("result", out.tolist())
"""
RESULT = "result [0, 10, 20, 30]"


def test_a_program_given_with_c_compiles():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60
    )
    assert RESULT in done.stdout, done.stderr


def test_a_program_that_is_standard_input_compiles(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    with path.open() as file:
        done = subprocess.run(
            [sys.executable, "-"], stdin=file, capture_output=True, text=True, timeout=60
        )
    assert RESULT in done.stdout, done.stderr


def test_functions_typed_at_the_prompt_compile(tmp_path):
    """In a terminal, where Python keeps what was typed in its history."""
    child, terminal = pty.fork()
    if child == 0:
        environment = os.environ | {"HOME": str(tmp_path), "TERM": "dumb", "PYTHON_BASIC_REPL": "1"}
        os.execve(sys.executable, [sys.executable, "-i", "-q"], environment)
    seen = b""
    deadline = time.monotonic() + 60

    def read_until(words: bytes) -> None:
        nonlocal seen
        while words not in seen and time.monotonic() < deadline:
            if select.select([terminal], [], [], 0.2)[0]:
                try:
                    seen += os.read(terminal, 4096)
                except OSError:
                    return

    try:
        read_until(b">>> ")
        for line in PROGRAM.splitlines():
            os.write(terminal, line.encode() + b"\n")
        read_until(b"result [")
        read_until(b"30]")
    finally:
        os.close(terminal)
        os.kill(child, 9)
        os.waitpid(child, 0)
    assert RESULT.encode() in seen, seen.decode(errors="replace")[-2000:]


HISTORY = [
    "def f(x):",
    "    return x + 1",
    "x = 3",
    "if x:",
    "    def g(y):",
    "        return y",
    "else:",
    "    pass",
    "@staticmethod",
    "def f(x):",
    "    return (x +",
    "2)",
]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("def f(x):\n    return x + 1\n", "f"),
        ("if x:\n    def g(y):\n        return y\nelse:\n    pass\n", "g"),
        ("@staticmethod\ndef f(x):\n    return (x +\n2)\n", "f"),
    ],
)
def test_statements_are_found_in_the_history_by_compiling_them(monkeypatch, text, name):
    monkeypatch.setattr(source, "_history", lambda: HISTORY)
    monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
    namespace = {"x": 1}
    exec(compile(text, "<stdin>", "exec", dont_inherit=True), namespace)
    function = getattr(namespace[name], "__func__", namespace[name])
    assert "".join(source.find_unsaved(function.__code__)) == text


def test_a_statement_lost_from_history_is_not_guessed(monkeypatch):
    monkeypatch.setattr(source, "_history", lambda: HISTORY)
    monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
    namespace = {}
    exec(compile("def f(x):\n    return x + 7\n", "<stdin>", "exec"), namespace)
    assert source.find_unsaved(namespace["f"].__code__) == []
