# SPDX-License-Identifier: Apache-2.0
"""Every example on a real GPU gives what NumPy gives, from arrays of any strides, on each executor.

In: the catalog of examples, memory of the driver's own. Out: results, compared with the references.
"""

from __future__ import annotations

import functools

import pytest

import weft
from examples.catalog import EXAMPLES
from examples.common import Example, largest_error
from tests.gpu.device_memory import fetch_all, on_device

pytestmark = pytest.mark.gpu


def check(example: Example, call) -> None:
    """Runs an example on copies of its arguments and compares each output."""
    arguments = example.make_arguments(example.test_size)
    expected = example.reference(**arguments)
    given = {name: on_device(value) for name, value in arguments.items()}
    call(given)
    fetch_all(given.values())
    for name, array in expected.items():
        assert largest_error(arguments[name], array) <= example.tolerance, name


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_a_direct_call_gives_what_numpy_gives(example: Example):
    check(example, lambda given: example.function(**given))


@functools.cache
def compiled(name: str, executor: str):
    example = next(example for example in EXAMPLES if example.name == name)
    values = example.make_arguments(example.test_size).values()
    given = [on_device(value) for value in values]
    return weft.compile(example.function, *given, options=f"--executor {executor}")


@pytest.mark.parametrize("executor", ["context", "library", "tvm-ffi"])
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_each_executor_gives_what_numpy_gives(example: Example, executor: str):
    function = compiled(example.name, executor)
    assert function.executor.name == executor
    check(example, lambda given: function(**example.call_arguments(given)))
