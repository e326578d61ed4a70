# SPDX-License-Identifier: Apache-2.0
"""A matmul whose warps load, compute and store at the same time, and a timeline that shows it.

Shapes: `a` is m x k, `b` is k x n, `c` is m x n, float32 and contiguous. A block computes a tile of
16 x 16 of c with three groups of threads: while one multiplies a pair of tiles, another fetches the
next pair into the other half of the shared arrays, and a third writes finished tiles out. Run this
file for a table, a picture and a trace.
"""

from __future__ import annotations

import numpy as np

import weft
from examples.common import Arguments, Arrays, Example, show
from weft.profiler import Profiler

TILE = 16
GROUP = 64  # threads that load; as many that compute, and as many that store
SHARE = TILE * TILE // GROUP


@weft.kernel
def profile_matmul_kernel(
    a: weft.Tensor, b: weft.Tensor, c: weft.Tensor, profiled: weft.Constexpr[bool]
):
    """One block: a row of tiles of c, one after the other."""
    p = Profiler(
        events=("fetch", "multiply", "write"),
        groups=("load", "compute", "store"),
        enabled=profiled,
    )
    tile_a = weft.shared((2, TILE, TILE), weft.f32)
    tile_b = weft.shared((2, TILE, TILE), weft.f32)
    done = weft.shared((2, TILE, TILE), weft.f32)
    role, lane = weft.thread_idx.x // GROUP, weft.thread_idx.x % GROUP
    p.init(role)
    m, depth = a.shape
    n = c.shape[1]
    first_row = weft.block_idx.x * TILE
    steps = weft.ceil_div(depth, TILE)
    iterations = weft.ceil_div(n, TILE) * steps
    sums = weft.local(SHARE, weft.f32)
    for k in weft.static_range(SHARE):
        sums[k] = 0.0
    # Iteration r fetches the pair of tiles r, multiplies pair r - 1, and writes the tile that ended with r - 2.
    for r in range(iterations + 2):
        if role == 0 and r < iterations:
            with p.range("fetch", payload=r):
                column, first = r // steps * TILE, r % steps * TILE
                for k in weft.static_range(SHARE):
                    y, x = (lane + k * GROUP) // TILE, (lane + k * GROUP) % TILE
                    row, place = first_row + y, first + x
                    inside = row < m and place < depth
                    tile_a[r % 2, y, x] = a[row, place] if inside else 0.0
                    inside = first + y < depth and column + x < n
                    tile_b[r % 2, y, x] = b[first + y, column + x] if inside else 0.0
                # A region is the leader's time; this makes it that of its warp.
                weft.sync_warp()
        if role == 1 and 1 <= r <= iterations:
            with p.range("multiply", payload=r - 1):
                for k in weft.static_range(SHARE):
                    y, x = (lane + k * GROUP) // TILE, (lane + k * GROUP) % TILE
                    total = sums[k]
                    for j in weft.static_range(TILE):
                        total += tile_a[(r - 1) % 2, y, j] * tile_b[(r - 1) % 2, j, x]
                    if (r - 1) % steps == steps - 1:
                        done[(r - 1) // steps % 2, y, x] = total
                        total = 0.0
                    sums[k] = total
                weft.sync_warp()
        if role == 2 and r >= 2 and (r - 2) % steps == steps - 1:
            with p.range("write", payload=r - 2):
                column = (r - 2) // steps * TILE
                for k in weft.static_range(SHARE):
                    y, x = (lane + k * GROUP) // TILE, (lane + k * GROUP) % TILE
                    if first_row + y < m and column + x < n:
                        c[first_row + y, column + x] = done[(r - 2) // steps % 2, y, x]
                weft.sync_warp()
        weft.sync_threads()


@weft.jit
def profile_matmul(
    a: weft.Tensor[weft.f32, ("m", "k")],
    b: weft.Tensor[weft.f32, ("k", "n")],
    c: weft.Tensor[weft.f32, ("m", "n")],
    profiled: weft.Constexpr[bool] = True,
):
    """Write a @ b to c."""
    blocks = weft.ceil_div(c.shape[0], TILE)
    profile_matmul_kernel(a, b, c, profiled).launch(grid=blocks, block=3 * GROUP)


def make_arguments(n: int) -> Arguments:
    """Two matrices of normally distributed numbers, a little off square."""
    random = np.random.default_rng(22)
    a = random.standard_normal((n, n + 9), dtype=np.float32)
    b = random.standard_normal((n + 9, n - 7), dtype=np.float32)
    return {"a": a, "b": b, "c": np.empty((n, n - 7), np.float32)}


def fake_arguments():
    """Matrices that fit together."""
    m, k, n = weft.sym("m"), weft.sym("k"), weft.sym("n")
    return (
        weft.fake_tensor(weft.f32, (m, k)),
        weft.fake_tensor(weft.f32, (k, n)),
        weft.fake_tensor(weft.f32, (m, n)),
    )


def reference(a: np.ndarray, b: np.ndarray, **_: object) -> Arrays:
    """What NumPy says."""
    return {"c": a @ b}


EXAMPLE = Example(
    name="profile_matmul",
    function=profile_matmul,
    make_arguments=make_arguments,
    fake_arguments=fake_arguments,
    reference=reference,
    describe=lambda n: f"{n} x {n + 9} times {n + 9} x {n - 7}",
    size=256,
    test_size=50,
    tolerance=1e-4,
    instructions=("%clock", "st.global.v2", "bar.sync"),
)


def main() -> None:
    """Run, check, and show a captured run."""
    show(EXAMPLE)
    from weft.profiler import calibrate, capture, inflation

    arguments = make_arguments(32)
    with capture() as trace, trace.span("profile_matmul"):
        profile_matmul(**arguments)
    trace.cost_ns = calibrate().cost_ns
    print(trace.summary())
    trace.to_perfetto("matmul.perfetto-trace")
    trace.plot("matmul.png")
    times = inflation(
        lambda: profile_matmul(**arguments, profiled=True),
        lambda: profile_matmul(**arguments, profiled=False),
    )
    print(
        f"\nmatmul.perfetto-trace and matmul.png are written; markers that record nothing: {times:.3f} times the time"
    )


if __name__ == "__main__":
    main()
