# SPDX-License-Identifier: Apache-2.0
"""The front end: a Python function and a signature in, a module of kernels and a host function out.

Read source, then trace: an AST visitor with two kinds of values, compile-time Python objects and staged ones.
"""
