# SPDX-License-Identifier: Apache-2.0
"""``weft cache``: the cache on disk.

In: an action. Out: lines on standard output. docs/cache.md explains the cache.
"""

from __future__ import annotations

import runpy
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from weft import cache

if TYPE_CHECKING:
    import argparse

EXAMPLES: Final = ("weft cache info", "weft cache list", "weft cache pack kernels")

_ACTIONS: Final = {
    "info": "where the cache is and how full",
    "list": "each entry, the longest unused first",
    "verify": "read every entry and remove damaged ones",
    "clear": "remove every entry",
    "warm": "run a program, and list hits and stored entries",
    "pack": "copy the entries into a folder for WEFT_CACHE_PACK",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The actions and their arguments."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="action")
    for name, purpose in _ACTIONS.items():
        action = actions.add_parser(name, help=purpose, description=purpose)
        if name == "warm":
            action.add_argument(
                "program", help="a Python file that calls or compiles its functions"
            )
        if name == "pack":
            action.add_argument("folder", help="made if it is not there")


def run(arguments: argparse.Namespace) -> int:
    """Does it; 1 if `verify` has found damaged entries."""
    match arguments.action:
        case "info":
            found = cache.info()
            print(f"folder   {found.folder or 'none: there is no home directory'}")
            print(f"entries  {found.entries}")
            print(f"size     {_megabytes(found.size)} of {_megabytes(found.limit)}")
        case "list":
            for entry in cache.entries():
                used = time.strftime("%Y-%m-%d %H:%M", time.localtime(entry.used))
                print(
                    f"{used}  {entry.size:>9}  {Path(entry.path).parent.name}/{Path(entry.path).name}"
                )
        case "verify":
            whole, removed = cache.verify()
            print(f"{whole} entries are whole, {removed} damaged ones were removed")
            return int(removed > 0)
        case "clear":
            print(f"{cache.clear()} entries were removed")
        case "warm":
            sys.argv = [arguments.program]
            sys.path.insert(0, str(Path(arguments.program).resolve().parent))
            runpy.run_path(arguments.program, run_name="__main__")
            print(cache.stats())
        case _:
            print(f"{cache.pack(arguments.folder)} entries were copied to {arguments.folder}")
    return 0


def _megabytes(size: int) -> str:
    return f"{size / (1 << 20):.1f} MB"
