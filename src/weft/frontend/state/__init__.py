# SPDX-License-Identifier: Apache-2.0
"""What tracing reads and changes of Python: captured values, and compile-time objects that can change."""
