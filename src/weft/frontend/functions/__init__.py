# SPDX-License-Identifier: Apache-2.0
"""The three kinds of functions of a trace: the host function, the kernels, and the helpers in them."""
