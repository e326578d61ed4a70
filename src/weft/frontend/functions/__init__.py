# SPDX-License-Identifier: Apache-2.0
"""The functions of a trace: the host function, kernels, and helpers."""
