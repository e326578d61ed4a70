# SPDX-License-Identifier: Apache-2.0
"""Every thread of every block runs once, and knows where it is; all ways to write a launch.

In: grids and blocks in one to three dimensions. Out: one mark per thread.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import weft
from tests.conformance.conftest import TARGET
from tests.conformance.harness import define

COORDINATES = ("block_idx", "thread_idx", "block_dim", "grid_dim")


@weft.kernel
def where_am_i_kernel(seen: weft.Tensor):
    block = weft.block_idx.x + weft.grid_dim.x * (
        weft.block_idx.y + weft.grid_dim.y * weft.block_idx.z
    )
    thread = weft.thread_idx.x + weft.block_dim.x * (
        weft.thread_idx.y + weft.block_dim.y * weft.thread_idx.z
    )
    row = block * (weft.block_dim.x * weft.block_dim.y * weft.block_dim.z) + thread
    seen[row, 0] = weft.block_idx.x
    seen[row, 1] = weft.block_idx.y
    seen[row, 2] = weft.block_idx.z
    seen[row, 3] = weft.thread_idx.x
    seen[row, 4] = weft.thread_idx.y
    seen[row, 5] = weft.thread_idx.z
    seen[row, 6] += 1


@weft.jit
def where_am_i(
    seen: weft.Tensor,
    gx: weft.i32,
    gy: weft.i32,
    gz: weft.i32,
    bx: weft.i32,
    by: weft.i32,
    bz: weft.i32,
):
    where_am_i_kernel(seen).launch(grid=(gx, gy, gz), block=(bx, by, bz))


@pytest.mark.parametrize(
    ("grid", "block"),
    [
        ((1, 1, 1), (1, 1, 1)),
        ((5, 1, 1), (33, 1, 1)),
        ((2, 3, 4), (3, 2, 2)),
        ((1, 1, 7), (1, 1, 64)),
        ((3, 2, 1), (1, 1024, 1)),
        ((1, 1, 1), (1024, 1, 1)),
        ((4, 1, 2), (32, 4, 8)),
        ((100, 1, 1), (1, 1, 1)),
    ],
    ids=str,
)
def test_every_thread_runs_once_and_knows_where_it_is(grid, block):
    rows = int(np.prod(grid) * np.prod(block))
    seen = np.zeros((rows, 7), np.int32)
    where_am_i(seen, *grid, *block)
    expected = [
        (bx, by, bz, tx, ty, tz, 1)
        for bz, by, bx in itertools.product(*(range(n) for n in reversed(grid)))
        for tz, ty, tx in itertools.product(*(range(n) for n in reversed(block)))
    ]
    np.testing.assert_array_equal(seen, expected)


@pytest.mark.parametrize("empty", [(0, 1, 1), (1, 0, 1), (3, 4, 0)], ids=str)
def test_grid_without_blocks_runs_nothing(empty):
    seen = np.zeros((1, 7), np.int32)
    where_am_i(seen, *empty, 32, 1, 1)
    assert not seen.any()


def launched(configuration: str) -> tuple[list[int], list[int]]:
    """Grid and block as a kernel sees them under a launch written like this."""
    out = np.zeros(6, np.int32)
    define(
        f"""
        @weft.kernel
        def kernel(out: weft.Tensor):
            out[0], out[1], out[2] = weft.grid_dim.x, weft.grid_dim.y, weft.grid_dim.z
            out[3], out[4], out[5] = weft.block_dim.x, weft.block_dim.y, weft.block_dim.z

        @weft.jit
        def host(out: weft.Tensor, n: weft.i32 = 3):
            kernel(out).launch({configuration})
        """
    )["host"](out)
    return out[:3].tolist(), out[3:].tolist()


@pytest.mark.parametrize(
    ("configuration", "grid", "block"),
    [
        ("grid=2, block=3", [2, 1, 1], [3, 1, 1]),
        ("grid=(2,), block=(3,)", [2, 1, 1], [3, 1, 1]),
        ("grid=(2, 3), block=(4, 5)", [2, 3, 1], [4, 5, 1]),
        ("grid=(n, 2, n + 1), block=(1, n, 2)", [3, 2, 4], [1, 3, 2]),
        ("block=2, grid=n * n", [9, 1, 1], [2, 1, 1]),
        ("grid=1, block=1, stream=None, cluster=None", [1, 1, 1], [1, 1, 1]),
    ],
)
def test_launch_configuration(configuration, grid, block):
    assert launched(configuration) == (grid, block)


def test_kernel_launches_without_a_host_function():
    seen = np.zeros((12, 7), np.int32)
    where_am_i_kernel[(2, 1), 6](seen)
    assert seen[:, 6].tolist() == [1] * 12
    assert seen[:, 3].tolist() == [*range(6)] * 2


def test_coordinates_may_be_imported_by_name_or_alias():
    out = np.zeros(8, np.int32)
    names = define(
        """
        from weft import thread_idx
        import weft as w

        @weft.kernel
        def kernel(out: w.Tensor):
            lane = thread_idx.x
            out[lane] = w.block_dim.x + lane
        """
    )
    names["kernel"][1, 8](out)
    assert out.tolist() == [8 + k for k in range(8)]


@pytest.mark.parametrize(
    ("block", "words"),
    [((2048, 1, 1), "2048"), ((1, 1, 65), "65"), ((32, 33, 1), "1056"), ((0, 1, 1), "0")],
    ids=str,
)
def test_block_that_no_gpu_could_run_is_refused_with_the_number(block, words):
    seen = np.zeros((1, 7), np.int32)
    with pytest.raises((ValueError, weft.WeftError), match=words):
        where_am_i(seen, 1, 1, 1, *block)
    assert not seen.any()


def test_negative_grid_is_refused():
    with pytest.raises((ValueError, weft.WeftError), match="-1"):
        where_am_i(np.zeros((1, 7), np.int32), -1, 1, 1, 1, 1, 1)


WRONG_LAUNCHES = {
    "grid=1": "block",
    "block=1": "grid",
    "grid=(1, 2, 3, 4), block=1": "4",
    "grid=1.5, block=1": "1.5",
    "grid=1, block='x'": "'x'",
    "grid=1, block=1, threads=3": "threads",
    "grid=1, block=2000": "2000",
}


@pytest.mark.parametrize("configuration", WRONG_LAUNCHES)
def test_wrong_launch_is_a_compile_error_with_its_line(configuration):
    with pytest.raises(weft.WeftError) as caught:
        launched(configuration)
    assert WRONG_LAUNCHES[configuration] in str(caught.value)
    assert f"kernel(out).launch({configuration})" in str(caught.value)


def test_kernel_called_without_a_launch_is_refused():
    with pytest.raises(weft.UnavailableError, match=r"\.launch\(grid=\.\.\., block=\.\.\.\)"):
        where_am_i_kernel(np.zeros((1, 7), np.int32))


def test_a_block_beyond_the_declared_size_is_refused():
    host = define(
        """
        @weft.kernel(max_threads=32)
        def kernel(out: weft.Tensor):
            out[weft.thread_idx.x] = 1

        @weft.jit(options="--target cpu")
        def host(out: weft.Tensor[weft.i32, ("n",)], block: weft.i32):
            kernel(out).launch(grid=1, block=block)
        """
    )["host"]
    out = np.zeros(64, np.int32)
    host(out, 32)
    assert out.sum() == 32
    with pytest.raises(ValueError, match="threads of a block is 33, expected 1 to 32"):
        host(out, 33)


def test_a_grid_of_parts_of_clusters_is_refused_at_run_time():
    host = define(
        """
        @weft.kernel(cluster=(2, 1, 2))
        def kernel(out: weft.Tensor):
            out[weft.block_idx.x] = 1

        @weft.jit(options="--target cpu")
        def host(out: weft.Tensor[weft.i32, ("n",)], x: weft.i32, z: weft.i32):
            kernel(out).launch(grid=(x, 1, z), block=1)
        """
    )["host"]
    out = np.zeros(8, np.int32)
    host(out, 4, 2)
    host(out, 0, 0)
    assert out.sum() == 4
    for sizes, text in (((3, 2), "grid.x is 3"), ((2, 1), "grid.z is 1")):
        with pytest.raises(ValueError, match=rf"{text}, expected a multiple of 2"):
            host(out, *sizes)


def test_sizes_of_a_launch_may_be_numpys_integers():
    names = define(
        """
        GRID, BLOCK = np.int64(3), (np.int32(4), np.uint8(2))

        @weft.kernel
        def kernel(a: weft.Tensor):
            weft.atomic_add(a, 0, 1)

        @weft.jit
        def host(a: weft.Tensor):
            kernel(a).launch(grid=GRID, block=BLOCK, shared_memory_bytes=np.int64(8))

        @weft.jit
        def given(a: weft.Tensor, grid):
            kernel(a).launch(grid=grid, block=[np.int64(8)])
        """
    )
    a = np.zeros(1, np.int32)
    names["host"](a)
    names["given"](a, np.int64(3))
    names["kernel"][np.int64(3), (np.int32(4), np.uint8(2))](a)
    assert a[0] == 3 * 24


@pytest.mark.parametrize("grid", [np.bool_(True), np.float64(1), np.array([1]), "1"], ids=repr)
def test_a_non_integer_is_not_a_size(grid):
    names = define(
        """
        @weft.kernel
        def kernel(a: weft.Tensor):
            a[0] = 1

        @weft.jit
        def host(a: weft.Tensor):
            kernel(a).launch(grid=GRID, block=1)
        """,
        GRID=grid,
    )
    with pytest.raises(weft.WeftError, match="LAUNCH_SIZE"):
        names["host"](np.zeros(1, np.int32))
    with pytest.raises(weft.WeftError, match="LAUNCH_CONFIGURATION"):
        names["kernel"][grid, 1](np.zeros(1, np.int32))


def test_grid_is_the_index_in_the_whole_grid():
    names = define(
        """
        @weft.kernel
        def line(a: weft.Tensor):
            i = weft.grid(1)
            a[i] = i

        @weft.kernel
        def box(a: weft.Tensor):
            x, y, z = weft.grid(3)
            weft.static_assert(len(weft.grid(2)) == 2)
            a[z, y, x] = x + 10 * y + 100 * z
        """
    )
    a = np.zeros(12, np.int32)
    names["line"][3, 4](a)
    assert a.tolist() == list(range(12))
    a = np.zeros((2, 3, 4), np.int32)
    names["box"][(2, 3, 1), (2, 1, 2)](a)
    z, y, x = np.indices(a.shape)
    assert (a == x + 10 * y + 100 * z).all()


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint16, np.uint64])
def test_the_size_of_a_local_array_is_of_any_integer_type(dtype):
    @weft.kernel
    def kernel(sizes: weft.Tensor, a: weft.Tensor):
        row = weft.local(sizes[0], weft.i32, at_most=300)
        a[0] = len(row)

    a = np.zeros(1, np.int64)
    kernel[1, 1](np.array([100], dtype), a)
    assert a[0] == 100


def test_a_local_array_of_a_run_time_size():
    names = define(
        """
        @weft.kernel
        def kernel(a: weft.Tensor, n: weft.i64):
            row = weft.local(n, weft.i32, at_most=5)
            for k in range(len(row)):
                row[k] = k * k
            a[0] = row[n - 1]
            a[1] = len(row)
            weft.static_assert(weft.local(3, weft.i32, at_most=5).shape == (3,))
        """
    )
    for n in (1, 4, 5):
        a = np.zeros(2, np.int32)
        names["kernel"][1, 1](a, n)
        assert a.tolist() == [(n - 1) ** 2, n]
    for n in (6, -1) if TARGET != "cuda" else ():  # a GPU checks assertions on request
        with pytest.raises(AssertionError, match=r"the size of weft.local is 0 to at_most=5"):
            names["kernel"][1, 1](np.zeros(2, np.int32), n)
