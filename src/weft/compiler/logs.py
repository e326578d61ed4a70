# SPDX-License-Identifier: Apache-2.0
"""Shows the log where the environment asks for it, and warns once of variables that mean nothing.

In: `config.log`, and the names of the environment. Out: a handler of the logger `weft`, added once, unless the
program has its own. Importing weft does nothing of this.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from weft.config import config, misspelled_variables
from weft.memo import kept

if TYPE_CHECKING:
    from collections.abc import Iterator

FORMAT: Final = "weft: %(levelname)s: %(message)s"

_log = logging.getLogger("weft")
_handler = logging.StreamHandler()
_handler.setFormatter(logging.Formatter(FORMAT))


def show_logs() -> None:
    """Makes the logger follow WEFT_LOG; without the variable, the logger is left as the program set it.

    Raises:
        ValueError: if the variable holds a word that is not a level.
    """
    level = config.log
    if level is not None:
        _log.setLevel(level.upper())
        # A program that handles the root logger sees each message there already.
        if not _log.hasHandlers():
            _log.addHandler(_handler)
    _warn_of_misspelled_variables()


@kept
def _misspelled_variables() -> Iterator[tuple[str, str]]:
    """What nobody was warned of yet: one iterator for all threads, used up by the first."""
    return iter(misspelled_variables().items())


def _warn_of_misspelled_variables() -> None:
    for name, meant in _misspelled_variables():
        _log.warning(
            "the environment variable %s means nothing to weft; did you mean %s?", name, meant
        )
