# SPDX-License-Identifier: Apache-2.0
"""Kernels on the CPU, with the same semantics as on a GPU.

In: a module with kernels and a host function. Out: one object for this machine.
"""
