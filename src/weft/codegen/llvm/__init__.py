# SPDX-License-Identifier: Apache-2.0
"""LLVM text and LLVM itself: modules, functions, types, metadata; parsing, optimizing, loading."""
