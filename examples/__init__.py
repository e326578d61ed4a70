# SPDX-License-Identifier: Apache-2.0
"""Kernels that read well on their own, each with real data, a check against NumPy and a test.

`python -m examples.add_one` runs one of them, `python -m examples.demo` runs all.
"""
