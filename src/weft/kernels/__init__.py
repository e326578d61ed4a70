# SPDX-License-Identifier: Apache-2.0
"""``weft.kernels``: kernels ready for use, as functions of arrays of NumPy, torch, CuPy, JAX or weft.

Each function is one readable file or part of one, written in the language and its primitives. Names are imported on
first use.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as typing.TYPE_CHECKING, without importing typing
if TYPE_CHECKING:
    from weft.kernels.algorithms.compaction import compress as compress
    from weft.kernels.algorithms.compaction import partition as partition
    from weft.kernels.algorithms.compaction import run_length_encode as run_length_encode
    from weft.kernels.algorithms.histogram import histogram as histogram
    from weft.kernels.algorithms.reduce import argmax as argmax
    from weft.kernels.algorithms.reduce import argmin as argmin
    from weft.kernels.algorithms.reduce import max as max
    from weft.kernels.algorithms.reduce import mean as mean
    from weft.kernels.algorithms.reduce import min as min
    from weft.kernels.algorithms.reduce import reduce as reduce
    from weft.kernels.algorithms.reduce import sum as sum
    from weft.kernels.algorithms.scan import cumsum as cumsum
    from weft.kernels.algorithms.scan import scan as scan
    from weft.kernels.algorithms.sort import argsort as argsort
    from weft.kernels.algorithms.sort import sort as sort
    from weft.kernels.algorithms.sort import top_k as top_k
    from weft.kernels.algorithms.transpose import copy as copy
    from weft.kernels.algorithms.transpose import transpose as transpose
    from weft.kernels.flash_attention.api import attention as attention
    from weft.kernels.flash_attention.api import attention_backward as attention_backward
    from weft.kernels.fourier.fft import fft as fft
    from weft.kernels.fourier.fft import irfft as irfft
    from weft.kernels.fourier.fft import rfft as rfft
    from weft.kernels.linalg.gemm import gemm as gemm
    from weft.kernels.linalg.gemm import grouped_gemm as grouped_gemm
    from weft.kernels.linalg.gemm import matmul as matmul
    from weft.kernels.linalg.gemm import scaled_gemm as scaled_gemm
    from weft.kernels.linalg.spmv import sparse_matvec as sparse_matvec
    from weft.kernels.nn.activation import gelu as gelu
    from weft.kernels.nn.activation import gelu_backward as gelu_backward
    from weft.kernels.nn.activation import silu_mul as silu_mul
    from weft.kernels.nn.activation import silu_mul_backward as silu_mul_backward
    from weft.kernels.nn.cross_entropy import cross_entropy as cross_entropy
    from weft.kernels.nn.cross_entropy import cross_entropy_backward as cross_entropy_backward
    from weft.kernels.nn.dropout import dropout as dropout
    from weft.kernels.nn.embedding import embedding as embedding
    from weft.kernels.nn.embedding import embedding_backward as embedding_backward
    from weft.kernels.nn.embedding import gather as gather
    from weft.kernels.nn.embedding import scatter_add as scatter_add
    from weft.kernels.nn.norm import layer_norm as layer_norm
    from weft.kernels.nn.norm import layer_norm_backward as layer_norm_backward
    from weft.kernels.nn.norm import rms_norm as rms_norm
    from weft.kernels.nn.norm import rms_norm_backward as rms_norm_backward
    from weft.kernels.nn.rope import rope as rope
    from weft.kernels.nn.softmax import log_softmax as log_softmax
    from weft.kernels.nn.softmax import log_softmax_backward as log_softmax_backward
    from weft.kernels.nn.softmax import softmax as softmax
    from weft.kernels.nn.softmax import softmax_backward as softmax_backward

_MODULES = {
    "argmax": "algorithms.reduce",
    "argmin": "algorithms.reduce",
    "argsort": "algorithms.sort",
    "attention": "flash_attention.api",
    "attention_backward": "flash_attention.api",
    "copy": "algorithms.transpose",
    "cross_entropy": "nn.cross_entropy",
    "cross_entropy_backward": "nn.cross_entropy",
    "cumsum": "algorithms.scan",
    "dropout": "nn.dropout",
    "embedding": "nn.embedding",
    "embedding_backward": "nn.embedding",
    "fft": "fourier.fft",
    "gather": "nn.embedding",
    "gelu": "nn.activation",
    "gelu_backward": "nn.activation",
    "gemm": "linalg.gemm",
    "grouped_gemm": "linalg.gemm",
    "histogram": "algorithms.histogram",
    "irfft": "fourier.fft",
    "layer_norm": "nn.norm",
    "layer_norm_backward": "nn.norm",
    "log_softmax": "nn.softmax",
    "log_softmax_backward": "nn.softmax",
    "matmul": "linalg.gemm",
    "max": "algorithms.reduce",
    "mean": "algorithms.reduce",
    "min": "algorithms.reduce",
    "partition": "algorithms.compaction",
    "reduce": "algorithms.reduce",
    "rfft": "fourier.fft",
    "rms_norm": "nn.norm",
    "rms_norm_backward": "nn.norm",
    "rope": "nn.rope",
    "run_length_encode": "algorithms.compaction",
    "scaled_gemm": "linalg.gemm",
    "scan": "algorithms.scan",
    "scatter_add": "nn.embedding",
    "compress": "algorithms.compaction",
    "silu_mul": "nn.activation",
    "silu_mul_backward": "nn.activation",
    "softmax": "nn.softmax",
    "softmax_backward": "nn.softmax",
    "sort": "algorithms.sort",
    "sparse_matvec": "linalg.spmv",
    "sum": "algorithms.reduce",
    "top_k": "algorithms.sort",
    "transpose": "algorithms.transpose",
}
__all__ = (
    "argmax",
    "argmin",
    "argsort",
    "attention",
    "attention_backward",
    "compress",
    "copy",
    "cross_entropy",
    "cross_entropy_backward",
    "cumsum",
    "dropout",
    "embedding",
    "embedding_backward",
    "fft",
    "gather",
    "gelu",
    "gelu_backward",
    "gemm",
    "grouped_gemm",
    "histogram",
    "irfft",
    "layer_norm",
    "layer_norm_backward",
    "log_softmax",
    "log_softmax_backward",
    "matmul",
    "max",
    "mean",
    "min",
    "partition",
    "reduce",
    "rfft",
    "rms_norm",
    "rms_norm_backward",
    "rope",
    "run_length_encode",
    "scaled_gemm",
    "scan",
    "scatter_add",
    "silu_mul",
    "silu_mul_backward",
    "softmax",
    "softmax_backward",
    "sort",
    "sparse_matvec",
    "sum",
    "top_k",
    "transpose",
)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"weft.kernels has no {name!r}; it has {', '.join(__all__)}")
    from weft.imports import imported

    found = getattr(imported(f"weft.kernels.{_MODULES[name]}"), name)
    globals()[name] = found  # so that it is asked for once
    return found


def __dir__() -> list[str]:
    return sorted(_MODULES)
