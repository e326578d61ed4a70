# SPDX-License-Identifier: Apache-2.0
"""Copies and barriers that work beside the threads."""
