# SPDX-License-Identifier: Apache-2.0
"""What NVIDIA GPUs add to codegen's tables: special registers, printf, assert, atomics, launches, kernels.

In: cuda operations. Out: LLVM text. Every inline-assembly call is convergent. Next: tables.
"""
