# SPDX-License-Identifier: Apache-2.0
"""The machines that weft compiles for, one folder each.

In: a module with kernels, a host function and its wrapper. Out: object code.
"""
