# SPDX-License-Identifier: Apache-2.0
"""The conformance tests that are about results, with a GPU as their target: the same kernels, the same answers.

In: files of tests/conformance. Out: a process with WEFT_TEST_TARGET=cuda for all of them. What is about the CPU's
own engine, or about errors instead of results, has its place elsewhere.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from weft.driver.device import device_properties

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(300)]

ROOT = Path(__file__).parent.parent.parent
FILES = (
    "literals",
    "integers",
    "floats",
    "conversions",
    "math",
    "memory",
    "memory_model",
    "joins",
    "loop_results",
    "grids",
    "cooperation",
    "shared_atomics",
    "small_atomics",
    "byte_floats",
    "warp_order",
    "warp_groups",
    "ranges",
    "indices",
    "unroll",
    "accumulators",
    "small_floats",
    "warp_items",
    "block_primitives",
    "block_exchanges",
    "philox",
    "tiles",
    "fragments",
)
# Of these, what is not about errors.
FILES_WITH_ERRORS = ("warp_primitives", "block_sorting", "scratch", "changed_items", "mma")
HOPPER_FILES = ("device_maps", "int4_gemm")
HOPPER_FILES_WITH_ERRORS = (
    "im2col",
    "cp_async",
    "named_barriers",
    "tma",
    "tma_multicast",
    "tma_reductions",
    "warpgroups",
    "dependencies",
)
ABOUT_ERRORS = (
    *("error", "report", "refus", "wrong", "never", "cpu", "python", "limit", "instruction"),
    "needs_all_lanes",
)
# What the CPU promises and a GPU does not.
ON_CPU_ONLY = (
    "test_on_the_cpu",
    "test_each_thread_gets_what_the_one_before_left",  # the threads of a block run in order
    "test_groups_that_never_meet_are_an_error_that_names_both",  # a GPU waits forever
    "test_aligned_vectors_are_accessed_16_bytes_at_a_time",  # compiled ahead of time, for the CPU
    "test_shared_memory_covers_the_largest_block",
    "test_a_launch_that_is_checked_lets_blocks_wait_for_later_ones",  # by the sanitizer
    "test_orders_of_blocks_that_wait_for_later_ones_are_compared",
    "test_tensors_of_read_maps_may_be_read_only",  # memory of a GPU has no such flag
)
WORKERS = 8


@pytest.fixture(name="chosen")
def chosen_marks(request) -> str:
    """Which tests the quick selection takes of these files."""
    return "not slow" if request.config.getoption("--quick") else ""


def passed_on_the_gpu(
    names: tuple[str, ...], marks: str, left_out: tuple[str, ...] = ON_CPU_ONLY
) -> int:
    """How many tests of these files pass, of which none may fail, but for those with a part of their name left out."""
    files = [f"tests/conformance/test_{name}.py" for name in names]
    parallel = ["-n", str(WORKERS)] if find_spec("xdist") and len(files) > 1 else []
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "--tb=line", "-p", "no:cacheprovider"),
            *(
                "-m",
                marks,
                *parallel,
                "-k",
                " and ".join(f"not {name}" for name in left_out),
                *files,
            ),
        ],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path, "WEFT_TEST_TARGET": "cuda"},
        timeout=290,
    )
    assert done.returncode == 0, done.stdout[-20000:] + done.stderr[-2000:]
    passed = re.search(r"(\d+) passed", done.stdout)
    return int(passed[1]) if passed is not None else 0


def test_kernels_give_what_they_give_on_the_cpu(chosen):
    assert passed_on_the_gpu(FILES, chosen) > 700


def test_kernels_of_error_tests_give_the_cpus_results(chosen):
    assert passed_on_the_gpu(FILES_WITH_ERRORS, chosen, ABOUT_ERRORS) > (50 if chosen else 70)


def test_kernels_of_hopper_give_what_they_give_on_the_cpu(chosen):
    version = device_properties(0).compute_capability
    if version != (9, 0):
        pytest.skip(f"needs a GPU of compute capability 9.0, found {version}")
    assert passed_on_the_gpu(HOPPER_FILES, chosen) >= len(HOPPER_FILES)
    assert passed_on_the_gpu(HOPPER_FILES_WITH_ERRORS, chosen, ABOUT_ERRORS) > (
        100 if chosen else 140
    )
