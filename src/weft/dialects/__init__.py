# SPDX-License-Identifier: Apache-2.0
"""weft's own IR operations, beside xDSL's builtin, func, scf, arith and math.

Out: the dialects `simt` (kernels and launches), `nvgpu` (NVIDIA only), `ffi` (the wrapper), the
builder, the context.
"""
