# SPDX-License-Identifier: Apache-2.0
"""weft's own math functions as LLVM text: the same for every target, without libdevice or libm.

In: the name of a function. Out: an internal function that inlines everywhere and vectorizes on the CPU. A module
contains only those it uses.
"""
