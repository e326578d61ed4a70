# SPDX-License-Identifier: Apache-2.0
"""What NVIDIA GPUs add to codegen's tables: special registers, printf, assert, atomics, launches, kernels,
shared memory, barriers, warps.

In: cuda operations. Out: LLVM text. What threads execute together is convergent. Next: tables.
"""
