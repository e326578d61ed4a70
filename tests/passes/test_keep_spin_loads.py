# SPDX-License-Identifier: Apache-2.0
"""Loads that a loop waits for are made in each iteration, whatever shape the loop has; those of other loops are not."""

from __future__ import annotations

import pytest

import weft

SIGNATURE = [weft.fake_tensor(weft.i32, (8,))] * 2


@weft.kernel
def empty_body_kernel(flags, out):
    while flags[0] == 0:
        pass
    out[0] = 1


@weft.kernel
def counted_wait_kernel(flags, out):
    iterations = 0
    while flags[0] == 0:
        iterations += 1
    out[0] = iterations


@weft.kernel
def broken_out_of_kernel(flags, out):
    iterations = 0
    while True:
        iterations += 1
        if flags[0] != 0:
            break
    out[0] = iterations


@weft.kernel
def returned_from_kernel(flags, out):
    while True:
        if flags[0] != 0:
            out[0] = 1
            return


@weft.kernel
def two_flags_kernel(flags, out):
    while flags[0] == 0 or flags[1] == 0:
        out[1] = 3
    out[0] = 1


@weft.kernel
def read_before_and_in_kernel(flags, out):
    seen = flags[0]
    while seen == 0:
        seen = flags[0]
    out[0] = seen


@weft.kernel
def several_flags_kernel(flags, out):
    ready = weft.bool_(False)
    while not ready:
        count = 0
        for i in range(4):
            count += flags[i]
        ready = count == 4
    out[0] = 1


@weft.kernel
def voted_kernel(flags, out):
    while weft.warp.any(flags[weft.thread_idx.x & 7] == 0):
        pass
    out[0] = 1


@weft.kernel
def own_place_kernel(flags, out):
    place = weft.thread_idx.x & 7
    while flags[place] != place:
        pass
    out[0] = 1


@weft.kernel
def shared_kernel(flags, out):
    ready = weft.shared(1, weft.i32)
    while ready[0] == 0:
        pass
    out[0] = 1


@weft.kernel
def exchanged_kernel(flags, out):
    a, b = flags, out
    while a[0] == 0:
        a, b = b, a


@weft.kernel
def chosen_kernel(flags, out):
    place = flags if out[1] == 0 else out
    while place[0] == 0:
        pass


@pytest.mark.parametrize(
    "kernel",
    [
        exchanged_kernel,
        *(empty_body_kernel, counted_wait_kernel, broken_out_of_kernel, returned_from_kernel),
        *(two_flags_kernel, read_before_and_in_kernel, several_flags_kernel, voted_kernel),
        *(own_place_kernel, shared_kernel),
    ],
    ids=lambda kernel: kernel.__name__,
)
def test_a_loop_that_waits_reads_in_each_iteration(kernel):
    loads = loads_of(kernel)
    in_loop = loads[1:] if kernel is read_before_and_in_kernel else loads
    assert in_loop and all("volatile" in load for load in in_loop)


@weft.kernel
def walking_kernel(flags, out):
    part = flags
    while part[0] != 0:
        part = part[1:]
    part[0] = 1


@weft.kernel
def relaxing_kernel(flags, out):
    a, b = flags, out
    while a[0] > 1:
        b[0] = a[0] // 2
        a, b = b, a


@weft.kernel
def bounded_kernel(flags, out):
    iterations = 0
    while flags[0] == 0 and iterations < 1000:
        iterations += 1
    out[0] = iterations


@weft.kernel
def row_kernel(flags, out):
    k = flags[0]
    while k < flags[1]:
        out[0] = k
        k += 1


@weft.kernel
def list_kernel(flags, out):
    place = 0
    while flags[place] != 0:
        place = flags[place]
    out[0] = place


@weft.kernel
def counting_down_kernel(flags, out):
    while flags[0] > 0:
        flags[0] -= 1
    out[0] = 1


@weft.kernel
def timed_kernel(flags, out):
    end = weft.globaltimer() + 1000
    while flags[0] == 0 and weft.globaltimer() < end:
        pass
    out[0] = 1


@weft.kernel
def own_memory_kernel(flags, out):
    digits = weft.local(4, weft.i32)
    digits[0] = 3
    while digits[0] != 0:
        digits[0] -= 1
    out[0] = flags[0]


@weft.kernel
def loop_of_range_kernel(flags, out):
    total = 0
    for i in range(flags[0]):
        if flags[1] == i:
            break
        total += flags[2]
    out[0] = total


@pytest.mark.parametrize(
    "kernel",
    [
        *(
            walking_kernel,
            relaxing_kernel,
            bounded_kernel,
            row_kernel,
            list_kernel,
            counting_down_kernel,
            timed_kernel,
        ),
        *(own_memory_kernel, loop_of_range_kernel),
    ],
    ids=lambda kernel: kernel.__name__,
)
def test_a_loop_that_may_end_by_itself_is_left_alone(kernel):
    loads = loads_of(kernel)
    assert loads and not any("volatile" in load for load in loads)


def loads_of(kernel) -> list[str]:
    """The loads of a kernel after the passes, in the order of the text."""

    @weft.jit
    def host(flags, out):
        kernel(flags, out).launch(grid=1, block=32)

    compiled = weft.compile(host, *SIGNATURE, options="--target cpu")
    return [line for line in str(compiled.ir_module).splitlines() if "simt.load" in line]
