# SPDX-License-Identifier: Apache-2.0
"""How many programs each function of `weft.kernels` needs, as one number or size after the other takes many values.

docs/kernels.md has these bounds. Nothing is compiled: the keys are counted by which calls find their code.
"""

from __future__ import annotations

import operator
from inspect import signature
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.kernels.counting import compilations, count_only, like_hopper
from tests.sampling import sampled
from weft import kernels

SIZES = (*range(1, 300), *(2**k + d for k in range(9, 17) for d in (-1, 0, 1, 4, 16)))
FEWER = (*range(1, 70), *(2**k + d for k in range(7, 12) for d in (-1, 0, 1, 4, 16)))
FACTORS = tuple(n / 7 for n in range(200))
HEADS = tuple(range(1, 257))
ROWS = 24
"""Programs of a function of rows over all their lengths: classes of threads and of access widths."""
BF16, E4M3 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn


def of(*shape: int, dtype: Any = np.float32) -> Any:
    return np.empty(shape, dtype)


def zeros(*shape: int) -> Any:
    return np.zeros(shape, np.int32)


def add(one: Any, other: Any) -> Any:
    return one + other


def heads(tokens: int, count: int, hdim: int, dtype: Any = np.float32, batches: int = 1) -> Any:
    return of(batches, tokens, count, hdim, dtype=dtype)


def rows_of(name: str, arrays: int = 1, **keywords: Any) -> dict[str, Any]:
    """The axes of a function of arrays of one shape, of rows."""
    function = getattr(kernels, name)

    def call(*shape: int) -> Any:
        return function(*[of(*shape) for _ in range(arrays)], **keywords)

    return {
        "rows": (4, SIZES, lambda n: call(n, 96)),
        "columns": (ROWS, SIZES, lambda n: call(3, n)),
        "planes": (4, SIZES, lambda n: call(n, 2, 96)),
    }


def along_axes(name: str) -> dict[str, Any]:
    function = getattr(kernels, name)
    found = {}
    for axis in (None, 0, 1):
        found |= {
            f"rows {axis}": (ROWS, SIZES, lambda n, axis=axis: function(of(n, 96), axis)),
            f"columns {axis}": (ROWS, SIZES, lambda n, axis=axis: function(of(3, n), axis)),
        }
    return found | {"between": (4, SIZES, lambda n: function(of(5, n, 8), 1))}


def of_heads(dtype: Any) -> dict[str, Any]:
    starts = np.array([0, 2, 5], np.int32)

    def call(
        tokens: int = 5, keys: int = 9, count: int = 2, shared: int = 2, hdim: int = 64, **more: Any
    ) -> Any:
        batches, others = more.pop("batches", 1), {"dtype": dtype}
        others["batches"] = batches
        several = [heads(keys, shared, hdim, **others) for _ in "kv"]
        return kernels.attention(heads(tokens, count, hdim, **others), *several, **more)

    def packed(max_seqlen_q: int) -> Any:
        q, k, v = (of(tokens, 2, 64, dtype=dtype) for tokens in (5, 9, 9))
        return kernels.attention(
            q, k, v, cu_seqlens_q=starts, cu_seqlens_k=starts, max_seqlen_q=max_seqlen_q
        )

    name = np.dtype(dtype).name
    return {
        f"queries {name}": (3, FEWER, call),
        f"keys {name}": (2, FEWER, lambda n: call(1, n)),
        f"batches {name}": (2, FEWER, lambda n: call(batches=n)),
        f"heads {name}": (2, FEWER, lambda n: call(count=n, shared=n)),
        f"group {name}": (3, FEWER, lambda n: call(count=n, shared=1)),
        f"hdim {name}": (32, HEADS, lambda n: call(hdim=n)),
        f"scale {name}": (2, FACTORS, lambda x: call(scale=x)),
        f"softcap {name}": (2, FACTORS, lambda x: call(softcap=abs(x) + 1)),
        f"window_size {name}": (2, FEWER, lambda n: call(window_size=(n, 0))),
        f"max_seqlen_q {name}": (2, FEWER, packed),
    }


