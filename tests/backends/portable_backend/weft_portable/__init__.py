# SPDX-License-Identifier: Apache-2.0
"""A backend for weft in a package of its own: kernels for any x86-64 CPU, as plain as they come."""
