# SPDX-License-Identifier: Apache-2.0
"""Programs without a defect are silent under all checks: examples of every way to wait and copy, and `weft.kernels`.

`WEFT_SANITIZE=all pytest tests/examples tests/kernels tests/conformance` checks the rest: only tests fail there whose
kernels are wrong on purpose.
"""

from __future__ import annotations

import numpy as np
import pytest

import weft
from examples.catalog import EXAMPLES, HOPPER_EXAMPLES
from examples.common import largest_error

SIZES = {
    "block_reduction": 3000,
    "warp_reduction": 3000,
    "inclusive_scan": 3000,
    "breadth_first_search": 300,
    "floyd_warshall": 40,
    "tma_transpose": 100,
    "bulk_reduction": 3000,
    "cluster_softmax": 3,
}
BY_NAME = {example.name: example for example in (*EXAMPLES, *HOPPER_EXAMPLES)}


@pytest.mark.parametrize("name", SIZES)
def test_an_example_without_a_defect_is_silent(name):
    example = BY_NAME[name]
    arguments = example.make_arguments(SIZES[name])
    expected = example.reference(**arguments)
    with weft.sanitize("all"):
        example.function(**example.call_arguments(arguments))
    for argument, array in expected.items():
        assert largest_error(arguments[argument], array) <= example.tolerance


def test_functions_of_arrays_are_silent():
    x = np.random.default_rng(1).standard_normal((3, 300)).astype(np.float32)
    with weft.sanitize("all"):
        total, shares = weft.kernels.sum(x), weft.kernels.softmax(x)
    np.testing.assert_allclose(total, x.sum(), rtol=1e-5)
    np.testing.assert_allclose(shares.sum(axis=-1), 1.0, rtol=1e-5)
