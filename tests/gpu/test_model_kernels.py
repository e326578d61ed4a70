# SPDX-License-Identifier: Apache-2.0
"""The functions of `weft.kernels` that models are made of, on a GPU at real sizes, beside torch in f64."""

from __future__ import annotations

from typing import Any

import pytest

from weft import kernels

torch = pytest.importorskip("torch", reason="needs torch")
pytestmark = pytest.mark.gpu
DTYPES = (torch.float32, torch.float16, torch.bfloat16)
# Of a result rounded once: half of the last place.
ROUNDING = {torch.float32: 2e-6, torch.float16: 1e-3, torch.bfloat16: 8e-3}


def numbers(*shape: int, dtype: Any = torch.float32) -> Any:
    return torch.randn(shape, device="cuda", dtype=torch.float32).to(dtype)


def check(found: Any, expected: Any, tolerance: float = 0.0) -> None:
    tolerance = tolerance or ROUNDING[found.dtype]
    assert found.shape == expected.shape
    assert torch.allclose(found.double(), expected.double(), tolerance, tolerance)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_elementwise(dtype: Any):
    functional = torch.nn.functional
    x, y = numbers(1000, 4099, dtype=dtype), numbers(1000, 4099, dtype=dtype)
    for part in (slice(None), slice(1, 4001)):
        a, b = x[:, part], y[:, part]
        wide = a.double().requires_grad_()
        for form in ("none", "tanh"):
            expected = functional.gelu(wide, approximate=form)
            check(kernels.gelu(a, form), expected)
            (grad,) = torch.autograd.grad(expected, wide, b.double())
            check(kernels.gelu_backward(b, a, form), grad)
        check(kernels.silu_mul(a, b), functional.silu(a.double()) * b.double())


@pytest.mark.parametrize("dtype", (*DTYPES, torch.float64, torch.int8), ids=str)
def test_moves(dtype: Any):
    x = torch.randint(-100, 100, (3, 1023, 2050), device="cuda").to(dtype)
    for axes in ((0, 2, 1), (2, 0, 1), (1, 0, 2), (2, 1, 0)):
        found = kernels.transpose(x, axes)
        assert found.is_contiguous() and torch.equal(found, x.permute(axes))
    view = x.permute(2, 0, 1)[1::2]
    assert torch.equal(kernels.copy(view), view)