def of_heads_backward(dtype: Any) -> dict[str, Any]:
    def call(
        tokens: int = 5, keys: int = 9, count: int = 2, shared: int = 2, hdim: int = 64, **more: Any
    ) -> Any:
        q, k = heads(tokens, count, hdim, dtype), heads(keys, shared, hdim, dtype)
        return kernels.attention_backward(q, q, k, k, **more)

    def scaled(scale: float) -> Any:
        q = heads(5, 2, 64, dtype)
        return kernels.attention_backward(q, q, q, q, scale=scale)

    name = np.dtype(dtype).name
    return {
        f"queries {name}": (4, FEWER, call),
        f"keys {name}": (4, FEWER, lambda n: call(1, n)),
        f"heads {name}": (4, FEWER, lambda n: call(count=n, shared=n)),
        f"group {name}": (4, FEWER, lambda n: call(count=n, shared=1)),
        f"hdim {name}": (64, HEADS, lambda n: call(hdim=n)),
        f"scale {name}": (4, FACTORS, scaled),
        f"softcap {name}": (4, FACTORS, lambda x: call(softcap=abs(x) + 1)),
        f"window_size {name}": (4, FEWER, lambda n: call(window_size=(n, 0))),
    }


def of_gemm(dtype: Any) -> dict[str, Any]:
    def call(m: int, k: int, n: int, **more: Any) -> Any:
        return kernels.gemm(of(m, k, dtype=dtype), of(k, n, dtype=dtype), **more)

    def transposed(k: int) -> Any:
        return kernels.gemm(of(65, k, dtype=dtype), of(72, k, dtype=dtype).T)

    def stack(n: int) -> Any:
        return kernels.gemm(of(n, 9, 64, dtype=dtype), of(n, 64, 72, dtype=dtype))

    name, residual = np.dtype(dtype).name, of(9, 72, dtype=dtype)
    return {
        f"m {name}": (16, FEWER, lambda n: call(n, 64, 72)),
        f"n {name}": (16, FEWER, lambda n: call(65, 64, n)),
        f"k {name}": (16, FEWER, lambda n: call(65, n, 72)),
        f"m of large ones {name}": (16, FEWER, lambda n: call(n, 4096, 4096)),
        f"n of large ones {name}": (16, FEWER, lambda n: call(16, 4096, 8 * n)),
        f"k of long sums {name}": (16, FEWER, lambda n: call(16, 64 * n, 256)),
        f"k of b.T {name}": (16, FEWER, transposed),
        f"stack {name}": (4, FEWER, stack),
        f"alpha {name}": (2, FACTORS, lambda x: call(9, 64, 72, alpha=x)),
        f"beta {name}": (2, FACTORS, lambda x: call(9, 64, 72, residual=residual, beta=x)),
    }


def of_groups(dtype: Any) -> dict[str, Any]:
    def call(m: int = 9, k: int = 64, n: int = 72, groups: int = 3, alpha: float = 1.0) -> Any:
        offsets, b = np.linspace(0, m, groups + 1).astype(np.int32), of(groups, k, n, dtype=dtype)
        return kernels.grouped_gemm(of(m, k, dtype=dtype), b, offsets, alpha=alpha)

    name = np.dtype(dtype).name
    return {
        f"m {name}": (16, FEWER, call),
        f"k {name}": (16, FEWER, lambda n: call(k=n)),
        f"n {name}": (16, FEWER, lambda n: call(n=n)),
        f"groups {name}": (4, FEWER, lambda n: call(groups=n)),
        f"alpha {name}": (2, FACTORS, lambda x: call(alpha=x)),
    }


