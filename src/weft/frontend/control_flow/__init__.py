# SPDX-License-Identifier: Apache-2.0
"""Where paths of control part and meet again: branches, what loops carry, joins."""
