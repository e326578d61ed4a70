# SPDX-License-Identifier: Apache-2.0
"""Attention: right on the CPU for all lengths, heads and masks, and on sm_90a the loop that it is meant to be."""

from __future__ import annotations

import functools
import re

import numpy as np
import pytest

import weft
from examples.attention import EXAMPLE, attention_for, fake_arguments, reference, starts_of
from tests.examples.lines import code_lines
from weft.kernels.flash_attention.fwd_sm90 import attention_kernel, exp2, masked, softmax_step

# Queries and keys of each sequence, query heads, key heads.
BATCHES = {
    "one query": ([1], [1], 1, 1),
    "two blocks": ([130], [129], 1, 1),
    "more keys": ([3, 70], [500, 131], 2, 1),
    "fewer keys": ([200, 5], [10, 2], 1, 1),
    "no keys": ([4, 3], [0, 300], 1, 1),
    "no queries": ([0, 129, 0], [7, 128, 0], 4, 2),
}


@functools.cache
def function_for(hdim: int):
    return attention_for(hdim)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("hdim", [64, 128])
@pytest.mark.parametrize("batch", BATCHES)
def test_every_batch_is_right(batch, hdim, causal):
    queries, keys, heads, k_heads = BATCHES[batch]
    random = np.random.default_rng(8)

    def tokens(count, heads):
        return random.standard_normal((count, heads, hdim)).astype(np.float16)

    q = tokens(2 + sum(queries) + 3, heads)  # those before and after are of no sequence
    k, v = tokens(sum(keys), k_heads), tokens(sum(keys), k_heads)
    rest = starts_of(queries) + np.int32(2), starts_of(keys), max(queries), hdim**-0.5, causal
    out = np.full_like(q, np.nan)
    function_for(hdim)(q, k, v, out, *rest)
    np.testing.assert_allclose(out, reference(q, k, v, out, *rest)["out"], rtol=2e-3, atol=2e-3)


@functools.cache
def compiled(hdim, causal):
    arguments = *fake_arguments(hdim), causal
    return weft.compile(attention_for(hdim), *arguments, options="--gpu-arch sm_90a")


ALL = pytest.mark.parametrize(("hdim", "causal"), [(64, False), (128, False), (128, True)])


@ALL
def test_the_assembler_has_nothing_to_remark(hdim, causal):
    found = compiled(hdim, causal)
    kernel = found.kernels[attention_kernel.function.__name__]
    assert (found.remarks, kernel.spill_load_bytes, kernel.registers) == (
        (),
        0,
        128 if hdim == 64 else 168,
    )
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
def test_the_softmax_runs_while_the_tensor_cores_do(hdim, causal):
    """Per block of 128 keys: Q·Kᵀ and P·V, and all exponentials before the wait for P·V."""
    products = hdim // 16 + 128 // 16
    body = loop(compiled(hdim, causal).sass, products)
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


def test_the_source_is_at_most_140_lines():
    functions = exp2, masked, softmax_step, attention_kernel.function, attention_for
    assert sum(code_lines(function) for function in functions) <= 140
