# SPDX-License-Identifier: Apache-2.0
"""Names of data: element types, dimensions, address spaces, layouts.

Out: plain immutable objects that every room may use.
"""
