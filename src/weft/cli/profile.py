# SPDX-License-Identifier: Apache-2.0
"""``weft profile``: runs a program and writes a trace of its launches for Perfetto.

In: a program and its words. Out: the trace, a table of each launch; the program's own exit code.
"""

from __future__ import annotations

import argparse
import runpy
import sys
from pathlib import Path
from typing import Final

from weft.cli.functions import WrongCommandError

EXAMPLES: Final = ("weft profile -o program.perfetto-trace program.py",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The program and the file."""
    parser.add_argument("program", help="a Python file that calls its functions")
    parser.add_argument("words", nargs=argparse.REMAINDER, help="the program's own arguments")
    parser.add_argument(
        "-o", "--output", default="weft.perfetto-trace", metavar="FILE", help="for ui.perfetto.dev"
    )


def run(arguments: argparse.Namespace) -> int:
    """Runs the program inside `weft.profiler.capture`."""
    from weft import profiler

    program = Path(arguments.program)
    if not program.is_file():
        raise WrongCommandError(f"there is no file {program}")
    before = sys.argv, sys.path[:]
    sys.argv = [arguments.program, *arguments.words]
    sys.path.insert(0, str(program.resolve().parent))
    code = 0
    try:
        with profiler.capture() as trace:
            try:
                runpy.run_path(arguments.program, run_name="__main__")
            except SystemExit as end:
                code = end.code if isinstance(end.code, int) else int(end.code is not None)
                if isinstance(end.code, str):
                    print(end.code, file=sys.stderr)
    finally:
        sys.argv, sys.path[:] = before
    trace.to_perfetto(arguments.output)
    print(trace.summary())
    print(f"{arguments.output}: open it in https://ui.perfetto.dev")
    return code
