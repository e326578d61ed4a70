# SPDX-License-Identifier: Apache-2.0
"""A differential fuzzer of the kernel language: random programs, run by weft and by a reference in plain Python.

`values` and `machine` are the reference. They are written from docs/language.md and docs/reference alone; to change
them, never read the compiler: where the two differ, one of the three is wrong. In: seeds. Out: programs whose results
differ, as small as they could be made. Start with `__main__`.
"""
