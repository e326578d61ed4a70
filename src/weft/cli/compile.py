# SPDX-License-Identifier: Apache-2.0
"""``weft compile``: every stage of a function as files.

In: a function, the types of its arguments, architectures. Out: files in a folder, one folder for each of several
architectures.
"""

from __future__ import annotations

import sys
import time
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from weft.cli.functions import add_function_arguments, compile_named, find_function

if TYPE_CHECKING:
    import argparse

EXAMPLES: Final = (
    "weft compile kernels.py::scale --spec 'a:f32[n],b:f32[n]' -o out",
    "weft compile kernels.py::scale --spec 'a:f32[n],b:f32[n]' --gpu-arch sm_80,sm_90a -o out",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The function and the folder."""
    add_function_arguments(parser)
    parser.add_argument(
        "-o", "--output", default="weft-dump", metavar="FOLDER", help="made if it is not there"
    )


def run(arguments: argparse.Namespace) -> int:
    """Compiles for each architecture, and lists the files."""
    function = find_function(arguments.function)
    folder = Path(arguments.output)
    architectures = (arguments.gpu_arch or "").split(",")
    for number, architecture in enumerate(architectures, 1):
        place = folder / architecture if len(architectures) > 1 else folder
        if len(architectures) > 1 and sys.stderr.isatty():
            print(f"[{number}/{len(architectures)}] {architecture}", file=sys.stderr)
        chosen = Namespace(**{**vars(arguments), "gpu_arch": architecture})
        began = time.time()
        compiled = compile_named(chosen, function, "--dump-dir", str(place))
        print(f"{compiled.name}{compiled.__signature__}")
        for name, kernel in compiled.kernels.items():
            print(f"  {name}: {kernel}")
        for path in sorted(place.iterdir()):
            if path.is_file() and path.stat().st_mtime >= began - 1:
                print(f"  {path}  {path.stat().st_size:,} bytes")
    return 0
