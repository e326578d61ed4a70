# SPDX-License-Identifier: Apache-2.0
"""Control flow: branches, loop-carried variables, joins."""
