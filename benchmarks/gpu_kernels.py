# SPDX-License-Identifier: Apache-2.0
"""The time of weft's kernels on a GPU beside nvcc's, and beside what a user would call instead.

The kernels are those of codegen_quality, written twice, line for line, in `codegen/`, then the whole operations of
`operations.py`. Where torch, CuPy (for CUB) or Triton has a call for the same, in `peers/kernels_*.py`, it is measured
too. All run on the same random data; what the others write is compared with what weft's writes before anything is
timed. A measurement is the device's own time for a row of launches, between two events; each launch takes the next of
several sets of arguments, so that together they exceed the caches. Candidates take turns, and each figure is a median
with the spread of the middle half.

A ceiling is measured in the same run: of memory, a copy from device to device, counting bytes read and written; of
arithmetic, a kernel of nothing but fused multiply-adds. The note has the larger of a kernel's two shares.

In: a GPU; nvcc on the path or in CUDA's folder, else NVRTC from the extra `[peers]`; whichever peers are installed.
Out: microseconds for each launch; why there are none where there is no GPU, or no peer.
"""

from __future__ import annotations

import base64
import ctypes
import importlib
import math
import shutil
import statistics
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import weft
from benchmarks.ceilings import arithmetic_ceiling, memory_ceiling
from benchmarks.codegen import kernels
from benchmarks.codegen.runs import Run, runs
from benchmarks.codegen_quality import CASES, SOURCE
from benchmarks.gpu_launch import add_installed_peers, gpu_missing
from benchmarks.harness import (
    PEERS_PYTHON,
    Figure,
    Missing,
    Worker,
    interleave,
    parse_arguments,
    reason_of,
    report,
)
from benchmarks.operations import operations
from weft.driver.binary import load_binary
from weft.driver.device import device_properties, set_current_device
from weft.driver.kernel_launch import launch_ex, parse_signature

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

ROTATED = (
    1 << 28
)  # bytes of all sets of arguments together, several times what a second-level cache holds
MOST_SETS = 8
REGION = 5.0  # milliseconds between two events
TOLERANCE = 1e-4  # of the norm; both compute in f32, in orders of their own
DTYPES = {one.name: one for one in (weft.f16, weft.f32, weft.i32, weft.u8, weft.u32)}
PEERS = ("torch", "cupy", "triton")

Launch = Callable[[Run, Sequence[Any]], object]


class Stopwatch:
    """Two events of the driver, around what is queued on the default stream."""

    def __init__(self, driver: str = "libcuda.so.1") -> None:
        set_current_device(0)
        self._driver = ctypes.CDLL(driver)
        self._events = (ctypes.c_void_p(), ctypes.c_void_p())
        for event in self._events:
            self._call("cuEventCreate", ctypes.byref(event), 0)

    def _call(self, name: str, *arguments: object) -> None:
        code = getattr(self._driver, name)(*arguments)
        if code != 0:
            raise RuntimeError(f"{name} answered {code}")

    def milliseconds(self, queue: Callable[[], object], count: int) -> float:
        """The device's time for `count` calls of `queue`."""
        begin, end = self._events
        self._call("cuEventRecord", begin, None)
        for _ in range(count):
            queue()
        self._call("cuEventRecord", end, None)
        weft.synchronize()
        found = ctypes.c_float()
        self._call("cuEventElapsedTime", ctypes.byref(found), begin, end)
        return found.value

    def measurement(self, queue: Callable[[], object]) -> Callable[[], float]:
        """A measurement of one call in microseconds, of as many calls as fill a region."""
        queue()
        count = max(1, round(REGION / max(self.milliseconds(queue, 3) / 3, 1e-3)))
        return lambda: self.milliseconds(queue, count) / count * 1e3


def on_device(arguments: Sequence[Any]) -> list[Any]:
    """The arguments with each array in memory of the GPU."""
    return [
        weft.copy(
            weft.empty(one.shape, DTYPES[f"{one.dtype.kind}{8 * one.itemsize}"], "cuda:0"), one
        )
        if isinstance(one, np.ndarray)
        else one.item()
        for one in arguments
    ]


def of_nvcc(architecture: str) -> tuple[str, bytes]:
    """Compiles the CUDA C++ of the suite; the compiler's name, and the cubin.

    Raises:
        Missing: if there is neither nvcc nor NVRTC.
    """
    found = shutil.which("nvcc") or shutil.which("nvcc", path="/usr/local/cuda/bin")
    if found is None:
        worker = Worker("benchmarks.peers.nvrtc", str(SOURCE), PEERS_PYTHON)
        answer = worker.ask()
        worker.close()
        return worker.version, base64.b64decode(str(answer["cubin"]))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernels.cubin"
        command = [found, "-O3", f"-arch={architecture}", "-cubin", "-o", str(path), str(SOURCE)]
        subprocess.run(command, check=True, capture_output=True)
        return "nvcc", path.read_bytes()


