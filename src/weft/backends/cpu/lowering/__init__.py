# SPDX-License-Identifier: Apache-2.0
"""What the CPU adds to codegen's tables: coordinates, printf, assert, launches, the loop over threads.

In: cuda operations. Out: LLVM text.
"""