def test_a_transposition_has_more_elements_than_32_bits_count():
    large = torch.randint(-100, 100, (2, 1 << 15, 1 << 15), device="cuda", dtype=torch.int8)
    assert torch.equal(kernels.transpose(large), large.transpose(1, 2))  # 2³¹ elements


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_dropped_elements_are_those_of_the_cpu(dtype: Any):
    x = numbers(1000, 4096, dtype=dtype)
    found, same = kernels.dropout(x, 0.3, 11), kernels.dropout(x.cpu(), 0.3, 11)
    assert torch.equal(found.cpu(), same)
    assert torch.equal(
        kernels.dropout(x[:, 1:], 0.3, 11).cpu(), kernels.dropout(x[:, 1:].cpu(), 0.3, 11)
    )


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("style", ["half", "interleaved"])
def test_rope(dtype: Any, style: str):
    x = numbers(2, 2048, 8, 128, dtype=dtype)
    angles = torch.rand(2048, 64, device="cuda") * 6
    halves = x.double().unflatten(-1, (2, 64) if style == "half" else (64, 2))
    p, q = halves.unbind(-2 if style == "half" else -1)
    cos, sin = angles.double().cos()[:, None], angles.double().sin()[:, None]
    rotated = torch.stack((p * cos - q * sin, q * cos + p * sin), -2 if style == "half" else -1)
    found = kernels.rope(x, angles.cos(), angles.sin(), style)
    check(found, rotated.flatten(-2), 2 * ROUNDING[dtype])
    check(kernels.rope(found, angles.cos(), angles.sin(), style, True), x, 4 * ROUNDING[dtype])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_embeddings(dtype: Any):
    table = numbers(50_257, 768, dtype=dtype)
    indices = torch.randint(0, 50_257, (8, 1024), device="cuda")
    for columns in (slice(None), slice(1, 700)):
        expected = torch.nn.functional.embedding(indices, table[:, columns])
        assert torch.equal(kernels.embedding(table[:, columns], indices), expected)
    gradient = numbers(8, 1024, 768, dtype=dtype)
    sums = torch.zeros(50_257, 768, device="cuda", dtype=torch.float64)
    sums.index_add_(0, indices.flatten(), gradient.double().flatten(0, 1))
    check(kernels.embedding_backward(gradient, indices, 50_257), sums, 2 * ROUNDING[dtype])
    for uses in (
        indices,
        indices % 3,
        indices[:, :100],
    ):  # 8192 of many rows, of few, and what one block sorts
        rows = gradient[:, : uses.shape[1]]
        sums = torch.zeros(50_257, 768, device="cuda", dtype=torch.float64)
        sums.index_add_(0, uses.flatten(), rows.double().flatten(0, 1))
        ordered = kernels.embedding_backward(rows, uses, 50_257, deterministic=True)
        check(ordered / 64, sums / 64, 2 * ROUNDING[dtype])
        again = kernels.embedding_backward(rows, uses, 50_257, deterministic=True)
        assert torch.equal(ordered, again)
    places = torch.randint(0, 768, (5000, 1000), device="cuda")
    assert torch.equal(kernels.gather(table[:5000], places), table[:5000].gather(1, places))
    values = numbers(5000, 1000, dtype=dtype)
    expected = table[:5000].double().scatter_add(1, places, values.double())
    check(kernels.scatter_add(table[:5000], places, values), expected, 8 * ROUNDING[dtype])


SIZES = ((1, 1, 1), (512, 768, 1024), (1000, 1016, 520), (333, 257, 129), (4096, 4096, 4096))


@pytest.mark.parametrize("dtype", (*DTYPES, torch.float64), ids=str)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_gemm(dtype: Any, size: tuple[int, int, int]):
    m, n, k = size
    a, b = numbers(m, k, dtype=dtype), numbers(k, n, dtype=dtype)
    expected = a.double() @ b.double()
    scale = k**0.5
    for left in (a, a.T.contiguous().T):
        for right in (b, b.T.contiguous().T):
            found = kernels.matmul(left, right)
            tolerance = {torch.float64: 1e-12, torch.float32: 2e-5}.get(dtype, 0)
            check(found / scale, expected / scale, tolerance)


@pytest.mark.parametrize("dtype", DTYPES[1:], ids=str)
def test_epilogues_and_stacks(dtype: Any):
    a, weight = numbers(3, 300, 512, dtype=dtype), numbers(3, 640, 512, dtype=dtype)
    bias, residual = numbers(640), numbers(3, 300, 640, dtype=dtype)
    acc = a.double() @ weight.double().transpose(1, 2) / 16 + bias.double()
    expected = torch.nn.functional.silu(acc) + 2 * residual.double()
    found = kernels.gemm(a, weight.transpose(1, 2), bias, "silu", residual, 1 / 16, 2.0)
    check(found, expected, 2 * ROUNDING[dtype])
    wide = kernels.gemm(a, weight[0].T, bias, alpha=1 / 16, dtype=torch.float32)
    exact = a.double() @ weight[0].double().T / 16 + bias.double()
    check(wide, exact, 1e-4)
    odd = kernels.gemm(a, weight[0, :639].T, bias[:639], alpha=1 / 16)
    check(odd, exact[..., :639])


