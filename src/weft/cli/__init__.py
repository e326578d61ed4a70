# SPDX-License-Identifier: Apache-2.0
"""The command ``weft``: one table of commands, a file each.

In: the words of the command. Out: its exit code: 0, 1 for a failure, 2 for a wrong command, 128 and the signal's number
where other tools end by a signal.
"""

from __future__ import annotations

import argparse
import importlib
import os
import select
import signal
import sys
from typing import TYPE_CHECKING, Final

from weft import __version__
from weft.cli.functions import WrongCommandError
from weft.errors import CudaError, WeftError

if TYPE_CHECKING:
    from collections.abc import Sequence

# Command → its purpose; its module in this folder has `EXAMPLES`, `add_arguments(parser)` and `run(arguments)`.
COMMANDS: Final = {
    "doctor": "check the installation, and say how to fix it",
    "explain": "explain an error's code and its remedy",
    "compile": "compile a function and write every stage into a folder",
    "inspect": "print one stage of a function beside its lines of Python",
    "run": "call a function once with random data, and summarize its outputs",
    "bench": "measure how long a call of a function takes, on each target",
    "profile": "run a program and write a trace of its launches for Perfetto",
    "cache": "the cache on disk: list, check, clear, fill and pack it",
    "completion": "print a script that completes these commands in a shell",
}


def make_parser() -> argparse.ArgumentParser:
    """The parser of all commands; each knows its `run`."""
    parser = argparse.ArgumentParser(
        prog="weft", description="GPU kernels in Python: tools beside the library."
    )
    parser.add_argument("--version", action="version", version=f"weft {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    for name, purpose in COMMANDS.items():
        module = importlib.import_module(f"weft.cli.{name}")
        command = commands.add_parser(
            name,
            help=purpose,
            description=f"{purpose[0].upper()}{purpose[1:]}.",
            epilog="examples:\n" + "\n".join(f"  {line}" for line in module.EXAMPLES),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.add_arguments(command)
        command.set_defaults(run=module.run, make_parser=make_parser)
    return parser


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
    try:
        try:
            return _run(make_parser().parse_args(words))
        finally:
            sys.stdout.flush()  # the interpreter's own, at its end, would complain
    except BrokenPipeError as error:
        if _readers_are_gone():
            return 128 + signal.SIGPIPE
        print(f"weft: {error}", file=sys.stderr)
        return 1


def _run(arguments: argparse.Namespace) -> int:
    try:
        return arguments.run(arguments)
    except WrongCommandError as error:
        print(f"weft {arguments.command}: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        raise
    except (OSError, CudaError, WeftError) as error:
        print(f"weft: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


def _readers_are_gone() -> bool:
    """Whether the reader of the output has stopped, as in ``| head -1``; if so, buffered output is discarded."""
    poll = select.poll()
    for descriptor in (1, 2):
        poll.register(descriptor, 0)
    gone = [descriptor for descriptor, event in poll.poll(0) if event & select.POLLERR]
    for descriptor in gone:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, descriptor)
        os.close(nowhere)
    return bool(gone)
