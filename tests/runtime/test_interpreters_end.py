# SPDX-License-Identifier: Apache-2.0
"""The interpreter's end finds threads and finalizers anywhere in weft, and the process ends well."""

from __future__ import annotations

import subprocess
import sys

import pytest

# A daemon thread is in Python code that weft runs when the interpreter begins to end, and wants to go on while it ends.
PROGRAM = """
import sys, threading, time, types
import weft
from weft import _native, ffi

class EndsSlowly:
    def __del__(self, sleep=time.sleep):
        sleep(0.8)

# Not in this module: its variables live as long as the thread.
sys.modules["ends_slowly"] = types.ModuleType("ends_slowly")
sys.modules["ends_slowly"].value = EndsSlowly()
inside = threading.Event()

def linger():
    inside.set()
    time.sleep(0.3)

class Lingers:
    def __del__(self):
        linger()
    def __call__(self):
        pass
    def __dlpack__(self):
        linger()
    def __dlpack_device__(self):
        return (1, 0)

def code_image():
    _native.CodeImage("name", {}, Lingers(), 0)

def callback_goes():
    ffi.wrap_function(Lingers())

def callback_runs():
    ffi.wrap_function(lambda x: linger())(1)

def callback_in_a_callback():
    ffi.wrap_function(lambda f: f(ffi.Array([1, 2])))(ffi.wrap_function(lambda x: linger()))

def argument_is_read():
    ffi.wrap_function(lambda x: x)(Lingers())

threading.Thread(target=globals()[sys.argv[1]], daemon=True).start()
assert inside.wait(20)
"""


def end_of(program: str, *arguments: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", program, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    "where",
    ["code_image", "callback_goes", "callback_runs", "callback_in_a_callback", "argument_is_read"],
)
def test_a_daemon_thread_that_wants_to_go_on_at_the_end_does_no_harm(where: str):
    assert end_of(PROGRAM, where) == (0, "", "")
