# SPDX-License-Identifier: Apache-2.0
"""``weft.kernels``: kernels ready for use, as functions of arrays of NumPy, torch, CuPy, JAX or weft.

Each function is one readable file or part of one, written in the language and its primitives. Names are imported on
first use.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as typing.TYPE_CHECKING, without importing typing
if TYPE_CHECKING:
    from weft.kernels.activations import gelu as gelu
    from weft.kernels.activations import gelu_backward as gelu_backward
    from weft.kernels.activations import silu_mul as silu_mul
    from weft.kernels.activations import silu_mul_backward as silu_mul_backward
    from weft.kernels.attention_gradients import attention_backward as attention_backward
    from weft.kernels.attentions import attention as attention
    from weft.kernels.dropouts import dropout as dropout
    from weft.kernels.grouped_products import grouped_gemm as grouped_gemm
    from weft.kernels.histograms import histogram as histogram
    from weft.kernels.lookups import embedding as embedding
    from weft.kernels.lookups import embedding_backward as embedding_backward
    from weft.kernels.lookups import gather as gather
    from weft.kernels.lookups import scatter_add as scatter_add
    from weft.kernels.losses import cross_entropy as cross_entropy
    from weft.kernels.losses import cross_entropy_backward as cross_entropy_backward
    from weft.kernels.movers import copy as copy
    from weft.kernels.movers import transpose as transpose
    from weft.kernels.norm_gradients import layer_norm_backward as layer_norm_backward
    from weft.kernels.norm_gradients import rms_norm_backward as rms_norm_backward
    from weft.kernels.normalization import layer_norm as layer_norm
    from weft.kernels.normalization import rms_norm as rms_norm
    from weft.kernels.products import gemm as gemm
    from weft.kernels.products import matmul as matmul
    from weft.kernels.reductions import argmax as argmax
    from weft.kernels.reductions import argmin as argmin
    from weft.kernels.reductions import max as max
    from weft.kernels.reductions import mean as mean
    from weft.kernels.reductions import min as min
    from weft.kernels.reductions import reduce as reduce
    from weft.kernels.reductions import sum as sum
    from weft.kernels.rotations import rope as rope
    from weft.kernels.scaled_products import scaled_gemm as scaled_gemm
    from weft.kernels.scans import cumsum as cumsum
    from weft.kernels.scans import scan as scan
    from weft.kernels.selections import partition as partition
    from weft.kernels.selections import run_length as run_length
    from weft.kernels.selections import select as select
    from weft.kernels.softmax_gradients import log_softmax_backward as log_softmax_backward
    from weft.kernels.softmax_gradients import softmax_backward as softmax_backward
    from weft.kernels.softmaxes import log_softmax as log_softmax
    from weft.kernels.softmaxes import softmax as softmax
    from weft.kernels.sorts import argsort as argsort
    from weft.kernels.sorts import sort as sort
    from weft.kernels.sorts import top_k as top_k
    from weft.kernels.sparse import sparse_matvec as sparse_matvec
    from weft.kernels.transforms import fft as fft
    from weft.kernels.transforms import irfft as irfft
    from weft.kernels.transforms import rfft as rfft

_MODULES = {
    "argmax": "reductions",
    "argmin": "reductions",
    "argsort": "sorts",
    "attention": "attentions",
    "attention_backward": "attention_gradients",
    "copy": "movers",
    "cross_entropy": "losses",
    "cross_entropy_backward": "losses",
    "cumsum": "scans",
    "dropout": "dropouts",
    "embedding": "lookups",
    "embedding_backward": "lookups",
    "fft": "transforms",
    "gather": "lookups",
    "gelu": "activations",
    "gelu_backward": "activations",
    "gemm": "products",
    "grouped_gemm": "grouped_products",
    "histogram": "histograms",
    "irfft": "transforms",
    "layer_norm": "normalization",
    "layer_norm_backward": "norm_gradients",
    "log_softmax": "softmaxes",
    "log_softmax_backward": "softmax_gradients",
    "matmul": "products",
    "max": "reductions",
    "mean": "reductions",
    "min": "reductions",
    "partition": "selections",
    "reduce": "reductions",
    "rfft": "transforms",
    "rms_norm": "normalization",
    "rms_norm_backward": "norm_gradients",
    "rope": "rotations",
    "run_length": "selections",
    "scaled_gemm": "scaled_products",
    "scan": "scans",
    "scatter_add": "lookups",
    "select": "selections",
    "silu_mul": "activations",
    "silu_mul_backward": "activations",
    "softmax": "softmaxes",
    "softmax_backward": "softmax_gradients",
    "sort": "sorts",
    "sparse_matvec": "sparse",
    "sum": "reductions",
    "top_k": "sorts",
    "transpose": "movers",
}
__all__ = (
    "argmax",
    "argmin",
    "argsort",
    "attention",
    "attention_backward",
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
    "run_length",
    "scaled_gemm",
    "scan",
    "scatter_add",
    "select",
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
    from importlib import import_module

    found = getattr(import_module(f"weft.kernels.{_MODULES[name]}"), name)
    globals()[name] = found  # so that it is asked for once
    return found


def __dir__() -> list[str]:
    return sorted(_MODULES)
