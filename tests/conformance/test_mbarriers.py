# SPDX-License-Identifier: Apache-2.0
"""Barriers in shared memory: rings of buffers that one side fills and the other empties; errors are never silent."""

from __future__ import annotations

import textwrap

import numpy as np
import pytest

import weft
from tests.conformance.harness import define

I32 = weft.Tensor[weft.i32, ("n",)]
STAGES = 3


@weft.kernel
def ring_kernel(out: weft.Tensor, steps: weft.i32):
    """Warp 0 fills a ring of buffers, the other three add what they find there."""
    ring = weft.shared((STAGES, 32), weft.i32)
    full = weft.mbarrier(STAGES, arrivals=32)
    empty = weft.mbarrier(STAGES, arrivals=3)
    lane = weft.lane_id()
    if weft.warp_id() == 0:
        state = weft.PipelineState(STAGES, producer=True)
        for step in range(steps):
            empty[state].wait()
            ring[state, lane] = 100 * step + lane
            full[state].arrive()
            state = state.next()
    else:
        state = weft.PipelineState(STAGES)
        total = 0
        for _ in range(steps):
            full[state].wait()
            total += ring[state, 31 - lane]
            empty[state].release()
            state = state.next()
        out[weft.thread_idx.x - 32] = total


@weft.jit
def run_ring(out: I32, steps: weft.i32):
    ring_kernel(out, steps).launch(grid=2, block=128)


@pytest.mark.parametrize("steps", [0, 1, 3, 4, 17])
def test_a_ring_passes_every_buffer_in_order(steps):
    out = np.full(96, -1, np.int32)
    run_ring(out, steps)
    expected = steps * (31 - np.arange(32)) + 100 * sum(range(steps))
    np.testing.assert_array_equal(out, np.tile(expected, 3))


@weft.kernel
def states_kernel(out: weft.Tensor, stages: weft.Constexpr[int], count: weft.i32):
    """Where a state is after steps of constants and of numbers known at run time, forth and back."""
    state = weft.PipelineState(stages)
    for i in range(10):
        out[2 * i], out[2 * i + 1] = state.index, state.parity
        state = state.next()
    moved = state.next(5).next(count).previous(2).previous(count).previous(stages)
    out[20], out[21] = moved.index, moved.parity


@weft.jit
def run_states(out: I32, stages: weft.Constexpr[int], count: weft.i32):
    states_kernel(out, stages, count).launch(grid=1, block=1)


