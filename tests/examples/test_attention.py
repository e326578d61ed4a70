# SPDX-License-Identifier: Apache-2.0
"""Attention: right on the CPU for lengths, heads and masks; on sm_90a softmax overlaps with the tensor cores."""

from __future__ import annotations

import functools
import re

import numpy as np
import pytest

import weft
from examples.attention import attention_for, attention_kernel, mask, online_softmax
from examples.checks.attention import EXAMPLE, fake_arguments, reference
from tests.examples.lines import code_lines
from tests.sampling import sampled
from weft.kernels.flash_attention import fwd_sm90

# Queries, keys, heads, key heads.
SHAPES = {
    "one query": (1, 1, 1, 1),
    "two blocks": (130, 129, 1, 1),
    "more keys": (70, 500, 2, 1),
    "fewer keys": (200, 10, 4, 2),
}


@functools.cache
def function_for(hdim: int):
    return attention_for(hdim)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("hdim", [64, 128])
@pytest.mark.parametrize("shape", sampled(SHAPES, 2))
def test_every_shape_is_right(shape, hdim, causal):
    queries, keys, heads, k_heads = SHAPES[shape]
    random = np.random.default_rng(8)

    def tokens(count, heads):
        return random.standard_normal((2, count, heads, hdim)).astype(np.float16)

    q, k, v = tokens(queries, heads), tokens(keys, k_heads), tokens(keys, k_heads)
    out, rest = np.full_like(q, np.nan), (hdim**-0.5, causal)
    function_for(hdim)(q, k, v, out, *rest)
    np.testing.assert_allclose(out, reference(q, k, v, out, *rest)["out"], rtol=2e-3, atol=2e-3)


@functools.cache
def compiled(hdim, causal, of):
    if of == "example":
        function, arguments = attention_for(hdim), (*fake_arguments(hdim), causal)
    else:  # weft.kernels.attention, of packed sequences
        q, k, o = (
            weft.fake_tensor(weft.bf16, (n, h, hdim), alignment_bytes=16)
            for n, h in ("qh", "kg", "qh")
        )
        cu_seqlens = weft.fake_tensor(weft.i32, ("b",))
        config = fwd_sm90.config_for(hdim, hdim, causal)
        rest = None, cu_seqlens, cu_seqlens, 1, 1.0, *[None] * 4, causal, False, config
        function, arguments = fwd_sm90.attention, (q, k, k, o, *rest)
    return weft.compile(function, *arguments, options="--gpu-arch sm_90a")


ALL = pytest.mark.parametrize(
    ("hdim", "causal", "of"),
    sampled(
        [
            *(
                (hdim, causal, "example")
                for hdim, causal in ((64, False), (128, False), (128, True))
            ),
            *((hdim, causal, "kernels") for hdim, causal in ((64, False), (128, True))),
        ],
        2,
        several=True,
    ),
)


@ALL
def test_the_assembler_has_nothing_to_remark(hdim, causal, of):
    found = compiled(hdim, causal, of)
    (kernel,) = found.kernels.values()
    assert (found.remarks, kernel.spill_load_bytes, kernel.registers) == (
        (),
        0,
        128 if hdim == 64 else 168,
    )
    if of == "example":
        assert [text for text in EXAMPLE.instructions if text not in found.ptx] == []


def loop(sass: str, products: int) -> list[str]:
    """The instructions of the shortest loop with so many products, from its label to the branch back."""
    lines = [line for line in sass.splitlines() if re.search(r"/\*[0-9a-f]{4,5}\*/|^\.L", line)]
    labels = {line.partition(":")[0]: n for n, line in enumerate(lines) if line.startswith(".L")}
    back = [
        (labels[found[1]], n)
        for n, line in enumerate(lines)
        if (found := re.search(r"BRA `\((\.L_x_\d+)\)", line)) and labels[found[1]] < n
    ]
    bodies = [[one for one in lines[start:end] if "/*" in one] for start, end in back]
    return min((body for body in bodies if "".join(body).count("HGMMA") >= products), key=len)


@ALL
def test_the_softmax_runs_while_the_tensor_cores_do(hdim, causal, of):
    """Per block of 128 keys: Q·Kᵀ and P·V, and all exponentials before the wait for P·V."""
    products = hdim // 16 + 128 // 16
    body = loop(compiled(hdim, causal, of).sass, products)
    order = [
        found[1]
        for line in body
        if (found := re.search(r"\b(HGMMA|MUFU\.EX2|WARPGROUP\.DEPBAR)\b", line))
    ]
    assert order == ["HGMMA"] * products + ["WARPGROUP.DEPBAR"] + ["MUFU.EX2"] * 66 + [
        "WARPGROUP.DEPBAR"
    ]
    assert len(body) <= (680 if causal else 625)
    assert not any(
        re.search(r"\b(LDL|STL|R2UR)\b", line) for line in body
    )  # descriptors are uniform


def test_the_source_is_at_most_112_lines():
    functions = mask, online_softmax, attention_kernel.function, attention_for
    assert sum(code_lines(function) for function in functions) <= 112
