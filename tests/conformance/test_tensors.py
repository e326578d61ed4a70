# SPDX-License-Identifier: Apache-2.0
"""Tensors of rank 0 to 8, in every layout class, with zero and negative strides, empty ones, their facts.

In: NumPy views. Out: the elements that NumPy sees.
"""

from __future__ import annotations

import numpy as np
import pytest

import weft
from tests.conformance.harness import NUMPY_TYPES, Exported, define, run_threads
from tests.sampling import sampled


@weft.kernel
def copy_3d_kernel(source: weft.Tensor, target: weft.Tensor):
    x = weft.block_idx.x * weft.block_dim.x + weft.thread_idx.x
    y = weft.block_idx.y * weft.block_dim.y + weft.thread_idx.y
    z = weft.block_idx.z * weft.block_dim.z + weft.thread_idx.z
    if z < target.shape[0] and y < target.shape[1] and x < target.shape[2]:
        target[z, y, x] = source[z, y, x]


@weft.jit
def copy_3d(source: weft.Tensor, target: weft.Tensor):
    depth, height, width = target.shape
    copy_3d_kernel(source, target).launch(
        grid=(weft.ceil_div(width, 4), weft.ceil_div(height, 2), weft.ceil_div(depth, 2)),
        block=(4, 2, 2),
    )


BASE = np.arange(3 * 5 * 7, dtype=np.float32).reshape(3, 5, 7)
VIEWS = {
    "contiguous": BASE,
    "transposed": BASE.transpose(2, 0, 1),
    "reversed_last": BASE[:, :, ::-1],
    "reversed_all": BASE[::-1, ::-1, ::-1],
    "every_second_row": BASE[:, ::2],
    "every_second_element": BASE[:, :, ::2],
    "part": BASE[1:, 1:4, 2:6],
    "inner": BASE[:, 1:3],
    "broadcast": np.broadcast_to(BASE[:, :1], (3, 6, 7)),
    "broadcast_all": np.broadcast_to(np.float32(3), (2, 3, 4)),
    "size_one_dims": BASE[:1, :, :1],
    "empty": BASE[:0],
}


@pytest.mark.parametrize("name", VIEWS)
def test_every_layout_reads_the_elements_that_numpy_sees(name):
    source = VIEWS[name]
    target = np.full(source.shape, -1, np.float32)
    copy_3d(source, target)
    np.testing.assert_array_equal(target, source)


@pytest.mark.parametrize("name", [name for name in VIEWS if not name.startswith("broadcast")])
def test_every_layout_writes_the_elements_that_numpy_sees(name):
    base = np.full((3, 5, 7), -1, np.float32)
    target = eval("base" + VIEW_TEXTS[name], {"base": base})
    source = np.random.default_rng(1).random(target.shape, dtype=np.float32)
    expected = base.copy()
    eval("base" + VIEW_TEXTS[name], {"base": expected})[...] = source
    copy_3d(source, target)
    np.testing.assert_array_equal(base, expected)


VIEW_TEXTS = {
    "contiguous": "",
    "transposed": ".transpose(2, 0, 1)",
    "reversed_last": "[:, :, ::-1]",
    "reversed_all": "[::-1, ::-1, ::-1]",
    "every_second_row": "[:, ::2]",
    "every_second_element": "[:, :, ::2]",
    "part": "[1:, 1:4, 2:6]",
    "inner": "[:, 1:3]",
    "size_one_dims": "[:1, :, :1]",
    "empty": "[:0]",
}


@pytest.mark.parametrize("rank", range(9))
def test_rank(rank):
    shape = (2, 3, 2, 1, 3, 2, 2, 2)[:rank]
    source = np.arange(np.prod(shape, dtype=int), dtype=np.int64).reshape(shape)
    target = np.zeros_like(source)
    lines, indices = ["rest = i"], []
    for dimension in reversed(range(rank)):
        lines += [f"j{dimension} = rest % source.shape[{dimension}]"]
        lines += [f"rest = rest // source.shape[{dimension}]"]
        indices.insert(0, f"j{dimension}")
    index = ", ".join(indices) or "()"
    lines += [f"target[{index}] = source[{index}] + 1000"]
    run_threads("\n".join(lines), source.size, {"source": source, "target": target})
    np.testing.assert_array_equal(target, source + 1000)


