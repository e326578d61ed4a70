# SPDX-License-Identifier: Apache-2.0
"""Run-time refusals of a GPU are errors on the CPU too; those known earlier, errors of the compiler.

One row for each limit: a kernel that breaks it, how it is launched, and what the error says. GPUs answer them with an
illegal instruction, a misaligned address, a launch that fails, or a wait that does not end.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

import weft
from tests.conformance.test_tma import aligned
from tests.sampling import sampled


class Limit(NamedTuple):
    """A kernel of a map and a number, and what is said of it."""

    kernel: object
    expected: str
    number: int = 0
    rows: int = 64  # of the tensor
    launch: dict[str, object] = {"grid": 1, "block": 32}  # noqa: RUF012
    swizzle: int | None = None


def copies(start, row=3, operation="load", swizzle=None):
    """A copy of the box that begins at these places, constants; at the number where they are None."""

    @weft.kernel
    def kernel(tensor: weft.TensorMap, number: weft.i32):
        tile = weft.shared((8, 32), weft.f32, swizzle=swizzle)
        full = weft.mbarrier(1, arrivals=1)
        place = (number if row is None else row, number if start is None else start)
        if weft.thread_idx.x == 0:
            if operation == "load":
                full[0].arrive(expect_bytes=tile.nbytes)
                weft.tma.load(tensor, place, tile, full[0])
                full[0].wait(0)
            elif operation == "prefetch":
                weft.tma.prefetch(tensor, place)
            elif operation == "store":
                weft.tma.store(tensor, place, tile)
            else:
                weft.tma.reduce(tensor, place, tile)
            weft.tma.wait()

    return kernel


def of_body(body, **options):
    """A kernel of a body that takes the number."""

    @weft.kernel(**options)
    def kernel(_: weft.TensorMap, number: weft.i32):
        body(number)

    return kernel


def expects(number):
    full = weft.mbarrier(1)
    if weft.thread_idx.x == 0:
        full[0].arrive(expect_bytes=number)


def expects_twice(number):
    full = weft.mbarrier(1, arrivals=2)
    if weft.thread_idx.x < 2:
        full[0].arrive(expect_bytes=number)


def expects_constant(_):
    full = weft.mbarrier(1)
    full[0].arrive(expect_bytes=1 << 20)


def many_arrivals(_):
    weft.mbarrier(1, arrivals=1 << 20)


def copies_part(number):
    to = weft.shared(64, weft.f32)
    full = weft.mbarrier(1)
    source = weft.global_scratch(256, weft.f32)
    weft.bulk_copy(to[:number], source[:number], full[0])


def copies_from_the_second(_):
    full = weft.mbarrier(1)
    weft.bulk_copy(weft.shared(65, weft.f32)[1:], weft.global_scratch(64, weft.f32), full[0])


def copies_two_bytes(_):
    weft.cp_async.copy(weft.shared(64, weft.f16), 0, weft.global_scratch(64, weft.f16), 0, 1)


def copies_misaligned(_):
    weft.cp_async.copy(weft.shared(64, weft.f32), 2, weft.global_scratch(64, weft.f32), 0, 4)


def loads_misaligned(_):
    weft.mma.load_a(weft.shared((32, 32), weft.bf16)[0:16, 1:17])


def loads_narrow_rows(_):
    weft.mma.load_a(weft.shared((16, 20), weft.bf16)[0:16, 0:16])


def threads_of_no_warp(_):
    weft.named_barrier(1, threads=48)[0].sync()


def registers_of_no_unit(_):
    weft.setmaxnreg(41)


def more_registers_than_there_are(number):
    if weft.warpgroup_id() == 0:
        weft.setmaxnreg(40)
        if number > 3:
            return
    else:
        weft.setmaxnreg(240)


def only_more_registers(_):
    weft.setmaxnreg(240)


def another_block(number):
    box = weft.shared(32, weft.f32)
    weft.sync_cluster()
    weft.map_shared(box, number)[0] = 1.0
    weft.sync_cluster()


def half_a_warpgroup(_):
    tile = weft.shared((64, 64), weft.bf16, swizzle=128)
    acc = weft.wgmma.accumulator((64, 64), weft.f32)
    if weft.thread_idx.x < 64:
        acc = weft.wgmma.mma(tile, tile.T, acc, accumulate=False)
        acc = weft.wgmma.wait(acc)


def twelve_columns(_):
    weft.wgmma.accumulator((64, 12), weft.f32)


def nothing(_):
    pass


BEGINS = (
    r"tma.{}: the box of tensor begins at {}a multiple of 4 elements, 16 bytes, along dimension 1"
)
LIMITS = {
    **{
        f"{operation} at {number}, swizzle {swizzle}": Limit(
            copies(None, 3, operation, swizzle),
            rf"test_hardware_limits.py:\d+.*{BEGINS.format(name, '')}",
            number,
            swizzle=swizzle,
        )
        for operation, name in {"load": "load", "store": "store", "add": "reduce"}.items()
        for number, swizzle in ((2, None), (-3, 128))
    },
    **{
        f"{operation} before the tensor, dimension {dimension}": Limit(
            copies(*place, operation),
            rf"tma.{name}: the box of tensor begins at {received}0 or more along dimension {dimension}",
            -4,
        )
        for operation, name in {"store": "store", "add": "reduce"}.items()
        for dimension, place, received in (
            (0, (0, None), ""),
            (1, (None, 3), ""),
            (1, (-4, 3), "-4; expected "),
        )
    },
    "prefetch at 1": Limit(copies(None, 3, "prefetch"), BEGINS.format("prefetch", ""), 1),
    **{
        f"{operation} at a constant": Limit(
            copies(6, 3, operation), BEGINS.format(name, "6; expected ")
        )
        for operation, name in {
            "load": "load",
            "store": "store",
            "add": "reduce",
            "prefetch": "prefetch",
        }.items()
    },
    "tensor without elements": Limit(copies(0), "the tensor of tensor has elements", rows=0),
    "bytes of a phase": Limit(of_body(expects), "0 or more than 1048575 bytes", 1 << 20),
    "negative bytes": Limit(of_body(expects), "0 or more than 1048575 bytes", -1),
    "bytes of a phase, together": Limit(
        of_body(expects_twice), "0 or more than 1048575 bytes", 1 << 19
    ),
    "constant bytes of a phase": Limit(of_body(expects_constant), "0 to 1048575 bytes"),
    "arrivals of a phase": Limit(of_body(many_arrivals), "expected 1 to 1048575"),
    "size of a bulk copy": Limit(of_body(copies_part), "is a multiple of 4", 6),
    "start of a bulk copy": Limit(of_body(copies_from_the_second), "a multiple of 4 bytes"),
    "size of cp.async": Limit(of_body(copies_two_bytes), "a copy has 4, 8 or 16 bytes"),
    "start of cp.async": Limit(of_body(copies_misaligned), "2, which is not a multiple of 4"),
    "start of ldmatrix": Limit(of_body(loads_misaligned), "begin at a multiple of 2 bytes"),
    "rows of ldmatrix": Limit(of_body(loads_narrow_rows), "its rows are 40 bytes apart"),
    "threads of a barrier": Limit(of_body(threads_of_no_warp), "a multiple of 32"),
    "registers": Limit(of_body(registers_of_no_unit), "a multiple of 8 from 24 to 256"),
    "registers of all warpgroups": Limit(
        of_body(more_registers_than_there_are),
        "ask for 40, 240, 240 registers.*520 together; a block of 384 threads has 168 for each, 504",
        launch={"grid": 1, "block": 384},
    ),
    "registers that no warpgroup gives back": Limit(
        of_body(only_more_registers),
        "no warpgroup of 'kernel' gives some back",
        launch={"grid": 1, "block": 384},
    ),
    "rank": Limit(
        of_body(another_block, cluster=2), "is one of 0 to 1", 2, launch={"grid": 2, "block": 32}
    ),
    "half a warpgroup": Limit(
        of_body(half_a_warpgroup), "64..127 exited", launch={"grid": 1, "block": 128}
    ),
    "columns of a product": Limit(of_body(twelve_columns), "columns of 8 up to 256"),
    "blocks of a cluster": Limit(
        of_body(nothing), "expected 1 to 16", launch={"grid": 17, "block": 32, "cluster": 17}
    ),
    "a part of a cluster": Limit(
        of_body(nothing), "grid", launch={"grid": 3, "block": 32, "cluster": 2}
    ),
    "threads of a block": Limit(
        of_body(nothing), "expected 1 to 1024", launch={"grid": 1, "block": 1056}
    ),
}


@pytest.mark.parametrize("name", sampled(LIMITS, 2))
def test_what_a_gpu_refuses_is_an_error_on_the_cpu(name):
    limit = LIMITS[name]
    kernel, launch = limit.kernel, limit.launch

    @weft.jit
    def host(tensor: weft.Tensor[weft.f32, ("m", 256)], number: weft.i32):
        kernel(weft.tensor_map(tensor, box=(8, 32), swizzle=limit.swizzle), number).launch(**launch)

    with pytest.raises((weft.WeftError, AssertionError, RuntimeError), match=limit.expected):
        host(aligned((limit.rows, 256), np.float32), limit.number)


@pytest.mark.parametrize("operation", ["load", "store", "add", "prefetch"])
def test_boxes_that_begin_at_multiples_of_16_bytes_are_copied(operation):
    kernel = copies(None, 3, operation)

    @weft.jit
    def host(tensor: weft.Tensor[weft.f32, ("m", 256)], number: weft.i32):
        kernel(weft.tensor_map(tensor, box=(8, 32)), number).launch(grid=1, block=32)

    for number in (0, 4, 252, 256, *((-8,) if operation in ("load", "prefetch") else ())):
        host(aligned((64, 256), np.float32), number)


def test_a_start_that_shows_its_factor_is_not_checked():
    """`32 * i`, and the counter of a loop in steps of 32: no code tests them."""

    @weft.kernel
    def kernel(tensor: weft.TensorMap):
        for column in range(0, 256, 32):
            weft.tma.prefetch(tensor, (0, column))
        weft.tma.prefetch(tensor, (0, 32 * weft.block_idx.x))

    @weft.jit
    def host(tensor: weft.Tensor[weft.f32, ("m", 256)]):
        kernel(weft.tensor_map(tensor, box=(8, 32))).launch(grid=1, block=1)

    fake = weft.fake_tensor(weft.f32, (weft.sym("m"), 256))
    assert "simt.assert" not in str(weft.compile(host, fake).ir_module)


def test_setmaxnreg_by_unknown_warps_is_allowed():
    @weft.kernel
    def kernel(number: weft.i32):
        if weft.warpgroup_id() > 0:
            weft.setmaxnreg(232)
        elif weft.warp_id() <= 3:
            weft.setmaxnreg(40)

    @weft.kernel
    def unknown_kernel(number: weft.i32):
        if number == weft.warpgroup_id():
            weft.setmaxnreg(24)
        else:
            weft.setmaxnreg(240)

    @weft.jit
    def host(number: weft.i32):
        kernel(number).launch(grid=1, block=384)
        unknown_kernel(number).launch(grid=1, block=384)

    host(0)
    assert weft.compile(host, 0, options="--gpu-arch sm_90a").remarks == ()


PARTS_OF_A_WARPGROUP = {
    "one": lambda: weft.warp_id() == 0,
    "all but one": lambda: weft.warp_id() > 0,
    "across two": lambda: weft.warp_id() < 6,
    "of the second": lambda: weft.warp_id() == 7,
}


@pytest.mark.parametrize("part", PARTS_OF_A_WARPGROUP.values(), ids=PARTS_OF_A_WARPGROUP)
@pytest.mark.parametrize("options", ["", "--gpu-arch sm_90a"])
def test_setmaxnreg_by_some_warps_is_refused(part, options):
    @weft.kernel
    def kernel(a: weft.Tensor):
        if part():
            weft.setmaxnreg(40)

    @weft.jit
    def host(a: weft.Tensor[weft.f32, (256,)]):
        kernel(a).launch(grid=1, block=256)

    with pytest.raises(weft.ValueRangeError, match="of the same warpgroup does not") as caught:
        weft.compile(host, options=options)
    assert caught.value.location is not None


def test_setmaxnreg_by_some_threads_is_an_error_on_the_cpu():
    @weft.kernel
    def kernel(a: weft.Tensor):
        if weft.thread_idx.x < 32:
            weft.setmaxnreg(40)
        a[weft.thread_idx.x] = 1.0

    @weft.jit
    def host(a: weft.Tensor[weft.f32, (128,)]):
        kernel(a).launch(grid=1, block=128)

    with pytest.raises(RuntimeError, match="a warpgroup waits for threads that have exited"):
        host(np.zeros(128, np.float32))
