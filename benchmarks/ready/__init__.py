# SPDX-License-Identifier: Apache-2.0
"""The rows of ready_kernels: a module for each kind of function, whose `cases(torch)` gives them."""