def test_rank_eight_transposed():
    source = np.arange(2**8, dtype=np.int32).reshape((2,) * 8).transpose(7, 0, 6, 1, 5, 2, 4, 3)
    target = np.zeros((2,) * 8, np.int32)
    index = ", ".join(f"(i >> {bit}) & 1" for bit in range(8))
    run_threads(f"target[{index}] = source[{index}]", 256, {"source": source, "target": target})
    np.testing.assert_array_equal(target, source)


def test_rank_nine_is_refused():
    with pytest.raises((ValueError, TypeError, weft.WeftError), match=r"rank|dimensions|ndim"):
        run_threads("a[i] = 1", 1, {"a": np.zeros((1,) * 9, np.int32)})


@pytest.mark.parametrize("dtype", sampled(NUMPY_TYPES, 3), ids=str)
def test_elements_of_every_type_are_copied_bit_for_bit(dtype):
    bits = np.random.default_rng(2).integers(0, 256, 40 * dtype.itemsize, dtype=np.uint8)
    if dtype.is_bool:
        bits &= 1
    source = bits.view(NUMPY_TYPES[dtype])
    if dtype.is_float:  # a signaling NaN may become a quiet one
        source = np.where(np.isnan(source.astype(np.float64)), np.ones_like(source), source)
    target = np.zeros_like(source)
    run_threads("target[i] = source[i]", 40, {"source": source, "target": target})
    assert target.tobytes() == source.tobytes()


def facts(**arrays: np.ndarray) -> dict[str, list[int]]:
    """Shape, strides, size and rank of each array, as a kernel sees them."""
    arrays = dict(arrays)
    outputs = {f"{name}_facts": np.zeros(2 * a.ndim + 2, np.int64) for name, a in arrays.items()}
    body = ["pass"]
    for name, array in arrays.items():
        for k in range(array.ndim):
            body += [f"{name}_facts[{k}] = {name}.shape[{k}]"]
            body += [f"{name}_facts[{array.ndim + k}] = {name}.strides[{k}]"]
        body += [f"{name}_facts[{2 * array.ndim}] = {name}.size"]
        body += [f"{name}_facts[{2 * array.ndim + 1}] = {name}.ndim"]
    run_threads("\n".join(body), 1, arrays | outputs)
    return {name: outputs[f"{name}_facts"].tolist() for name in arrays}