def of_weft(name: str, options: str) -> Callable[[Run, Sequence[Any]], object]:
    """Compiles a kernel of the suite with weft; a function that launches it on arguments."""
    case = CASES[name]
    arguments = getattr(kernels, name), case.block, (1, 1, 1), case.arguments
    compiled = weft.compile(kernels.launch, *arguments, options=options)
    return lambda run, given: compiled(run.grid, tuple(given))


def of_cubin(cubin: bytes, name: str) -> Callable[[Run, Sequence[Any]], object]:
    """Loads a kernel of a cubin; a function that launches it on arguments."""
    _, function, *_ = load_binary(name, cubin)

    def launch(run: Run, given: Sequence[Any]) -> None:
        kinds = {float: "fp32", int: "i32"}
        types = [*(kinds.get(type(one), "*fp32") for one in given), *("i32" for _ in run.sizes)]
        signature = parse_signature(types).metadata
        everything = (*given, *run.sizes)
        launch_ex(function, run.grid, CASES[name].block, signature, everything, stream=0)

    return launch


def difference(ours: np.ndarray, theirs: np.ndarray) -> float:
    """How far two results are from each other, of the norm of the second; infinite for a NaN in either."""
    apart = np.linalg.norm((ours.astype(np.float64) - theirs.astype(np.float64)).ravel())
    found = float(apart / max(float(np.linalg.norm(theirs.astype(np.float64).ravel())), 1e-30))
    return found if math.isfinite(found) else math.inf


def of_call(call: Callable[..., object]) -> Launch:
    """A call of arrays. Of another library it gives its result as that library's, or None where it has written it."""
    return lambda run, given: call(*given)


def in_library(peer: ModuleType, given: Sequence[Any]) -> list[Any]:
    """The arguments as arrays of another library, of the same memory."""
    return [peer.array(one) if hasattr(one, "__dlpack__") else one for one in given]


def written(run: Run, launch: Launch, peer: ModuleType | None = None) -> list[np.ndarray]:
    """Arrays that one launch writes: by a peer, the first one alone."""
    given = on_device(run.arguments)
    if peer is None:
        launch(run, given)
    elif (found := launch(run, in_library(peer, given))) is not None:
        return [peer.host(found)]
    everything = [weft.copy(np.empty_like(run.arguments[k]), given[k]) for k in run.written]
    return everything if peer is None else everything[:1]


def check(theirs: list[np.ndarray], ours: list[np.ndarray], tolerance: float) -> str:
    """Compares what two launches wrote; an empty string, or how far they are from each other."""
    apart = max(map(difference, ours, theirs))
    return "" if apart <= tolerance else f"weft's result is {apart:.1e} of the norm from it"


class Row(NamedTuple):
    """A subject of measurement: a kernel of the suite, or a whole operation.

    Attributes:
        name: of the figures.
        make: makes the arguments.
        ours: weft's launch.
        computes: the name of the peers' calls for the same.
        tolerance: how far two results may be from each other, of the norm.
        is_kernel: whether it is one of the suite, which is written in CUDA C++ too.
    """

    name: str
    make: Callable[[np.random.Generator], Run]
    ours: Callable[[], Launch]
    computes: str
    tolerance: float
    is_kernel: bool


def rows(scale: int, options: str, capability: int) -> Iterator[Row]:
    """The kernels of the suite, then the operations that this GPU can do."""
    for name, make in runs(scale).items():
        yield Row(name, make, partial(of_weft, name, options), name, TOLERANCE, True)
    for name, one in operations(scale).items():
        if capability in one.capabilities:
            yield Row(
                name, one.make, partial(of_call, one.call), one.computes, one.tolerance, False
            )


def load_peers(missing: dict[str, str]) -> dict[str, ModuleType]:
    """The modules of the peers that this interpreter can use; `missing` gets the reasons of the others."""
    found: dict[str, ModuleType] = {}
    for name in PEERS:
        try:
            found[name] = importlib.import_module(f"benchmarks.peers.kernels_{name}")
        except Exception as error:  # whatever stops a peer is said in its line
            missing[name] = reason_of(error)
    return found


def launches_of(
    row: Row, run: Run, cubin: bytes, peers: dict[str, ModuleType], notes: dict[str, str]
) -> dict[str, Launch]:
    """The candidates of a row, weft first; `notes` says of each other what is wrong with it."""
    launches = {"weft": row.ours()}
    ours = written(run, launches["weft"])
    if row.is_kernel and cubin:
        launches["nvcc"] = of_cubin(cubin, row.name)
        notes["nvcc"] = check(written(run, launches["nvcc"]), ours, row.tolerance)
    for name, peer in peers.items():
        if row.computes not in peer.CALLS:
            continue
        launch = of_call(peer.CALLS[row.computes])
        try:
            notes[name] = check(written(run, launch, peer), ours, row.tolerance)
        except Exception as error:  # as above
            notes[name] = reason_of(error)
        else:
            launches[name] = launch
    return launches


