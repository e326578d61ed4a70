# SPDX-License-Identifier: Apache-2.0
"""The arguments of a host function: one file per kind, one table in `signature`.

In: annotations, example values, `weft.fake_tensor`. Out: an immutable `Signature` that can be printed,
compared and compiled again. No IR here: the same kinds serve run time.
"""
