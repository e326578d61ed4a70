# SPDX-License-Identifier: Apache-2.0
"""weft's own device functions as LLVM text: the same for every target, without libdevice and libm.

In: the name of a function. Out: an internal function that inlines everywhere and vectorizes on the CPU. Only
those that a module uses are printed.
"""
