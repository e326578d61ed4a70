# SPDX-License-Identifier: Apache-2.0
"""Python state read and changed by tracing: captured values, and mutable compile-time objects."""
