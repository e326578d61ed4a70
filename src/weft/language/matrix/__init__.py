# SPDX-License-Identifier: Apache-2.0
"""Tensor cores: fragments, and the operations that multiply them, one file per family."""
