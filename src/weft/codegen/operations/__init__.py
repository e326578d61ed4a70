# SPDX-License-Identifier: Apache-2.0
"""How the operations that every target shares are printed: one file per family."""