@pytest.mark.parametrize("stages", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("count", [0, 1, 6, 8])
def test_a_state_counts_stages_and_iterations(stages, count):
    out = np.zeros(22, np.int32)
    run_states(out, stages, count)
    places = [*range(10), 10 + 5 - 2 - stages]
    expected = [number for place in places for number in (place % stages, place // stages % 2)]
    np.testing.assert_array_equal(out, expected)


@weft.kernel
def polling_kernel(out: weft.Tensor):
    """One thread polls while the others go through another barrier before they arrive."""
    before, ready = weft.mbarrier(arrivals=63), weft.mbarrier(arrivals=63)
    if weft.thread_idx.x == 0:
        out[0] = weft.i32(ready[0].try_wait(0))
        while not ready[0].try_wait(0):
            out[1] += 1
        out[2] = weft.i32(ready[0].try_wait(0)) + 10 * weft.i32(ready[0].try_wait(1))
    else:
        before[0].arrive()
        before[0].wait(0)
        ready[0].arrive()


@weft.jit
def poll(out: I32):
    polling_kernel(out).launch(grid=1, block=64)


def test_a_thread_polls_until_the_others_have_arrived():
    out = np.zeros(3, np.int32)
    poll(out)
    assert list(out) == [0, 0, 1]


def test_barriers_made_after_the_first_use_are_ready_too():
    text = """
        def kernel(out):
            first = weft.mbarrier(arrivals=64)
            first[0].arrive()
            first[0].wait(0)
            second = weft.mbarrier(2, arrivals=64)
            second[1].arrive()
            second[1].wait(0)
            out[weft.thread_idx.x] = weft.thread_idx.x
        """
    out = np.zeros(64, np.int32)
    run(text, out)
    np.testing.assert_array_equal(out, np.arange(64))


def test_phases_are_compared_by_run_time_parity():
    text = """
        def kernel(out):
            bar = weft.mbarrier(1, arrivals=32)
            for phase in range(5):
                if weft.thread_idx.x == 0:
                    out[phase] = phase
                bar[0].arrive()
                bar[0].wait(phase)
        """
    out = np.full(5, -1, np.int32)
    run(text, out, 32)
    np.testing.assert_array_equal(out, np.arange(5))


def run(text, out, block=64):
    """Runs a kernel given as text, on one block."""
    define(
        "@weft.kernel\n"
        + textwrap.dedent(text).strip()
        + f"\n\n@weft.jit\ndef host(out):\n    kernel(out).launch(grid=1, block={block})\n"
    )["host"](out)


STUCK = "threads wait for each other and none can continue"
# Wrong kernel → the first line of its error, and one of the threads.
WRONG = {
    "a missing arrival": (
        """
        def kernel(out):
            full = weft.mbarrier(2, arrivals=64)
            if weft.thread_idx.x > 0:
                full[1].arrive()
            full[1].wait(0)
        """,
        STUCK,
        "threads 0..63 at full[1].wait for the phase of parity 0, where 1 of 64 arrivals are missing, at {line}",
    ),
    "a wrong parity": (
        """
        def kernel(out):
            full = weft.mbarrier(2, arrivals=64)
            full[0].arrive()
            full[0].wait(0)
            full[0].wait(1)
        """,
        STUCK,
        "threads 0..63 at full[0].wait for the phase of parity 1, where 64 of 64 arrivals are missing, at {line}",
    ),
    "bytes that never come": (
        """
        def kernel(out):
            full = weft.mbarrier(1, arrivals=1)
            if weft.thread_idx.x == 0:
                full[0].arrive(expect_bytes=128)
            full[0].wait(0)
        """,
        STUCK,
        "threads 0..63 at full[0].wait for the phase of parity 0, where 0 of 1 arrivals are missing and 128 bytes, "
        "at {line}",
    ),
    "an arrival too many": (
        """
        def kernel(out):
            full = weft.mbarrier(1, arrivals=1)
            if weft.thread_idx.x < 2:
                full[0].arrive(expect_bytes=64)
        """,
        "a thread arrives at an mbarrier whose phase has all its arrivals, and waits for bytes",
        "thread 1 at full[0].arrive at {line}",
    ),
    "too many bytes": (
        """
        def kernel(out):
            full = weft.mbarrier(1, arrivals=2)
            full[0].arrive(expect_bytes=out.shape[0] << 20)
        """,
        "a phase of an mbarrier expects less than 0 or more than 1048575 bytes",
        "threads 0..63 at full[0].arrive at {line}",
    ),
    "a thread that returns": (
        """
        def kernel(out):
            full = weft.mbarrier(1, arrivals=2)
            if weft.thread_idx.x < 2:
                return
            full[0].wait(0)
        """,
        STUCK,
        "threads 2..63 at full[0].wait for the phase of parity 0, where 2 of 2 arrivals are missing, at {line}",
    ),
    "a state that is not moved on": (
        """
        def kernel(out):
            full = weft.mbarrier(2, arrivals=32)
            state = weft.PipelineState(2)
            if weft.warp_id() == 0:
                for _ in range(2):
                    full[state].arrive()
                    state = state.next()
            else:
                full[state].wait()
                full[state].wait()
                full[state.next(2)].wait()
        """,
        STUCK,
        "threads 32..63 at full[0].wait for the phase of parity 1, where 32 of 32 arrivals are missing, at {line}",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_an_endless_wait_is_an_error_with_the_barrier(name):
    text, what, threads = WRONG[name]
    with pytest.raises(RuntimeError) as caught:
        run(text, np.zeros(64, np.int32))
    lines = str(caught.value).splitlines()
    assert lines[0] == f"kernel: {what}, in block (0, 0, 0):"
    beginning, _, end = threads.partition("{line}")
    assert any(line.startswith(f"  {beginning}") and line.endswith(end) for line in lines[1:]), (
        lines
    )
