# SPDX-License-Identifier: Apache-2.0
"""What decides which statements run, and how often: branches, loops, and where their paths meet."""
