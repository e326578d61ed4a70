# SPDX-License-Identifier: Apache-2.0
"""A process that compares some cases, so that what ends it, or a device's context, loses one of them alone.

In: seeds, as arguments. Out: lines of JSON: `[seed]` before a case, `[seed, kind, text]` after it. It ends itself with
3 after an error of the device, whose context takes no more work.
"""

from __future__ import annotations

import faulthandler
import json
import os
import sys
from typing import TYPE_CHECKING

from tools.fuzz.gpu.cases import Case, case_of
from tools.fuzz.gpu.compare import compared, on_gpu, reproducer, smaller

if TYPE_CHECKING:
    from tools.fuzz.gpu.compare import Machine

LOST = 3
_GOES_ON = ("same", "refused", "not ", "values")


def main() -> int:
    """Compares the seeds of the command line: how (`gpu` or `emulator`), families (or `-`), then seeds."""
    faulthandler.enable()
    how, families, *seeds = sys.argv[1:]
    if how == "emulator":
        from tools.fuzz.gpu.emulated import on_emulator as run_on
    else:
        run_on = on_gpu
    named = [] if families == "-" else families.split(",")
    for text in seeds:
        seed = int(text)
        print(json.dumps([seed]), flush=True)
        case = case_of(seed, named)
        result = compared(case, run_on)
        told = result.text
        if result.kind == "values":
            told = _told(case, run_on, families)
        elif not result.kind.startswith(_GOES_ON):
            told = reproducer(case, result, _command(seed, families))
        print(json.dumps([seed, result.kind, told, case.family]), flush=True)
        if how == "gpu" and not result.kind.startswith(_GOES_ON):
            os._exit(LOST)
    return 0


def _told(case: Case, run_on: Machine, families: str) -> str:
    """A smaller case that differs, too."""
    small = smaller(case, "values", run_on)
    return reproducer(small, compared(small, run_on), _command(case.seed, families))


def _command(seed: int, families: str) -> str:
    only = "" if families == "-" else f" --families {families}"
    return f"python -m tools.fuzz --gpu{only} --seeds {seed}"


if __name__ == "__main__":
    sys.exit(main())
