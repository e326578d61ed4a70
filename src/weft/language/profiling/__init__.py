# SPDX-License-Identifier: Apache-2.0
"""The in-kernel profiler's device side."""
