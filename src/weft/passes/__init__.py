# SPDX-License-Identifier: Apache-2.0
"""Transformations of a module between tracing and its wrapper: plain calls, one file per idea.

In: a traced module. Out: the same module, changed in place.
"""
