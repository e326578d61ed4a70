# SPDX-License-Identifier: Apache-2.0
"""``weft.kernels``: kernels ready for use, as functions of arrays of NumPy, torch, CuPy, JAX or weft.

Each function is one readable file or part of one, written in the language and its primitives. Names are imported on
first use.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as typing.TYPE_CHECKING, without importing typing
if TYPE_CHECKING:
    from weft.kernels.normalization import layer_norm as layer_norm
    from weft.kernels.normalization import rms_norm as rms_norm
    from weft.kernels.reductions import max as max
    from weft.kernels.reductions import min as min
    from weft.kernels.reductions import sum as sum
    from weft.kernels.scans import cumsum as cumsum
    from weft.kernels.softmaxes import log_softmax as log_softmax
    from weft.kernels.softmaxes import softmax as softmax

_MODULES = {
    "cumsum": "scans",
    "layer_norm": "normalization",
    "log_softmax": "softmaxes",
    "max": "reductions",
    "min": "reductions",
    "rms_norm": "normalization",
    "softmax": "softmaxes",
    "sum": "reductions",
}
__all__ = (
    "cumsum",
    "layer_norm",
    "log_softmax",
    "max",
    "min",
    "rms_norm",
    "softmax",
    "sum",
)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"weft.kernels has no {name!r}; it has {', '.join(__all__)}")
    from importlib import import_module

    return getattr(import_module(f"weft.kernels.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(_MODULES)