@pytest.mark.parametrize("dtype", (*DTYPES, torch.float64), ids=str)
@pytest.mark.parametrize(
    "size", [(16, 4096, 8192), (4096, 3, 8192), (100, 200, 30_011), (16, 128, 65_536)], ids=str
)
def test_gemm_with_few_tiles(dtype: Any, size: tuple[int, int, int]):
    m, n, k = size
    a, weight, bias = numbers(m, k, dtype=dtype), numbers(n, k, dtype=dtype), numbers(n)
    residual = numbers(m, n, dtype=dtype)
    exact = a.double() @ weight.double().T / k**0.5 + bias.double()
    expected = torch.relu(exact) + 2 * residual.double()
    tolerance = {torch.float64: 1e-6, torch.float32: 2e-5}.get(dtype, 0)
    call = a, weight.T, bias, "relu", residual, k**-0.5, 2.0
    found = kernels.gemm(*call)
    check(found, expected, tolerance)
    assert torch.equal(found, kernels.gemm(*call))


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16), ids=str)
def test_a_layer_is_differentiated(dtype: Any):
    x, weight, bias = (
        numbers(*shape, dtype=dtype) for shape in ((64, 4096), (1024, 4096), (1024,))
    )
    residual, gradient = (numbers(64, 1024, dtype=dtype) for _ in range(2))
    inputs = [one.requires_grad_() for one in (x, weight, bias, residual)]
    found = kernels.gemm(x, weight.T, bias, "gelu", residual, 1 / 64)
    grads = torch.autograd.grad(found, inputs, gradient)
    wide = [one.detach().double().requires_grad_() for one in inputs]
    sums = wide[0] @ wide[1].T / 64 + wide[2]
    expected = torch.nn.functional.gelu(sums) + wide[3]
    others = torch.autograd.grad(expected, wide, gradient.double())
    for one, other in zip(grads, others, strict=True):
        check(one, other, 5e-2 if dtype is torch.bfloat16 else 1e-4)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("size", [(8192, 1024, 2048), (30_000, 64, 96), (1001, 513, 255)], ids=str)
def test_weight_gradients_are_added_to_main_grad(dtype: Any, size: tuple[int, int, int]):
    """Of many tiles, of few with split-K, and of sizes that no vector divides; equal calls give equal bits.

    Tensor cores truncate their sums: 512 steps of 16 products are up to 512 · 2⁻²³ of a sum off, all in one direction.
    """
    from weft import nn

    rows, inputs, outputs = size
    weight = torch.nn.Parameter(numbers(outputs, inputs, dtype=dtype))
    x, gradient = numbers(rows, inputs, dtype=dtype), numbers(rows, outputs, dtype=dtype)
    start = numbers(outputs, inputs)
    expected = start.double() + gradient.double().T @ x.double()
    found = list[Any]()
    for _ in range(2):
        weight.main_grad = start.clone()
        nn.linear(x, weight).backward(gradient)
        assert weight.grad is None
        found.append(weight.main_grad)
    scale = rows**0.5
    check(found[0] / scale, expected / scale, 2e-5 if dtype is torch.float32 else 1e-4)
    assert torch.equal(*found)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("k", [1024, 1001])
def test_groups_of_rows(dtype: Any, k: int):
    sizes = [0, 1, 700, 128, 0, 64, 2000, 129, 0]
    offsets = torch.tensor([3, *sizes], device="cuda").cumsum(0, dtype=torch.int32)
    rows, n, groups = 3 + sum(sizes) + 5, 776, len(sizes)
    a, weight = numbers(rows, k, dtype=dtype), numbers(groups, n, k, dtype=dtype)
    bias, gradient = numbers(groups, n), numbers(rows, n, dtype=dtype)
    inputs = [one.requires_grad_() for one in (a, weight, bias)]
    found = kernels.grouped_gemm(a, weight.mT, offsets, bias, "silu", 1 / 32)
    grads = torch.autograd.grad(found, inputs, gradient)
    wide = [one.detach().double().requires_grad_() for one in inputs]
    parts = wide[0][3:-5].split(sizes)
    sums = [x @ w.T / 32 + b for x, w, b in zip(parts, *wide[1:], strict=True)]
    expected = torch.nn.functional.pad(torch.nn.functional.silu(torch.cat(sums)), (0, 0, 3, 5))
    tolerance = max(2 * ROUNDING[dtype], 2e-5)
    check(found, expected, tolerance)
    others = torch.autograd.grad(expected, wide, gradient.double())
    for one, other in zip(grads, others, strict=True):
        scale = float(other.abs().max())
        check(one / scale, other / scale, tolerance)


