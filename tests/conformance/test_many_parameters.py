# SPDX-License-Identifier: Apache-2.0
"""Functions of hundreds of parameters are called right, check each of them, and compile in linear time.

In: a kernel of many tensors. Out: values, errors, times.
"""

from __future__ import annotations

import time

import numpy as np
import pytest

import weft
from tests.conformance.harness import define


def many(count: int):
    """A host function of many vectors, whose kernel adds up their first elements in the first one."""
    names = [f"a{index}" for index in range(count)]
    text = f"""
@weft.kernel
def kernel({", ".join(names)}):
    a0[0] = {" + ".join(f"a{index}[{index}]" for index in range(count))}

@weft.jit
def host({", ".join(names)}):
    kernel({", ".join(names)}).launch(grid=1, block=1)
"""
    return define(text)["host"]


def test_each_of_many_tensors_arrives_where_it_belongs():
    count = 80
    host = many(count)
    arrays = [np.arange(index, index + count) for index in range(count)]
    total = sum(2 * index for index in range(count))
    compiled = weft.compile(host, *arrays)
    compiled(*arrays)
    assert arrays[0][0] == total
    for wrong in (arrays[7].astype(np.float32), arrays[7][:, None], None):
        for place in (0, 41, count - 1):
            given = [*arrays]
            given[place] = wrong
            with pytest.raises((TypeError, ValueError), match=rf"a{place}\b"):
                compiled(*given)


@pytest.mark.slow
def test_the_time_to_compile_is_linear_in_the_number_of_parameters():
    seconds = []
    for count in (125, 1000):
        start = time.process_time()
        weft.compile(many(count), *[weft.fake_tensor(weft.f32, (None,))] * count)
        seconds.append(time.process_time() - start)
    assert seconds[1] < 20 * seconds[0]
