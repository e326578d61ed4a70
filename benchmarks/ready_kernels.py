# SPDX-License-Identifier: Apache-2.0
"""The functions of `weft.kernels` on a GPU, beside torch's and CuPy's (CUB's) for the same, and beside a copy.

The data is random. What weft computes is compared with the first peer's result before anything is timed. A measurement
is the time for a row of calls between two events, as a user sees it: each call takes the next of several sets of
arguments, which together exceed the caches. Candidates take turns, and each figure is a median.

In: a GPU, torch, and CuPy where it is installed. Out: GB/s of bytes that a call has to read and write, or TFLOP/s, with
the fastest peer's, so that a ratio above 1 is faster than that one; the note has the share of a copy's speed, measured
in the same run, and the other peers. Then the geometric mean and the worst ratio; why there are none without a GPU.
"""

from __future__ import annotations

import argparse
import math
import statistics
from itertools import cycle
from typing import TYPE_CHECKING, Any, cast

from benchmarks.gpu_kernels import MOST_SETS, Stopwatch
from benchmarks.gpu_launch import gpu_missing
from benchmarks.harness import Figure, interleave, reason_of, report
from benchmarks.ready import device_wide, models, rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benchmarks.ready.case import Case

KINDS = {"device_wide": device_wide.cases, "models": models.cases, "rows": rows.cases}
"""Each kind's cases; adding one is a module of `benchmarks.ready` and a line here."""
ROTATED = 1 << 28  # bytes of all sets of arguments together
COPIED = 1 << 30  # bytes of the copy that is the ceiling
SCALE = {"GB/s": 1e3, "TFLOP/s": 1e6}  # of work for each microsecond


def copy_speed(torch: Any, watch: Stopwatch) -> float:
    """Bytes read and written in a microsecond by a copy from device to device."""
    source = torch.randint(256, (COPIED,), dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    measure = watch.measurement(lambda: target.copy_(source))
    return 2 * COPIED / statistics.median(measure() for _ in range(5))


def difference(ours: Any, theirs: Any) -> float:
    """How far results are from each other, of the norm of the second; infinite for a NaN or another shape."""
    if isinstance(ours, tuple):
        pairs: Any = zip(cast("Any", ours), theirs, strict=True)
        return max(difference(one, other) for one, other in pairs)
    if ours.shape != theirs.shape:
        return math.inf
    one, other = ours.double(), theirs.double()
    found = float((one - other).norm() / max(float(other.norm()), 1e-30))
    return found if math.isfinite(found) else math.inf


def check(case: Case, arguments: Any) -> str:
    """Compares weft's result with the first peer's; an empty string, or how far they are from each other."""
    if not case.peers:
        return ""
    theirs: Any = next(iter(case.peers.values()))(*arguments)
    if hasattr(theirs, "clone"):  # ours may write to the same memory
        theirs = theirs.clone()
    apart = difference(case.ours(*arguments), theirs)
    return "" if apart <= case.tolerance else f"wrong: differs by {apart:.1e} of the norm"


def figure(torch: Any, case: Case, copy: float, watch: Stopwatch, rounds: int) -> Figure:
    """One row, measured."""
    name = f"ready_kernels/{case.name}"
    first = case.make(0)
    size = sum(one.numel() * one.element_size() for one in first if torch.is_tensor(one))
    sets = [first] + [case.make(k) for k in range(1, min(MOST_SETS, max(1, ROTATED // size)))]
    try:
        wrong = check(case, first)
    except Exception as error:
        return Figure(name, None, case.unit, note=reason_of(error))
    found: dict[str, Callable[[], float]] = {}
    failed: dict[str, str] = {}
    for who, call in {"weft": case.ours, **case.peers}.items():
        turn = cycle(sets)
        try:
            found[who] = watch.measurement(lambda call=call, turn=turn: call(*next(turn)))
        except Exception as error:
            failed[who] = reason_of(error)
    samples = interleave(found, rounds, failed)
    speeds = {
        who: case.work / statistics.median(times) / SCALE[case.unit]
        for who, times in samples.items()
    }
    ours = speeds.pop("weft", None)
    notes = [wrong] if wrong else []
    if ours is not None and case.unit == "GB/s":
        notes.append(f"{ours * SCALE[case.unit] / copy:.2f} of a copy")
    best = max(speeds, key=lambda who: speeds[who], default=None)
    notes += [f"{who} {value:.4g}" for who, value in speeds.items() if who != best]
    notes += [f"{who}: {why}" for who, why in failed.items()]
    return Figure(name, ours, case.unit, best, speeds.get(best or ""), ", ".join(notes))


def figures(rounds: int, kinds: list[str], driver: str = "libcuda.so.1") -> Iterator[Figure]:
    """Every row of these kinds, then the mean and the worst of their ratios to the fastest peer."""
    import torch

    watch = Stopwatch(driver)
    copy = copy_speed(torch, watch)
    yield Figure("ready_kernels/copy", copy / 1e3, "GB/s", note=torch.cuda.get_device_name())
    for kind in kinds:
        ratios: dict[str, float] = {}
        for case in KINDS[kind](torch):
            made = figure(torch, case, copy, watch, rounds)
            if made.ratio and "wrong" not in made.note:
                ratios[case.name] = made.ratio
            yield made
        if ratios:
            mean = math.exp(sum(map(math.log, ratios.values())) / len(ratios))
            worst = min(ratios, key=lambda name: ratios[name])
            note = (
                f"of {len(ratios)} ratios to the fastest peer, worst {ratios[worst]:.2f}: {worst}"
            )
            yield Figure(f"ready_kernels/{kind}/geometric mean", mean, "x", note=note)


def missing() -> str:
    """Why nothing can be measured, or an empty string."""
    if reason := gpu_missing():
        return f"needs a GPU: {reason}"
    try:
        import torch
    except ImportError:
        return "needs torch"
    return "" if torch.cuda.is_available() else "needs torch for CUDA"


def main() -> None:
    """Print every figure, or why there is none."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON line per figure")
    parser.add_argument("--rounds", type=int, default=7, help="measurements of each candidate")
    parser.add_argument("kinds", nargs="*", default=[*KINDS], help=f"of {', '.join(KINDS)}")
    arguments = parser.parse_args()
    if reason := missing():
        report([Figure("ready_kernels", None, "GB/s", note=reason)], arguments.json)
    else:
        report(figures(arguments.rounds, arguments.kinds), arguments.json)


if __name__ == "__main__":
    main()