def test_gemm_of_8_bit_floats():
    a, b = (numbers(512, 1024).to(torch.float8_e4m3fn) for _ in range(2))
    expected = a.double() @ b.double().T
    check(kernels.gemm(a, b.T, alpha=1 / 32), expected / 32, 2e-2)
    check(kernels.gemm(a, b.T.contiguous(), alpha=1 / 32), expected / 32, 2e-2)


@pytest.mark.parametrize(
    "size", [(1000, 1032, 2000), (16, 4096, 7168), (4096, 2048, 1024)], ids=str
)
def test_gemm_with_block_scales(size: tuple[int, int, int]):
    m, n, k = size
    a, weight = (numbers(rows, k).to(torch.float8_e4m3fn) for rows in (m, n))
    blocks = -(-k // 128)
    scale_a, scale_weight = numbers(m, blocks).exp(), numbers(-(-n // 128), blocks).exp()
    left = a.double() * scale_a.double().repeat_interleave(128, 1)[:, :k]
    scales = scale_weight.double().repeat_interleave(128, 0)[:n].repeat_interleave(128, 1)[:, :k]
    right = (weight.double() * scales).T
    expected, magnitude = left @ right, left.abs() @ right.abs()

    def within(found: Any, tolerance: float) -> bool:
        allowed = tolerance * magnitude + ROUNDING[found.dtype] * expected.abs()
        return bool(((found.double() - expected).abs() <= allowed).all())

    # Tensor cores accumulate 8-bit floats in 14 bits; other layouts go without them.
    call = a, weight.T, scale_a, scale_weight.T
    assert within(kernels.scaled_gemm(*call), 1e-3)
    assert within(kernels.scaled_gemm(*call, dtype=torch.float32), 1e-3)
    row_major = a, weight.T.contiguous(), scale_a.T.contiguous().T, scale_weight.T
    assert within(kernels.scaled_gemm(*row_major, dtype=torch.float32), 1e-5)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    ("dtype", "hdim"),
    [
        *((torch.bfloat16, hdim) for hdim in (128, 80, 32, 96, 192, 250, 256)),
        *((torch.float16, 64), (torch.float16, 256), (torch.float32, 80)),
    ],
    ids=str,
)
def test_attention_of_batches(dtype: Any, hdim: int, causal: bool):
    tokens = 1000
    q, k, v = (numbers(2, heads, tokens, hdim, dtype=dtype) for heads in (8, 2, 2))
    call = torch.nn.functional.scaled_dot_product_attention
    expected = call(q.double(), k.double(), v.double(), is_causal=causal, enable_gqa=True)
    expected = expected.transpose(1, 2)
    views = [one.transpose(1, 2) for one in (q, k, v)]
    check(kernels.attention(*views, causal), expected, 2 * ROUNDING[dtype])
    packed = [one.contiguous() for one in views]
    check(kernels.attention(*packed, causal), expected, 2 * ROUNDING[dtype])
    starts = torch.arange(3, device="cuda", dtype=torch.int32) * tokens
    flat = [one.flatten(0, 1) for one in packed]
    found = kernels.attention(
        *flat, causal, cu_seqlens_q=starts, cu_seqlens_k=starts, max_seqlen_q=tokens
    )
    check(found.view_as(expected), expected, 2 * ROUNDING[dtype])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    "shape", [(30_000, 256), (4096, 4096), (2000, 4099), (500, 50_000), (40, 200_000)], ids=str
)
def test_derivatives_of_norms(dtype: Any, shape: tuple[int, int]):
    functional = torch.nn.functional
    x, gradient = numbers(*shape, dtype=dtype), numbers(*shape, dtype=dtype)
    weight, bias = numbers(shape[1], dtype=dtype), numbers(shape[1], dtype=dtype)
    inputs = [one.requires_grad_() for one in (x, weight, bias)]
    wide = [one.detach().double().requires_grad_() for one in inputs]
    for norm, other, used in (
        (kernels.layer_norm, functional.layer_norm, 3),
        (kernels.rms_norm, functional.rms_norm, 2),
    ):
        found = norm(*inputs[:used], eps=1e-5)
        grads = torch.autograd.grad(found, inputs[:used], gradient)
        again = torch.autograd.grad(norm(*inputs[:used], eps=1e-5), inputs[:used], gradient)
        expected = other(wide[0], shape[1:], *wide[1:used], eps=1e-5)
        torch_grads = torch.autograd.grad(expected, wide[:used], gradient.double())
        for one, same, exact in zip(grads, again, torch_grads, strict=True):
            assert torch.equal(one, same)
            scale = float(exact.abs().mean())
            check(one / scale, exact / scale, 4 * ROUNDING[dtype] + 1e-5)


@pytest.mark.parametrize(
    ("dtype", "hdim"),
    [
        *((torch.bfloat16, hdim) for hdim in (32, 64, 75, 80, 96, 128, 192, 250, 256)),
        (torch.float16, 64),
        (torch.float32, 64),
    ],
    ids=str,
)
@pytest.mark.parametrize("causal", [False, True])
def test_derivatives_of_attention(dtype: Any, hdim: int, causal: bool):
    tokens = 500
    q, k, v = (numbers(2, heads, tokens, hdim, dtype=dtype) for heads in (8, 2, 2))
    gradient = numbers(2, 8, tokens, hdim, dtype=dtype)
    inputs = [one.requires_grad_() for one in (q, k, v)]
    wide = [one.detach().double().requires_grad_() for one in inputs]
    found = kernels.attention(*(one.transpose(1, 2) for one in inputs), causal)
    grads = torch.autograd.grad(found, inputs, gradient.transpose(1, 2))
    call = torch.nn.functional.scaled_dot_product_attention
    expected = call(*wide, is_causal=causal, enable_gqa=True)
    others = torch.autograd.grad(expected, wide, gradient.double())
    flat = [one.detach().transpose(1, 2).flatten(0, 1) for one in (gradient, *inputs)]
    starts = torch.arange(3, device="cuda", dtype=torch.int32) * tokens
    packed, again = (kernels.attention_backward(*flat, causal, None, starts, starts) for _ in "ab")
    for one, other, rows, same in zip(grads, others, packed, again, strict=True):
        scale = float(other.abs().max())
        check(one / scale, other / scale, 4 * ROUNDING[dtype])
        check(
            rows.unflatten(0, (2, tokens)) / scale,
            other.transpose(1, 2) / scale,
            4 * ROUNDING[dtype],
        )
        assert torch.equal(rows, same)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("hdim", [128, 64, 80, 256])
@pytest.mark.parametrize(
    ("batch", "tokens", "heads", "key_heads", "keys"),
    [(1, 1, 32, 8, 30_000), (64, 1, 32, 8, 1024), (3, 4, 8, 8, 777), (2, 16, 8, 2, 5000)],
)
def test_attention_of_few_queries(batch, tokens, heads, key_heads, keys, hdim, causal):
    counts = (tokens, heads), (keys, key_heads), (keys, key_heads)
    q, k, v = (numbers(batch, *count, hdim, dtype=torch.bfloat16) for count in counts)
    lse = torch.empty(batch, heads, tokens, device="cuda")
    found = kernels.attention(q, k, v, causal, lse=lse)
    group_size = heads // key_heads
    wide = [one.transpose(1, 2).double() for one in (q, k, v)]
    keys_of, values_of = (one.repeat_interleave(group_size, 1) for one in wide[1:])
    scores = wide[0] @ keys_of.mT / hdim**0.5
    if causal:
        last = torch.arange(tokens, device="cuda")[:, None] + keys - tokens
        scores.masked_fill_(torch.arange(keys, device="cuda") > last, -float("inf"))
    expected = (scores.softmax(-1) @ values_of).transpose(1, 2)
    size = float(expected.abs().max())
    check(found / size, expected / size, 2 * ROUNDING[torch.bfloat16])
    check(lse, scores.logsumexp(-1), 1e-4)
    assert torch.equal(found, kernels.attention(q, k, v, causal))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("hdim", "hdim_v"), [(192, 128), (64, 256), (40, 90)])
