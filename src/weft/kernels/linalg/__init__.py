# SPDX-License-Identifier: Apache-2.0
"""GEMM: epilogues, tile schedulers, split-K, and a kernel for each generation of GPUs."""
