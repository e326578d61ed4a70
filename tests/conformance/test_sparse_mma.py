# SPDX-License-Identifier: Apache-2.0
"""mma of a sparse operand against NumPy: every type, several tiles, places of the nonzero elements at random."""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import pytest

import weft
from tests.conformance.test_mma import NUMPY, numbers
from tests.sampling import sampled

TYPES = [
    (weft.bf16, weft.bf16, weft.f32),
    (weft.f16, weft.f16, weft.f32),
    (weft.f16, weft.f16, weft.f16),
    (weft.f32, weft.f32, weft.f32),
    (weft.i8, weft.i8, weft.i32),
    (weft.u8, weft.i8, weft.i32),
    (weft.f8e4m3, weft.f8e5m2, weft.f32),
    (weft.f8e5m2, weft.f8e5m2, weft.f32),
]
SHAPES = [(16, 8, 1), (16, 16, 2), (32, 8, 3), (48, 24, 4)]  # rows, columns, instructions along K


def step_of(dtype):
    return 64 // dtype.itemsize


def chunk_of(dtype):
    return 2 if dtype is weft.f32 else 4


def pruned(dtype, rows, depth, seed):
    """A matrix whose chunks have a random half of their elements, some of which are zero."""
    chunk = chunk_of(dtype)
    generator = np.random.default_rng(seed)
    order = generator.random((rows, depth // chunk, chunk)).argsort(-1)
    keeps = (order < chunk // 2).reshape(rows, depth)
    return np.where(keeps, numbers(dtype, (rows, depth), seed).astype(np.float32), 0).astype(
        NUMPY[dtype]
    )


def product(types, shape, parts):
    """A host function of the values, the metadata, b and out."""
    a_type, b_type, sums = types
    rows, columns, depth = shape

    @weft.kernel
    def kernel(a: weft.Tensor, metadata: weft.Tensor, b: weft.Tensor, out: weft.Tensor):
        a_tile, b_tile = (
            weft.shared((rows, depth // 2), a_type),
            weft.shared((columns, depth), b_type),
        )
        for i in range(weft.lane_id(), rows * depth // 2, 32):
            a_tile[divmod(i, depth // 2)] = a[divmod(i, depth // 2)]
        for i in range(weft.lane_id(), columns * depth, 32):
            row, column = divmod(i, depth)
            b_tile[row, column] = b[column, row]
        weft.sync_warp()
        words = tuple(
            metadata[i, j, weft.lane_id()] for i in range(rows // 16) for j in range(parts)
        )
        acc = weft.mma.full((rows, columns), 1, sums)
        left, right = weft.mma.load_a(a_tile), weft.mma.load_b(b_tile.T)
        weft.mma.mma(left, right, acc, metadata=words).store(out)

    @weft.jit
    def host(a: weft.Tensor, metadata: weft.Tensor, b: weft.Tensor, out: weft.Tensor):
        kernel(a, metadata, b, out).launch(grid=1, block=32)

    return host


def multiplied(types, dense, b):
    values, metadata = weft.mma.compress(dense)
    (rows, depth), columns = dense.shape, b.shape[1]
    assert values.shape == (rows, depth // 2)
    out = np.zeros((rows, columns), NUMPY[types[2]])
    product(types, (rows, columns, depth), metadata.shape[1])(values, metadata, b, out)
    return out


@pytest.mark.parametrize("types", sampled(TYPES, 3), ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_products_are_those_of_the_dense_matrix(types, shape):
    rows, columns, steps = shape
    depth = steps * step_of(types[0])
    dense, b = pruned(types[0], rows, depth, 1), numbers(types[1], (depth, columns), 2)
    expected = dense.astype(np.float64) @ b.astype(np.float64) + 1
    np.testing.assert_array_equal(multiplied(types, dense, b).astype(np.float64), expected)


@pytest.mark.parametrize("places", list(itertools.combinations(range(4), 2)), ids=str)
def test_every_pair_of_places(places):
    dense = np.zeros((16, 32), np.float16)
    dense.reshape(16, 8, 4)[:, :, list(places)] = np.arange(256).reshape(16, 8, 2)
    b = np.eye(32, 8, -8, np.float16) + np.eye(32, 8, -24, np.float16) * 2
    expected = 1 + dense.astype(np.float32) @ b.astype(np.float32)
    np.testing.assert_array_equal(multiplied(TYPES[1], dense, b), expected)


def test_left_out_elements_are_not_multiplied():
    dense, b = np.zeros((16, 32), np.float16), np.zeros((32, 8), np.float16)
    dense[:, 1::4] = dense[:, 2::4] = 1
    b[0::4] = np.inf
    np.testing.assert_array_equal(multiplied(TYPES[1], dense, b), 1.0)


def indices(nibble):
    return nibble & 3, nibble >> 2


def test_metadata_of_16_bits_lies_as_in_the_manual():
    """Lane 4g + t has 16 columns of the rows g and g + 8; lanes 0 and 1 of four the first instruction's."""
    dense = pruned(weft.bf16, 32, 64, 3)
    values, metadata = weft.mma.compress(dense)
    assert metadata.shape == (2, 1, 32)
    for block, lane, half, chunk in itertools.product(range(2), range(32), range(2), range(4)):
        row, column = 16 * block + 8 * half + lane // 4, 16 * (lane % 4) + 4 * chunk
        first, second = indices(int(metadata[block, 0, lane]) >> (16 * half + 4 * chunk) & 15)
        assert first < second
        kept = dense[row, column + first], dense[row, column + second]
        assert kept == tuple(values[row, column // 2 : column // 2 + 2])
        assert np.count_nonzero(dense[row, column : column + 4]) == np.count_nonzero(kept)


def test_metadata_of_8_bits_lies_as_in_the_manual():
    """Of four lanes, 0 and 2 have the row g, 1 and 3 the row g + 8; each 32 columns."""
    dense = pruned(weft.i8, 16, 128, 4)
    values, metadata = weft.mma.compress(dense)
    assert metadata.shape == (1, 2, 32)
    for part, lane, chunk in itertools.product(range(2), range(32), range(8)):
        row = lane // 4 + 8 * (lane % 2)
        column = 64 * part + 32 * (lane % 4 // 2) + 4 * chunk
        first, second = indices(int(metadata[0, part, lane]) >> 4 * chunk & 15)
        assert first < second
        kept = dense[row, column + first], dense[row, column + second]
        assert kept == tuple(values[row, column // 2 : column // 2 + 2])


def test_metadata_of_32_bits_lies_as_in_the_manual():
    """Lane 4g + t has 8 columns of the rows g and g + 8, in chunks of two."""
    dense = pruned(weft.f32, 16, 32, 5)
    values, metadata = weft.mma.compress(dense)
    assert metadata.shape == (1, 1, 32)
    for lane, half, chunk in itertools.product(range(32), range(2), range(4)):
        row, column = lane // 4 + 8 * half, 8 * (lane % 4) + 2 * chunk
        nibble = int(metadata[0, 0, lane]) >> (16 * half + 4 * chunk) & 15
        assert nibble in (0b0100, 0b1110)
        assert values[row, column // 2] == dense[row, column + (nibble == 0b1110)]


@pytest.mark.torch
@pytest.mark.parametrize("name", ["bfloat16", "float32", "int8", "float8_e4m3fn"])
def test_tensors_of_torch_are_compressed_alike(name):
    torch = pytest.importorskip("torch", reason="needs torch: make test TORCH=1")
    dtype = getattr(torch, name)
    types = {1: weft.i8, 2: weft.bf16, 4: weft.f32}
    dense = pruned(types[dtype.itemsize], 32, 192, 6).astype(np.float32)
    tensor = torch.from_numpy(dense).to(dtype)
    values, metadata = weft.mma.compress(tensor)
    numpy_type = (
        ml_dtypes.float8_e4m3fn if name == "float8_e4m3fn" else NUMPY[types[dtype.itemsize]]
    )
    expected_values, expected = weft.mma.compress(dense.astype(numpy_type))
    assert values.dtype is dtype
    np.testing.assert_array_equal(
        values.to(torch.float32).numpy(), expected_values.astype(np.float32)
    )
    np.testing.assert_array_equal(metadata.numpy(), expected)


def test_minus_zero_is_zero_and_nan_is_not():
    dense = np.full((16, 32), -0.0, np.float16)
    dense[:, 3::4] = np.nan
    values, _ = weft.mma.compress(dense)
    np.testing.assert_array_equal(np.isnan(values).sum(1), 8)


@pytest.mark.parametrize(
    ("dense", "message"),
    [
        (np.ones((16, 32), np.float16), r"row 0 has 4 nonzero elements in the columns 0 to 3; of f16 at most 2 of 4"),
        (np.ones((16, 16), np.float32), r"row 0 has 2 nonzero elements in the columns 0 to 1; of f32 at most 1 of 2"),
        (np.zeros((16, 48), np.float16), r"is 16 x 48; of f16, rows are a multiple of 16 and columns of 32"),
        (np.zeros((8, 64), np.int8), r"is 8 x 64; of i8, rows are a multiple of 16 and columns of 64"),
        (np.zeros((16, 32), np.float64), r"do not multiply a sparse f64; they do bf16"),
        (np.zeros(32, np.float16), r"takes a matrix of NumPy or torch, received .* of shape \(32,\)"),
        ([[0.0]], r"takes a matrix of NumPy or torch, received"),
    ],
)  # fmt: skip
def test_what_cannot_be_compressed_is_refused(dense, message):
    with pytest.raises((TypeError, ValueError), match=message):
        weft.mma.compress(dense)


def test_an_error_says_which_chunk_has_too_many_elements():
    dense = np.zeros((32, 64), np.int8)
    dense[19, 41:44] = 1
    with pytest.raises(ValueError, match="row 19 has 3 nonzero elements in the columns 40 to 43"):
        weft.mma.compress(dense)


@pytest.mark.parametrize("types", [TYPES[0], TYPES[3], TYPES[4]], ids=str)
def test_metadata_whose_places_do_not_ascend_is_an_error(types):
    depth = step_of(types[0])
    dense, b = pruned(types[0], 16, depth, 7), numbers(types[1], (depth, 8), 8)
    values, metadata = weft.mma.compress(dense)
    metadata[0, 0, 4] = 0
    host = product(types, (16, 8, depth), 1)
    with pytest.raises(
        RuntimeError, match="metadata that gives no ascending places in a chunk of a row"
    ):
        host(values, metadata, b, np.zeros((16, 8), NUMPY[types[2]]))
