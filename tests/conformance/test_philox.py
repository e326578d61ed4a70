# SPDX-License-Identifier: Apache-2.0
"""`weft.random.philox`: Random123's test vectors, and numbers made of the words, to the bit or within a bound."""

from __future__ import annotations

import numpy as np
import pytest

import weft

# Random123's kat_vectors for philox4x32 with 10 rounds: counter, key, words.
KNOWN = np.array(
    [
        [*[0] * 6, 0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8],
        [*[0xFFFFFFFF] * 6, 0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD],
        [
            *(0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344, 0xA4093822, 0x299F31D0),
            *(0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ],
    ],
    np.uint32,
)
SEED, STREAM, COUNT = 0x123456789ABCDEF, 3, 4096


@weft.kernel
def words_kernel(given: weft.Tensor, out: weft.Tensor):
    i = weft.thread_idx.x
    row = given[i]
    found = weft.random.philox.words((row[0], row[1], row[2], row[3]), (row[4], row[5]))
    for k in weft.static_range(4):
        out[i, k] = found[k]


@weft.jit
def words(given: weft.Tensor, out: weft.Tensor):
    words_kernel(given, out).launch(grid=1, block=given.shape[0])


def test_words_are_those_of_random123():
    out = np.zeros((3, 4), np.uint32)
    words(np.ascontiguousarray(KNOWN[:, :6]), out)
    assert (out == KNOWN[:, 6:]).all()


@weft.kernel
def numbers_kernel(
    seed: weft.u64,
    uniforms: weft.Tensor,
    wide: weft.Tensor,
    integers: weft.Tensor,
    normals: weft.Tensor,
):
    i = weft.block_idx.x * weft.block_dim.x + weft.thread_idx.x
    philox = weft.random.philox
    found = philox.uniform(seed, i, stream=STREAM, count=4)
    gauss = philox.normal(seed, i, stream=STREAM, count=4)
    for k in weft.static_range(4):
        uniforms[i, k], normals[i, k] = found[k], gauss[k]
    wide[i, 0], wide[i, 1] = philox.uniform(seed, i, stream=STREAM, count=2, dtype=weft.f64)
    integers[i, 0] = philox.integers(seed, i, -5, 1000, stream=STREAM)
    _, integers[i, 1] = philox.integers(seed, i, -(1 << 31), (1 << 31) - 1, stream=STREAM, count=2)
    weft.static_assert(philox.normal(seed, i).dtype is weft.f32)


@weft.jit
def numbers(
    seed: weft.u64,
    uniforms: weft.Tensor,
    wide: weft.Tensor,
    integers: weft.Tensor,
    normals: weft.Tensor,
):
    numbers_kernel(seed, uniforms, wide, integers, normals).launch(
        grid=uniforms.shape[0] // 64, block=64
    )


@pytest.fixture(scope="module")
def made() -> tuple[np.ndarray, ...]:
    """The words, and the numbers that a kernel made of them."""
    given = np.zeros((COUNT, 6), np.uint32)
    given[:, 0], given[:, 2], given[:, 4], given[:, 5] = (
        np.arange(COUNT),
        STREAM,
        SEED & 0xFFFFFFFF,
        SEED >> 32,
    )
    raw = np.zeros((COUNT, 4), np.uint32)
    for first in range(0, COUNT, 1024):
        words(given[first : first + 1024], raw[first : first + 1024])
    out = (
        np.zeros((COUNT, 4), np.float32),
        np.zeros((COUNT, 2)),
        np.zeros((COUNT, 2), np.int32),
        np.zeros((COUNT, 4), np.float32),
    )
    numbers(np.uint64(SEED), *out)
    return raw, *out


def test_uniform_numbers_are_the_upper_bits(made):
    raw, uniforms, wide, *_ = made
    assert (uniforms == (raw >> 8) * np.float64(2.0**-24)).all()
    joined = raw[:, 1::2].astype(np.uint64) << np.uint64(32) | raw[:, ::2]
    assert (wide == (joined >> np.uint64(11)) * 2.0**-53).all()


def test_integers_are_a_share_of_64_bits(made):
    raw, _, _, integers, _ = made
    joined = [[int(high) << 32 | int(low) for low, high in row.reshape(2, 2)] for row in raw]
    assert integers[:, 0].tolist() == [-5 + (row[0] * 1005 >> 64) for row in joined]
    assert integers[:, 1].tolist() == [-(1 << 31) + (row[1] * (2**32 - 1) >> 64) for row in joined]


def test_normal_numbers_are_those_of_box_and_muller(made):
    raw, *_, normals = made
    # The fraction is an f32, rounded once.
    fraction = (raw[:, ::2].astype(np.float32) * np.float64(2.0**-32) + 2.0**-33).astype(np.float32)
    radius = np.sqrt(-2 * np.log(fraction.astype(np.float64)))
    angle = raw[:, 1::2] * (2 * np.pi * 2.0**-32)
    assert np.abs(normals[:, ::2] - radius * np.cos(angle)).max() < 2.0**-21
    assert np.abs(normals[:, 1::2] - radius * np.sin(angle)).max() < 2.0**-21
    assert abs(normals.mean()) < 0.02 and abs(normals.var() - 1) < 0.02


def test_normal_numbers_have_the_same_bits_on_every_target(made):
    *_, normals = made
    bits = normals.view(np.uint32).astype(np.uint64).ravel()
    places = np.arange(1, len(bits) + 1, dtype=np.uint64)
    assert int((bits * places).sum()) % 2**32 == 2962116572
