# SPDX-License-Identifier: Apache-2.0
"""Stores into other blocks whose bytes come to a barrier there: every width, order, and what a missing wait does."""

import re

import numpy as np
import pytest

import weft
from tests.conformance.harness import NUMPY_TYPES, Exported, define
from tests.sampling import sampled

F32 = weft.Tensor[weft.f32, ("n",)]
# Element types by how many of them one store takes.
COUNTS = {
    weft.i8: (4, 8, 16),
    weft.f8e4m3: (4, 8, 16),
    weft.bool_: (4, 8, 16),
    weft.f16: (2, 4, 8),
    weft.bf16: (2, 4, 8),
    weft.i32: (1, 2, 4),
    weft.f32: (1, 2, 4),
    weft.u64: (1, 2),
    weft.f64: (1, 2),
}
KERNEL = """
@weft.kernel(cluster=3)
def kernel(a: weft.Tensor, out: weft.Tensor):
    {arrays}
    full = weft.mbarrier(1, arrivals=1)
    rank, t = weft.cluster_rank(), weft.thread_idx.x
    if t == 0:
        full[0].arrive(expect_bytes={bytes})
    {stores}
    full[0].wait(0)
    for i in range({most}):
        {copies}

@weft.jit
def host(a: weft.Tensor, out: weft.Tensor):
    kernel(a, out).launch(grid=6, block=8)
"""


def ring(dtype: weft.DType):
    """Each block of a cluster of 3 sends what it is given to the next one, in stores of every width."""
    counts, lines = COUNTS[dtype], {"arrays": [], "stores": [], "copies": []}
    most = max(counts)
    for number, count in enumerate(counts):
        listed = ", ".join(f"a[weft.block_idx.x, {count} * t + {k}]" for k in range(count))
        value = f"({listed})" if count > 1 else listed
        name, size = f"part_{count}", 8 * count
        lines["arrays"].append(f"{name} = weft.shared({size}, weft.{dtype})")
        place = f"weft.st_async({name}, {count} * t, {value}, full[0], (rank + 1) % 3)"
        lines["stores"].append(place)
        lines["copies"].append(
            f"if 8 * i + t < {size}: out[{number}, weft.block_idx.x, 8 * i + t] = {name}[8 * i + t]"
        )
    source = KERNEL.format(
        arrays="; ".join(lines["arrays"]),
        stores="; ".join(lines["stores"]),
        copies="\n        ".join(lines["copies"]),
        bytes=sum(8 * count * dtype.itemsize for count in counts),
        most=most,
    )
    return define(source)["host"], most, counts


@pytest.mark.parametrize("dtype", sampled(COUNTS, 3), ids=str)
def test_each_block_gets_what_the_one_before_sends(dtype):
    host, most, counts = ring(dtype)
    a = (np.arange(6 * 8 * most).reshape(6, -1) * 7 % 120 - 60).astype(NUMPY_TYPES[dtype])
    out = np.zeros((len(counts), *a.shape), a.dtype)
    host(Exported(a), Exported(out))
    sent = a.reshape(2, 3, -1)[:, [2, 0, 1]].reshape(a.shape)
    for part, count in zip(out, counts, strict=True):
        np.testing.assert_array_equal(part[:, : 8 * count], sent[:, : 8 * count])
        assert not part[:, 8 * count :].any()


@pytest.mark.slow
def test_every_width_is_one_instruction():
    found = set()
    for dtype in (weft.i8, weft.f32, weft.f64):
        host, _, counts = ring(dtype)
        compiled = weft.compile(
            host,
            weft.fake_tensor(dtype, (None, None)),
            weft.fake_tensor(dtype, (None, None, None)),
            options="--gpu-arch sm_90a",
        )
        forms = re.findall(r"st\.async\.\S+bytes\.(\S+)", compiled.ptx)
        assert len(forms) == len(counts)
        assert compiled.sass.count("ST.ASYNC") + compiled.sass.count("STAS") == len(counts)
        assert "MEMBAR" not in compiled.sass.partition("UCGABAR_WAIT")[2]
        found |= set(forms)
    assert found == {"b32", "v2.b32", "v4.b32"}


@weft.kernel(cluster=2)
def late_kernel(out: weft.Tensor):
    buffer = weft.shared(32, weft.f32)
    full = weft.mbarrier(1, arrivals=32)
    lane = weft.lane_id()
    buffer[lane] = -1.0
    weft.sync_cluster()
    full[0].arrive(expect_bytes=4)
    weft.st_async(buffer, 31 - lane, weft.f32(lane), full[0], 1 - weft.cluster_rank())
    weft.sync_cluster()
    out[0, 32 * weft.block_idx.x + lane] = buffer[lane]
    full[0].wait(0)
    out[1, 32 * weft.block_idx.x + lane] = buffer[lane]


def test_the_bytes_come_when_a_thread_waits():
    @weft.jit
    def host(out: weft.Tensor[weft.f32, (2, 64)]):
        late_kernel(out).launch(grid=2, block=32)

    out = np.zeros((2, 64), np.float32)
    host(out)
    np.testing.assert_array_equal(out[0], -1)
    np.testing.assert_array_equal(out[1], np.tile(np.arange(31, -1, -1), 2))


@weft.kernel(cluster=2)
def unread_kernel(a: weft.Tensor):
    buffer = weft.shared(32, weft.f32)
    full = weft.mbarrier(1, arrivals=1)
    weft.st_async(buffer, weft.lane_id(), a[0], full[0], 1)


@weft.kernel(cluster=2)
def returned_kernel(a: weft.Tensor):
    buffer = weft.shared(32, weft.f32)
    full = weft.mbarrier(1, arrivals=1)
    if weft.cluster_rank() == 1:
        weft.st_async(buffer, weft.lane_id(), a[0], full[0], 0)


def send_and_expect(a, expected):
    buffer = weft.shared(32, weft.f32)
    full = weft.mbarrier(1, arrivals=1)
    if weft.thread_idx.x == 0:
        full[0].arrive(expect_bytes=expected)
    weft.st_async(buffer, weft.lane_id(), a[0], full[0], 1 - weft.cluster_rank())
    full[0].wait(0)
    a[1] = buffer[3]


@weft.kernel(cluster=2)
def too_few_kernel(a: weft.Tensor):
    send_and_expect(a, 132)


@weft.kernel(cluster=2)
def too_many_kernel(a: weft.Tensor):
    send_and_expect(a, 124)


@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        (unread_kernel, "a block ended with an st_async to it in flight"),
        (returned_kernel, "a block ended with an st_async to it in flight"),
        (too_few_kernel, "where 0 of 1 arrivals are missing and 4 bytes"),
        (too_many_kernel, "a block ended with an st_async to it in flight"),
    ],
    ids=["unread", "returned", "too few", "too many"],
)
def test_what_the_barrier_does_not_count_is_reported(kernel, words):
    @weft.jit
    def host(a: F32):
        kernel(a).launch(grid=2, block=32)

    with pytest.raises(RuntimeError, match=words):
        host(np.zeros(2, np.float32))
