# SPDX-License-Identifier: Apache-2.0
"""The conformance tests with a GPU as their target: the same kernels, the same answers.

In: every file of tests/conformance but those that are about something else. Out: processes with WEFT_TEST_TARGET=cuda.
What is about the CPU's own engine, or about errors instead of results, has its place elsewhere.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from weft.driver.device import device_properties

if TYPE_CHECKING:
    from collections.abc import Sequence

pytestmark = pytest.mark.timeout(620)

ROOT: Final = Path(__file__).parent.parent.parent
# Not run, and why.
LEFT_OUT: Final = {
    "architectures": "assembles only",
    "cooperative_limits": "limits of the CPU's engine; those of a GPU are the driver's, see test_driver.py",
    "cuda": "assembles only",
    "hardware_limits": "what a GPU refuses is an error on the CPU",
    "inline_ptx": "assembles only",
    "interrupts": "signals stop the CPU's engine",
    "operations_by_architecture": "assembles only",
    "packed": "test_packed.py has their kernels with arrays that a GPU writes",
    "max_clusters": "the CPU's number, which a test sets",
    "multiprocessors": "the CPU's number, which a test sets",
    "progress": "the order of blocks on the CPU, in processes of their own",
    "refusals": "errors before a launch, which are the same for every target",
    "source_paths": "names of files in the CPU's code",
    "split_kernels": "how the CPU runs a kernel's barriers",
    "stuck_threads": "errors of the CPU's engine; a GPU waits forever",
}
# All of their tests, those about errors as well: the compiler's.
WITH_ERRORS: Final = (
    *("literals", "integers", "floats", "conversions", "math", "memory", "memory_model", "joins"),
    *("loop_results", "grids", "cooperation", "shared_atomics", "small_atomics", "byte_floats"),
    *("warp_order", "warp_groups", "ranges", "indices", "unroll", "accumulators", "small_floats"),
    *("warp_items", "block_primitives", "block_exchanges", "philox", "tiles", "fragments"),
    *("compile_time", "compile_time_state", "control_flow", "dictionaries", "each"),
    *("extremes_of_nan", "matching", "methods", "names", "objects", "random_expressions"),
    *("random_programs", "shared_limits", "tensor_values", "walrus"),
)
HOPPER: Final = (
    *("bulk_copy", "clusters", "cp_async", "dependencies", "device_maps", "im2col", "int4_gemm"),
    *("mbarriers", "named_barriers", "red_add", "reused_memory", "st_async"),
    *("tma", "tma_multicast", "tma_reductions", "warpgroups", "wgmma"),
)
BLACKWELL: Final = ("tma_gather",)
ABOUT_ERRORS: Final = (
    *("error", "report", "refus", "wrong", "never", "cpu", "python", "limit", "instruction"),
    "needs_all_lanes",
)
# What the CPU promises and a GPU does not; parts of a test's name.
ON_CPU_ONLY: Final = (
    "test_on_the_cpu",
    "test_each_thread_gets_what_the_one_before_left",  # the threads of a block run in order
    "test_printf_comes_in_the_order_of_the_threads",
    "test_groups_that_never_meet_are_an_error_that_names_both",  # a GPU waits forever
    "test_aligned_vectors_are_accessed_16_bytes_at_a_time",  # compiled ahead of time, for the CPU
    "test_shared_memory_covers_the_largest_block",
    "test_a_launch_that_is_checked_lets_blocks_wait_for_later_ones",  # by the sanitizer
    "test_orders_of_blocks_that_wait_for_later_ones_are_compared",
    "sanitize",
    "assert",  # compiled for a GPU where an option asks for it
    "test_an_array_shorter_than_the_iterations_is_named",
    "test_an_index_between_vectors",
    "test_a_promised_alignment_is_checked",
    "test_a_missing_wait_shows",  # the CPU reads and writes as late as a GPU may
    "test_the_bytes_come_when_a_thread_waits",
    "test_a_copy_in_flight_reads_the_old_array",
    "test_a_product_reads_shared_memory_when_it_is_waited_for",
    "test_lengths_known_at_run_time_are_checked",
    "test_a_call_that_fails_gives_its_tensors_back",  # of the host's memory
    "test_sizes_are_checked_by_the_call",
    "test_results_that_are_dropped_are_freed",
    "test_more_or_less_than_there_is",  # the driver says it
    "test_a_thread_polls_until_the_others",  # once on the CPU
)
# What on_cuda.py's copies of arguments lose; the first is that memory of a GPU has no such flag.
OF_ARGUMENTS: Final = (
    *("read_only", "read_maps", "count_as_written", "through_a_view_is_writable"),
    "test_host_functions_pass_parts_of_their_tensors",
    *("overlap", "test_items_of_a_tuple_are_restricted", "test_scratch_memory_and_views"),
    "test_every_kind_of_element",  # a call without a tensor is on no device
    *(
        "less_alignment",
        "test_alignment_that_both",
        "test_the_order_of_calls",
        "test_tuples_records_and_bare_launches",
    ),
    *("chosen_at_run_time", "test_returned_tensor_is_the_one"),  # a view is of the copy
    *("pointer", "buffers_and_dlpack", "bytearray", "registered", "by_package", "again]"),
    *("gradient", "without_plain_memory", "test_torchs_arrays_and_its_own"),
)
WORKERS: Final = 8
PARTS: Final = 4  # of what is neither in WITH_ERRORS nor in HOPPER


def conformance_files() -> list[str]:
    """All files of the conformance tests, by their names."""
    found = (ROOT / "tests/conformance").glob("test_*.py")
    return sorted(path.stem.removeprefix("test_") for path in found)


def results() -> list[str]:
    """The files that run without their tests about errors, on any GPU."""
    named = {*LEFT_OUT, *WITH_ERRORS, *HOPPER, *BLACKWELL}
    return [name for name in conformance_files() if name not in named]


def test_every_file_runs_on_a_gpu_or_has_a_reason():
    named = [*LEFT_OUT, *WITH_ERRORS, *HOPPER, *BLACKWELL]
    assert len(named) == len(set(named))
    assert set(named) <= set(conformance_files())
    assert len(results()) > PARTS


@pytest.fixture(name="chosen")
def chosen_marks(request) -> str:
    """Which tests the quick selection takes of these files."""
    return "not slow" if request.config.getoption("--quick") else ""


def passed_on_the_gpu(names: Sequence[str], marks: str, left_out: tuple[str, ...] = ()) -> int:
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
                " and ".join(f"not {name}" for name in (*ON_CPU_ONLY, *OF_ARGUMENTS, *left_out)),
                *files,
            ),
        ],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path, "WEFT_TEST_TARGET": "cuda"},
        timeout=600,
    )
    assert done.returncode == 0, done.stdout[-20000:] + done.stderr[-2000:]
    passed = re.search(r"(\d+) passed", done.stdout)
    return int(passed[1]) if passed is not None else 0


@pytest.mark.gpu
def test_kernels_give_what_they_give_on_the_cpu(chosen):
    assert passed_on_the_gpu(WITH_ERRORS, chosen) > 700


@pytest.mark.gpu
@pytest.mark.parametrize("part", range(PARTS))
def test_kernels_of_error_tests_give_the_cpus_results(part, chosen):
    assert passed_on_the_gpu(results()[part::PARTS], chosen, ABOUT_ERRORS) > 30


@pytest.mark.gpu
def test_kernels_of_hopper_give_what_they_give_on_the_cpu(chosen):
    version = device_properties(0).compute_capability
    if version != (9, 0):
        pytest.skip(f"needs a GPU of compute capability 9.0, found {version}")
    assert passed_on_the_gpu(HOPPER, chosen, ABOUT_ERRORS) > 100


@pytest.mark.gpu
def test_rows_by_index_come_as_on_the_cpu(chosen):
    version = device_properties(0).compute_capability
    if version[0] not in (10, 11):
        pytest.skip(f"needs a GPU of compute capability 10 or 11, found {version}")
    assert passed_on_the_gpu(BLACKWELL, chosen, ABOUT_ERRORS) > 8
