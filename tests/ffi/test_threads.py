# SPDX-License-Identifier: Apache-2.0
"""Sixteen threads call one function, and sixteen; objects are released wherever they are dropped."""

from __future__ import annotations

import gc
import sys
import threading

import numpy as np
import pytest

from weft import ffi

THREADS = 16


def run_all(work, count=THREADS):
    """Runs work(index) on so many threads at once; raises what the first of them raised."""
    failures, barrier = [], threading.Barrier(count)

    def start(index):
        try:
            barrier.wait()
            work(index)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=start, args=(index,)) for index in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


@pytest.fixture(autouse=True)
def many_switches():
    former = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(former)


@pytest.mark.parametrize("release_gil", [True, False])
def test_sixteen_threads_call_one_function(library, release_gil):
    echo = library.get_function("echo")
    echo.release_gil = release_gil
    array = np.zeros(3)

    def work(index):
        for number in range(300):
            assert echo(index * 1000 + number) == index * 1000 + number
            assert echo(array) is array
            assert echo(f"text of thread {index}") == f"text of thread {index}"
            assert echo((index, [number])) == (index, [number])

    run_all(work)


def test_sixteen_threads_call_functions_of_their_own(library):
    functions = [
        ffi.wrap_function(lambda value, index=index: value + index) for index in range(THREADS)
    ]

    def work(index):
        for number in range(300):
            assert library.apply(functions[index], number) == number + index

    run_all(work)


def test_threads_that_python_has_not_made_call_one_callback(library):
    total = library.sum_on_threads(lambda worker, call: call, THREADS, 100)
    assert total == THREADS * sum(range(100))


def test_errors_of_threads_are_their_own(library):
    def work(index):
        def fail():
            raise ValueError(f"of thread {index}")

        for _ in range(100):
            with pytest.raises(ValueError, match=f"^of thread {index}$"):
                library.rethrow(fail)

    run_all(work)


def test_streams_of_threads_are_their_own():
    def work(index):
        for number in range(100):
            with ffi.use_stream(index * 1000 + number + 1, "cuda:0"):
                assert ffi.current_stream("cuda:0") == index * 1000 + number + 1

    run_all(work)


def test_objects_are_passed_between_threads_and_dropped_there(library):
    gc.collect()
    before = library.counters_alive()
    passed: list = []
    lock = threading.Lock()

    def work(index):
        for number in range(200):
            with lock:
                passed.append(library.make_counter(number, "passed on"))
                if len(passed) > 50:
                    passed.pop(index % len(passed))

    run_all(work)
    passed.clear()
    gc.collect()
    assert library.counters_alive() == before


def test_one_list_is_changed_by_all_under_the_program_s_own_lock():
    shared, lock = ffi.List(), threading.Lock()

    def work(index):
        for number in range(50):
            with lock:
                shared.append(index * 1000 + number)

    run_all(work, 8)
    assert sorted(shared) == sorted(
        index * 1000 + number for index in range(8) for number in range(50)
    )


def test_types_are_learned_by_all_threads_at_once(library):
    classes = [type(f"Tuple{index}", (tuple,), {}) for index in range(50)]

    def work(_index):
        for made in classes:
            value = made((1, 2))
            assert library.echo(value) is value

    run_all(work)
