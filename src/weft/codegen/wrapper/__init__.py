# SPDX-License-Identifier: Apache-2.0
"""The `ffi` dialect as LLVM text: what each promise of a wrapper costs at run time.

In: ffi.func. Out: the exported function `__tvm_ffi_<name>` and the state it falls back on. Success takes the
straight path; a check that fails calls the runtime table with constant data.
"""
