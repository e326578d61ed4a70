# SPDX-License-Identifier: Apache-2.0
"""Programs that measure weft, and its peers in the same run.

`python -m benchmarks.<name>` prints a table, with `--json` one line per figure. Every ratio comes
from one interleaved run. Figures that matter are kept in notes/.
"""
