# SPDX-License-Identifier: Apache-2.0
"""Every example, compiled for CUDA and called through the CUDA host path, gives what NumPy gives.

The fake driver reads each launch's parameters as the cubin lays them out and runs the kernel's CPU build on
them; its device memory is host memory, so a NumPy array can pose as a device array.
"""

from __future__ import annotations

import functools

import numpy as np
import pytest

from examples.catalog import EXAMPLES
from examples.common import Example, largest_error
from tests.native.fake_cuda.cpu_builds import Compiled
from tests.native.fake_cuda.fake import build, in_child, start


class DeviceArray:
    """A NumPy array that says it is in device memory."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    @property
    def __cuda_array_interface__(self) -> dict[str, object]:
        own = self.array.__array_interface__
        return {
            "version": 3,
            "shape": own["shape"],
            "typestr": own["typestr"],
            "data": own["data"],
            "strides": self.array.strides,
            "stream": 1,
        }


def on_device(value: object) -> object:
    return DeviceArray(value) if isinstance(value, np.ndarray) else value


@functools.cache
def compiled(name: str) -> Compiled:
    example = next(example for example in EXAMPLES if example.name == name)
    values = example.make_arguments(example.test_size).values()
    return Compiled(example.function, *(on_device(value) for value in values))


def run(example: Example) -> None:
    fake = start()
    function = compiled(example.name).register(fake)
    arguments = example.make_arguments(example.test_size)
    expected = example.reference(**arguments)
    given = {name: on_device(value) for name, value in example.call_arguments(arguments).items()}
    function(**given)
    assert fake.launches()
    for name, array in expected.items():
        assert largest_error(arguments[name], array) <= example.tolerance
    assert fake.current() is None


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_result_is_what_numpy_gives(example: Example):
    build()
    compiled(example.name)
    in_child(lambda: run(example))
