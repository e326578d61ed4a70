# SPDX-License-Identifier: Apache-2.0
"""Host functions that all share: arrays, cached dispatch, derivatives for torch, results for JAX."""
