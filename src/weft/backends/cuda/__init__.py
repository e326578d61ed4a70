# SPDX-License-Identifier: Apache-2.0
"""Kernels for NVIDIA GPUs: LLVM text, PTX, cubin. Compiling needs no GPU and no driver.

In: a module with kernels and a host function. Out: a cubin, and a host object that launches it.
"""
