# SPDX-License-Identifier: Apache-2.0
"""Clusters of blocks; copies and barriers that work beside the threads."""
