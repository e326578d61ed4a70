# SPDX-License-Identifier: Apache-2.0
"""From object code and arguments to a running kernel; importable without the compiler.

In: `object_code` (bytes, symbols, kernel metadata). Out: `compiled_function`, called with users' arrays.
"""
