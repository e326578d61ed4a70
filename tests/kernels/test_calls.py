# SPDX-License-Identifier: Apache-2.0
"""A function of `weft.kernels` decides twice for calls that differ in elements and addresses alone."""

from __future__ import annotations

import weakref
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import weft
from weft import _native, kernels
from weft.kernels.annotations import Array, Constant
from weft.kernels.host.arrays import describe, output, refuse_overlap
from weft.kernels.host.dispatch_cache import Call, View, cached_dispatch, cached_dispatch_except
from weft.kernels.linalg import dispatch


@weft.kernel
def times_kernel(x: Array, out: Array, factor: Constant):
    for i in weft.each(x.shape[0]):
        out[i] = x[i] * factor


@weft.jit
def _times(x: Array, out: Array, factor: Constant):
    times_kernel(x, out, factor).launch(over=x.shape[0])


DECISIONS: list[Any] = []


@cached_dispatch
def times(x: Any, factor: int = 2, out: Any = None) -> Any:
    """The array times a number."""
    DECISIONS.append(factor)
    source = describe(x, "x")
    out = output(source, source.shape, source.dtype, source.type_name, out)
    return Call(_times, (x, out, factor), out) if source.size else out


def decided(*arguments: Any, **keywords: Any) -> int:
    """How often a right call was decided."""
    before = len(DECISIONS)
    found = times(*arguments, **keywords)
    factor = keywords.get("factor", (*arguments, 2)[1])
    assert np.array_equal(found, np.asarray(arguments[0]) * factor)
    assert keywords.get("out") is None or found is keywords["out"]
    return len(DECISIONS) - before


def test_calls_that_differ_in_elements_are_decided_twice():
    x, y = np.arange(8), np.arange(8) + 1
    assert decided(x) == decided(y) == 1
    assert decided(y) == decided(x) == 0
    assert decided(x, 3) == decided(y, 3) == 1
    assert decided(y, 3) == 0
    assert decided(x, factor=3) == 1
    out = np.empty_like(x)
    assert decided(x, 3, out=out) == decided(y, 3, out=out) == 1
    assert decided(y, 3, out=np.empty_like(x)) == 0
    for other in (
        x[:4],
        x[::2],
        x[::-1],
        x.reshape(2, 4)[0],
        x.astype(np.float32),
        x.view(np.uint64),
    ):
        assert decided(other) + decided(other) == 2 or other.tobytes() == x[:4].tobytes()
        assert decided(other) == 0
    assert decided(np.empty(0, np.int64)) == decided(np.empty(0, np.int64)) == 1  # launches nothing


def test_growing_shapes_are_not_cached_and_displace_nothing():
    x = np.arange(3000)
    decisions = [decided(x[1:7]) for _ in range(3)]
    made = sum(decided(x[:n]) for n in range(100, 2600))
    assert (decisions, made, decided(x[1:7])) == ([1, 1, 0], 2500, 0)


def test_seeds_of_cached_calls_are_arguments():
    decisions: list[int] = []

    @cached_dispatch_except("seed")
    def added(x: Any, width: int, seed: int) -> Any:
        decisions.append(seed)
        return Call(_added, (x, out := np.empty_like(x), width, seed), out)

    x = np.arange(8)
    for seed in (2, 3, 5, 6):  # the first one is the width, too
        assert np.array_equal(added(x, 2, seed), x + 2 + 10 * seed)
        assert np.array_equal(added(x, 2, seed=seed), x + 2 + 10 * seed)
    assert decisions == [2, 2, 3, 3]
    assert np.array_equal(added(x, 2, np.int64(7)), x + 72) and len(decisions) == 5


@weft.kernel
def added_kernel(x: Array, out: Array, width: weft.i64, seed: weft.i64):
    for i in weft.each(x.shape[0]):
        out[i] = x[i] + width + 10 * seed


@weft.jit
def _added(x: Array, out: Array, width: weft.i64, seed: weft.i64):
    added_kernel(x, out, width, seed).launch(over=x.shape[0])


def test_how_arrays_overlap_and_are_aligned_is_part_of_the_key():
    memory = np.zeros(64, np.float32)

    def key(*arguments: Any) -> Any:
        return _native.call_key(arguments, {})

    assert key(memory[:8], memory[8:16]) == key(memory[:8], memory[16:24])
    keys = {key(memory[:8], memory[k : k + 8]) for k in (0, 4, 8)}
    assert len(keys) == 3
    assert key(memory[1:9]) != key(memory[:8]) == key(memory[4:12])
    assert key([1]) is None
    assert (
        len({key(1), key(1.0), key(True), key("1"), key(None), key((1,)), key(0.0), key(-0.0)}) == 8
    )


def test_an_overlapping_out_is_refused_after_a_disjoint_one():
    x = np.random.default_rng(0).standard_normal((6, 8)).astype(np.float32)
    expected = kernels.softmax(x[:4].copy())
    for out in (np.empty((4, 8), np.float32), x[:4].copy()):
        assert np.array_equal(kernels.softmax(x[:4], out=out), expected)
    with pytest.raises(ValueError, match="out overlaps with x"):
        kernels.softmax(x[:4], out=x[1:5])
    assert np.array_equal(kernels.softmax(x[:4], out=x[:4]), expected)


