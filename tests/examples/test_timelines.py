# SPDX-License-Identifier: Apache-2.0
"""The examples of docs/timelines.md: with marks they are right and record all; without, nothing is left."""

from __future__ import annotations

import pytest

import weft
from docs.generate_timelines import found
from examples.common import largest_error
from tests.sampling import sampled
from weft.profiler import capture

SHOWN = pytest.mark.parametrize(
    "example", sampled(found().values(), 2), ids=lambda example: example.name
)


@SHOWN
def test_a_marked_example_is_right_and_its_timeline_whole(example):
    arguments = example.make_arguments(example.test_size)
    expected = example.reference(**arguments)
    with capture(1 << 17) as trace:
        example.function(**arguments, profiled=True)
    assert trace.problems == []
    for name, array in expected.items():
        assert largest_error(arguments[name], array) <= example.tolerance, name
    spans = trace.spans()
    assert not spans["is_open"].any()
    assert {"store"} < set(spans["event"])
    assert set(spans["event"]) & {"load", "copy"}


@pytest.mark.parametrize("name", sampled(["hopper_gemm", "attention", "split_k_gemm"], 3))
def test_marks_keep_mmas_in_flight(name):
    example = found()[name]
    marked = weft.compile(
        example.function, *example.fake_arguments(), profiled=True, options="--gpu-arch sm_90a"
    )
    assert marked.remarks == ()
    assert {kernel.spill_load_bytes for kernel in marked.kernels.values()} == {0}


def test_marks_leave_nothing_in_a_kernel_that_is_not_profiled():
    example = found()["tma_transpose"]
    arguments = example.fake_arguments()
    off, on = (
        weft.compile(example.function, *arguments, profiled, options="--gpu-arch sm_90a")
        for profiled in (False, True)
    )
    assert ("%clock" in off.ptx, "%clock" in on.ptx) == (False, True)
    assert off.ptx.count(".param") < on.ptx.count(".param")
