# SPDX-License-Identifier: Apache-2.0
"""What NVIDIA GPUs add to codegen's tables: registers, memory, atomics, warps, barriers, kernels, launches.

In: cuda operations. Out: LLVM text. What threads execute together is convergent.
"""
