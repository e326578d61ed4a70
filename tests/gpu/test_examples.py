# SPDX-License-Identifier: Apache-2.0
"""Every example on a real GPU gives what NumPy gives, from arrays of any strides, on each executor.

In: the catalog of examples, memory of the driver's own. Out: results, compared with the references.
"""

from __future__ import annotations

import functools

import pytest

import weft
from examples.catalog import EXAMPLES, HOPPER_EXAMPLES
from examples.common import Example, largest_error
from tests.gpu.device_memory import fetch_all, on_device
from weft.driver.device import device_properties

pytestmark = pytest.mark.gpu


# Those of Hopper's own instructions; each also runs on other GPUs that have them, but not all do.
ALL = (*EXAMPLES, *HOPPER_EXAMPLES)


def expect_instructions(example: Example) -> None:
    """Skips an example of Hopper's instructions on another GPU."""
    version = device_properties(0).compute_capability
    if example in HOPPER_EXAMPLES and version != (9, 0):
        pytest.skip(f"needs a GPU of compute capability 9.0, found {version}")


def check(example: Example, call) -> None:
    """Runs an example on copies of its arguments and compares each output."""
    expect_instructions(example)
    arguments = example.make_arguments(example.test_size)
    expected = example.reference(**arguments)
    given = {name: on_device(value) for name, value in arguments.items()}
    call(given)
    fetch_all(given.values())
    for name, array in expected.items():
        assert largest_error(arguments[name], array) <= example.tolerance, name


@pytest.mark.parametrize("example", ALL, ids=lambda example: example.name)
def test_a_direct_call_gives_what_numpy_gives(example: Example):
    check(example, lambda given: example.function(**given))


@functools.cache
def compiled(name: str, executor: str):
    example = next(example for example in ALL if example.name == name)
    values = example.make_arguments(example.test_size).values()
    given = [on_device(value) for value in values]
    return weft.compile(example.function, *given, options=f"--executor {executor}")


@pytest.mark.parametrize("executor", ["context", "library", "tvm-ffi"])
@pytest.mark.parametrize("example", ALL, ids=lambda example: example.name)
def test_each_executor_gives_what_numpy_gives(example: Example, executor: str):
    expect_instructions(example)
    function = compiled(example.name, executor)
    assert function.executor.name == executor
    check(example, lambda given: function(**example.call_arguments(given)))
