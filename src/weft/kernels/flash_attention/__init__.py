# SPDX-License-Identifier: Apache-2.0
"""Attention, forward and backward, a kernel for each generation of GPUs."""
