# SPDX-License-Identifier: Apache-2.0
"""The CPU's additions to codegen's tables: coordinates, printf, assert, launches, the loop over threads.

In: cuda operations. Out: LLVM text.
"""
