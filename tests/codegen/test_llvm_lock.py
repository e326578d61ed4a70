# SPDX-License-Identifier: Apache-2.0
"""llvmlite's lock is free after whatever interrupts, in a forked child too; and nobody gets it after the end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import llvmlite.binding as llvm
import pytest
from llvmlite.binding import ffi

from weft.codegen.llvm.optimize import initialize


class Interrupt(BaseException):
    pass


@pytest.fixture(autouse=True)
def llvm_is_guarded():
    initialize("native")


def interrupted(call, step):
    """Whether an exception, raised as a signal's handler would at the step-th line around the lock, came through."""
    seen, last = 0, {}

    def trace(frame, event, _argument):
        nonlocal seen
        if not frame.f_code.co_filename.endswith(("llvm_lock.py", "ffi.py")):
            return None
        line = frame.f_lineno
        # Where a `with` ends its own line comes once more, before a handler can run.
        if event == "line" and line >= last.get(frame, 0):
            last[frame] = line
            seen += 1
            if seen == step:
                raise Interrupt
        return trace

    sys.settrace(trace)
    try:
        call()
    except Interrupt:
        return True
    finally:
        sys.settrace(None)
    return False


def test_an_exception_at_any_line_of_a_call_leaves_the_lock_free():
    step = 1
    while interrupted(llvm.initialize_native_target, step):
        assert in_another_thread(llvm.initialize_native_target), f"step {step}"
        step += 1
    assert step > 4


def in_another_thread(call) -> bool:
    """Whether the call ends there."""
    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(20)
    return not thread.is_alive()


def test_what_others_registered_with_llvmlite_is_still_called():
    seen = []
    acquired, released = (lambda: seen.append("acquired")), (lambda: seen.append("released"))
    ffi.register_lock_callback(acquired, released)
    try:
        llvm.get_host_cpu_name()
    finally:
        ffi.unregister_lock_callback(acquired, released)
    assert seen[:2] == ["acquired", "released"]
    seen.clear()
    llvm.get_host_cpu_name()
    assert seen == []


def test_a_fork_waits_for_the_call_of_another_thread_and_the_child_has_the_lock():
    inside, go_on = threading.Event(), threading.Event()

    def hold():
        with ffi.lib._lock:
            inside.set()
            go_on.wait(20)

    thread = threading.Thread(target=hold)
    thread.start()
    assert inside.wait(20)
    threading.Timer(0.2, go_on.set).start()
    child = os.fork()
    if child == 0:
        signal.alarm(20)  # ends a child that hangs
        llvm.get_process_triple()
        os._exit(0 if go_on.is_set() else 1)
    assert os.waitpid(child, 0)[1] == 0
    thread.join(20)
    assert in_another_thread(llvm.get_process_triple)


END = """
import threading, time
from weft.codegen.llvm.optimize import initialize
import llvmlite.binding as llvm
initialize("native")
called = [0]
def call_for_ever():
    while True:
        llvm.get_host_cpu_name()
        called[0] += 1
threading.Thread(target=call_for_ever, daemon=True).start()
while called[0] < 10:
    time.sleep(0.001)
"""


def test_the_interpreters_end_waits_for_llvm_and_does_not_hang():
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", END],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
