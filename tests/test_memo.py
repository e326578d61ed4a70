# SPDX-License-Identifier: Apache-2.0
"""A kept value is one object, also for threads that come first together."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

import weft
from weft.backends.cuda.target import cuda_machine
from weft.backends.host import host_machine
from weft.backends.registry import find_backend
from weft.codegen.llvm import optimize
from weft.compiler.bare_launch import BareHost
from weft.memo import kept

THREADS = 8


def together(action):
    """Run the action, and return its results, to threads that call it at the same time."""
    barrier, results = threading.Barrier(THREADS), []

    def run():
        barrier.wait()
        results.append(action())

    threads = [threading.Thread(target=run) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == THREADS
    return results


def test_threads_that_come_first_together_get_one_object():
    made = []

    @kept
    def make(name):
        time.sleep(0.05)  # so that all of them find nothing
        made.append([name])
        return made[-1]

    results = together(lambda: make("a"))
    assert len(made) > 1
    assert len({id(result) for result in results}) == 1
    assert make("b") == ["b"] and make("a") is results[0]


def test_an_exception_is_not_kept():
    outcomes = iter([OSError("not now"), 7])

    @kept
    def make():
        outcome = next(outcomes)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    with pytest.raises(OSError, match="not now"):
        make()
    assert make() == make() == 7


SINGLE = {
    "LLJIT": (optimize._compiler, (False,)),
    "numbers of libraries": (optimize._numbers, ()),
    "host machine": (host_machine, ()),
    "GPU's machine": (cuda_machine, ("sm_87",)),
    "backend": (find_backend, ("cuda",)),
}


@pytest.mark.parametrize("name", SINGLE)
def test_what_must_be_one_in_a_process_is_one(name):
    single, arguments = SINGLE[name]
    make, before = single._function, single._results
    single._results = {}

    def slowly(*given):
        time.sleep(0.02)
        return make(*given)

    single._function = slowly
    try:
        assert len({id(result) for result in together(lambda: single(*arguments))}) == 1
    finally:
        single._function, single._results = make, before


def test_a_kernel_has_one_host_function_for_its_bare_launches(monkeypatch):
    @weft.kernel
    def fill(a: weft.Tensor):
        a[weft.thread_idx.x] = 1

    prepare = BareHost.__init__

    def slowly(self, *arguments):
        time.sleep(0.02)
        prepare(self, *arguments)

    monkeypatch.setattr(BareHost, "__init__", slowly)
    hosts = together(
        lambda: (fill[1, 4](np.zeros(4, np.float32)), vars(fill)["_bare_host_grid"])[1]
    )
    assert len({id(host) for host in hosts}) == 1
