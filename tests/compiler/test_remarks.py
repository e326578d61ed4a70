# SPDX-License-Identifier: Apache-2.0
"""`fn.remarks`: which way each kernel's threads run on the CPU, and what the assembler warned of."""

import textwrap

import numpy as np
import pytest
from xdsl.dialects import scf

import weft
from tests.conformance.harness import define
from tools.fuzz.compare import as_coroutines
from weft.backends.cpu.lowering.cooperation import COOPERATION
from weft.backends.cpu.stages import _NAMES as WAITS_OF
from weft.backends.cuda import stages
from weft.backends.cuda.toolchain import Assembly, begin_assembly
from weft.dialects.access import CalledAs, trait_of
from weft.dialects.simt.kernel import KernelOp


@weft.kernel
def lonely(a: weft.Tensor):
    a[weft.thread_idx.x] += 1.0


@weft.kernel
def sociable(a: weft.Tensor):
    a[weft.thread_idx.x] += 1.0
    weft.sync_threads()


@weft.jit
def both(a: weft.Tensor[weft.f32, ("n",)]):
    lonely(a).launch(grid=1, block=32)
    sociable(a).launch(grid=1, block=32)


def test_a_kernel_says_how_its_threads_run():
    function = weft.compile(both, np.zeros(32, np.float32))
    loop, split = function.remarks
    assert (loop.kernel, loop.file) == ("lonely", "")
    assert loop.message == "thread loop"
    line = sociable.function.__code__.co_firstlineno + 3
    assert (split.kernel, split.file, split.line) == ("sociable", __file__, line)
    assert split.message == "thread loops, split at sync_threads"
    assert str(split).startswith(f"{__file__}:{line}: ")
    assert function.to(0).remarks == function.remarks
    (_, coroutine) = weft.compile(
        both, np.zeros(32, np.float32), post_compile_hooks=[as_coroutines]
    ).remarks
    assert coroutine.message == "one coroutine per thread, because of sync_threads"


# name → (the branch or loop, in which threads meet, and what is said of it)
DIVERGING = {
    "if t < 7:\n    weft.sync_threads()": "sync_threads in a branch",
    "for _ in range(t):\n    weft.sync_threads_count(t > 3)": "sync_threads_count in a loop",
    "while a[0] > weft.f32(t):\n    a[0] = weft.warp.sum(a[0])": "a loop that may wait for what other threads write",
    "if weft.lane_id() < 5:\n    weft.ballot(t > 3, mask=31)": "ballot in a branch",
    "weft.shfl_down(t, 1, mask=255 << (t & 24))": "shfl_down",
    "if weft.warp_id() == 0:\n    weft.sync_threads()": "sync_threads in a branch",
}


@pytest.mark.parametrize("statement", DIVERGING)
def test_coroutines_name_the_divergent_statement(statement):
    host = define(
        "@weft.kernel\ndef diverges(a: weft.Tensor):\n    t = weft.thread_idx.x\n"
        + textwrap.indent(statement, "    ")
        + """
@weft.jit
def host(a: weft.Tensor[weft.f32, ("n",)]):
    diverges(a).launch(grid=1, block=64)
"""
    )["host"]
    (remark,) = weft.compile(host, np.zeros(32, np.float32)).remarks
    expected = DIVERGING[statement]
    if expected.endswith((" branch", "in a loop")):
        expected += " that threads may take differently"
    assert remark.message == f"one coroutine per thread, because of {expected}"
    assert remark.line == 4


def test_whatever_threads_wait_at_has_the_name_that_users_know():
    waiting = {*COOPERATION, scf.WhileOp, KernelOp}
    assert not [op for op in waiting if (trait_of(op, CalledAs) is None) == (op not in WAITS_OF)]


@weft.kernel
def guarded(a: weft.Tensor):
    i = weft.block_idx.x * weft.block_dim.x + weft.thread_idx.x
    if i < a.shape[0]:
        a[i] += 1.0


@weft.kernel
def returning(a: weft.Tensor):
    i = weft.thread_idx.x
    if i >= a.shape[0] or a.shape[0] > 100:
        return
    a[i] += 1.0


@weft.jit
def with_guards(a: weft.Tensor[weft.f32, ("n",)]):
    guarded(a).launch(grid=1, block=32)
    returning(a).launch(grid=1, block=32)


def test_a_guard_moved_to_loop_bounds_keeps_its_line():
    function = weft.compile(with_guards, np.zeros(32, np.float32))
    for kernel, remark in zip((guarded, returning), function.remarks, strict=True):
        line = kernel.function.__code__.co_firstlineno + 3
        expected = f"{__file__}:{line}: thread loop; this condition is its bounds"
        assert str(remark) == f"{expected} (kernel {remark.kernel})"


WAITS = {
    "sync_threads_count": "weft.sync_threads_count(t > 3)",
    "sync_warp": "weft.sync_warp()",
    "sync_grid": "weft.sync_grid()",
    "sync_cluster": "weft.sync_cluster()",
    "map_shared": "weft.map_shared(tile, 0)[t]",
    "shfl_down": "weft.shfl_down(t, 1)",
    "ballot": "weft.ballot(t > 3)",
    "match_all": "weft.match_all(t)",
    "warp.sum": "weft.warp.sum(t)",
    "warp.max": "weft.warp.max(weft.u32(t))",
}


@pytest.mark.parametrize("name", WAITS)
def test_coroutines_are_explained_in_the_words_of_the_language(name):
    kernel = define(
        f"""
        @weft.kernel
        def waits(a: weft.Tensor):
            t = weft.thread_idx.x
            tile = weft.shared(32, weft.f32)
            value = {WAITS[name] if name[:4] != "sync" else "t"}
            {WAITS[name]}
            a[t] = weft.f32(value)

        @weft.jit
        def host(a: weft.Tensor[weft.f32, ("n",)]):
            waits(a).launch(grid=2, block=32, cooperative=True, cluster=2)
        """
    )["host"]
    (remark,) = weft.compile(
        kernel, np.zeros(32, np.float32), post_compile_hooks=[as_coroutines]
    ).remarks
    assert remark.message == f"one coroutine per thread, because of {name}"


def test_a_loop_that_no_read_ends_does_not_wait():
    host = define(
        """
        @weft.kernel
        def counts(a: weft.Tensor):
            i = weft.thread_idx.x
            while i < a.shape[0]:
                weft.atomic_add(a, 0, a[0])
                i += 32

        @weft.jit
        def host(a: weft.Tensor[weft.f32, ("n",)]):
            counts(a).launch(grid=1, block=32)
        """
    )["host"]
    (remark,) = weft.compile(host, np.zeros(32, np.float32)).remarks
    assert remark.message == "thread loop"


def test_warnings_of_the_assembler_are_remarks(monkeypatch):
    warning = "ptxas info    : (C7510) Potential Performance Loss in the function 'lonely'\n"

    def warn(*arguments):
        assembly = begin_assembly(*arguments)()
        return lambda: Assembly(assembly.cubin, assembly.log + warning)

    monkeypatch.setattr(stages, "begin_assembly", warn)
    (remark,) = weft.compile(both, options="--gpu-arch sm_90a").remarks
    assert (remark.code, remark.kernel) == ("C7510", "lonely")


def test_nothing_worth_a_remark_leaves_none():
    assert weft.compile(both, options="--gpu-arch sm_90a").remarks == ()
