# SPDX-License-Identifier: Apache-2.0
"""Device functions that kernels share: vectors, rows, row pipelines, decoupled look-back."""
