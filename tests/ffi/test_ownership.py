# SPDX-License-Identifier: Apache-2.0
"""References before and after each operation, with the garbage collector running at every allocation."""

from __future__ import annotations

import gc
import resource
import sys

import numpy as np
import pytest

from weft import ffi

pytestmark = pytest.mark.usefixtures("small_heap")


@pytest.fixture(params=["plain", "gc at every allocation"])
def repeat(request):
    """How often to repeat: less often where each allocation collects garbage."""
    former = gc.get_threshold()
    if request.param != "plain":
        gc.set_threshold(1)
    yield 20 if request.param == "plain" else 3
    gc.set_threshold(*former)


def raise_it(*_arguments):
    raise ValueError("raised")


OPERATIONS = {
    "echo": lambda library, value: library.echo(value),
    "describe": lambda library, value: library.describe(value),
    "callback": lambda library, value: library.apply(lambda given: None, value),
    "callback returns": lambda library, value: library.apply(lambda given: given, value),
    "callback raises": lambda library, value: library.apply(raise_it, value),
    "callback re-enters": lambda library, value: library.apply(library.echo, value),
    "callback drops": lambda library, value: library.apply(lambda v: gc.collect(0) and None, value),
    "kept and forgotten": lambda library, value: (
        library.keep_value(value),
        library.forget_value(),
    ),
    "forgotten on a thread": lambda library, value: (
        library.keep_value(value),
        library.forget_value_on_thread(),
    ),
    "any": lambda library, value: ffi.Any(value).take(),
    "any copied": lambda library, value: ffi.Any(value).copy(),
    "array": lambda library, value: ffi.Array([value, value])[1],
    "list": lambda library, value: ffi.List([value]).pop(),
    "map": lambda library, value: ffi.Map({"key": value})["key"],
    "wrong argument": lambda library, value: library.count_elements(value, value),
    "on a thread": lambda library, value: library.apply_on_thread(lambda given: None, value),
}
VALUES = {
    "array": lambda library: np.zeros((2, 3)),
    "view": lambda library: np.zeros((4, 6))[::2, ::2],
    "text": lambda library: "a text of more than seven bytes, " * 2,
    "bytes": lambda library: bytes(40),
    "big integer": lambda library: 3**99,
    "tuple": lambda library: (np.zeros(2), "a text of some length", [1, (2,)]),
    "dict": lambda library: {"a text of some length": np.zeros(2), 5: {"inner": 1}},
    "shape": lambda library: ffi.Shape((2, 3)),
    "buffer": lambda library: bytearray(9),
    "counter": lambda library: library.make_counter(1, "a counter of some name"),
    "shared list": lambda library: ffi.List([1, "two"]),
    "tensor": lambda library: ffi.from_dlpack(np.zeros(3)),
    "callable": lambda library: lambda *values: None,
    "function": lambda library: library.echo,
    "exception": lambda library: ValueError("a value"),
    "opaque": lambda library: object(),
}


@pytest.mark.joined
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("kind", VALUES)
def test_every_reference_is_given_back(library, repeat, operation, kind):
    value = VALUES[kind](library)
    run = OPERATIONS[operation]

    def once():
        try:
            run(library, value)
        except (TypeError, ValueError, RuntimeError):
            pass

    def counts():
        library.echo(0)  # what other threads dropped goes with the next call
        gc.collect()
        handle = value.reference_count if isinstance(value, ffi.Object) else 0
        return sys.getrefcount(value), handle

    for _ in range(3):
        once()
    before, counters = counts(), library.counters_alive()
    for _ in range(repeat):
        once()
    assert counts() == before
    assert library.counters_alive() == counters


def test_150_000_calls_keep_no_memory(library):
    array, text = np.zeros((2, 3)), "a text of more than seven bytes"
    echo, nothing = library.echo, ffi.wrap_function(lambda *values: None)

    def work(count):
        for _ in range(count):
            echo(array)
            echo(text)
            nothing(array, 1)

    work(2000)
    gc.collect()
    blocks, memory = sys.getallocatedblocks(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    work(50_000)
    gc.collect()
    assert sys.getallocatedblocks() - blocks < 100
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 2000  # kB


def test_objects_die_in_any_order(library):
    gc.collect()
    before = library.counters_alive()
    counters = [library.make_counter(index, "x") for index in range(100)]
    arrays = [ffi.Array([counter, counter]) for counter in counters]
    maps = ffi.Map({index: array for index, array in enumerate(arrays)})
    del counters[::2], arrays[1::2]
    assert library.counters_alive() == before + 100
    del maps
    del counters, arrays
    gc.collect()
    assert library.counters_alive() == before
