# SPDX-License-Identifier: Apache-2.0
"""Expressions: one file per kind."""
