# SPDX-License-Identifier: Apache-2.0
"""Printers of the operations common to all targets: one file per family."""
