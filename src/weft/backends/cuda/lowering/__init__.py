# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's additions to codegen's tables: registers, memory, atomics, warps, barriers, kernels, launches.

In: simt and nvgpu operations. Out: LLVM text. Operations that threads execute together are convergent.
"""