def test_attention_with_values_of_another_size(hdim: int, hdim_v: int, causal: bool):
    columns = (8, hdim), (2, hdim), (2, hdim_v)
    inputs = [numbers(2, 700, *one, dtype=torch.bfloat16).requires_grad_() for one in columns]
    gradient = numbers(2, 700, 8, hdim_v, dtype=torch.bfloat16)
    wide = [one.detach().double().requires_grad_() for one in inputs]
    call = torch.nn.functional.scaled_dot_product_attention
    expected = call(*(one.transpose(1, 2) for one in wide), is_causal=causal, enable_gqa=True)
    found = kernels.attention(*inputs, causal)
    check(found, expected.transpose(1, 2), 2 * ROUNDING[torch.bfloat16])
    grads = torch.autograd.grad(found, inputs, gradient)
    others = torch.autograd.grad(expected.transpose(1, 2), wide, gradient.double())
    for one, other in zip(grads, others, strict=True):
        scale = float(other.abs().max())
        check(one / scale, other / scale, 4 * ROUNDING[torch.bfloat16])


@pytest.mark.parametrize("hdim", [64, 128, 256, 75])
@pytest.mark.parametrize(
    "options",
    [
        {"window_size": (100, 0)},
        {"window_size": (70, 30), "softcap": 2.0},
        {"causal": True, "alignment": "top-left", "sinks": True},
        {"window_size": (300, 0), "softcap": 5.0, "sinks": True},
    ],
    ids=str,
)
def test_windows_caps_and_sinks_of_attention(options: Any, hdim: int):
    """Beside the same in f64, which the CPU's tests compare with the formula."""
    options, counts = dict(options), ((700, 8), (600, 2), (600, 2))
    inputs = [numbers(2, *one, hdim, dtype=torch.bfloat16).requires_grad_() for one in counts]
    wide = [one.detach().double().requires_grad_() for one in inputs]
    others = dict(options)
    if options.pop("sinks", False):
        options["sinks"] = numbers(8).requires_grad_()
        others["sinks"] = options["sinks"].detach().double().requires_grad_()
        inputs, wide = [*inputs, options["sinks"]], [*wide, others["sinks"]]
    found = kernels.attention(*inputs[:3], **options)
    expected = kernels.attention(*wide[:3], **others)
    check(found, expected, 2 * ROUNDING[torch.bfloat16])
    gradient = numbers(*found.shape, dtype=torch.bfloat16)
    grads = torch.autograd.grad(found, inputs, gradient)
    for one, other in zip(
        grads, torch.autograd.grad(expected, wide, gradient.double()), strict=True
    ):
        scale = float(other.abs().max())
        check(one / scale, other / scale, 4 * ROUNDING[torch.bfloat16])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_losses(dtype: Any):
    logits = numbers(500, 50_257, dtype=dtype)
    classes = torch.randint(0, 50_257, (500,), device="cuda")
    classes[3] = -100
    wide = logits.double().requires_grad_()
    expected = torch.nn.functional.cross_entropy(wide, classes, reduction="none")
    check(kernels.cross_entropy(logits, classes), expected, 1e-5)
    gradient = numbers(500)
    (grad,) = torch.autograd.grad(expected, wide, gradient.double())
    check(kernels.cross_entropy_backward(gradient, logits, classes), grad)
    y, gradient = torch.softmax(logits.float() / 8, -1).to(dtype), numbers(500, 50_257, dtype=dtype)
    total = (gradient.double() * y.double()).sum(-1, keepdim=True)
    check(kernels.softmax_backward(gradient, y), y.double() * (gradient.double() - total))
    logarithms, total = torch.log_softmax(logits, -1), gradient.double().sum(-1, keepdim=True)
    grad = gradient.double() - logarithms.double().exp() * total
    check(kernels.log_softmax_backward(gradient, logarithms), grad)


