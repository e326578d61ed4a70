# SPDX-License-Identifier: Apache-2.0
"""Executors: load policies over one code image. One file each, one table in `registry`.

In: options. Out: an executor.
"""