def test_an_out_interleaved_with_rows_does_not_overlap():
    memory = np.zeros((8, 24), np.float32)
    x = describe(memory[::2, :8], "x")

    def is_refused(out: np.ndarray) -> bool:
        try:
            refuse_overlap(x, describe(out, "out"), may_be_same=True)
        except ValueError:
            return True
        return False

    rows = memory.reshape(4, 48)
    for out in (
        memory[1::2, :8],
        memory[::-2, :8],
        memory[:, 8:],
        memory[::2, 23:7:-2],
        rows[:, 8:],
        memory.reshape(4, 2, 3, 8)[:, :, 1:].transpose(2, 0, 3, 1),
        memory.view(np.float16)[:, 16:24],
        memory[:0],
        memory[::-1, :8],
        memory[:, 7:],
        memory[::2, 1:9],
        rows[:, 7:9],
        rows[:, 47:],
        memory.view(np.float16)[::2, 15:23],
    ):
        assert is_refused(out) == np.shares_memory(x.array, out)
    assert not is_refused(x.array)


def flipped(x: Any) -> Any:
    return x[::-1]


def test_views_are_made_again():
    asked: list[Any] = []

    @cached_dispatch
    def flip_twice(x: Any) -> Any:
        asked.append(x)
        out = output(describe(x, "x"), x.shape, describe(x, "x").dtype, "float64")
        once, into = flipped(x), flipped(out)
        twice = flipped(once)
        views = View(once, x, flipped), View(twice, once, flipped), View(into, out, flipped)
        return Call(_times, (twice, into, 3), out, views)

    for first in (0.0, 10.0, 20.0):
        assert np.array_equal(flip_twice(np.arange(4) + first), 3 * np.arange(4)[::-1] + 3 * first)
    assert len(asked) == 2


@pytest.mark.slow
def test_gemm_is_dispatched_twice(monkeypatch: pytest.MonkeyPatch):
    choose, asked = dispatch.dispatch, []
    monkeypatch.setattr(
        "weft.kernels.linalg.gemm.dispatch", lambda *a: asked.append(a) or choose(*a)
    )
    offsets = np.array([0, 2, 6], np.int32)
    for seed in range(3):
        random = np.random.default_rng(seed)
        a, b, bias, residual = (
            random.standard_normal(s) for s in ((2, 3, 8), (8, 4), 4, (2, 3, 4))
        )
        found = kernels.gemm(a, b, bias, "relu", residual, 0.5)
        assert np.allclose(found, np.maximum(a @ b / 2 + bias, 0) + residual)
        rows, stack = a.reshape(6, 8), np.stack([b, -b])
        found = kernels.grouped_gemm(rows, stack, offsets, np.stack([bias, bias]))
        assert np.allclose(found, np.concatenate([rows[:2] @ b, rows[2:] @ -b]) + bias)
        narrow, scales = a.astype("f").astype(ml_dtypes.float8_e4m3fn), random.random((2, 3, 1))
        found = kernels.scaled_gemm(
            narrow, np.ones((8, 4), narrow.dtype), scales.astype("f"), np.ones((1, 1), "f")
        )
        expected = narrow.astype("f").sum(-1, keepdims=True) * scales
        assert np.allclose(found.astype("f"), expected.repeat(4, -1), 1e-2)
    assert len(asked) == 6


def test_a_number_that_is_an_array_is_read_each_time():
    x = np.arange(6.0).reshape(2, 3)
    number: Any = np.array
    for axis in (0, 1):
        assert np.array_equal(kernels.sum(x, axis=number(axis)), x.sum(axis))
        assert len(kernels.top_k(x[0], number(axis + 1))[0]) == axis + 1
    for alpha in (2.0, 3.0):
        assert np.array_equal(kernels.gemm(x, x.T, alpha=number(alpha)), alpha * (x @ x.T))


def test_the_result_is_the_out_that_was_given():
    x = np.ones((2, 3), np.float32)
    for out in (x, x.view(), x):
        assert kernels.softmax(x, out=out) is out


def test_nothing_keeps_the_arrays_of_a_call():
    x = np.arange(16)
    found = times(x)
    gone = [weakref.ref(x), weakref.ref(found)]
    del x, found
    assert [one() for one in gone] == [None, None]


LIMIT = 10


def limited(a: Any, b: Any) -> Any:
    """The larger one, up to a limit."""
    larger = max(a, b)
    return min(larger, LIMIT)


def test_a_function_whose_globals_change_is_compiled_again(monkeypatch: pytest.MonkeyPatch):
    x = np.array([[3, 7]], np.int32)
    assert [int(kernels.reduce(x, limited, 0)) for _ in range(3)] == [7, 7, 7]
    monkeypatch.setitem(globals(), "LIMIT", 5)
    assert [int(kernels.reduce(x, limited, 0)) for _ in range(3)] == [5, 5, 5]


@pytest.mark.torch
def test_tensors_that_require_a_gradient_are_never_cached():
    import torch

    x = torch.ones(4, 8)
    assert not kernels.softmax(x).requires_grad
    assert kernels.softmax(x.clone().requires_grad_()).requires_grad
    assert not kernels.softmax(x).requires_grad