@pytest.mark.parametrize("dtype", (torch.complex64, torch.complex128), ids=str)
@pytest.mark.parametrize(
    ("rows", "length"),
    [
        *((5000, 8), (3000, 210), (2000, 1024), (700, 4096), (130, 1 << 14), (300, 997)),
        *((64, 1 << 15), (5, 1 << 20), (3, 17 << 15), (1, 1 << 25)),
    ],
)
def test_fourier_transforms(dtype: Any, rows: int, length: int):
    x = torch.randn(rows, length, device="cuda", dtype=dtype)
    expected = torch.fft.fft(x.to(torch.complex128))
    error = 8 * torch.finfo(dtype).eps * length.bit_length()
    found = kernels.fft(x)
    assert found.dtype == dtype and (found - expected).abs().max() <= error * expected.abs().max()
    assert (kernels.fft(found, inverse=True) - x).abs().max() <= 2 * error * x.abs().max()
    view, out = x.view(length, rows).mT, torch.empty(length, rows, device="cuda", dtype=dtype).mT
    assert kernels.fft(view, out=out) is out
    assert (out - torch.fft.fft(view.to(torch.complex128))).abs().max() <= error * length**0.5 * 8


@pytest.mark.parametrize("dtype", (torch.float32, torch.float64), ids=str)
@pytest.mark.parametrize(
    ("rows", "length"),
    [(5000, 8), (2000, 1000), (130, 1 << 15), (300, 997), (300, 2 * 997), (7, 3**10), (5, 1 << 20)],
)
def test_fourier_transforms_of_real_numbers(dtype: Any, rows: int, length: int):
    x = torch.randn(rows, length, device="cuda", dtype=dtype)
    expected = torch.fft.rfft(x.double(), norm="ortho")
    error = 8 * torch.finfo(dtype).eps * length.bit_length()
    found = kernels.rfft(x, "ortho")
    assert found.dtype == dtype.to_complex()
    assert (found - expected).abs().max() <= error * expected.abs().max()
    assert (kernels.irfft(found, length, "ortho") - x).abs().max() <= 2 * error * x.abs().max()


