# SPDX-License-Identifier: Apache-2.0
"""What codegen_quality measures: kernels in weft and in CUDA C++, and the loops of their machine code."""
