# SPDX-License-Identifier: Apache-2.0
"""What has a value: one file per kind of expression."""
