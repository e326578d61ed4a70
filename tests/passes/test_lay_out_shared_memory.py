# SPDX-License-Identifier: Apache-2.0
"""Shared arrays in one buffer: offsets in the order of the program, aligned, with one total and one limit."""

from __future__ import annotations

import pytest
from xdsl.parser import Parser

from weft.dialects.context import make_context
from weft.errors import ValueRangeError
from weft.passes.blocks import lay_out_shared_memory


def shared(element, dims, align):
    shape = ", ".join(map(str, dims))
    return f"!simt.tensor<{element}, [{shape}], contiguous, shared, dims 32, offsets 32, align {align}>"


def laid_out(*kernels):
    """The kernels' operations after the pass; a kernel is a list of arrays."""
    texts = []
    for number, arrays in enumerate(kernels):
        lines = "\n".join(
            f'%a{n} = simt.shared : {shared(*array)} loc("k.py":{n + 10}:5)'
            for n, array in enumerate(arrays)
        )
        texts.append(f"simt.kernel @k{number}() {{\n{lines}\nsimt.return\n}}")
    module = Parser(make_context(), "\n".join(texts)).parse_module()
    lay_out_shared_memory(module)
    module.verify()
    return list(module.body.block.ops)


def offsets(kernel):
    return [op.offset.value.data for op in kernel.body.block.ops if op.name == "simt.shared"]


def test_arrays_follow_each_other_in_the_order_of_the_program():
    (kernel,) = laid_out([("f32", (4, 33), 16), ("f32", (8,), 16)])
    assert offsets(kernel) == [0, 528]
    assert kernel.shared_memory_bytes == 560


def test_each_array_is_aligned_as_its_type_says():
    (kernel,) = laid_out(
        [("i8", (3,), 1), ("i1", (2,), 1), ("f16", (1,), 2), ("f64", (1,), 8), ("f32", (4,), 16)]
    )
    assert offsets(kernel) == [0, 3, 6, 8, 16]


def test_the_shared_total_is_a_multiple_of_16():
    (kernel,) = laid_out([("f8E4M3FN", (1,), 1)])
    assert kernel.shared_memory_bytes == 16


def test_kernels_have_buffers_of_their_own():
    first, second = laid_out([("i32", (4,), 16)], [("i32", (8,), 16)])
    assert (offsets(first), first.shared_memory_bytes) == ([0], 16)
    assert (offsets(second), second.shared_memory_bytes) == ([0], 32)


def test_a_kernel_without_shared_arrays_is_left_as_it_is():
    (kernel,) = laid_out([])
    assert kernel.attributes == {}
    assert kernel.shared_memory_bytes == 0


def test_a_whole_block_may_be_used_and_not_a_byte_more():
    (kernel,) = laid_out([("f32", (58000,), 16), ("i8", (448,), 16)])
    assert kernel.shared_memory_bytes == 227 * 1024
    with pytest.raises(ValueRangeError) as caught:
        laid_out([("f32", (58000,), 16), ("i8", (449,), 16)])
    assert caught.value.code == "SHARED_TOO_LARGE"
    assert caught.value.message == (
        "the shared arrays of 'k0' take 232449 bytes up to this one; a block has at most 232448"
    )
    assert str(caught.value.location) == "k.py:11"


def reusing(*arrays):
    """A kernel with arrays that have a fourth part: the numbers of those whose memory they reuse."""
    lines = []
    for n, (element, dims, align, reused) in enumerate(arrays):
        kind = shared(element, dims, align)
        names = ", ".join(f"%a{one}" for one in reused)
        kinds = ", ".join(shared(*arrays[one][:3]) for one in reused)
        reuses = f" reuses({names} : {kinds})" if reused else ""
        lines.append(f'%a{n} = simt.shared{reuses} : {kind} loc("k.py":{n + 10}:5)')
    text = "simt.kernel @k() {\n" + "\n".join(lines) + "\nsimt.return\n}"
    module = Parser(make_context(), text).parse_module()
    lay_out_shared_memory(module)
    module.verify()
    return module.body.block.first_op


def test_an_array_begins_where_those_do_whose_memory_it_reuses():
    kernel = reusing(
        ("f32", (64,), 16, []),
        ("f32", (32,), 16, []),
        ("i32", (80,), 16, [1, 0]),
        ("f16", (8,), 16, [2]),
    )
    assert offsets(kernel) == [0, 256, 0, 0]
    assert kernel.shared_memory_bytes == 384


def test_reused_memory_is_aligned_for_all_its_arrays():
    kernel = reusing(
        ("i8", (3,), 1, []),
        ("f32", (512,), 16, []),
        ("f32", (8,), 16, [1]),
        ("f16", (1024,), 1024, [2, 1]),
    )
    assert offsets(kernel) == [0, 1024, 1024, 1024]
    assert kernel.shared_memory_bytes == 1024 + 2048


def test_reused_memory_is_large_enough():
    with pytest.raises(
        ValueRangeError, match="takes 260 bytes; the memory of reuse= has 256"
    ) as caught:
        reusing(("f32", (64,), 16, []), ("f32", (65,), 16, [0]))
    assert caught.value.location.line == 11


def test_reused_arrays_lie_side_by_side():
    with pytest.raises(ValueRangeError, match="an array of 64 bytes is between them"):
        reusing(*[("f32", (16,), 16, [])] * 3, ("f32", (32,), 16, [0, 2]))
