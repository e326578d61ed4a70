# SPDX-License-Identifier: Apache-2.0
"""Shows the log on request of the environment, and warns once about misspelled variables.

In: `config.log`, and the names of the environment. Out: a handler of the logger `weft`, added once, unless the program
has its own. Importing weft does none of this.
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
        ValueError: if the variable is not a level.
    """
    level = config.log
    if level is not None:
        _log.setLevel(level.upper())
        # A program with a root handler already sees each message.
        if not _log.hasHandlers():
            _log.addHandler(_handler)
    _warn_of_misspelled_variables()


@kept
def _misspelled_variables() -> Iterator[tuple[str, str]]:
    """Pending warnings: one iterator for all threads, consumed by the first."""
    return iter(misspelled_variables().items())


def _warn_of_misspelled_variables() -> None:
    for name, meant in _misspelled_variables():
        _log.warning("weft has no environment variable %s; did you mean %s?", name, meant)


def log_found(name: str, executor: str, reason: str) -> None:
    """Shows the log, and says that a function was found in the cache on disk."""
    show_logs()
    _log.info("%s: executor %s, because of %s; found in the cache", name, executor, reason)
