# SPDX-License-Identifier: Apache-2.0
"""The interpreter's end finds threads and finalizers anywhere in weft, and the process ends well."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.sampling import sampled

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
    sampled(
        [
            "code_image",
            "callback_goes",
            "callback_in_a_callback",
            "callback_runs",
            "argument_is_read",
        ],
        4,
    ),
)
def test_a_daemon_thread_at_exit_does_no_harm(where: str):
    assert end_of(PROGRAM, where) == (0, "", "")


FINALIZERS = """
import io, sys, types
import weft
from weft import driver, ffi

out = sys.stdout

class AtTheEnd:
    def __init__(self, *names):
        self.names = names
        self.callback = ffi.wrap_function(lambda x: x + 1)
    def __del__(self):
        for name in self.names:
            try:
                got = getattr(driver if name.startswith("driver.") else ffi, name.rpartition(".")[2])
            except ImportError as error:
                got = str(error).split(";")[0]
            out.write(f"{name}: {got if isinstance(got, str) else 'there'}\\n")
        out.write(f"callback: {self.callback(41)}\\n")

driver.load_binary
ffi.get_global
kept = AtTheEnd("driver.unload", "ffi.remove_global", "driver.TensorMap")
sys.modules["kept_elsewhere"] = types.ModuleType("kept_elsewhere")
sys.modules["kept_elsewhere"].value = AtTheEnd("driver.load_binary")
"""


def test_a_finalizer_calls_its_callback():
    code, out, err = end_of(FINALIZERS)
    assert (code, err) == (0, "")
    assert sorted(out.splitlines()) == [
        "callback: 42",
        "callback: 42",
        "driver.TensorMap: weft.driver.TensorMap is first used while the interpreter shuts down",
        "driver.load_binary: there",
        "driver.unload: there",
        "ffi.remove_global: there",
    ]


HELD = """
import sys
from weft import ffi

class Closes:
    def __del__(self):
        sys.stdout.write("finalized\\n")

value = Closes()
text = open(sys.argv[2], "w")
text.write("buffered")

def of_this_module(*_):
    return value

match sys.argv[1]:
    case "function":
        held = ffi.wrap_function(of_this_module)
    case "global":
        ffi.register_global("held.by_name", of_this_module)
    case "array":
        held = ffi.Array([ffi.wrap_function(of_this_module)])
    case "any":
        held = ffi.Any(ffi.wrap_function(of_this_module))
    case "dropped elsewhere":
        held = ffi.Map({"a": ffi.Array([ffi.wrap_function(of_this_module)])})
        sys.modules["held"] = held
    case "nothing":
        pass
"""


@pytest.mark.parametrize(
    "holder", ["function", "global", "array", "any", "dropped elsewhere", "nothing"]
)
def test_a_callback_held_at_exit_keeps_text_and_finalizer(holder: str, tmp_path):
    written = tmp_path / "text"
    assert end_of(HELD, holder, str(written)) == (0, "finalized\n", "")
    assert written.read_text() == "buffered"
