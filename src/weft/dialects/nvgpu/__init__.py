# SPDX-License-Identifier: Apache-2.0
"""The `nvgpu` dialect: features of NVIDIA GPUs only, one file per family.

Out: `NVGPU`, which a context loads.
"""

from __future__ import annotations

from typing import Final

from weft.dialects.definition import dialect_of
from weft.dialects.nvgpu import async_copy, inline_ptx, mbarrier, mma, tensor_map, threads

NVGPU: Final = dialect_of("nvgpu", async_copy, inline_ptx, mbarrier, mma, tensor_map, threads)
