# SPDX-License-Identifier: Apache-2.0
"""How each kind of argument is decoded: one file per kind; the table is `wrapper.DECODERS`.

In: a parameter and its position. Out: operations that check it, and its value for the host function.
"""
