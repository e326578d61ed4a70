# SPDX-License-Identifier: Apache-2.0
"""Compares weft with the reference on random programs, and prints a small program for each difference.

In: seeds. Out: 1 if there was a difference. A seed is always the same program.

    python -m tools.fuzz --seeds 0:10000
    python -m tools.fuzz --seeds 4711 --show
    python -m tools.fuzz --seeds 0:500 --ptx
    python -m tools.fuzz --gpu --seeds 0:2000 --families fragments,tiles
    python -m tools.fuzz --gpu --emulate --seeds 0:100
"""

from __future__ import annotations

import argparse
import faulthandler
import sys
import time
from collections import Counter
from math import inf

from tools.fuzz.compare import Difference, difference, unassembled
from tools.fuzz.gpu.cases import NAMES, case_of
from tools.fuzz.gpu.session import compare_all
from tools.fuzz.programs import Program, program_of
from tools.fuzz.shrink import shrink
from tools.fuzz.values import UnspecifiedError


def _seeds(text: str) -> range:
    first, _, last = text.partition(":")
    return range(int(first), int(last) if last else int(first) + 1)


def _on_gpu(arguments: argparse.Namespace) -> int:
    """Compares another machine with the CPU target."""
    if arguments.show:
        named = [] if arguments.families == "-" else arguments.families.split(",")
        for seed in arguments.seeds:
            print(case_of(seed, named).source)
    start = time.monotonic()
    found = compare_all(
        arguments.seeds,
        how="emulator" if arguments.emulate else "gpu",
        families=arguments.families,
        jobs=arguments.jobs,
        seconds=arguments.seconds,
    )
    print(f"{found.summary()}\n{time.monotonic() - start:.0f} s")
    return int(bool(found.differences))


def main() -> int:
    """Runs the seeds of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seeds", type=_seeds, default=range(100), help="one, or first:last")
    parser.add_argument("--ptx", action="store_true", help="assemble for a GPU instead of running")
    parser.add_argument("--show", action="store_true", help="print the programs")
    parser.add_argument("--keep", action="store_true", help="do not make failing programs small")
    parser.add_argument("--gpu", action="store_true", help="compare a GPU with the CPU target")
    parser.add_argument(
        "--emulate", action="store_true", help="with --gpu: PTX run in Python instead"
    )
    parser.add_argument("--families", default="-", help=f"with --gpu: some of {', '.join(NAMES)}")
    parser.add_argument("--jobs", type=int, default=4, help="with --gpu: processes at a time")
    parser.add_argument("--seconds", type=float, default=inf, help="with --gpu: begin no more then")
    arguments = parser.parse_args()
    if arguments.gpu:
        return _on_gpu(arguments)
    faulthandler.enable()
    check = unassembled if arguments.ptx else difference
    counts: Counter[str] = Counter()
    start = time.monotonic()
    for seed in arguments.seeds:
        program = program_of(seed)
        if arguments.show:
            print(program.source)
        # Where weft ends the process, this is the last line.
        print(f"\rseed {seed} ", end="", file=sys.stderr, flush=True)
        try:
            found = check(program)
        except UnspecifiedError as error:
            counts[f"not specified: {error}"] += 1
            continue
        if found is None:
            counts["same"] += 1
            continue
        counts[found.kind] += 1
        if not arguments.keep:

            def fails(candidate: Program, found: Difference = found) -> bool:
                try:
                    again = check(candidate, (found.level,))
                except Exception:  # a smaller text may not be a program at all
                    return False
                return again is not None and again.kind == found.kind

            program = shrink(program, fails)
            found = check(program) or found
        print(f"seed {seed}: {found.text}\n{program.source}")
        print(f"arguments: {program.arguments}\n" if arguments.show else "", flush=True)
    print(f"{time.monotonic() - start:.0f} s", dict(counts.most_common()))
    return int(any(not kind.startswith(("same", "not specified")) for kind in counts))


if __name__ == "__main__":
    sys.exit(main())
