# SPDX-License-Identifier: Apache-2.0
"""Every example, called with torch's tensors on the CPU, gives what torch gives.

In: the references that the GPU tests use as well. Out: both results, compared.
"""

from __future__ import annotations

import pytest

from examples.catalog import EXAMPLES
from examples.common import Example
from tests.sampling import sampled

pytestmark = pytest.mark.torch


@pytest.mark.parametrize("example", sampled(EXAMPLES, 3), ids=lambda example: example.name)
def test_torch_agrees(example: Example):
    from tests.gpu.torch_references import check, copies_of, reference_of, tensors_of

    arguments = tensors_of(example.make_arguments(example.test_size), "cpu")
    expected = reference_of(example.name)(**copies_of(arguments))
    example.function(**arguments)
    check(example, arguments, expected)
