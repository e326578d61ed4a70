# SPDX-License-Identifier: Apache-2.0
"""The `ffi` dialect as LLVM text.

In: ffi.func. Out: the exported function `__tvm_ffi_<name>` and its fallback state. Success takes the
straight path; a check that fails calls the runtime table with constant data.
"""
