# SPDX-License-Identifier: Apache-2.0
"""Text of LLVM IR from weft's dialects, and machine code from that text.

In: verified operations of builtin, func, scf, arith, math and cuda. Out: LLVM 22 text, objects, assembly.
Tables map an operation's class to its printer; a backend adds its own rows.
"""
