# SPDX-License-Identifier: Apache-2.0
"""Rows, reductions, scans, sorts and compactions of `weft.kernels` at real sizes, beside torch."""

from __future__ import annotations

import pytest

from weft import kernels

torch = pytest.importorskip("torch", reason="needs torch")
pytestmark = pytest.mark.gpu

LENGTHS = [1000, 100_003, (1 << 24) + 4]


def is_positive(value):
    """A predicate."""
    return value > 0


@pytest.mark.parametrize("columns", [33, 1000, 4097, 32_768, 65_537, 131_072, 700_000])
@pytest.mark.parametrize("name", ["float32", "bfloat16"])
def test_rows_are_those_of_torch(columns, name):
    x = torch.randn(70, columns, device="cuda").to(getattr(torch, name))
    exact, functional = x.double(), torch.nn.functional
    bound = {"atol": 1e-4, "rtol": 1e-4} if name == "float32" else {"atol": 2e-2, "rtol": 2e-2}
    for ours, theirs in (
        (kernels.softmax(x), torch.softmax(exact, -1)),
        (kernels.log_softmax(x), torch.log_softmax(exact, -1)),
        (kernels.layer_norm(x), functional.layer_norm(exact, (columns,))),
        (kernels.rms_norm(x), functional.rms_norm(exact, (columns,), None, 1e-6)),
    ):
        assert torch.allclose(ours.double(), theirs, **bound)


@pytest.mark.parametrize("shape", [(1 << 24,), (4096, 4096), (100_000, 33), (3, 131_072)], ids=str)
def test_reductions_are_those_of_torch(shape):
    x = torch.rand(shape, device="cuda")
    for axis in (None, *range(len(shape))):
        along = {} if axis is None else {"dim": axis}
        exact = x.double().sum(**along)
        assert torch.allclose(kernels.sum(x, axis=axis).double(), exact, rtol=1e-5)
        assert torch.equal(
            kernels.max(x, axis=axis), torch.amax(x, dim=() if axis is None else axis)
        )
        largest = kernels.argmax(x, axis=axis)
        found = x.flatten()[largest] if axis is None else x.gather(axis, largest.unsqueeze(axis))
        assert torch.equal(found.flatten(), kernels.max(x, axis=axis).flatten())


def test_more_elements_than_an_i32_counts():
    x = torch.ones((1 << 31) + 12_345, device="cuda", dtype=torch.int8)
    x[(1 << 31) + 77] = 5
    assert int(kernels.sum(x)) == (1 << 31) + 12_349
    assert int(kernels.argmax(x)) == (1 << 31) + 77


@pytest.mark.parametrize("length", LENGTHS)
def test_scans_are_those_of_torch_and_give_equal_bits(length):
    x = torch.randint(-9, 9, (length,), device="cuda", dtype=torch.int32)
    assert torch.equal(kernels.cumsum(x), torch.cumsum(x, 0))
    assert torch.equal(kernels.scan(x, exclusive=True)[1:], torch.cumsum(x, 0)[:-1])
    y = torch.randn(length, device="cuda")
    assert torch.equal(kernels.scan(y, max), torch.cummax(y, 0).values)
    assert torch.equal(kernels.cumsum(y), kernels.cumsum(y))


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("name", ["int32", "float32", "int64", "bfloat16", "int8"])
def test_sorts_are_those_of_torch(length, name):
    x = (torch.randn(length, device="cuda") * 100).to(getattr(torch, name))
    keys, places = torch.sort(x, stable=True)
    assert torch.equal(kernels.sort(x), keys)
    assert torch.equal(kernels.argsort(x), places)
    for k in (50, 500):
        values, indices = kernels.top_k(x, k)
        order = torch.sort(x, stable=True, descending=True)
        assert torch.equal(values, order.values[:k])
        assert torch.equal(indices, order.indices[:k])


def test_the_largest_of_many_rows_where_few_threads_have_them():
    x = torch.zeros(300, 131_072, device="cuda")
    x[:, ::256] = torch.rand(300, 512, device="cuda") + 1
    x[7] = torch.nan
    assert kernels.top_k(x[:0], 100)[0].shape == (0, 100)
    values, indices = kernels.top_k(x, 100)
    order = torch.sort(torch.nan_to_num(x, -1.0), stable=True, descending=True)
    assert torch.equal(torch.nan_to_num(values, -1.0), order.values[:, :100])
    assert torch.equal(indices, order.indices[:, :100])


@pytest.mark.parametrize("length", LENGTHS)
def test_compactions_are_those_of_torch(length):
    x = torch.randn(length, device="cuda")
    kept, count = kernels.compress(is_positive, x)
    assert torch.equal(kept[: int(count)], x[x > 0])
    parts, count = kernels.partition(x > 0, x)
    assert torch.equal(parts, torch.cat([x[x > 0], x[x <= 0]]))
    y = torch.randint(0, 3, (length,), device="cuda", dtype=torch.int32)
    for runs in (y, torch.arange(length, device="cuda") // 70_000, torch.zeros_like(y)):
        values, lengths, count = kernels.run_length_encode(runs)
        expected, counts = torch.unique_consecutive(runs, return_counts=True)
        assert torch.equal(values[: int(count)], expected)
        assert torch.equal(lengths[: int(count)], counts)
    assert torch.equal(kernels.histogram(y, 3), torch.bincount(y, minlength=3))
