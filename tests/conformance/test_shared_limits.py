# SPDX-License-Identifier: Apache-2.0
"""How much shared memory a block may have on the CPU: as much as on the largest GPU, the kernel's own included.

In: what launches ask for. Out: the view's last element, or an error with both numbers.
"""

from __future__ import annotations

import numpy as np
import pytest

import weft

MOST = 227 * 1024
OWN = 4096


@weft.kernel
def ends_kernel(out: weft.Tensor, n: weft.i32):
    own = weft.shared(1024, weft.f32)
    asked = weft.dynamic_shared(n, weft.f32)
    own[0] = 1.0
    own[1023] = 2.0
    asked[0] = 3.0
    asked[n - 1] = 4.0
    weft.sync_threads()
    out[0] = own[0] + own[1023] + asked[0] + asked[n - 1]


@weft.jit
def ends(out: weft.Tensor, n: weft.i32, asked: weft.i64):
    ends_kernel(out, n).launch(grid=1, block=1, shared_memory_bytes=asked)


def test_a_block_may_have_all_of_it():
    out = np.zeros(1, np.float32)
    ends(out, (MOST - OWN) // 4, MOST - OWN)
    assert out.tolist() == [10.0]


@pytest.mark.parametrize("asked", [MOST - OWN + 16, 1 << 40, (1 << 63) - 1, -16])
def test_more_or_less_than_there_is_is_refused_with_both_numbers(asked: int):
    total = asked + OWN if 0 <= asked < 1 << 62 else None
    with pytest.raises(
        ValueError, match=r"launch of ends_kernel: shared_memory_bytes is"
    ) as caught:
        ends(np.zeros(1, np.float32), 4, asked)
    assert f"expected 0 to {MOST}" in str(caught.value)
    if total is not None or asked == -16:
        assert f"is {asked if total is None else total}," in str(caught.value)
