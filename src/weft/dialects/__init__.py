# SPDX-License-Identifier: Apache-2.0
"""Definitions of weft's own IR operations, over xDSL's builtin, func, scf, arith and math.

Out: the dialects `simt` (kernels and launches), `nvgpu` (what only NVIDIA has), `ffi` (the wrapper), the
builder, the context.
"""
