# SPDX-License-Identifier: Apache-2.0
"""llvmlite's lock is free after whatever interrupts, in a forked child too; and no thread gets it after the end."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading

import llvmlite.binding as llvm
import pytest
from llvmlite.binding import ResourceTracker, ffi

import weft
from weft.codegen.llvm import optimize
from weft.codegen.llvm.optimize import emit_object, initialize, load_with_lljit, parse, run_pipeline


@pytest.fixture(autouse=True)
def llvm_is_guarded():
    initialize("native")


def made_and_disposed():
    """Every kind of object that a compilation makes, and that goes where its last reference goes."""
    module = parse("define i32 @f() {\n ret i32 3\n}", "test")
    machine = llvm.Target.from_default_triple().create_target_machine(reloc="pic")
    run_pipeline(module, machine, 1, vectorize=False)
    load_with_lljit(emit_object(module, machine), ["f"]).close()


def test_no_line_of_python_runs_while_the_lock_is_held():
    made_and_disposed()
    calls, held = 0, []

    def trace(frame, event, _argument):
        nonlocal calls
        calls += event == "call" and frame.f_code.co_name == "_dispose"
        if ffi.lib._lock._lock._is_owned():
            held.append((frame.f_code.co_filename, frame.f_lineno))
        return trace

    sys.settrace(trace)
    try:
        made_and_disposed()
    finally:
        sys.settrace(None)
    assert calls > 3 and held == []


@pytest.fixture
def raise_in_llvm():
    """Has a signal arrive in a call of llvmlite's library, which its lock is held around."""
    library = ctypes.CDLL(None)
    ffi.lib._fntab["weft_raise"] = ffi._lib_fn_wrapper(ffi.lib._lock, library["raise"])
    yield lambda: ffi.lib.weft_raise(int(signal.SIGUSR1))
    del ffi.lib._fntab["weft_raise"]


@pytest.fixture
def handler():
    """Sets the handler of the signal, and ends a test that hangs."""

    def hangs(*_):
        raise TimeoutError

    before = signal.getsignal(signal.SIGUSR1), signal.signal(signal.SIGALRM, hangs)
    signal.alarm(20)
    yield lambda call: signal.signal(signal.SIGUSR1, call)
    signal.alarm(0)
    signal.signal(signal.SIGUSR1, before[0])
    signal.signal(signal.SIGALRM, before[1])


def test_a_handler_may_compile_where_it_interrupts_a_disposal(raise_in_llvm, handler, monkeypatch):
    monkeypatch.setattr(
        optimize, "KNOWS_THIS_MACHINE", False
    )  # weft's linker disposes of nothing in LLVM
    function, kept, seen = compiled(), compiled(), []
    dispose = ResourceTracker._dispose

    def interrupted(tracker):
        monkeypatch.setattr(ResourceTracker, "_dispose", dispose)
        raise_in_llvm()
        dispose(tracker)

    monkeypatch.setattr(ResourceTracker, "_dispose", interrupted)
    handler(lambda *_: seen.append(compiled()(20)))
    del function
    assert seen == [21] and kept(1) == 2


def test_a_handler_that_raises_leaves_the_lock_free(raise_in_llvm, handler):
    def stop(*_):
        raise KeyboardInterrupt

    handler(stop)
    with pytest.raises(KeyboardInterrupt):
        raise_in_llvm()
    assert in_another_thread(llvm.get_host_cpu_name)


def test_a_handler_may_compile_within_what_others_registered(handler):
    seen = []
    handler(lambda *_: seen.append(compiled()(1)))
    once = iter([None])
    acquired = lambda: [signal.raise_signal(signal.SIGUSR1) for _ in once]
    released = lambda: None
    ffi.register_lock_callback(acquired, released)
    try:
        llvm.get_host_cpu_name()
    finally:
        ffi.unregister_lock_callback(acquired, released)
    assert seen == [2]


def test_what_is_registered_may_raise_and_the_lock_is_free(handler):
    def refuse():
        raise LookupError("mine")

    for pair in ((refuse, list), (list, refuse)):
        ffi.register_lock_callback(*pair)
        try:
            with pytest.raises(LookupError, match="mine"):
                llvm.initialize_native_target()
        finally:
            ffi.unregister_lock_callback(*pair)
        assert in_another_thread(llvm.get_host_cpu_name)


def test_a_wrong_call_raises_and_the_lock_is_free():
    with pytest.raises(ctypes.ArgumentError):
        ffi.lib.LLVMPY_ContextDispose("no context")
    assert in_another_thread(llvm.get_host_cpu_name)


def compiled():
    """A new function that adds 1."""

    @weft.jit
    def add_one(x: weft.i32):
        return x + 1

    return weft.compile(add_one)


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


def test_a_fork_waits_for_another_threads_call():
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


LATE = """
import atexit
import weft

@weft.jit
def add_one(x: weft.i32):
    return x + 1

atexit.register(lambda: print(weft.compile(add_one)(1), flush=True))  # runs after what weft registers
weft.compile(add_one)
"""


def test_a_function_may_be_compiled_while_the_interpreter_ends(tmp_path):
    program = tmp_path / "late.py"
    program.write_text(LATE)
    done = subprocess.run(
        [sys.executable, program], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "2\n", "")