def test_shape_strides_size_and_rank_are_those_of_the_array():
    arrays = {
        "contiguous": BASE,
        "part": BASE[1:, :, 2:6],
        "back": BASE[::-1, :, ::-2],
        "zero": np.broadcast_to(BASE[:, :1], (3, 6, 7)),
        "scalar": np.array(1.0),
    }
    for name, got in facts(**arrays).items():
        array = arrays[name]
        steps = [stride // array.itemsize for stride in array.strides]
        assert got == [*array.shape, *steps, array.size, array.ndim], name


def test_one_compiled_function_serves_every_length():
    host = define(
        """
        @weft.kernel
        def kernel(a: weft.Tensor):
            i = weft.block_idx.x * 8 + weft.thread_idx.x
            if i < a.shape[0]:
                a[i] += i

        @weft.jit
        def host(a: weft.Tensor):
            kernel(a).launch(grid=weft.ceil_div(a.shape[0], 8), block=8)
        """
    )["host"]
    compiled = weft.compile(host, np.zeros(3, np.int32))
    for length in (0, 1, 7, 8, 9, 100):
        a = np.ones(length, np.int32)
        compiled(a)
        assert a.tolist() == [k + 1 for k in range(length)]


def test_static_dims_are_compile_time_constants():
    host = define(
        """
        @weft.kernel
        def kernel(a: weft.Tensor, out: weft.Tensor):
            total = weft.f32(0)
            for k in weft.static_range(a.shape[1]):
                total += a[weft.thread_idx.x, k]
            out[weft.thread_idx.x] = total

        @weft.jit
        def host(a: weft.Tensor[weft.f32, ("n", 4)], out: weft.Tensor[weft.f32, ("n",)]):
            kernel(a, out).launch(grid=1, block=a.shape[0])
        """
    )["host"]
    a, out = np.arange(12, dtype=np.float32).reshape(3, 4), np.zeros(3, np.float32)
    host(a, out)
    np.testing.assert_array_equal(out, a.sum(axis=1))


def test_byte_offset_and_absent_strides_are_honored():
    host = define(
        """
        @weft.kernel
        def kernel(a: weft.Tensor, b: weft.Tensor):
            b[weft.thread_idx.y, weft.thread_idx.x] = a[weft.thread_idx.y, weft.thread_idx.x]

        @weft.jit
        def host(a: weft.Tensor, b: weft.Tensor):
            kernel(a, b).launch(grid=1, block=(a.shape[1], a.shape[0]))
        """
    )["host"]
    a = np.arange(12, dtype=np.int32).reshape(3, 4)
    for exported in (Exported(a, byte_offset=8), Exported(a, without_strides=True)):
        b = np.zeros((3, 4), np.int32)
        host(exported, b)
        np.testing.assert_array_equal(b, a)


@pytest.mark.parametrize("index_type", ["i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64"])
def test_index_of_every_integer_type(index_type):
    indices = np.array([3, 0, 2, 1], NUMPY_TYPES[getattr(weft, index_type)])
    a, out = np.array([10, 11, 12, 13], np.int32), np.zeros(4, np.int32)
    run_threads("out[i] = a[indices[i]]", 4, {"a": a, "indices": indices, "out": out})
    assert out.tolist() == [13, 10, 12, 11]


def test_augmented_store_reads_and_writes_one_element():
    a = np.arange(40, dtype=np.float32)
    run_threads("a[i] *= a[i]\na[i] -= 1", 40, {"a": a})
    np.testing.assert_array_equal(a, np.arange(40, dtype=np.float32) ** 2 - 1)


WRONG_INDICES = {
    "a[i, i, i]": "received 3 indices",
    "a[i, 1.5]": "index 1 of a is the constant 1.5; expected an integer",
    "a[b[0], 0]": "index 0 of a is an f32; expected an integer",
    "a[i, -1]": "index 1 of a is -1; expected 0 or more",
    "a[i, i, i, None]": "received 3 indices",
    "a[i, None, None, None, None, None, None, None, None]": "at most 8 is allowed",
    "a[i, 0:2:0]": "the step of a slice of a is 0",
    "a[i, 0:2:i]": "the step of a slice of a is i32, known only at run time",
    "a[..., ...]": "a[...] holds two ellipses",
    "a[i] + 1": "expected a number, received Tensor[f32, (?,)]",
    "a[0:1.5]": "index 0 of a is the constant 1.5; expected an integer",
    "b['x']": "index 0 of b is the str 'x'; expected an integer",
    "a.length": "has no attribute 'length'",
    "a.shape[2]": "a.shape",
}


@pytest.mark.parametrize("expression", WRONG_INDICES)
def test_wrong_index_is_an_error_that_says_what_it_is(expression):
    arrays = {"a": np.zeros((2, 2), np.float32), "b": np.zeros(2, np.float32)}
    with pytest.raises(weft.WeftError) as caught:
        run_threads(f"x = {expression}", 1, arrays)
    text = str(caught.value)
    assert WRONG_INDICES[expression] in text
    assert f"x = {expression}" in text
