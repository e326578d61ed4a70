# SPDX-License-Identifier: Apache-2.0
"""What is done: statements, and the loops among them."""
