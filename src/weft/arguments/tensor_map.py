# SPDX-License-Identifier: Apache-2.0
"""The annotation of kernel parameters that take tensor maps.

Out: `TensorMap`. Host functions make maps with `weft.tensor_map`.
"""

from __future__ import annotations


class TensorMap:
    """Annotation of a kernel's parameter that takes what `weft.tensor_map` makes in a host function.

    A tensor map tells the TMA unit of Hopper and later GPUs where a tensor is and how large the boxes are that
    it copies at once (`weft.tma`). The kernel is compiled for the map's element type, box and swizzle.

    Example:
        ``def copy_kernel(a: weft.TensorMap, b: weft.TensorMap): ...``
    """
