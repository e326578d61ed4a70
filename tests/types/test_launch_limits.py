# SPDX-License-Identifier: Apache-2.0
"""Launch sizes: the same forms and limits everywhere."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from weft.driver.launch_attributes import Cluster, PreferredCluster
from weft.types.launch_limits import BLOCK, CLUSTER, GRID, as_sizes

LIMITS = {"grid": GRID, "block": BLOCK, "cluster": CLUSTER}


@weft.kernel
def nothing_kernel():
    pass


TAKERS: dict[str, list[Any]] = {
    "grid": [
        lambda size: as_sizes(size, "grid", GRID),
        lambda size: nothing_kernel[size, 1],
    ],
    "block": [
        lambda size: as_sizes(size, "block", BLOCK),
        lambda size: nothing_kernel[1, size],
    ],
    "cluster": [
        lambda size: as_sizes(size, "cluster", CLUSTER),
        Cluster,
        PreferredCluster,
        lambda size: weft.kernel(cluster=size)(nothing_kernel.function),
    ],
}
EVERY_TAKER = [
    pytest.param(name, take, id=f"{name}-{number}")
    for name, takers in TAKERS.items()
    for number, take in enumerate(takers)
]


@pytest.mark.parametrize(("name", "take"), EVERY_TAKER)
def test_sizes_are_one_to_three_integers_of_any_library(name: str, take: Any):
    for size in (1, (2,), [2, 2], (2, 2, 2), np.int64(3), (np.uint8(2), 1)):
        take(size)
    for size in ((), (1, 1, 1, 1), "x", 1.0, (1, None), (1, 1.5), True, (1, False), b"ab"):
        with pytest.raises(TypeError, match=f"{name} is .*, expected an int or one to three"):
            take(size)


@pytest.mark.parametrize(("name", "take"), EVERY_TAKER)
def test_each_size_and_their_product_have_a_limit(name: str, take: Any):
    least, most, product = LIMITS[name]
    for axis, limit in enumerate(most):
        size = [1, 1, 1]
        for size[axis] in (least, limit):
            take(tuple(size))
        for size[axis] in (least - 1, limit + 1):
            with pytest.raises(ValueError, match=rf"{name}\.{'xyz'[axis]} is {size[axis]}, exp"):
                take(tuple(size))
    if name != "grid":
        with pytest.raises(ValueError, match=f"{name} has {2 * product} .*at most {product}"):
            take((2, product // 4, 4))


def test_the_extension_and_python_have_the_same_numbers():
    a = np.zeros(1, np.int32)

    @weft.kernel
    def count_kernel(a: weft.Tensor):
        weft.atomic_add(a, 0, 1)

    @weft.jit
    def count(a: weft.Tensor[weft.i32, (1,)], x: weft.i64, y: weft.i64, z: weft.i64):
        count_kernel(a).launch(grid=1, block=(x, y, z))

    fn = weft.compile(count)
    for axis, limit in enumerate(BLOCK[1]):
        size = [1, 1, 1]
        size[axis] = limit
        fn(a, *size)
        size[axis] += 1
        with pytest.raises(
            ValueError, match=rf"block\.{'xyz'[axis]} is {limit + 1}, expected 1 to {limit}"
        ):
            fn(a, *size)
    assert a[0] == sum(BLOCK[1])
    with pytest.raises(
        ValueError, match=f"threads of a block is {2 * BLOCK[2]}, expected 1 to {BLOCK[2]}"
    ):
        fn(a, BLOCK[2] // 2, 4, 1)
