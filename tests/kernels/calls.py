# SPDX-License-Identifier: Apache-2.0
"""A call of each function of `weft.kernels`, with arrays of NumPy."""

from __future__ import annotations

from typing import Any, NamedTuple

import ml_dtypes
import numpy as np


class Call(NamedTuple):
    """Arguments of a call.

    Attributes:
        arguments: arrays of NumPy, and others.
        has_8_bits: whether some have 8-bit floats, which CuPy has not.
        is_counted: whether the last result says how many elements of the others are defined.
    """

    arguments: tuple[Any, ...]
    has_8_bits: bool = False
    is_counted: bool = False


def add(one, other):
    """What `reduce` combines with."""
    return one + other


_random = np.random.default_rng(12)
X = _random.standard_normal((4, 8), np.float32)
_Y = _random.standard_normal((4, 8), np.float32)
_CLASSES = np.array([3, 0, 7, 1], np.int32)
_PLACES = _random.integers(0, 8, (4, 8)).astype(np.int32)
_HEADS = _random.standard_normal((1, 5, 2, 16), np.float32)
_ANGLES = _random.random((4, 4), np.float32)
_EIGHT = np.ones((8, 16), ml_dtypes.float8_e4m3fn)
_SCALES = np.full((8, 1), 0.5, np.float32)
_VECTOR = np.array([2, 2, 0, 5, 5, 5], np.int32)

CALLS = {
    "argmax": Call((X,)),
    "argmin": Call((X, 0)),
    "argsort": Call((X,)),
    "attention": Call((_HEADS, _HEADS, _HEADS)),
    "attention_backward": Call((_HEADS, _HEADS, _HEADS, _HEADS)),
    "copy": Call((X,)),
    "cross_entropy": Call((X, _CLASSES)),
    "cross_entropy_backward": Call((X[:, 0].copy(), X, _CLASSES)),
    "cumsum": Call((X,)),
    "dropout": Call((X, 0.5, 1)),
    "embedding": Call((X, _CLASSES % 4)),
    "embedding_backward": Call((X, _CLASSES % 4, 4)),
    "fft": Call((X.reshape(2, 8, 2),)),
    "gather": Call((X, _PLACES)),
    "gelu": Call((X,)),
    "gelu_backward": Call((X, _Y)),
    "gemm": Call((X, _Y.T, _VECTOR[:4].astype(np.float32), "relu")),
    "grouped_gemm": Call((X, np.stack([_Y.T, _Y.T]), np.array([0, 1, 4], np.int32))),
    "histogram": Call((_PLACES, 8)),
    "irfft": Call((X.reshape(2, 8, 2),)),
    "layer_norm": Call((X, _Y[0].copy(), _Y[1].copy())),
    "layer_norm_backward": Call((X, _Y, _Y[0].copy())),
    "log_softmax": Call((X,)),
    "log_softmax_backward": Call((X, _Y)),
    "matmul": Call((X, _Y.T)),
    "max": Call((X, -1)),
    "mean": Call((X, 0)),
    "min": Call((X,)),
    "partition": Call((_VECTOR > 2, _VECTOR)),
    "reduce": Call((X, add, 0.0)),
    "rfft": Call((X,)),
    "rms_norm": Call((X, _Y[0].copy())),
    "rms_norm_backward": Call((X, _Y, _Y[0].copy())),
    "rope": Call((_HEADS[0, :4, :, :8].copy(), np.cos(_ANGLES), np.sin(_ANGLES))),
    "run_length_encode": Call((_VECTOR,), is_counted=True),
    "scaled_gemm": Call((_EIGHT, _EIGHT.T, _SCALES, _SCALES[:1]), has_8_bits=True),
    "scan": Call((X, max)),
    "scatter_add": Call((X.copy(), _PLACES, _Y)),
    "compress": Call((_VECTOR > 2, _VECTOR), is_counted=True),
    "silu_mul": Call((X, _Y)),
    "silu_mul_backward": Call((X, _Y, X)),
    "softmax": Call((X,)),
    "softmax_backward": Call((X, _Y)),
    "sort": Call((X, _Y)),
    "sparse_matvec": Call(
        (np.array([0, 2, 3, 6], np.int32), _VECTOR, np.arange(6, dtype=np.float32), X[0].copy())
    ),
    "sum": Call((X,)),
    "top_k": Call((X, 3)),
    "transpose": Call((X,)),
}
"""Every function's."""
