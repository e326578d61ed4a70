# SPDX-License-Identifier: Apache-2.0
"""A mixture of experts: tokens sorted by their expert, and two grouped GEMMs.

In: tokens, and for each the indices and weights of its experts. Out: the weighted sum of what they compute.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from weft import kernels

if TYPE_CHECKING:
    from collections.abc import Callable

torch: Any = None
try:
    torch = import_module("torch")
except ModuleNotFoundError:
    pass  # the layers say so


def experts_of(
    x: Any,
    indices: Any,
    weights: Any,
    gate_up_proj: Any,
    down_proj: Any,
    activated: Callable[[Any], Any],
) -> Any:
    """The sum of each token's experts, times their weights.

    Args:
        x: the tokens, (tokens, dim).
        indices: of each token's experts, (tokens, top_k); those of none, such as the number of experts, add nothing.
        weights: of them.
        gate_up_proj: (experts, 2 * hidden, dim).
        down_proj: (experts, dim, hidden).
        activated: from both halves, (rows, 2 * hidden), to (rows, hidden).
    """
    experts, order = indices.flatten().sort(stable=True)
    bounds = torch.arange(len(down_proj) + 1, device=experts.device, dtype=experts.dtype)
    # Rows of no expert are beyond the last offset: zeros.
    offsets = torch.searchsorted(experts, bounds).to(torch.int32)
    tokens = order // indices.shape[-1]
    packed = kernels.grouped_gemm(x[tokens], gate_up_proj.mT, offsets)
    found = kernels.grouped_gemm(activated(packed), down_proj.mT, offsets)
    found = found * weights.flatten()[order][:, None]
    return torch.zeros_like(x).index_add(0, tokens, found.to(x.dtype))
