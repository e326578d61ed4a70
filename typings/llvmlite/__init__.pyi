# SPDX-License-Identifier: Apache-2.0
"""What weft uses of llvmlite, which has no types of its own."""
