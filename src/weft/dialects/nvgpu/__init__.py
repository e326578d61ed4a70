# SPDX-License-Identifier: Apache-2.0
"""The `nvgpu` dialect: what only NVIDIA's GPUs have, one file per family, one table here.

In: the families' operations. Out: `NVGPU`, which a context loads.
"""

from __future__ import annotations

from typing import Final

from xdsl.ir import Dialect

from weft.dialects.nvgpu.inline_ptx import InlinePtxOp

NVGPU: Final = Dialect("nvgpu", [InlinePtxOp], [])