def test_sparse_matvec():
    dense = numbers(3000, 2000) * (torch.rand(3000, 2000, device="cuda") < 0.02)
    matrix, x = dense.to_sparse_csr(), numbers(2000)
    found = kernels.sparse_matvec(matrix.crow_indices(), matrix.col_indices(), matrix.values(), x)
    check(found, dense.double() @ x.double(), 1e-5)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_halves_of_rows(dtype: Any):
    functional = torch.nn.functional
    packed = numbers(500, 2 * 4096, dtype=dtype).requires_grad_()
    wide = packed.detach().double().requires_grad_()
    gate, up = wide.chunk(2, -1)
    found, expected = kernels.silu_mul(packed), functional.silu(gate) * up
    gradient = numbers(500, 4096, dtype=dtype)
    found.backward(gradient)
    expected.backward(gradient.double())
    check(found, expected)
    check(packed.grad, wide.grad, 2 * ROUNDING[dtype])


@pytest.mark.parametrize("dtype", (torch.float16, torch.bfloat16), ids=str)
def test_a_weights_gradient_has_the_weights_layout(dtype: Any):
    x, weight = numbers(2048, 1024, dtype=dtype), numbers(768, 1024, dtype=dtype)
    weight.requires_grad_()
    gradient = numbers(2048, 768, dtype=dtype)
    kernels.gemm(x, weight.T).backward(gradient)
    assert weight.grad.stride() == weight.stride()
    expected = gradient.double().T @ x.double()
    assert (weight.grad - expected).norm() < ROUNDING[dtype] * expected.norm()


