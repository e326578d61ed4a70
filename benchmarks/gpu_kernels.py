# SPDX-License-Identifier: Apache-2.0
"""The time of weft's kernels on a GPU beside nvcc's, and beside what a user would call instead.

The kernels are those of codegen_quality, written twice, line for line, in `codegen/`. Both run on the same random
data; what weft's writes is compared with what nvcc's writes before anything is timed. A measurement is the device's own
time for a row of launches, between two events; each launch takes the next of several sets of arguments, so that
together they exceed the caches. Candidates take turns, and each figure is a median with the spread of the middle half.

A ceiling is measured in the same run: of memory, a copy from device to device, counting bytes read and written; of
arithmetic, a kernel of nothing but fused multiply-adds. The note has the larger of a kernel's two shares.

In: a GPU; nvcc on the path or in CUDA's folder, else NVRTC from the extra `[peers]`; torch, where it is installed. Out:
microseconds for each launch; why there are none where there is no GPU.
"""

from __future__ import annotations

import base64
import ctypes
import math
import shutil
import statistics
import subprocess
import tempfile
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import weft
from benchmarks.codegen import kernels
from benchmarks.codegen.runs import runs
from benchmarks.codegen_quality import CASES, SOURCE
from benchmarks.gpu_launch import gpu_missing
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
from weft.driver.binary import load_binary
from weft.driver.device import device_properties, set_current_device
from weft.driver.kernel_launch import launch_ex
from weft.driver.signature import parse_signature

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from benchmarks.codegen.runs import Run

ROTATED = (
    1 << 28
)  # bytes of all sets of arguments together, several times what a second-level cache holds
MOST_SETS = 8
REGION = 5.0  # milliseconds between two events
TOLERANCE = 1e-4  # of the norm; both compute in f32, in orders of their own
DTYPES = {"f": weft.f32, "i": weft.i32, "u": weft.u8}


def of_torch(name: str) -> Callable[[Any, Sequence[Any]], object] | None:
    """What a user of torch calls for the same, on tensors of the same memory; None where there is no such call."""
    calls: dict[str, Callable[[Any, Sequence[Any]], object]] = {
        "copy": lambda _, given: given[1].copy_(given[0]),
        "saxpy": lambda _, given: given[2].add_(given[1], alpha=1.5),
        "saxpy_vec4": lambda _, given: given[2].add_(given[1], alpha=1.5),
        "reduction": lambda _, given: given[0].sum(),
        "softmax": lambda torch, given: torch.softmax(given[0], 1, out=given[1]),
        "layernorm": lambda torch, given: torch.nn.functional.layer_norm(
            given[0], given[1].shape, given[1], given[2]
        ),
        "transpose": lambda _, given: given[1].copy_(given[0].T),
        "matmul_naive": lambda torch, given: torch.mm(given[0], given[1], out=given[2]),
        "matmul_tiled": lambda torch, given: torch.mm(given[0], given[1], out=given[2]),
        "sgemm": lambda torch, given: torch.mm(given[0], given[1], out=given[2]),
        "histogram": lambda torch, given: torch.bincount(given[0], minlength=256),
        "scan": lambda torch, given: torch.cumsum(given[0], 0, out=given[1]),
        "attention": lambda torch, given: torch.nn.functional.scaled_dot_product_attention(
            *(one[None, None] for one in given[:3]), scale=1.0
        ),
        "gelu": lambda torch, given: torch.nn.functional.gelu(given[0], approximate="tanh"),
    }
    return calls.get(name)


class Stopwatch:
    """Two events of the driver, around what is queued on the default stream."""

    def __init__(self, driver: str = "libcuda.so.1") -> None:
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
        weft.copy(weft.empty(one.shape, DTYPES[one.dtype.kind], "cuda:0"), one)
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


def check(
    run: Run,
    ours: Callable[[Run, Sequence[Any]], object],
    theirs: Callable[[Run, Sequence[Any]], object],
) -> str:
    """Compares what two launches write; an empty string, or how far they are from each other."""
    written: list[list[np.ndarray]] = []
    for launch in (ours, theirs):
        given = on_device(run.arguments)
        launch(run, given)
        written.append([weft.copy(np.empty_like(run.arguments[k]), given[k]) for k in run.written])
    apart = max(map(difference, *written))
    return "" if apart <= TOLERANCE else f"differs from nvcc's result by {apart:.1e} of the norm"


def memory_ceiling(watch: Stopwatch, scale: int) -> float:
    """Bytes per microsecond of a copy from device to device, read and written."""
    size = (1 << 30) // scale
    source, target = weft.zeros(size, weft.u8, "cuda:0"), weft.empty(size, weft.u8, "cuda:0")
    measure = watch.measurement(lambda: weft.copy(target, source))
    return 2 * size / statistics.median(measure() for _ in range(5))


