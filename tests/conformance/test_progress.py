# SPDX-License-Identifier: Apache-2.0
"""Blocks of a plain launch go on, whichever they wait for: no launch on the CPU hangs where a GPU's would end."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import pytest

import weft
from tests.sampling import sampled

WAYS = {
    "atomic": """
        while weft.atomic_load(flags, other, order="acquire") == 0:
            pass
    """,
    "plain": """
        while flags[other] == 0:
            pass
        weft.fence_device()
    """,
    "volatile add": """
        while weft.atomic_add(flags, other, 0) == 0:
            pass
    """,
    "compare and swap": """
        while weft.atomic_cas(flags, other, 0, 0) == 0:
            pass
    """,
    "two flags": """
        while weft.atomic_load(flags, other) + weft.atomic_load(out, other) != 2:
            pass
        weft.fence_device()
    """,
}
# Who waits for whom.
ORDERS = {
    "later": ("block + 1", "block < last"),
    "last": ("last", "block < last"),
    "earlier": ("block - 1", "block > 0"),
    "half": ("block + last // 2 + 1", "block + last // 2 < last"),
}
PROGRAM = """
import numpy as np
import weft

@weft.kernel{decorator}
def kernel(flags: weft.Tensor, out: weft.Tensor):
    block, last = weft.block_idx.x, weft.grid_dim.x - 1
    {body}

@weft.jit
def host(flags: weft.Tensor[weft.i32, ("n",)], out: weft.Tensor[weft.i32, ("n",)]):
    kernel(flags, out).launch(grid=out.shape[0], block={threads})

for blocks in {sizes}:
    flags, out = np.zeros(blocks, np.int32), np.zeros(blocks, np.int32)
    {launch}
    assert (out == 1).all(), out
print("done")
"""
ONE_THREAD = """
if weft.thread_idx.x == 0:
    if {condition}:
        other = {other}
        {wait}
    out[block] = 1
    weft.fence_device()
    weft.atomic_store(flags, block, 1, order="release")
"""
ALL_THREADS = """
if {condition}:
    other = {other}
    {wait}
weft.sync_threads()
if weft.thread_idx.x == 0:
    out[block] = 1
    weft.fence_device()
    weft.atomic_store(flags, block, 1, order="release")
"""
TOGETHER = """
if {condition}:
    done = False
    while not done:
        done = weft.sync_threads_or(weft.atomic_load(flags, {other}) == 1)
if weft.thread_idx.x == 0:
    out[block] = 1
    weft.fence_device()
    weft.atomic_store(flags, block, 1, order="release")
"""
EACH_OTHER = """
if weft.thread_idx.x == 0:
    weft.atomic_add(flags, 0, 1)
    while weft.atomic_load(flags, 0) <= last:
        pass
    out[block] = 1
