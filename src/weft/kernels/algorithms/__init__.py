# SPDX-License-Identifier: Apache-2.0
"""Device-wide algorithms: reductions, scans, sorts, compaction, histograms, transposes."""
