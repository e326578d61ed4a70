# SPDX-License-Identifier: Apache-2.0
"""Addresses: layout classes, ranks, widths, negative and zero strides; and which parameters they need."""

from __future__ import annotations

import numpy as np
import pytest

from tests.codegen.kernel_runner import CpuKernel, parse_module, tensor
from tests.sampling import sampled
from weft.codegen.operations.launch import kernel_parameters, kernels_of

LAYOUTS = ("contiguous", "inner", "strided")


def copy_kernel(layout: str, offsets: int, index: str) -> str:
    source, out = tensor("i32", 3, layout, offsets), tensor("i32", 3)
    widen = "\n".join(
        f"%k{d} = arith.extsi %i{d} : i32 to i64"
        if index == "i64"
        else f"%k{d} = arith.addi %i{d}, %zero : i32"
        for d in range(3)
    )
    kinds = f"{index}, {index}, {index}"
    return f"""simt.kernel @kernel(%a : {source}, %out : {out}) {{
  %zero = arith.constant 0 : i32
  %i0 = simt.block_idx "x" : i32
  %i1 = simt.block_idx "y" : i32
  %i2 = simt.thread_idx "x" : i32
  {widen}
  %v = simt.load %a[%k0, %k1, %k2 : {kinds}] : {source} -> i32
  simt.store %v, %out[%k0, %k1, %k2 : {kinds}] : i32, {out}
  simt.return
}}"""


VIEWS = {
    "plain": lambda a: a,
    "transposed": lambda a: a.transpose(2, 0, 1),
    "every second": lambda a: a[:, ::2, ::3],
    "reversed": lambda a: a[::-1, :, ::-1],
    "broadcast": lambda a: np.broadcast_to(a[0, 0], (4, 3, a.shape[2])),
}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("offsets", [32, 64])
@pytest.mark.parametrize("index", sampled(["i32", "i64"], 2))
def test_strided_views_are_read_element_by_element(view: str, offsets: int, index: str):
    source = VIEWS[view](np.arange(4 * 6 * 9, dtype=np.int32).reshape(4, 6, 9))
    out = np.zeros(source.shape, np.int32)
    kernel = CpuKernel(copy_kernel("strided", offsets, index), level=1)
    kernel(source.shape[:2], source.shape[2:], source, out)
    np.testing.assert_array_equal(out, source)


@pytest.mark.parametrize("layout", ["contiguous", "inner"])
@pytest.mark.parametrize("offsets", [32, 64])
def test_other_layouts_use_what_they_promise(layout: str, offsets: int):
    whole = np.arange(4 * 6 * 9, dtype=np.int32).reshape(4, 6, 9)
    source = whole if layout == "contiguous" else whole[::2, 1:4]
    out = np.zeros(source.shape, np.int32)
    CpuKernel(copy_kernel(layout, offsets, "i32"), level=1)(
        source.shape[:2], source.shape[2:], source, out
    )
    np.testing.assert_array_equal(out, source)


def test_parameters_lie_at_their_natural_alignment_in_order():
    kind = tensor("f32")
    text = f"""simt.kernel @kernel(%flag : i1, %a : {kind}, %small : i16, %x : f64, %n : i32) {{
  simt.return
}}"""
    (kernel,) = kernels_of(parse_module(text))
    listed = [(p.argument, p.part, p.llvm_type, p.offset_bytes) for p in kernel_parameters(kernel)]
    assert listed == [
        (0, "scalar", "i8", 0),
        (1, "pointer", "ptr", 8),
        (1, "dim", "i32", 16),
        (2, "scalar", "i16", 20),
        (3, "scalar", "double", 24),
        (4, "scalar", "i32", 32),
    ]


def test_bools_are_bytes_in_memory_and_any_nonzero_byte_is_true():
    kind = tensor("i1")
    text = f"""simt.kernel @kernel(%a : {kind}, %out : {kind}) {{
  %i = simt.thread_idx "x" : i32
  %v = simt.load %a[%i : i32] : {kind} -> i1
  simt.store %v, %out[%i : i32] : i1, {kind}
  simt.return
}}"""
    source = np.array([0, 1, 2, 128, 255], np.uint8)
    out = np.full(5, 9, np.uint8)
    CpuKernel(text, level=1)((1,), (5,), source, out)
    assert out.tolist() == [0, 1, 1, 1, 1]


def test_a_tensor_of_rank_zero_is_one_element():
    kind = "!simt.tensor<f64, [], contiguous, global, dims 32, offsets 64, align 8>"
    text = f"""simt.kernel @kernel(%a : {kind}) {{
  %v = simt.load %a[] : {kind} -> f64
  %w = arith.addf %v, %v : f64
  simt.store %w, %a[] : f64, {kind}
  simt.return
}}"""
    value = np.array(1.5)
    CpuKernel(text, level=1)((1,), (1,), value)
    assert value == 3.0


def test_users_tensors_are_never_marked_noalias_or_readonly():
    text = CpuKernel(copy_kernel("strided", 64, "i32")).llvm
    assert "noalias" not in text
    assert "readonly" not in text
    assert "invariant" not in text


def test_overlapping_arguments_see_each_others_writes():
    kind = tensor("i32")
    text = f"""simt.kernel @kernel(%a : {kind}, %b : {kind}) {{
  %i = simt.thread_idx "x" : i32
  %one = arith.constant 1 : i32
  %v = simt.load %a[%i : i32] : {kind} -> i32
  %w = arith.addi %v, %one : i32
  simt.store %w, %b[%i : i32] : i32, {kind}
  simt.return
}}"""
    whole = np.zeros(65, np.int32)
    CpuKernel(text)((1,), (64,), whole[:64], whole[1:])
    assert whole.tolist() == list(range(65))