"""
DIRECT = "host(flags, out)"


def indented(text, depth):
    return textwrap.indent(textwrap.dedent(text).strip(), " " * depth).strip()


def run(body, *, threads=32, cpu_threads=2, sizes=(2, 7, 300), launch=DIRECT, decorator=""):
    """Runs the program; fails if it takes long."""
    text = PROGRAM.format(
        body=indented(body, 4),
        threads=threads,
        sizes=sizes,
        launch=launch,
        decorator=decorator,
    )
    environment = {**os.environ, "WEFT_NUM_THREADS": str(cpu_threads)}
    run_program(text, environment)


def run_program(text, environment=None):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "program.py")
        path.write_text(text)
        command = [sys.executable, str(path)]
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=120, check=False
        )
    assert done.stdout == "done\n", done.stderr


def waiting(template, way, order):
    other, condition = ORDERS[order]
    depth = 8 if template is ONE_THREAD else 4
    return template.format(other=other, condition=condition, wait=indented(WAYS[way], depth))


@pytest.mark.parametrize("order", sampled(ORDERS, 6))
@pytest.mark.parametrize("way", sampled(WAYS, 2))
def test_a_block_may_wait_for_any_other(way, order):
    run(waiting(ONE_THREAD, way, order))


@pytest.mark.parametrize("cpu_threads", sampled([1, 2, 8], 3))
@pytest.mark.parametrize("template", sampled([ONE_THREAD, ALL_THREADS, TOGETHER, EACH_OTHER], 3))
def test_on_any_number_of_threads_of_the_machine(template, cpu_threads):
    run(waiting(template, "atomic", "later"), cpu_threads=cpu_threads)


@pytest.mark.parametrize("threads", sampled([256, 1], 3))
@pytest.mark.parametrize("template", [ONE_THREAD, ALL_THREADS, TOGETHER])
def test_in_blocks_of_any_size(template, threads):
    run(waiting(template, "plain", "later"), threads=threads, sizes=(3, 40))


LAUNCHES = {
    "brackets": "kernel[blocks, 32](flags, out)",
    "compiled": "weft.compile(host, flags, out)(flags, out)",
    "sanitized": "with weft.sanitize('all'): host(flags, out)",
    "orders": "weft.testing.check_orders(host, flags, out)\n    host(flags, out)",
}


@pytest.mark.parametrize("launch", sampled(LAUNCHES, 2))
def test_in_any_launch(launch):
    run(waiting(ONE_THREAD, "atomic", "later"), launch=LAUNCHES[launch], sizes=(2, 9, 40))


def test_under_the_sanitizer_beyond_what_it_keeps_alive():
    run(waiting(ONE_THREAD, "atomic", "last"), launch=LAUNCHES["sanitized"], sizes=(1500,))


@pytest.mark.parametrize("cpu_threads", sampled([1, 4], 2))
def test_over_a_domain(cpu_threads):
    """The first block waits for the last one before its iterations."""
    body = """
    if block == 0 and last > 0:
        while weft.atomic_load(flags, last) == 0:
            pass
    weft.atomic_store(flags, block, 1)
    for i in weft.each(out.shape[0]):
        out[i] = 1
    """
    launch = (
        "flags = np.zeros(5000, np.int32); out = np.zeros(blocks * 1000, np.int32)\n"
        "    kernel.over(out.size)(flags, out)"
    )
    run(body, launch=launch, sizes=(1, 50, 500), cpu_threads=cpu_threads)


@pytest.mark.parametrize("options", ["", "--gpu-arch sm_90a"])
def test_iterations_that_wait_for_others_are_refused(options):
    @weft.kernel
    def atomic_kernel(flags, out):
        for i in weft.each(out.shape[0]):
            while weft.atomic_load(flags, out.shape[0] - 1) == 0:
                pass
            weft.atomic_store(flags, i, 1)

    @weft.kernel
    def plain_kernel(flags, out):
        for i in weft.each(out.shape[0]):
            while True:
                if flags[i + 1] != 0:
                    break
            flags[i] = 1

    @weft.kernel
    def swapping_kernel(flags, out):
        for i in weft.each(out.shape[0]):
            done = False
            while not done:
                old = weft.atomic_load(flags, 0)
                done = weft.atomic_cas(flags, 0, old, old + i) == old

    def compiled(kernel):
        @weft.jit
        def host(flags: weft.Tensor[weft.i32, ("m",)], out: weft.Tensor[weft.i32, ("n",)]):
            kernel(flags, out).launch(grid=2, block=32)

        weft.compile(host, options=options)

    for kernel in (atomic_kernel, plain_kernel):
        with pytest.raises(
            weft.CompileError, match="all iterations may run in one thread"
        ) as caught:
            compiled(kernel)
        assert caught.value.code == "EACH_INSIDE"
    compiled(swapping_kernel)


@pytest.mark.parametrize("cpu_threads", sampled([1, 4], 2))
def test_clusters_wait_for_later_clusters(cpu_threads):
    body = """
    if weft.cluster_rank() == 0 and weft.thread_idx.x == 0 and block + 2 <= last:
        while weft.atomic_load(flags, block + 2) == 0:
            pass
    weft.sync_cluster()
    if weft.thread_idx.x == 0:
        out[block] = 1
        weft.fence_device()
        weft.atomic_store(flags, block, 1)
    """
    run(body, decorator="(cluster=2)", sizes=(4, 60), cpu_threads=cpu_threads)


def test_blocks_that_wait_and_fill_all_memory_are_an_error():
    body = """
    tile = weft.shared(12288, weft.f32)
    tile[weft.thread_idx.x] = 1.0
    weft.sync_threads()
    if block < last:
        while weft.atomic_load(flags, last) == 0:
            pass
    out[block] = tile[weft.thread_idx.x] == 1.0
    weft.atomic_store(flags, block, 1)
    """
    launch = """
    try:
        host(flags, out)
    except RuntimeError as error:
        assert "wait in loops for blocks that have not begun" in str(error), error
        assert "launch fewer blocks" in str(error)
        out[:] = 1
    """
    run(
        body,
        sizes=(60_000,),
        threads=1,
        cpu_threads=1,
        launch=textwrap.dedent(launch).strip().replace("\n", "\n    "),
    )


def test_a_launch_that_waits_forever_is_interrupted():
    program = """
import signal
import numpy as np
import weft

@weft.kernel
def kernel(flags: weft.Tensor):
    while weft.atomic_load(flags, weft.block_idx.x) == 0:
        pass

signal.alarm(1)
signal.signal(signal.SIGALRM, lambda *_: (_ for _ in ()).throw(TimeoutError("stopped")))
try:
    kernel[100, 32](np.zeros(100, np.int32))
except TimeoutError:
    print("done")
"""
    run_program(program)
