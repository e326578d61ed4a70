# SPDX-License-Identifier: Apache-2.0
"""Progress of a tuning: one line on standard error, written over.

In: what is being done. Out: nothing unless standard error is a terminal, or it is asked for.
"""

from __future__ import annotations

import sys


class Progress:
    """The line of one tuning.

    Args:
        name: of the function.
        is_wanted: None: if standard error is a terminal.
    """

    def __init__(self, name: str, is_wanted: bool | None) -> None:
        self._name = name
        self._is_terminal = sys.stderr is not None and sys.stderr.isatty()
        self._is_wanted = self._is_terminal if is_wanted is None else is_wanted

    def now(self, text: str) -> None:
        """Show the current step; on a terminal only, since each replaces the one before."""
        if self._is_wanted and self._is_terminal:
            print(f"\r\x1b[Kweft: tuning {self._name}: {text}", end="", file=sys.stderr, flush=True)

    def done(self, text: str) -> None:
        """The last line, which stays."""
        if self._is_wanted:
            start = "\r\x1b[K" if self._is_terminal else ""
            print(f"{start}weft: tuned {self._name}: {text}", file=sys.stderr, flush=True)

    def gone(self) -> None:
        """Removes the line, for an error's message."""
        if self._is_wanted and self._is_terminal:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
