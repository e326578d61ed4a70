# SPDX-License-Identifier: Apache-2.0
"""The wrapper with the TVM-FFI ABI: how a compiled host function is reached from any language.

In: a module with a host function, its signature. Out: the same module with `ffi.func @__tvm_ffi_<name>`, which
checks every argument before it calls.
"""