def of_blocks(m: int, k: int, n: int) -> Any:
    blocks, columns = -(-k // 128), -(-n // 128)
    a, b = of(m, k, dtype=E4M3), of(n, k, dtype=E4M3).T
    return kernels.scaled_gemm(a, b, of(m, blocks), of(columns, blocks).T, dtype="float32")


def is_smooth(n: int) -> bool:
    for prime in (2, 3, 5, 7):
        while n % prime == 0:
            n //= prime
    return n == 1


def places(name: str) -> dict[str, Any]:
    def call(size: int, count: int, columns: int, axis: int) -> Any:
        x = of(size, columns) if axis == 0 else of(columns, size)
        indices = zeros(count, columns) if axis == 0 else zeros(columns, count)
        if name == "gather":
            return kernels.gather(x, indices, axis=axis)
        return kernels.scatter_add(x, indices, of(*indices.shape), axis=axis)

    found = {}
    for axis in (0, 1):
        found |= {
            f"size {axis}": (6, SIZES, lambda n, axis=axis: call(n, 5, 96, axis)),
            f"indices {axis}": (6, SIZES, lambda n, axis=axis: call(9, n, 96, axis)),
            f"others {axis}": (6, SIZES, lambda n, axis=axis: call(9, 5, n, axis)),
            "axis": (4, (0, 1, -1, -2), lambda a: call(96, 96, 96, a % 2)),
        }
    return found


def of_classes(function: Any) -> dict[str, Any]:
    return {
        "rows": (4, SIZES, lambda n: function(of(n, 96), zeros(n))),
        "columns": (ROWS, SIZES, lambda n: function(of(3, n), zeros(3))),
        "ignore_index": (1, SIZES, lambda n: function(of(3, 96), zeros(3), ignore_index=-n)),
    }


def of_angles(tokens: int = 3, count: int = 4, hdim: int = 64, pairs: int | None = None) -> Any:
    pairs = hdim // 2 if pairs is None else pairs
    return kernels.rope(of(tokens, count, hdim), of(tokens, pairs), of(tokens, pairs))


def matrix(rows: int = 5, filled: int = 9, columns: int = 9) -> Any:
    return kernels.sparse_matvec(zeros(rows + 1), zeros(filled), of(filled), of(columns))


def vectors(function: Any) -> dict[str, Any]:
    return {"length": (6, SIZES, function)}


def with_eps(name: str, arrays: int) -> dict[str, Any]:
    function, x = getattr(kernels, name), of(3, 96)
    return rows_of(name, arrays) | {"eps": (1, FACTORS, lambda e: function(*[x] * arrays, eps=e))}


OTHERS = tuple(n for n in range(11, 1 << 12) if not is_smooth(n))
"""Lengths of Fourier transforms that are padded, to 24, 28, 32, 40 and so on up to 7 << 10: 34 of them."""
SMOOTH = tuple(filter(is_smooth, range(1, 300)))
AXES: dict[str, dict[str, Any]] = {
    **{name: along_axes(name) for name in ("argmax", "argmin", "max", "mean", "min", "sum")},
    **{name: rows_of(name) for name in ("argsort", "copy", "cumsum", "gelu", "log_softmax")},
    **{name: rows_of(name) for name in ("softmax", "sort", "transpose")},
    **{name: rows_of(name, 2) for name in ("gelu_backward", "log_softmax_backward", "silu_mul")},
    "softmax_backward": rows_of("softmax_backward", 2),
    "silu_mul_backward": rows_of("silu_mul_backward", 3),
    "attention": of_heads(np.float32) | of_heads(BF16),
    "attention_backward": of_heads_backward(np.float32) | of_heads_backward(BF16),
    "cross_entropy": of_classes(kernels.cross_entropy),
    "cross_entropy_backward": of_classes(
        lambda x, c, **more: kernels.cross_entropy_backward(of(len(c)), x, c, **more)
    ),
    "dropout": {
        **rows_of("dropout", p=0.5, seed=1),
        "p": (1, FACTORS, lambda x: kernels.dropout(of(3, 96), x / 29, 1)),
        "seed": (1, SIZES, lambda n: kernels.dropout(of(3, 96), 0.5, n)),
        "offset": (1, SIZES, lambda n: kernels.dropout(of(3, 96), 0.5, 1, n)),
    },
    "embedding": {
        "rows": (4, SIZES, lambda n: kernels.embedding(of(n, 96), zeros(5))),
        "columns": (ROWS, SIZES, lambda n: kernels.embedding(of(9, n), zeros(5))),
        "indices": (4, SIZES, lambda n: kernels.embedding(of(9, 96), zeros(n))),
    },
    "embedding_backward": {
        "num_embeddings": (1, SIZES, lambda n: kernels.embedding_backward(of(4, 96), zeros(4), n)),
        "columns": (4, SIZES, lambda n: kernels.embedding_backward(of(4, n), zeros(4), 9)),
        "indices": (4, SIZES, lambda n: kernels.embedding_backward(of(n, 96), zeros(n), 9)),
    },
    "gather": places("gather"),
    "scatter_add": places("scatter_add"),
    "gemm": of_gemm(np.float32) | of_gemm(BF16) | of_gemm(np.float64),
    "matmul": {"m": (16, FEWER, lambda n: kernels.matmul(of(n, 64), of(64, 72)))},
    "grouped_gemm": of_groups(np.float32) | of_groups(BF16),
    "scaled_gemm": {
        "m": (16, FEWER, lambda n: of_blocks(n, 64, 72)),
        "k": (16, FEWER, lambda n: of_blocks(64, 16 * n, 72)),
        "n": (16, FEWER, lambda n: of_blocks(64, 64, n)),
    },
    "histogram": {
        "bins": (2, SIZES, lambda n: kernels.histogram(zeros(5, 5), n)),
        "range": (1, SIZES, lambda n: kernels.histogram(of(5, 5), 5, (0, n))),
        "columns": (6, SIZES, lambda n: kernels.histogram(zeros(5, n), 5)),
    },
    "layer_norm": with_eps("layer_norm", 1),
    "layer_norm_backward": with_eps("layer_norm_backward", 2),
    "rms_norm": with_eps("rms_norm", 1),
    "rms_norm_backward": with_eps("rms_norm_backward", 2),
    "partition": vectors(lambda n: kernels.partition(np.ones(n, bool), of(n))),
    "run_length_encode": vectors(lambda n: kernels.run_length_encode(of(n))),
    "compress": vectors(lambda n: kernels.compress(np.ones(n, bool), of(n))),
    "reduce": {
        "identity": (1, FACTORS, lambda x: kernels.reduce(of(5, 5), add, x)),
        "identity of columns": (1, FACTORS, lambda x: kernels.reduce(of(5, 5), add, x, 0)),
        "integer": (1, SIZES, lambda n: kernels.reduce(zeros(5, 5), add, n)),
        "columns": (ROWS, SIZES, lambda n: kernels.reduce(of(5, n), add, 0, -1)),
        "axis": (4, (None, 0, 1, -1, -2), lambda a: kernels.reduce(of(5, 5), add, 0, a)),
    },
    "rope": {
        "tokens": (2, SIZES, of_angles),
        "heads": (2, SIZES, lambda n: of_angles(count=n)),
        "hdim": (6, FEWER, lambda n: of_angles(hdim=2 * n)),
        "pairs": (6, range(1, 81), lambda n: of_angles(hdim=160, pairs=n)),
    },
    "scan": {
        **rows_of("scan", function=add),
        "initial": (1, FACTORS, lambda x: kernels.scan(of(3, 9), initial=x)),
        "integer": (1, SIZES, lambda n: kernels.scan(zeros(3, 9), initial=n)),
        "exclusive": (1, FACTORS, lambda x: kernels.scan(of(3, 9), add, True, x)),
    },
    "sparse_matvec": {
        "rows": (6, SIZES, matrix),
        "numbers": (6, SIZES, lambda n: matrix(filled=n)),
        "columns": (6, SIZES, lambda n: matrix(columns=n)),
    },
    "top_k": {
        "k": (4, SIZES, lambda n: kernels.top_k(of(3, 70000), n)),
        "rows": (4, SIZES, lambda n: kernels.top_k(of(n, 99), 3)),
        "columns": (ROWS, SIZES, lambda n: kernels.top_k(of(3, n), min(n, 3))),
    },
}
AXES |= {
    "fft": {
        "rows": (2, SIZES, lambda n: kernels.fft(of(n, 8, 2))),
        "length": (36, OTHERS, lambda n: kernels.fft(of(2, n, 2))),
        "smooth": (len(SMOOTH), SMOOTH, lambda n: kernels.fft(of(2, n, 2))),
        "norm": (
            3,
            ("backward", "forward", "ortho"),
            lambda one: kernels.fft(of(2, 8, 2), norm=one),
        ),
    },
    "rfft": {
        "rows": (2, SIZES, lambda n: kernels.rfft(of(n, 8))),
        "odd": (36, [n for n in OTHERS if n % 2], lambda n: kernels.rfft(of(2, n))),
        "even": (36, OTHERS, lambda n: kernels.rfft(of(2, 2 * n))),
    },
    "irfft": {
        "rows": (2, SIZES, lambda n: kernels.irfft(of(n, 8, 2))),
        "n": (36, [n for n in OTHERS if n % 2], lambda n: kernels.irfft(of(2, n // 2 + 1, 2), n)),
        "even": (36, OTHERS, lambda n: kernels.irfft(of(2, n + 1, 2))),
    },
}


@pytest.mark.parametrize("device", ["cpu", "hopper"])
@pytest.mark.parametrize("name", sampled(AXES, 2))
def test_values_and_sizes_need_few_programs(name, device, monkeypatch):
    count_only(monkeypatch)
    if device == "hopper":
        like_hopper(monkeypatch)
    found = {
        axis: compilations(lambda value=value, call=call: call(value) for value in values)
        for axis, (_, values, call) in AXES[name].items()
    }
    assert {axis: n for axis, n in found.items() if n > AXES[name][axis][0]} == {}
    assert all(found.values())


def test_every_function_and_every_number_has_an_axis():
    assert AXES.keys() == set(kernels.__all__)
    numbers = {
        (name, parameter.name)
        for name in AXES
        for parameter in signature(getattr(kernels, name)).parameters.values()
        if any(kind in str(parameter.annotation) for kind in ("int", "float"))
    }
    known = {(name, axis.split()[0]) for name, axes in AXES.items() for axis in axes}
    assert {one for one in numbers - known if one[1] not in ("axis", "axes")} == set()


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int64, np.uint64, np.bool_, np.float32])
def test_numbers_that_are_arguments_are_of_the_elements_type(dtype):
    x = np.array([[1, 0, 1, 1]]).astype(dtype)
    either = operator.or_ if dtype is np.bool_ else max
    for value in (0, 1) if dtype is np.bool_ else (0, 1, 3, 100):
        assert kernels.scan(x, either, initial=value)[0, 0] == max(value, 1)
        assert kernels.scan(x, either, exclusive=True, initial=value).tolist()[0][0] == value
        assert kernels.scan(x, initial=value).tolist() == [[value + k for k in (1, 1, 2, 3)]]
        assert kernels.reduce(x[:, :0], either, value, -1).tolist() == [value]
        assert kernels.reduce(x[:0], either, value, 0).tolist() == [value] * 4
    if dtype is np.float32:
        assert kernels.scan(x, initial=-0.5).tolist() == [[0.5, 0.5, 1.5, 2.5]]
        return
    most = 1 if dtype is np.bool_ else np.iinfo(dtype).max
    assert kernels.scan(x, either, initial=int(most)).tolist() == [[most] * 4]
    assert kernels.reduce(x[:, :0], either, int(most), -1).tolist() == [most]
    with pytest.raises(ValueError, match=f"initial is {most + 1}, expected an integer from"):
        kernels.scan(x, max, initial=int(most) + 1)
    with pytest.raises(ValueError, match=f"identity is {most + 1}, expected an integer from"):
        kernels.reduce(x, max, int(most) + 1)
    with pytest.raises(TypeError, match=r"initial is 0\.5, expected an integer"):
        kernels.scan(x, initial=0.5)


def test_counts_are_of_as_many_bins_as_a_call_says():
    x = np.random.default_rng(3).integers(-3, 9000, 30000)
    for bins in (1, 2, 77, 8191, 8192, 8193, 9100):
        expected = np.bincount(x[(x >= 0) & (x < bins)], minlength=bins)
        assert np.array_equal(kernels.histogram(x, bins), expected)
