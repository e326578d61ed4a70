# SPDX-License-Identifier: Apache-2.0
"""How many steps each vertex of a graph is from vertex 0: level by level, in one launch.

Shapes: the edges of vertex v go to `targets[first_edge[v]]` up to, but without,
`targets[first_edge[v + 1]]`; all int32. `distances` has one int32 per vertex, -1 where there is no
way; `found` has three for the kernel's own use. The launch is cooperative: all blocks run at once and
meet at a barrier after each level.
"""

from __future__ import annotations

import numpy as np

import weft
from examples.common import Arguments, Arrays, Example, show

BLOCKS, THREADS = 16, 128


@weft.kernel
def begin_kernel(distances: weft.Tensor, found: weft.Tensor):
    """One thread: marks one vertex as not found, except the first."""
    vertex = weft.block_idx.x * weft.block_dim.x + weft.thread_idx.x
    if vertex < distances.shape[0]:
        distances[vertex] = 0 if vertex == 0 else -1
    if vertex < 3:
        found[vertex] = 0


@weft.kernel
def search_kernel(
    first_edge: weft.Tensor, targets: weft.Tensor, distances: weft.Tensor, found: weft.Tensor
):
    """All threads: one level after the other, until a level finds nothing new.

    `found` has three flags, of this level, the next and the one before: no thread clears a flag that
    another thread may still set or read.
    """
    first = weft.block_idx.x * weft.block_dim.x + weft.thread_idx.x
    threads = weft.grid_dim.x * weft.block_dim.x
    level = 0
    searching = True
    while searching:
        for vertex in range(first, distances.shape[0], threads):
            if weft.atomic_load(distances, vertex, order="relaxed") == level:
                for edge in range(first_edge[vertex], first_edge[vertex + 1]):
                    # Threads that reach a vertex at the same time write the same number.
                    target = targets[edge]
                    if weft.atomic_load(distances, target, order="relaxed") < 0:
                        weft.atomic_store(distances, target, level + 1, order="relaxed")
                        found[level % 3] = 1
        if first == 0:
            found[(level + 1) % 3] = 0
        weft.sync_grid()
        searching = found[level % 3] != 0
        level += 1


@weft.jit
def breadth_first_search(
    first_edge: weft.Tensor[weft.i32, ("vertices_and_one",)],
    targets: weft.Tensor[weft.i32, ("edges",)],
    distances: weft.Tensor[weft.i32, ("vertices",)],
    found: weft.Tensor[weft.i32, (3,)],
):
    """Fill in the distances."""
    grid = weft.ceil_div(distances.shape[0], THREADS)
    begin_kernel(distances, found).launch(grid=grid, block=THREADS)
    search_kernel(first_edge, targets, distances, found).launch(
        grid=BLOCKS, block=THREADS, cooperative=True
    )


def make_arguments(vertices: int) -> Arguments:
    """A graph with three random edges out of each vertex: some vertices have none into them."""
    random = np.random.default_rng(16)
    return {
        "first_edge": np.arange(0, 3 * vertices + 1, 3, dtype=np.int32),
        "targets": random.integers(0, vertices, 3 * vertices).astype(np.int32),
        "distances": np.empty(vertices, np.int32),
        "found": np.zeros(3, np.int32),
    }


def fake_arguments():
    """Any graph."""
    sizes = (weft.sym("vertices_and_one"), weft.sym("edges"), weft.sym("vertices"), 3)
    return tuple(weft.fake_tensor(weft.i32, (size,)) for size in sizes)


def reference(
    first_edge: np.ndarray, targets: np.ndarray, distances: np.ndarray, found: np.ndarray
) -> Arrays:
    """What NumPy says: all edges out of one level at a time."""
    sources = np.repeat(np.arange(len(distances)), np.diff(first_edge))
    expected = np.full_like(distances, -1)
    expected[0] = 0
    for level in range(len(distances)):
        reached = targets[expected[sources] == level]
        new = reached[expected[reached] < 0]
        if len(new) == 0:
            break
        expected[new] = level + 1
    return {"distances": expected}


EXAMPLE = Example(
    name="breadth_first_search",
    function=breadth_first_search,
    make_arguments=make_arguments,
    fake_arguments=fake_arguments,
    reference=reference,
    describe=lambda vertices: f"{vertices:,} vertices",
    size=1 << 17,
    test_size=5_003,
    instructions=("ld.global", "st.global"),
)

if __name__ == "__main__":
    show(EXAMPLE)
