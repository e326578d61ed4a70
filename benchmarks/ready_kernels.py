# SPDX-License-Identifier: Apache-2.0
"""The functions of `weft.kernels` on a GPU beside other libraries' for the same, and beside what the GPU reaches.

The peers are torch, `torch.compile`, CuPy, which calls CUB, Triton's tutorials and NVIDIA's libraries, as far as they
are installed. The data is random. What weft computes is compared with the first peer's result before anything is
timed. A measurement is the time for a row of calls between two events, as a user sees it: each call takes the next of
several sets of arguments, which together exceed the caches. Candidates take turns, and each figure is a median.

The roofline of a row is the longer of two times: of its bytes in a copy, and of its operations in a kernel of nothing
else; both are measured in the same run.

In: a GPU, and torch. Out: GB/s of bytes that a call has to read and write, or TFLOP/s, with the fastest peer's, so that
a ratio above 1 is faster than that one; the note has the share of the roofline, and the other peers. Then the geometric
mean and the worst ratio of each kind; why there are none without a GPU.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
from dataclasses import dataclass, field
from itertools import cycle
from typing import TYPE_CHECKING, Any, cast

from benchmarks.ceilings import arithmetic_ceiling, memory_ceiling, product_ceiling
from benchmarks.gpu_kernels import MOST_SETS, ROTATED, Stopwatch
from benchmarks.gpu_launch import gpu_missing
from benchmarks.harness import Figure, interleave, medians, reason_of, report
from benchmarks.ready import (
    attention,
    device_wide,
    elementwise,
    gemm,
    moves,
    rows,
    tensor_cores,
    transforms,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from benchmarks.ready.case import Case

    Cases = Callable[..., Iterator[Case]]

KINDS: dict[str, Cases] = {
    "rows": rows.of_rows,
    "reductions": rows.reductions,
    "device_wide": device_wide.cases,
    "elementwise": elementwise.cases,
    "moves": moves.cases,
    "transforms": transforms.cases,
    "gemm": gemm.cases,
    "attention": attention.cases,
    "tensor_cores": tensor_cores.cases,
}
"""Each kind's cases; adding one is a module of `benchmarks.ready` and a line here."""
HOPPER_KINDS = {"tensor_cores"}
"""Those that need compute capability 9.0."""
LOST = 0.995
"""A ratio that is rounded to less than 1.00."""
SCALE = {"GB/s": 1e3, "TFLOP/s": 1e6}  # of work for each microsecond


@dataclass
class Measured:
    """What was found of a row.

    Attributes:
        name, unit, work: of the case.
        element: the type of its first argument's elements.
        moved: bytes of its arguments and results, those that differ.
        microseconds: who → the median time of a call.
        failed: who → why there is none.
        wrong: how weft's result differs, or an empty string.
    """

    name: str
    unit: str
    work: float
    element: str
    moved: float
    microseconds: dict[str, float] = field(default_factory=dict[str, float])
    failed: dict[str, str] = field(default_factory=dict[str, str])
    wrong: str = ""

    @property
    def ours(self) -> float | None:
        """weft's time, if its result is right."""
        return None if self.wrong else self.microseconds.get("weft")

    @property
    def best(self) -> str | None:
        """The fastest peer."""
        peers = {who: time for who, time in self.microseconds.items() if who != "weft"}
        return min(peers, key=lambda who: peers[who], default=None)

    @property
    def ratio(self) -> float | None:
        """The fastest peer's time over weft's: above 1 weft is faster."""
        best, ours = self.best, self.ours
        return None if best is None or ours is None else self.microseconds[best] / ours

    @property
    def is_lost(self) -> bool:
        """Whether another one is faster, or weft has no right result."""
        return self.ours is None or (self.ratio is not None and self.ratio < LOST)

    def speed(self, who: str) -> float | None:
        """Work in a second, in the row's unit."""
        time = self.microseconds.get(who)
        return None if time is None else self.work / time / SCALE[self.unit]

    def share(self, ceilings: Mapping[str, float], who: str = "weft") -> float | None:
        """Share of the roofline that a candidate reaches; None where it was not measured."""
        time, peak = self.microseconds.get(who), ceilings.get(self.element)
        if time is None or (self.unit == "TFLOP/s" and peak is None):
            return None
        operations = self.work / peak if self.unit == "TFLOP/s" and peak else 0.0
        return max(self.moved / ceilings["memory"], operations) / time


def ceilings_of(torch: Any, watch: Stopwatch) -> dict[str, float]:
    """Peak of the GPU per microsecond: bytes of a copy, and operations on each type of elements."""
    found = {"memory": memory_ceiling(watch), "float32": arithmetic_ceiling(watch)}
    if is_hopper(torch):
        blocks = torch.cuda.get_device_properties(0).multi_processor_count
        with torch.device("cuda"):
            for name in ("bfloat16", "float8_e4m3fn"):
                found[name] = product_ceiling(torch, watch, getattr(torch, name), blocks)
    return found


def is_hopper(torch: Any) -> bool:
    """Whether the GPU has products of warpgroups."""
    return torch.cuda.get_device_capability() == (9, 0)


def difference(ours: Any, theirs: Any) -> float:
    """How far results are from each other, of the norm of the second; infinite for a NaN or another shape."""
    if isinstance(ours, tuple):
        pairs: Any = zip(cast("Any", ours), theirs, strict=True)
        return max(difference(one, other) for one, other in pairs)
    if ours.shape != theirs.shape:
        return math.inf
    one, other = _wide(ours), _wide(theirs)
    found = float((one - other).norm() / max(float(other.norm()), 1e-30))
    return found if math.isfinite(found) else math.inf