@pytest.mark.parametrize("side", [None, "left", "right"])
@pytest.mark.parametrize("name", ["LlamaConfig", "Qwen3MoeConfig", "MistralConfig", "Gemma2Config"])
def test_a_model_of_transformers(name: str, side: str | None):
    transformers = pytest.importorskip("transformers", reason="needs transformers")
    import weft.hf

    torch.manual_seed(0)
    experts = {"num_experts": 8, "moe_intermediate_size": 256} if "Moe" in name else {}
    config = getattr(transformers, name)(
        vocab_size=1000,
        hidden_size=512,
        intermediate_size=1024,
        num_hidden_layers=2,
        num_attention_heads=8,
        num_key_value_heads=2,
        head_dim=64,
        **experts,
        **({"sliding_window": 100} if name in ("MistralConfig", "Gemma2Config") else {}),
    )
    # In 16 bits a token near the border of two experts may go to the other one.
    dtype = torch.float32 if experts else torch.bfloat16
    model = transformers.AutoModelForCausalLM.from_config(config).cuda().to(dtype)
    tokens = torch.randint(1, 1000, (2, 256), device="cuda")
    mask = torch.ones_like(tokens)
    if side is not None:
        mask[0, slice(0, 50) if side == "left" else slice(200, 256)] = 0
    labels = tokens.masked_fill(mask == 0, -100)

    def trained() -> Any:
        model.zero_grad()
        result = model(tokens, attention_mask=mask, labels=labels)
        result.loss.backward()
        return result.loss.detach(), model.model.embed_tokens.weight.grad.float()

    expected_loss, expected = trained()
    weft.hf.apply(model)
    loss, grad = trained()
    assert torch.allclose(loss, expected_loss, rtol=1e-2)
    assert (grad - expected).norm() < 0.1 * expected.norm()


@pytest.mark.parametrize("reduction", ["mean", "none"])
@pytest.mark.parametrize("dtype", (torch.float16, torch.bfloat16), ids=str)
def test_the_loss_of_a_linear_layer_by_chunks(dtype: Any, reduction: str):
    import weft.nn

    # Chunks of 512 rows.
    x, weight = numbers(3000, 512, dtype=dtype), numbers(4096, 512, dtype=dtype) / 16
    tensors = [one.requires_grad_() for one in (x, weight.detach())]
    wide = [one.detach().double().requires_grad_() for one in tensors]
    target = torch.randint(0, 4096, (3000,), device="cuda")
    target[5:50] = -100
    options = {"reduction": reduction, "label_smoothing": 0.1}
    found = weft.nn.linear_cross_entropy(*tensors, target, **options)
    logits = torch.nn.functional.linear(*wide)
    expected = torch.nn.functional.cross_entropy(logits, target, **options)
    assert torch.allclose(found.double(), expected, 1e-2, 1e-2)
    gradient = torch.rand_like(expected)
    found.backward(gradient.float())
    expected.backward(gradient)
    for one, other in zip(tensors, wide, strict=True):
        assert (one.grad - other.grad).norm() < 3 * ROUNDING[dtype] * other.grad.norm()


def test_a_mixture_of_experts():
    import weft.nn

    torch.manual_seed(0)
    layer = weft.nn.MoE(512, 256, experts=8, top_k=2, device="cuda")
    x = numbers(2, 300, 512).requires_grad_()
    rows = x.flatten(0, 1)
    weights, indices = torch.softmax(rows @ layer.gate.weight.T, -1).topk(2)
    weights = weights / weights.sum(-1, keepdim=True)
    expected = torch.zeros_like(rows)
    own = layer.experts.gate_up_proj, layer.experts.down_proj
    for expert, (packed, down) in enumerate(zip(*own, strict=True)):
        gate, up = (rows @ packed.T).chunk(2, -1)
        share = (weights * (indices == expert)).sum(-1, keepdim=True)
        expected = expected + share * ((torch.nn.functional.silu(gate) * up) @ down.T)
    expected, tensors = expected.reshape(x.shape), [x, *layer.parameters()]
    found = layer(x)
    gradient = torch.randn_like(expected)
    grads = [torch.autograd.grad(one, tensors, gradient) for one in (found, expected)]
    for one, other in ((found, expected), *zip(*grads, strict=True)):
        assert (one - other).norm() < 1e-4 * other.norm()
