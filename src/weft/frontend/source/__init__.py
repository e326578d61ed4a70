# SPDX-License-Identifier: Apache-2.0
"""What the front end knows of a function before it traces it: its text, its names, what it read of Python."""
