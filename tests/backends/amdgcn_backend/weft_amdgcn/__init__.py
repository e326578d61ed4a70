# SPDX-License-Identifier: Apache-2.0
"""A backend for weft in a package of its own: kernels for AMD GPUs, as plain as they come."""
