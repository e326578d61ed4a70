# SPDX-License-Identifier: Apache-2.0
"""The TVM-FFI ABI seen from Python: finding its library, functions, objects, tensors, errors.

In: handles and Python values. Out: the same values on the other side of the ABI, with one owner each.
The work is done by `weft._native`; next room: `runtime`, which makes functions of compiled code.
"""
