# SPDX-License-Identifier: Apache-2.0
"""LLVM text from weft's dialects, and machine code from that text.

In: verified operations of builtin, func, scf, arith, math, simt, nvgpu and ffi. Out: LLVM 22 text, objects, assembly.
Tables map an operation's class to its printer; a backend adds its own rows.
"""
