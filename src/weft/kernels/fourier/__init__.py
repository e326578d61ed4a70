# SPDX-License-Identifier: Apache-2.0
"""Fourier transforms of any length."""
