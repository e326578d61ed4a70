# SPDX-License-Identifier: Apache-2.0
"""What kernels and launches of any GPU share; a backend adds what its own machine says in other words."""
