# SPDX-License-Identifier: Apache-2.0
"""The command ``weft``: one table of commands, a file each.

In: the words of the command. Out: its exit code: 0, 1 for a failure, 2 for a wrong command.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from typing import TYPE_CHECKING, Final

from weft import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence

# Command → what it is for; its module in this folder has `add_arguments(parser)` and `run(arguments)`.
COMMANDS: Final = {
    "cache": "what is in the cache on disk: list, check, clear, fill and pack it",
}


def main(words: Sequence[str] | None = None) -> int:
    """Runs a command; without words, those of the process.

    Example:
        >>> code = main(["cache", "info"])
        folder   ...
        entries  ...
        size     ... MB of ... MB
        >>> code
        0
    """
    parser = argparse.ArgumentParser(
        prog="weft", description="GPU kernels in Python: tools beside the library."
    )
    parser.add_argument("--version", action="version", version=f"weft {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    modules = {name: importlib.import_module(f"weft.cli.{name}") for name in COMMANDS}
    for name, purpose in COMMANDS.items():
        command = commands.add_parser(name, help=purpose, description=purpose)
        modules[name].add_arguments(command)
    arguments = parser.parse_args(words)
    try:
        return modules[arguments.command].run(arguments)
    except OSError as error:
        print(f"weft: {error}", file=sys.stderr)
        return 1