def measurements(
    run: Run, launches: dict[str, Launch], peers: dict[str, ModuleType], watch: Stopwatch
) -> dict[str, Callable[[], float]]:
    """A measurement of each launch, on sets of arguments in turn."""
    sets = min(MOST_SETS, max(1, ROTATED // run.bytes))
    given = [on_device(run.arguments) for _ in range(sets)]
    found: dict[str, Callable[[], float]] = {}
    for who, launch in launches.items():
        own = given if who not in peers else [in_library(peers[who], one) for one in given]
        turn = cycle(own)
        found[who] = watch.measurement(lambda launch=launch, turn=turn: launch(run, next(turn)))
    return found


def figures(repeats: int, driver: str = "libcuda.so.1", scale: int = 1) -> Iterator[Figure]:
    """Every row's time, then the geometric means of the ratios to nvcc's and to each peer's.

    Args:
        repeats: measurements of each candidate.
        driver: the library whose events are used.
        scale: as of `runs`.
    """
    version = "".join(map(str, device_properties(0).compute_capability))
    architecture = f"sm_{version}{'a' if int(version) >= 90 else ''}"
    options = f"--gpu-arch {architecture}"
    missing: dict[str, str] = {}
    try:
        compiler, cubin = of_nvcc(architecture)
    except (Missing, subprocess.CalledProcessError) as error:
        compiler, cubin = "nvcc", b""
        missing["nvcc"] = reason_of(error)
    peers = load_peers(missing)
    for name, reason in missing.items():
        yield Figure(f"gpu_kernels/{name}", None, "us", name, None, reason)
    watch = Stopwatch(driver)
    ceilings = memory_ceiling(watch, scale), arithmetic_ceiling(watch, options)
    yield Figure("gpu_kernels/ceiling/memory", ceilings[0] / 1e3, "GB/s")
    yield Figure("gpu_kernels/ceiling/f32", ceilings[1] / 1e6, "TFLOP/s")
    ratios: dict[str, list[float]] = {}
    for row in rows(scale, options, int(version)):
        run = row.make(np.random.default_rng(1))
        notes: dict[str, str] = {}
        launches = launches_of(row, run, cubin, peers, notes)
        failed: dict[str, str] = {}
        samples = interleave(measurements(run, launches, peers, watch), repeats, failed)
        if "weft" in failed:
            yield Figure(f"gpu_kernels/{row.name}", None, "us", note=failed["weft"])
            continue
        notes |= failed
        for figure in figures_of(row, run, samples, notes, ceilings):
            if figure.ratio and not notes.get(figure.peer or ""):
                ratios.setdefault(str(figure.peer), []).append(figure.ratio)
            yield figure
    for who, found in ratios.items():
        mean = math.exp(sum(map(math.log, found)) / len(found))
        named = compiler if who == "nvcc" else who
        note = f"of {len(found)} ratios of times to {named}'s, worst {max(found):.2f}"
        name = "gpu_kernels/geometric mean" + ("" if who == "nvcc" else f"/{who}")
        yield Figure(name, mean, "x", note=note)


def figures_of(
    row: Row,
    run: Run,
    samples: dict[str, list[float]],
    notes: dict[str, str],
    ceilings: tuple[float, float],
) -> Iterator[Figure]:
    """weft's median beside that of each other candidate, or beside none."""
    middle = {who: statistics.median(values) for who, values in samples.items()}
    memory, arithmetic = ceilings
    share = max(run.bytes / memory, run.operations / arithmetic) / middle["weft"]
    ours = samples["weft"]
    low, _, high = statistics.quantiles(ours * (2 if len(ours) == 1 else 1))
    usual = f"{share:.0%} of the ceiling, middle half {low:.4g} to {high:.4g}"
    for peer in dict.fromkeys([*middle, *notes]):
        if peer != "weft":
            note = notes.get(peer) or usual
            yield Figure(
                f"gpu_kernels/{row.name}", middle["weft"], "us", peer, middle.get(peer), note
            )
    if len(middle) == 1 and not notes:
        yield Figure(f"gpu_kernels/{row.name}", middle["weft"], "us", note=usual)


def main() -> None:
    """Print every figure, or why there is none."""
    arguments = parse_arguments(__doc__ or "", repeats=9)
    if reason := gpu_missing():
        report([Figure("gpu_kernels", None, "us", note=f"needs a GPU: {reason}")], arguments.json)
        return
    add_installed_peers()
    report(figures(arguments.repeats), arguments.json)


if __name__ == "__main__":
    main()
