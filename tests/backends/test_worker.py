# SPDX-License-Identifier: Apache-2.0
"""Calls on threads of their own: results, errors, context, signals, and no thread to be had."""

from __future__ import annotations

import gc
import signal
import threading
import time
import weakref
from contextvars import ContextVar

import pytest

from weft.backends.host import away_from_signals
from weft.worker import Worker

NUMBER: ContextVar[int] = ContextVar("NUMBER", default=0)


class Interrupt(BaseException):
    pass


def test_a_call_runs_on_another_thread_in_the_callers_context():
    NUMBER.set(3)
    worker = Worker(lambda: (threading.get_ident(), NUMBER.get()))
    thread, number = worker.result()
    assert (thread != threading.get_ident(), number) == (True, 3)


@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt, SystemExit, MemoryError])
def test_what_the_call_raises_is_raised_and_nothing_keeps_it(kind):
    def fail():
        raise kind("mine")

    kept = weakref.ref(fail)
    gc.disable()
    try:
        with pytest.raises(kind, match="mine"):
            away_from_signals(fail)
        del fail
        assert kept() is None
    finally:
        gc.enable()


def test_only_the_main_thread_needs_another():
    threads = []

    def work():
        threads.append(away_from_signals(threading.get_ident))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert threads == [thread.ident]
    assert away_from_signals(threading.get_ident) != threading.get_ident()


def test_without_another_thread_the_call_runs_here(monkeypatch):
    def start(*_):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("weft.worker.start_new_thread", start)
    assert away_from_signals(threading.get_ident) == threading.get_ident()
    with pytest.raises(ValueError, match="mine"):
        Worker(lambda: int("mine")).result()


@pytest.mark.slow
@pytest.mark.parametrize("kind", [Interrupt, RuntimeError])
def test_a_signal_during_the_start_is_raised_once(kind):
    calls = []

    def handle(*_):
        raise kind("of the handler")

    before = signal.signal(signal.SIGALRM, handle)
    gc.disable()  # what a handler raises inside a callback of the collector is only printed
    try:
        for step in range(300):
            with pytest.raises(kind, match="of the handler"):
                signal.setitimer(signal.ITIMER_REAL, (1 + step) * 1e-6)
                Worker(lambda step=step: calls.append(step)).result()
                time.sleep(1)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        gc.enable()
    assert len(calls) == len(set(calls))


def test_a_signal_ends_the_wait_and_never_the_call():
    steps = []
    end = threading.Event()

    def work():
        for step in range(20):
            steps.append(step)
            time.sleep(0.01)
        end.set()

    def handle(*_):
        raise Interrupt

    before = signal.signal(signal.SIGALRM, handle)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(Interrupt):
            away_from_signals(work)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert not end.is_set()
    assert end.wait(20)
    assert steps == list(range(20))
