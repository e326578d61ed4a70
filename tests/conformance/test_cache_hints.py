# SPDX-License-Identifier: Apache-2.0
"""Loads and stores with hints for the caches: the values of plain ones, for every type."""

from __future__ import annotations

import re

import numpy as np
import pytest

import weft
from tests.conformance.harness import NUMPY_TYPES, Exported
from tests.sampling import sampled
from weft.dialects.simt.memory import LOAD_CACHES, STORE_CACHES

HINTS = [(load, load if load in STORE_CACHES else None) for load in LOAD_CACHES]


def copier(load, store):
    """Reverses the first 16 elements and copies all of them."""

    @weft.kernel
    def kernel(a: weft.Tensor, ends: weft.Tensor, out: weft.Tensor):
        for i in weft.each(out.shape[0]):
            weft.store_element(out, i, weft.load_element(a, i, cache=load), cache=store)
        if weft.block_idx.x == 0 and weft.thread_idx.x == 0:
            low = weft.load_vector(a, 0, 2, cache=load)
            weft.store_vector(ends, 0, (low[1], low[0]), cache=store)

    @weft.jit
    def host(a: weft.Tensor, ends: weft.Tensor, out: weft.Tensor):
        kernel(a, ends, out).launch(over=out.shape[0])

    return host


def aligned(values: np.ndarray) -> np.ndarray:
    memory = np.zeros(values.nbytes + 16, np.uint8)
    first = -memory.ctypes.data % 16
    result = memory[first : first + values.nbytes].view(values.dtype)
    result[:] = values
    return result


def parts(dtype):
    return [weft.fake_tensor(dtype, (name,), alignment_bytes=16) for name in "abc"]


@pytest.mark.parametrize("dtype", sampled(NUMPY_TYPES, 3), ids=str)
def test_values_are_those_of_plain_accesses(dtype):
    kind = NUMPY_TYPES[dtype]
    bits = np.random.default_rng(7).integers(0, 256, 37 * kind.itemsize, np.uint8)
    a = aligned((bits & 1 if dtype is weft.bool_ else bits).view(kind))
    ends, out = aligned(np.zeros(2, kind)), aligned(np.zeros(37, kind))
    weft.compile(copier("streaming", "evict_last"), *parts(dtype))(a, ends, out)
    assert out.tobytes() == a.tobytes()
    assert ends.tobytes() == a[1::-1].tobytes()


@pytest.mark.parametrize(("load", "store"), HINTS)
def test_every_hint_assembles_and_is_in_the_code(load, store):
    examples = [
        weft.fake_tensor(weft.bf16, (name,), alignment_bytes=16, device="cuda") for name in "abc"
    ]
    fn = weft.compile(copier(load, store), *examples, options="--gpu-arch sm_80")
    assert len(fn.cubin) > 0
    words = {"streaming": "cs", "last_use": "lu", "l2_only": "cg", "no_allocate": "L1::no_allocate"}
    word = words.get(load, "L2::cache_hint")
    assert re.search(rf"ld\.global\.{word}\.v4\.b32", fn.ptx)
    assert re.search(rf"ld\.global\.{word}\.b32", fn.ptx)
    assert store is None or re.search(rf"st\.global\.{word}\.v4\.b32", fn.ptx)


def test_an_architecture_without_a_hint_leaves_it_out():
    examples = [
        weft.fake_tensor(weft.f32, (name,), alignment_bytes=16, device="cuda") for name in "abc"
    ]
    fn = weft.compile(copier("evict_first", "streaming"), *examples, options="--gpu-arch sm_75")
    assert "ld.global.v4.b32" in fn.ptx
    assert "st.global.cs.v4.b32" in fn.ptx


WIDE = {weft.f32: 8, weft.f64: 4, weft.bf16: 16, weft.u8: 32, weft.bool_: 32, weft.i64: 4}


def reverser(dtype, cache=None):
    """Each thread reverses 32 bytes."""
    count = WIDE[dtype]
    size = weft.sym("n", divisibility=count)
    tensor = weft.fake_tensor(dtype, (size,), alignment_bytes=32)

    @weft.kernel
    def kernel(a: weft.Tensor, out: weft.Tensor):
        place = count * weft.grid(1)
        values = weft.load_vector(a, place, count, cache=cache)
        weft.store_vector(out, place, values[::-1], cache=cache)

    @weft.jit
    def host(a: tensor, out: tensor):
        kernel(a, out).launch(grid=a.shape[0] // (4 * count), block=4)

    return host


@pytest.mark.parametrize("cache", [None, "streaming"])
@pytest.mark.parametrize("dtype", WIDE, ids=str)
def test_32_bytes_are_read_and_written_at_once(dtype, cache):
    memory = np.zeros((2, 12 * 32 + 32), np.uint8)
    parts = [row[-row.ctypes.data % 32 :][: 12 * 32] for row in memory]
    parts[0][:] = np.random.default_rng(0).integers(0, 2 if dtype.is_bool else 120, 12 * 32)
    a, out = (part.view(NUMPY_TYPES[dtype]) for part in parts)
    reverser(dtype, cache)(Exported(a), Exported(out))
    expected = a.reshape(12, -1)[:, ::-1].reshape(-1)
    assert out.tobytes() == expected.tobytes()


@pytest.mark.parametrize(
    ("architecture", "version", "instructions"),
    [
        ("sm_90a", "8.4", ["LDG.E.128", "LDG.E.128", "STG.E.128", "STG.E.128"]),
        ("sm_100a", "8.8", ["LDG.E.ENL2.256", "STG.E.ENL2.256"]),
        ("sm_120", "8.8", ["LDG.E.ENL2.256", "STG.E.ENL2.256"]),
    ],
)
@pytest.mark.parametrize("dtype", sampled([weft.f64, weft.bf16], 2), ids=str)
def test_32_bytes_are_one_instruction_where_there_is_one(
    dtype, architecture, version, instructions
):
    found = weft.compile(reverser(dtype), options=f"--gpu-arch {architecture}")
    assert re.findall(r"(?:LDG|STG)\S+", found.sass) == instructions
    assert f".version {version}\n" in found.ptx
    hinted = weft.compile(reverser(dtype, "streaming"), options=f"--gpu-arch {architecture}")
    assert len(re.findall(r"(?:ld|st)\.global\.cs\.v", hinted.ptx)) == 4
