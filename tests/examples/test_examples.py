# SPDX-License-Identifier: Apache-2.0
"""Each example gives what NumPy gives on the CPU, and compiles to sensible code for sm_90a.

In: the catalog. Out: one test per example and claim.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path

import numpy as np
import pytest

import weft
from examples.catalog import EXAMPLES, HOPPER_EXAMPLES
from examples.common import Example, largest_error
from examples.demo import ARCHITECTURE, compile_for_gpu, cuda_missing
from tests.sampling import sampled

EXAMPLES_FOLDER = Path(__file__).parents[2] / "examples"
ALL_EXAMPLES = (*EXAMPLES, *HOPPER_EXAMPLES)
every_example = pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)


@functools.cache
def why_no_cuda() -> str:
    return cuda_missing()


@functools.cache
def compiled_for_gpu(name: str):
    if reason := why_no_cuda():
        pytest.skip(f"needs the extra cuda: {reason}")
    return compile_for_gpu(next(one for one in ALL_EXAMPLES if one.name == name))


def checked(example: Example, function, size: int) -> float:
    """The largest error of one call of `function`, which takes the arguments by keyword."""
    arguments = example.make_arguments(size)
    expected = example.reference(**arguments)
    function(arguments)
    return max(largest_error(arguments[name], array) for name, array in expected.items())


@pytest.mark.parametrize("example", sampled(EXAMPLES, 3), ids=lambda example: example.name)
def test_a_compiled_function_gives_what_numpy_gives_for_any_size(example: Example):
    compiled = weft.compile(example.function, *example.make_arguments(example.test_size).values())
    for size in (example.test_size, example.test_size + 13):
        error = checked(example, lambda given: compiled(**example.call_arguments(given)), size)
        assert error <= example.tolerance, size


@pytest.mark.parametrize("example", sampled(EXAMPLES, 6), ids=lambda example: example.name)
def test_direct_call_gives_the_same(example: Example):
    error = checked(example, lambda given: example.function(**given), example.test_size)
    assert error <= example.tolerance


@pytest.mark.parametrize("example", sampled(ALL_EXAMPLES, 3), ids=lambda example: example.name)
def test_ptx_has_the_expected_instructions(example: Example):
    """No product or copy that waits where it need not (C75xx), no spill, no array in local memory."""
    compiled = compiled_for_gpu(example.name)
    assert compiled.remarks == ()
    if example in EXAMPLES:
        assert f".target {ARCHITECTURE}" in compiled.ptx
        assert [text for text in example.instructions if text not in compiled.ptx] == []
        assert compiled.kernels
        for kernel in compiled.kernels.values():
            assert 0 < kernel.registers <= 255
            assert kernel.spill_store_bytes == kernel.spill_load_bytes == kernel.stack_bytes == 0


@pytest.mark.parametrize("example", sampled(EXAMPLES, 12), ids=lambda example: example.name)
def test_sass_is_not_empty(example: Example):
    assert re.search(r"\bEXIT\b", compiled_for_gpu(example.name).sass)


@pytest.mark.parametrize("example", sampled(EXAMPLES, 6), ids=lambda example: example.name)
def test_calling_a_gpu_function_without_a_driver_says_so(example: Example):
    compiled = compiled_for_gpu(example.name)
    arguments = example.make_arguments(example.test_size)
    with pytest.raises((weft.CudaError, ValueError)):
        compiled(**example.call_arguments(arguments))


def test_every_module_with_a_host_function_is_in_the_catalog():
    paths = EXAMPLES_FOLDER.glob("*.py")
    modules = {p.stem for p in paths if re.search(r"^ *@weft\.jit", p.read_text(), re.MULTILINE)}
    assert modules == {example.name for example in ALL_EXAMPLES}


@pytest.mark.joined
@every_example
def test_arguments_are_the_same_each_time(example: Example):
    first, second = (example.make_arguments(example.test_size) for _ in range(2))
    outputs = example.reference(**first)
    assert list(first) == list(second)
    for name, value in first.items():
        if name not in outputs and isinstance(value, np.ndarray):
            np.testing.assert_array_equal(value, second[name])


@pytest.mark.parametrize(
    "name",
    [
        "tma_transpose",
        "tensor_core_gemm",
        "hopper_gemm",
        "attention",
        "cluster_softmax",
        "bulk_reduction",
        "split_k_gemm",
    ],
)
def test_tensor_core_examples_have_tests_of_their_own(name):
    """tests/gpu runs all that the catalog has."""
    (example,) = (one for one in ALL_EXAMPLES if one.name == name)
    own = Path(__file__).with_name(f"test_{name}.py").read_text()
    assert example.instructions and "EXAMPLE" in own and ".remarks" in own and ".sass" in own