@weft.kernel
def multiply_adds(a: weft.Tensor, rounds: weft.i32):
    """Nothing but fused multiply-adds, eight chains in each thread."""
    i = weft.block_idx.x * weft.block_dim.x + weft.thread_idx.x
    factor = a[i]
    sums = [factor + weft.f32(k) for k in range(8)]
    for _ in range(rounds):
        for _ in weft.static_range(16):
            for k in weft.static_range(8):
                sums[k] = weft.math.fma(sums[k], factor, 0.5)
    a[i] = sum(sums)


def arithmetic_ceiling(watch: Stopwatch, options: str) -> float:
    """Operations per microsecond on f32, a fused multiply-add being two."""
    blocks, threads, rounds = 4096, 256, 256
    a = weft.full(blocks * threads, 0.5, weft.f32, "cuda:0")

    @weft.jit(options=options)
    def host(a: weft.Tensor[weft.f32, ("n",)], rounds: weft.i32) -> None:
        multiply_adds(a, rounds).launch(grid=blocks, block=threads)

    measure = watch.measurement(lambda: host(a, rounds))
    return 2 * 128 * blocks * threads * rounds / statistics.median(measure() for _ in range(5))


def candidates(
    name: str,
    run: Run,
    launches: dict[str, Callable[[Run, Sequence[Any]], object]],
    watch: Stopwatch,
) -> dict[str, Callable[[], float]]:
    """A measurement for each launch, and for torch's call of the same where there is one."""
    sets = min(MOST_SETS, max(1, ROTATED // run.bytes))
    given = [on_device(run.arguments) for _ in range(sets)]
    found: dict[str, Callable[[], float]] = {}
    for who, launch in launches.items():
        turn = cycle(given)
        found[who] = watch.measurement(lambda launch=launch, turn=turn: launch(run, next(turn)))
    try:
        import torch
    except ImportError:
        return found
    call = of_torch(name)
    if call is not None and torch.cuda.is_available():
        tensors = [
            [torch.from_dlpack(one) if hasattr(one, "__dlpack__") else one for one in each]
            for each in given
        ]
        turns = cycle(tensors)
        found["torch"] = watch.measurement(lambda: call(torch, next(turns)))
    return found


def figures(rounds: int, driver: str = "libcuda.so.1", scale: int = 1) -> Iterator[Figure]:
    """Every kernel's time, then the geometric mean of the ratios to nvcc's.

    Args:
        rounds: measurements of each candidate.
        driver: the library whose events are used.
        scale: as of `runs`.
    """
    set_current_device(0)
    properties = device_properties(0)
    version = "".join(map(str, properties.compute_capability))
    architecture = f"sm_{version}{'a' if int(version) >= 90 else ''}"
    options = f"--gpu-arch {architecture}"
    try:
        compiler, cubin = of_nvcc(architecture)
    except (Missing, subprocess.CalledProcessError) as error:
        compiler, cubin = f"nvcc: {reason_of(error)}", b""
    watch = Stopwatch(driver)
    memory, arithmetic = memory_ceiling(watch, scale), arithmetic_ceiling(watch, options)
    yield Figure("gpu_kernels/ceiling/memory", memory / 1e3, "GB/s")
    yield Figure("gpu_kernels/ceiling/f32", arithmetic / 1e6, "TFLOP/s")
    ratios: list[float] = []
    for name, make in runs(scale).items():
        run = make(np.random.default_rng(1))
        launches = {"weft": of_weft(name, options)}
        wrong = ""
        if cubin:
            launches["nvcc"] = of_cubin(cubin, name)
            wrong = check(run, launches["weft"], launches["nvcc"])
        samples = interleave(candidates(name, run, launches, watch), rounds)
        middle = {who: statistics.median(values) for who, values in samples.items()}
        share = max(run.bytes / memory, run.operations / arithmetic) / middle["weft"]
        low, _, high = statistics.quantiles(samples["weft"] * (2 if rounds == 1 else 1))
        spread = f", middle half {low:.4g} to {high:.4g}"
        note = wrong or f"{share:.0%} of the ceiling{spread}"
        for peer in [one for one in middle if one != "weft"] or [compiler]:
            figure = Figure(
                f"gpu_kernels/{name}", middle["weft"], "us", peer, middle.get(peer), note
            )
            if peer == "nvcc" and figure.ratio and not wrong:
                ratios.append(figure.ratio)
            yield figure
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        note = f"of {len(ratios)} ratios of times to {compiler}'s, worst {max(ratios):.2f}"
        yield Figure("gpu_kernels/geometric mean", mean, "x", note=note)


def main() -> None:
    """Print every figure, or why there is none."""
    arguments = parse_arguments(__doc__ or "", rounds=9)
    if reason := gpu_missing():
        report([Figure("gpu_kernels", None, "us", note=f"needs a GPU: {reason}")], arguments.json)
    else:
        report(figures(arguments.rounds), arguments.json)


if __name__ == "__main__":
    main()
