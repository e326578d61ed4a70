# SPDX-License-Identifier: Apache-2.0
"""The three kernels of TIRx's profiling page, in weft, and the page's own decoding loop.

In: how the block is split into groups. Out: host functions; durations as the page's loop reads them.
"""

from __future__ import annotations

from enum import Enum

import numpy as np

import weft
from weft.profiler import CudaProfiler

NUM_BLOCKS, BLOCK = 4, 128
PROF_SIZE = 4096


class Ev(Enum):
    Load = 0
    Compute = 1
    Store = 2


EV_NAMES = ["load", "compute", "store"]


@weft.kernel
def one_group_kernel(
    out: weft.Tensor,
    inp: weft.Tensor,
    prof: weft.Tensor,
    enabled: weft.Constexpr[bool],
    fence: weft.Constexpr[bool],
):
    tid = weft.thread_idx.x
    idx = weft.block_idx.x * BLOCK + tid
    p = CudaProfiler(
        prof,
        write_stride=NUM_BLOCKS,
        num_groups=1,
        default_leader=(tid == 0),
        profiler_enabled=enabled,
        fence=fence,
    )
    p.init(0)
    p.start(Ev.Load)
    x = inp[idx]
    p.end(Ev.Load)
    p.start(Ev.Compute)
    acc = weft.f32(0)
    for _ in range(4000):
        acc = acc * 1.0001 + x
    p.end(Ev.Compute)
    p.start(Ev.Store)
    out[idx] = acc
    p.end(Ev.Store)
    p.finalize()


@weft.jit
def one_group(
    out: weft.Tensor,
    inp: weft.Tensor,
    prof: weft.Tensor,
    enabled: weft.Constexpr[bool] = True,
    fence: weft.Constexpr[bool] = False,
):
    one_group_kernel(out, inp, prof, enabled, fence).launch(grid=NUM_BLOCKS, block=BLOCK)


@weft.kernel
def unmarked_kernel(out: weft.Tensor, inp: weft.Tensor):
    tid = weft.thread_idx.x
    idx = weft.block_idx.x * BLOCK + tid
    x = inp[idx]
    acc = weft.f32(0)
    for _ in range(4000):
        acc = acc * 1.0001 + x
    out[idx] = acc


@weft.jit
def unmarked(out: weft.Tensor, inp: weft.Tensor):
    unmarked_kernel(out, inp).launch(grid=NUM_BLOCKS, block=BLOCK)


@weft.kernel
def warp_groups_kernel(out: weft.Tensor, inp: weft.Tensor, prof: weft.Tensor):
    tid = weft.thread_idx.x
    idx = weft.block_idx.x * 256 + tid
    p = CudaProfiler(
        prof, write_stride=2 * weft.grid_dim.x, num_groups=2, default_leader=(tid % 128 == 0)
    )
    if tid < 128:
        p.init(0)
    else:
        p.init(1)
    p.start(Ev.Load)
    x = inp[idx]
    p.end(Ev.Load)
    p.start(Ev.Compute)
    acc = weft.f32(0)
    if tid < 128:
        for _ in range(1000):
            acc = acc * 1.0001 + x
    else:
        for _ in range(5000):
            acc = acc * 1.0001 + x
    p.end(Ev.Compute)
    p.start(Ev.Store)
    out[idx] = acc
    p.end(Ev.Store)
    p.finalize()


@weft.jit
def warp_groups(out: weft.Tensor, inp: weft.Tensor, prof: weft.Tensor):
    warp_groups_kernel(out, inp, prof).launch(grid=2, block=256)


@weft.kernel
def uneven_groups_kernel(out: weft.Tensor, inp: weft.Tensor, prof: weft.Tensor):
    tid = weft.thread_idx.x
    idx = weft.block_idx.x * 128 + tid
    p = CudaProfiler(
        prof,
        write_stride=3,
        num_groups=3,
        default_leader=((tid == 0) | (tid == 48) | (tid == 96)),
    )
    if tid < 48:
        p.init(0)
    elif tid < 96:
        p.init(1)
    else:
        p.init(2)
    p.start(Ev.Load)
    x = inp[idx]
    p.end(Ev.Load)
    p.start(Ev.Compute)
    acc = weft.f32(0)
    for _ in range(2000):
        acc = acc * 1.0001 + x
    p.end(Ev.Compute)
    p.start(Ev.Store)
    out[idx] = acc
    p.end(Ev.Store)
    p.finalize()


@weft.jit
def uneven_groups(out: weft.Tensor, inp: weft.Tensor, prof: weft.Tensor):
    uneven_groups_kernel(out, inp, prof).launch(grid=1, block=128)


def page_spans(prof_np: np.ndarray, num_groups: int = 1) -> dict[int, list[tuple[str, int]]]:
    """The decoding loop of the page, word for word; its `block` is the track where groups are not divided out."""
    NUM_GROUPS = num_groups
    opens, spans = {}, {}
    for i in range(1, len(prof_np)):
        word = int(prof_np[i])
        if word == 0:
            continue
        ts, tag = word >> 32, word & 0xFFFFFFFF
        block = (tag >> 12) // NUM_GROUPS
        event_idx, event_type = (tag >> 2) & 0x3FF, tag & 0x3
        if event_type == 0:
            opens[(block, event_idx)] = ts
        elif event_type == 1:
            spans.setdefault(block, []).append(
                (EV_NAMES[event_idx], ts - opens[(block, event_idx)])
            )
    return spans


def run(host, threads: int, words: int = PROF_SIZE, **keywords):
    """Runs a kernel of the page; returns its output and the profiler's buffer."""
    inp, out = np.ones(threads, "float32"), np.zeros(threads, "float32")
    prof = np.zeros(words, "uint64")
    host(out, inp, prof, **keywords)
    return out, prof
