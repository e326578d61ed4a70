# SPDX-License-Identifier: Apache-2.0
"""Kernels whose threads wait: loops split where they wait give what coroutines give, to the bit."""

import textwrap

import numpy as np
import pytest
from xdsl.dialects import scf

import weft
from tests.conformance.harness import define
from tests.sampling import sampled
from tools.fuzz.compare import as_coroutines
from weft.backends.cpu import stages
from weft.backends.cpu.lowering.fission import AROUND, interchange_loops

# name → (statements after `t`, `n` and `tile`, block); each writes out[t], and reads a[t].
KERNELS = {
    "carried through a loop with a barrier": (
        """
        total, other = a[t], 1.0
        for step in range(3 + weft.block_idx.x):
            tile[t] = total + other
            weft.sync_threads()
            total, other = other * 0.5, tile[(t + 1) % n] + total
            weft.sync_threads()
        out[t] = total - other
        """,
        50,
    ),
    "a loop in a loop and a branch": (
        """
        value = a[t]
        width = 1
        while width < n:
            tile[t] = value
            weft.sync_threads()
            if width % 3 != 1:
                for k in range(width):
                    value += tile[(t + k) % n] * 0.25
                    weft.sync_threads()
            else:
                value = tile[n - 1 - t]
            weft.sync_threads()
            width *= 2
        out[t] = value
        """,
        (8, 6),
    ),
    "threads that have returned": (
        """
        if a[t] > 1.0:
            out[t] = -1.0
            return
        count = weft.sync_threads_count(a[t] > 0.0)
        tile[t] = a[t]
        weft.sync_threads()
        if t % 5 == 0:
            return
        rest = weft.sync_threads_count(True)
        out[t] = tile[t] + weft.f32(count) + 100.0 * weft.f32(rest)
        """,
        70,
    ),
    "all threads have returned": (
        """
        if t < 4096:
            out[t] = 3.0
            return
        number = weft.block_idx.x
        while number >= 0:
            weft.sync_threads()
        out[t] = 4.0
        """,
        40,
    ),
    "warps in rows of other lengths": (
        """
        value = a[t]
        for step in weft.static_range(5):
            value += weft.shfl_xor(value, 1 << step)
        votes = weft.ballot(a[t] > 0.0)
        up = weft.shfl_up(value, t % 7, width=16)
        tile[t] = weft.warp.max(a[t])
        weft.sync_threads()
        one = weft.shfl_idx(a[t], 17) + weft.shfl_idx(value, 0)
        out[t] = value + up + tile[n - 1 - t] + weft.f32(weft.math.popcount(votes)) + one
        """,
        (12, 3, 2),
    ),
    "loops and branches of warps": (
        """
        warp, lane = weft.warp_id(), weft.lane_id()
        total = 0.0
        for step in range(warp + 1):
            total = weft.shfl_down(total + a[t], step) + 1.0
            if weft.warp.any(total > 3.0):
                total -= weft.warp.sum(a[(t + step) % n]) * 0.125
        if warp == 1:
            total = weft.shfl_idx(total, lane // 2)
            while weft.warp.all(total < 20.0):
                total += 1.5
        tile[t] = total
        weft.sync_threads()
        equal = weft.match(weft.i32(a[t]))
        out[t] = tile[n - 1 - t] + total + weft.f32(weft.i32(equal % 1000))
        """,
        96,
    ),
    "arrays of each thread": (
        """
        own = weft.local(4, weft.f32)
        many = weft.local(2000, weft.f32)
        for k in range(4):
            own[k] = a[t] * weft.f32(k)
        many[t] = own[3]
        tile[t] = own[1]
        weft.sync_threads()
        for k in range(4):
            own[k] += tile[(t + k) % n]
        weft.sync_threads()
        out[t] = own[0] + own[1] - own[2] * own[3] + many[t]
        """,
        33,
    ),
    "iterations of adjacent elements": (
        """
        for i in range(t, 128, n):
            tile[i] = weft.f32(i) * 0.5 + a[t]
        weft.sync_threads()
        total, product = a[t], 1.0
        for i in range(t + 1, 100 + weft.block_idx.x, n):
            total += tile[i] * 0.25
            if tile[i] > 20.0:
                total, product = product, total
        for k in range(n):
            total = total * 0.5 + tile[k] - tile[t]
        lane = weft.lane_id()
        for i in range(lane, 5 * n, 32):
            if i < 128:
                product = max(product, tile[i])
        weft.sync_warp()
        for i in range(lane + weft.warp_id(), n - 3, 7):
            product += weft.f32(i) * tile[i]
        weft.sync_threads()
        out[t] = total + product
        """,
        48,
    ),
    "votes of the block decide": (
        """
        value, iterations = a[t], 0
        while weft.sync_threads_or(value < 2.0):
            value += 0.75
            iterations += 1
        same = weft.sync_threads_and(value > 1.0)
        out[t] = value + weft.f32(iterations) + (10.0 if same else 20.0)
        """,
        45,
    ),
}
TYPES = "bool_ i8 u16 i32 u64 f16 bf16 f32 f64".split()


