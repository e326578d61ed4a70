# SPDX-License-Identifier: Apache-2.0
"""The parts of spread_rounds: arithmetic, which thread runs which rounds."""