def _wide(x: Any) -> Any:
    """A tensor's numbers as f64, complex ones as pairs."""
    return (x.view(x.real.dtype) if x.is_complex() else x).double()


def tensors_of(found: Any) -> list[Any]:
    """The tensors among arguments or results."""
    everything: Any = found if isinstance(found, tuple | list) else [found]
    return [one for one in everything if hasattr(one, "data_ptr")]


def compare(case: Case, arguments: Any, into: Measured) -> None:
    """Compares weft's result with the first peer's, and counts what is moved."""
    theirs: Any = next(iter(case.peers.values()))(*arguments)
    if hasattr(theirs, "clone"):  # ours may write to the same memory
        theirs = theirs.clone()
    ours = case.ours(*arguments)
    apart = difference(ours, theirs)
    if not apart <= case.tolerance:
        into.wrong = f"differs by {apart:.1e} of the norm"
    if case.unit != "GB/s":
        distinct = {one.data_ptr(): one.nbytes for one in tensors_of([*arguments, ours])}
        into.moved = sum(distinct.values())


def measured(torch: Any, case: Case, watch: Stopwatch, repeats: int, device: str) -> Measured:
    """One row."""
    with torch.device(device):
        sets = [case.make(0)]
        size = sum(one.nbytes for one in tensors_of(sets[0]))
        count = min(MOST_SETS, max(1, ROTATED // max(size, 1)))
        sets += [case.make(k) for k in range(1, count)]
    element = str(sets[0][0].dtype).removeprefix("torch.")
    found = Measured(case.name, case.unit, case.work, element, case.work)
    try:
        compare(case, sets[0], found)
    except Exception as error:
        found.failed["weft"] = reason_of(error)
        return found
    candidates: dict[str, Callable[[], float]] = {}
    for who, call in {"weft": case.ours, **case.peers}.items():
        turn = cycle(sets)
        try:
            candidates[who] = watch.measurement(lambda call=call, turn=turn: call(*next(turn)))
        except Exception as error:
            found.failed[who] = reason_of(error)
    found.microseconds = medians(interleave(candidates, repeats, found.failed))
    if compiler := sys.modules.get("torch._dynamo"):
        compiler.reset()  # it compiles one function for few shapes only
    return found


def measured_kind(
    torch: Any, kind: str, watch: Stopwatch, repeats: int, device: str = "cuda", scale: int = 1
) -> Iterator[Measured]:
    """Every row of a kind; none if the GPU does not have what it needs."""
    if device == "cuda" and kind in HOPPER_KINDS and not is_hopper(torch):
        return
    for case in KINDS[kind](torch, scale):
        yield measured(torch, case, watch, repeats, device)


def figure(found: Measured, ceilings: Mapping[str, float]) -> Figure:
    """A row as it is printed."""
    notes = [f"wrong: {found.wrong}"] if found.wrong else []
    if (share := found.share(ceilings)) is not None:
        notes.append(f"{share:.2f} of the roofline")
    best = found.best
    others = [who for who in found.microseconds if who not in ("weft", best)]
    notes += [f"{who} {found.speed(who):.4g}" for who in others]
    notes += [f"{who}: {why}" for who, why in found.failed.items()]
    theirs = None if best is None else found.speed(best)
    name = f"ready_kernels/{found.name}"
    return Figure(name, found.speed("weft"), found.unit, best, theirs, ", ".join(notes))


def mean_ratio(found: list[Measured]) -> tuple[float, Measured] | None:
    """The geometric mean of the ratios to the fastest peers, and the row with the worst one."""
    ratios = [(one.ratio, one) for one in found if one.ratio is not None]
    if not ratios:
        return None
    mean = math.exp(statistics.fmean(math.log(ratio) for ratio, _ in ratios))
    return mean, min(ratios, key=lambda pair: pair[0])[1]


def figures(repeats: int, kinds: list[str], driver: str = "libcuda.so.1") -> Iterator[Figure]:
    """The ceilings, then every row of these kinds, with the mean and the worst of its ratios."""
    import torch

    watch = Stopwatch(driver)
    ceilings = ceilings_of(torch, watch)
    for name, value in ceilings.items():
        unit = "GB/s" if name == "memory" else "TFLOP/s"
        note = torch.cuda.get_device_name() if name == "memory" else ""
        yield Figure(f"ready_kernels/ceiling/{name}", value / SCALE[unit], unit, note=note)
    for kind in kinds:
        found: list[Measured] = []
        for one in measured_kind(torch, kind, watch, repeats):
            found.append(one)
            yield figure(one, ceilings)
        if made := mean_ratio(found):
            mean, worst = made
            note = f"of {len(found)} rows' ratios to the fastest peer, worst {worst.ratio:.2f}: {worst.name}"
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


def parser(description: str | None) -> argparse.ArgumentParser:
    """The options: kinds of rows, and repeats."""
    made = argparse.ArgumentParser(description=description)
    made.add_argument("--repeats", type=int, default=7, help="measurements of each candidate")
    made.add_argument("kinds", nargs="*", default=[*KINDS], help=f"of {', '.join(KINDS)}")
    return made


def main() -> None:
    """Print every figure, or why there is none."""
    options = parser(__doc__)
    options.add_argument("--json", action="store_true", help="one JSON line per figure")
    arguments = options.parse_args()
    if reason := missing():
        report([Figure("ready_kernels", None, "GB/s", note=reason)], arguments.json)
    else:
        report(figures(arguments.repeats, arguments.kinds), arguments.json)


if __name__ == "__main__":
    main()
