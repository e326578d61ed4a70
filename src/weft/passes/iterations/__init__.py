# SPDX-License-Identifier: Apache-2.0
"""The parts of map_each: arithmetic, which thread runs which iterations."""
