# SPDX-License-Identifier: Apache-2.0
"""Functions outside the process that compiled them."""
