# SPDX-License-Identifier: Apache-2.0
"""Compiled functions outside their process: in pickles, objects, archives and shared libraries."""
