# SPDX-License-Identifier: Apache-2.0
"""A program for compute-sanitizer: examples on device memory that the driver gave, with no other library.

In: names of examples, or `out-of-bounds`, which is wrong on purpose. Out: nothing; a result that is not the
reference's is a failure.
"""

from __future__ import annotations

import sys

import numpy as np

import weft
from examples.catalog import EXAMPLES
from examples.common import largest_error
from tests.gpu.device_memory import DeviceArray, fetch_all, on_device

WRONG = "out-of-bounds"
SIZE = 1 << 18  # bytes: a driver's allocations are large, and adjacent ones may be mapped


@weft.kernel
def far_kernel(a: weft.Tensor, step: weft.i32):
    """Writes outside all memory."""
    a[weft.thread_idx.x * step] = 1.0


@weft.jit(options="--generate-line-info")
def far(a: weft.Tensor[weft.f32, ("n",)], step: weft.i32):
    """One block."""
    far_kernel(a, step).launch(grid=1, block=32)


def main(names: list[str]) -> None:
    """Run the examples of these names, or the wrong program."""
    if names == [WRONG]:
        far(DeviceArray(np.zeros(SIZE // 4, np.float32)), SIZE // 4)
        weft.synchronize("cuda:0")
        return
    for example in EXAMPLES:
        if example.name not in names:
            continue
        arguments = example.make_arguments(example.test_size)
        expected = example.reference(**arguments)
        given = {name: on_device(value) for name, value in arguments.items()}
        example.function(**given)
        fetch_all(given.values())
        for name, array in expected.items():
            assert largest_error(arguments[name], array) <= example.tolerance, name
        names.remove(example.name)
    assert not names, f"no such examples: {names}"


if __name__ == "__main__":
    main(sys.argv[1:])
