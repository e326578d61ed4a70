# SPDX-License-Identifier: Apache-2.0
"""Definitions of weft's own IR operations, over xDSL's builtin, func, scf, arith and math.

In: nothing. Out: the dialects `simt` (kernels and launches), `nvgpu` (what only NVIDIA has), `ffi` (the wrapper), the
builder, the context.
Next rooms: language emits these operations, codegen prints them.
"""
