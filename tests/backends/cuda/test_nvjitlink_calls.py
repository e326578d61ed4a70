# SPDX-License-Identifier: Apache-2.0
"""Calls of nvJitLink run side by side; a fork waits for them, and the child makes its own."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from weft.backends.cuda.toolchain import Calls


def test_calls_run_side_by_side():
    calls, both = Calls(), threading.Barrier(2)
    threads = [threading.Thread(target=calls.run, args=(lambda: both.wait(20),)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not both.broken


def test_a_fork_waits_for_calls_and_the_child_makes_its_own():
    calls, inside, done = Calls(), threading.Event(), threading.Event()
    go_on = threading.Event()

    def call():
        inside.set()
        go_on.wait(20)
        done.set()

    thread = threading.Thread(target=calls.run, args=(call,))
    thread.start()
    assert inside.wait(20)
    threading.Timer(0.2, go_on.set).start()
    child = os.fork()
    if child == 0:
        signal.alarm(20)  # ends a child that hangs
        calls.run(lambda: None)
        os._exit(0 if done.is_set() else 1)
    assert os.waitpid(child, 0)[1] == 0
    calls.run(lambda: None)
    thread.join(20)


def test_a_call_that_fails_holds_nothing():
    calls = Calls()
    with pytest.raises(ZeroDivisionError):
        calls.run(lambda: 1 / 0)
    child = os.fork()
    if child == 0:
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    calls.run(lambda: None)
