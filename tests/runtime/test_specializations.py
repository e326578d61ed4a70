# SPDX-License-Identifier: Apache-2.0
"""Whose turn it is to compile: no thread waits forever, whatever interrupts, calls back or forks."""

from __future__ import annotations

import os
import signal
import sys
import threading

import pytest

from weft.errors import UnavailableError
from weft.runtime import specializations
from weft.runtime.specializations import Specializations


class Interrupt(BaseException):
    pass


class Compiled:
    captured = ()
    constant_positions = ()

    def __call__(self, *arguments):
        return arguments


def function(a):
    return a


def make(on_compile=lambda: None):
    compilations = []

    def compile_for(arguments):
        compilations.append(arguments)
        on_compile()
        return Compiled()

    return Specializations(function, compile_for), compilations


def call_in_threads(*calls):
    """Calls each in a thread of its own; whether all have ended."""
    threads = [threading.Thread(target=call, daemon=True) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    return not any(thread.is_alive() for thread in threads)


def interrupted(call, step):
    """Whether an exception, raised as a signal's handler would at the step-th line of the module, came through."""
    seen = 0

    def trace(frame, event, _argument):
        nonlocal seen
        if frame.f_globals.get("__name__") != specializations.__name__:
            return None
        seen += event == "line"
        if event == "line" and seen == step:
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


@pytest.mark.parametrize("first", [True, False])
def test_an_exception_leaves_other_threads_free_to_compile(first: bool):
    step = 1
    while True:
        shared, _ = make()
        if not first:
            shared.call((1.5,), {})
        if not interrupted(lambda shared=shared: shared.call((1,), {}), step):
            break
        assert call_in_threads(lambda shared=shared: shared.call((1,), {})), f"line {step}"
        assert shared.call((1,), {}) == (1,)
        step += 1
    assert step > 15


@pytest.mark.parametrize("first", [True, False])
def test_mutual_compilations_do_not_deadlock(first: bool):
    both = threading.Barrier(2)
    waited = threading.local()

    def meet(other):
        if not hasattr(waited, "once"):
            waited.once = True
            both.wait(20)
        other().call((1,), {})

    one, _ = make()
    two, _ = make()
    if not first:
        one.call((1.5,), {})
        two.call((1.5,), {})
    # Only the threads' own first compilations call over, or they would need themselves.
    calls = []

    def crossing(mine, other):
        compile_for = mine._compile

        def compile_and_cross(arguments):
            if not hasattr(waited, "crossed"):
                waited.crossed = True
                meet(lambda: other)
            return compile_for(arguments)

        mine._compile = compile_and_cross
        return lambda: calls.append(mine.call((1,), {}))

    assert call_in_threads(crossing(one, two), crossing(two, one))
    assert calls == [(1,), (1,)]


def test_a_waiting_thread_compiles_nothing_twice():
    start = threading.Barrier(4)
    shared, compilations = make(lambda: threading.Event().wait(0.05))

    def call():
        start.wait()
        shared.call((1,), {})

    assert call_in_threads(call, call, call, call)
    assert len(compilations) == 1


def test_after_a_failure_threads_wait_for_the_next_compilation():
    waiting, failing, compiling, go_on = (threading.Event() for _ in range(4))
    running, at_once = [], []

    def compile_slowly():
        running.append(None)
        at_once.append(len(running))
        try:
            if not failing.is_set():
                failing.set()
                assert waiting.wait(20)
                raise RuntimeError("the first compilation fails")
            compiling.set()
            go_on.wait(0.2)
        finally:
            running.pop()

    failed, compilations = make(lambda: armed and compile_slowly())
    armed = False
    failed.call((1.5,), {})
    armed = True

    def first():
        with pytest.raises(RuntimeError, match="the first compilation fails"):
            failed.call((1,), {})

    def second():
        assert failing.wait(20)
        lock = next(iter(failed._locks.values()))
        take = lock.take
        lock.take = lambda compile_it: (waiting.set(), take(compile_it))[1]
        failed.call((1,), {})

    def third():
        assert compiling.wait(20)
        failed.call((1,), {})
        go_on.set()

    assert call_in_threads(first, second, third)
    assert max(at_once) == 1
    assert len(compilations) == 3  # with the call that armed it
    assert not failed._locks


def test_a_circle_of_compilations_is_an_error():
    circle = []
    for number in range(3):
        circle.append(make(lambda number=number: circle[(number + 1) % 3][0].call((1,), {})))
    with pytest.raises(
        UnavailableError, match="function was called by code that its own compilation"
    ):
        circle[0][0].call((1,), {})


@pytest.mark.parametrize("first", [True, False])
def test_a_child_compiles_what_its_parent_was_compiling(first: bool):
    inside, go_on = threading.Event(), threading.Event()

    def block():
        inside.set()
        go_on.wait(20)

    shared, _ = make(lambda: None if os.getpid() != parent else block())
    parent = os.getpid()
    if not first:
        go_on.set()
        shared.call((1.5,), {})
        inside.clear()
        go_on.clear()
    thread = threading.Thread(target=shared.call, args=((1,), {}))
    thread.start()
    assert inside.wait(20)
    child = os.fork()
    if child == 0:
        signal.alarm(20)  # ends a child that hangs
        code = 1
        try:
            code = 0 if shared.call((1,), {}) == (1,) else 2
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    go_on.set()
    thread.join(20)