HOST = """\
@weft.kernel
def split(a: weft.Tensor, out: weft.Tensor):
    tile = weft.shared(128, weft.f32)
    n = weft.block_dim.x * weft.block_dim.y * weft.block_dim.z
    row = weft.thread_idx.y + weft.block_dim.y * weft.thread_idx.z
    t = weft.thread_idx.x + weft.block_dim.x * row
STATEMENTS

@weft.jit
def host(a: weft.Tensor[weft.f32, ("n",)], out: weft.Tensor[weft.f32, ("n",)], x: weft.i32):
    split(a, out).launch(grid=2, block=BLOCK)
"""


def host_of(statements, block):
    body = textwrap.indent(textwrap.dedent(statements), "    ")
    return define(HOST.replace("STATEMENTS", body).replace("BLOCK", str(block)))["host"]


def outputs(host, a):
    """Results of the loops and of coroutines."""
    found = []
    for hooks in ((), (as_coroutines,)):
        out = np.zeros_like(a)
        compiled = weft.compile(host, a, out, 1, post_compile_hooks=hooks)
        compiled(a, out, len(a))
        (remark,) = compiled.remarks
        assert remark.message.startswith("one coroutine" if hooks else "thread loops, split at")
        found.append(out)
    return found


@pytest.mark.parametrize("name", sampled(KERNELS, 3))
def test_loops_and_coroutines_write_the_same_bits(name):
    statements, block = KERNELS[name]
    threads = int(np.prod(block))
    a = np.random.default_rng(len(name)).standard_normal(threads).astype(np.float32)
    loops, coroutines = outputs(host_of(statements, block), a)
    np.testing.assert_array_equal(loops.view(np.int32), coroutines.view(np.int32))
    assert loops.any()


def test_iterations_enclose_threads_with_adjacent_accesses(monkeypatch):
    found = []

    def interchange(kernel, waits):
        interchange_loops(kernel, waits)
        loops = [op for op in kernel.walk() if isinstance(op, scf.ForOp)]
        found.extend(AROUND in loop.attributes for loop in loops)

    monkeypatch.setattr(stages, "interchange_loops", interchange)
    statements = """
        for i in range(t, 128, n):  # around
            tile[i] = a[t]
        weft.sync_threads()
        for i in range(2 * t, 128, n):  # adjacent elements are two elements apart
            out[t] += tile[i]
        for k in range(n):  # around: all read one element, and adjacent elements their own
            out[t] += tile[k]
        for k in range(n):  # each thread reads a stretch
            out[t] += a[(t * n + k) % n]
        for k in range(t):  # threads have different numbers of iterations
            out[t] += tile[k]
        if t > 3:
            for i in range(t, 128, n):  # not all threads come here
                tile[i] = 1.0
        for i in range(t, 128, n):  # the order of prints is that of the threads
            weft.printf("%d\\n", i)
    """
    a = np.zeros(40, np.float32)
    weft.compile(host_of(statements, 40), a, a, 1)
    assert found == [True, False, True, False, False, False, False]


def test_blocks_of_a_size_that_only_the_call_knows():
    host = host_of(KERNELS["warps in rows of other lengths"][0], "x")
    a = np.random.default_rng(3).standard_normal(45).astype(np.float32)
    loops, coroutines = outputs(host, a)
    np.testing.assert_array_equal(loops.view(np.int32), coroutines.view(np.int32))


def test_values_of_every_type_live_through_barriers_and_shuffles():
    names = ", ".join(f"v_{name}" for name in TYPES)
    statements = "\n".join(
        [
            *(f"v_{name} = weft.{name}(a[t])" for name in TYPES),
            "weft.sync_threads()",
            *(f"v_{name} = weft.shfl_up(v_{name}, 3)" for name in TYPES),
            f"{names} = weft.shfl_xor(v_bool_, 1), " + ", ".join(f"v_{n}" for n in TYPES[1:]),
            "weft.sync_threads()",
            "out[t] = " + " + ".join(f"weft.f32(v_{name})" for name in TYPES),
            *(
                f"out[t] += weft.f32(weft.warp.{kind}(v_{name}))"
                for name in ("i8", "i32", "u64", "f16", "bf16", "f64")
                for kind in ("sum", "min", "max")
            ),
        ]
    )
    a = np.abs(np.random.default_rng(1).standard_normal(75) * 40).astype(np.float32)
    loops, coroutines = outputs(host_of(statements, 75), a)
    np.testing.assert_array_equal(loops.view(np.int32), coroutines.view(np.int32))
