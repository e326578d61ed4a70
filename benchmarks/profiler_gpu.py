# SPDX-License-Identifier: Apache-2.0
"""Cost of the profiler on a GPU: cycles per record, and how much slower a software-pipelined kernel becomes.

A record's cycles are what a loop with two records per iteration takes longer than the same loop without, for a block
alone on the GPU and for a GPU full of blocks. The pipelined kernel is a matmul whose warps fetch, multiply
and write different tiles at the same time, each role a group. The peer is TIRx's scheme: its strided records with a
fence each. In: a GPU. Out: figures for profiler_cost, which says why there are none where there is no GPU.
"""

from __future__ import annotations

import tempfile
import time
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import weft
from benchmarks.harness import Figure, interleave, medians
from weft import driver
from weft.profiler import buffer, calibrate, decode_tirx, decode_track, prepare

if TYPE_CHECKING:
    from collections.abc import Iterator

HEAD = """
import weft
from weft.profiler import CudaProfiler, Profiler
"""
CYCLES = (
    HEAD
    + """
@weft.kernel
def kernel(out: weft.Tensor, source: weft.Tensor, records: weft.Tensor, n: weft.i32):
    tile = weft.shared((1024,), weft.f32)
    tid = weft.thread_idx.x
    {setup}
    tile[tid] = source[tid]
    weft.sync_threads()
    total = weft.f32(0)
    begin = weft.clock64()
    for i in range({trips}):
        {start}
        total += tile[(i * 32 + tid) & 1023]
        weft.sync_threads()
        {end}
    cycles = weft.clock64() - begin
    {finish}
    if tid == 0:
        out[weft.block_idx.x] = cycles
    if total == 12345.0:
        out[0] = 0

@weft.jit
def run(out: weft.Tensor[weft.i64, ("b",)], source: weft.Tensor[weft.f32, ("s",)],
        records: weft.Tensor[weft.u64, ("w",)], n: weft.i32):
    kernel(out, source, records, n).launch(grid=out.shape[0], block=128)
"""
)
PIPELINE = (
    HEAD
    + """
TILE, GROUP = 16, 64
SHARE = TILE * TILE // GROUP

@weft.kernel
def kernel(a: weft.Tensor, b: weft.Tensor, c: weft.Tensor, records: weft.Tensor):
    tile_a = weft.shared((2, TILE, TILE), weft.f32)
    tile_b = weft.shared((2, TILE, TILE), weft.f32)
    done = weft.shared((2, TILE, TILE), weft.f32)
    role, lane = weft.thread_idx.x // GROUP, weft.thread_idx.x % GROUP
    {setup}
    steps = a.shape[1] // TILE
    repeats = c.shape[1] // TILE * steps
    row = weft.block_idx.x * TILE
    sums = weft.local(SHARE, weft.f32)
    for k in weft.static_range(SHARE):
        sums[k] = 0.0
    for r in range(repeats + 2):
        if role == 0 and r < repeats:
            {start}
            column, first = r // steps * TILE, r % steps * TILE
            for k in weft.static_range(SHARE):
                y, x = (lane + k * GROUP) // TILE, (lane + k * GROUP) % TILE
                tile_a[r % 2, y, x] = a[row + y, first + x]
                tile_b[r % 2, y, x] = b[first + y, column + x]
            {end}
        if role == 1 and 1 <= r <= repeats:
            {start}
            for k in weft.static_range(SHARE):
                y, x = (lane + k * GROUP) // TILE, (lane + k * GROUP) % TILE
                total = sums[k]
                for j in weft.static_range(TILE):
                    total += tile_a[(r - 1) % 2, y, j] * tile_b[(r - 1) % 2, j, x]
                if (r - 1) % steps == steps - 1:
                    done[(r - 1) // steps % 2, y, x] = total
                    total = 0.0
                sums[k] = total
            {end}
        if role == 2 and r >= 2 and (r - 2) % steps == steps - 1:
            {start}
            column = (r - 2) // steps * TILE
            for k in weft.static_range(SHARE):
                y, x = (lane + k * GROUP) // TILE, (lane + k * GROUP) % TILE
                c[row + y, column + x] = done[(r - 2) // steps % 2, y, x]
            {end}
        weft.sync_threads()
    {finish}

@weft.jit
def run(a: weft.Tensor[weft.f32, ("m", "k")], b: weft.Tensor[weft.f32, ("k", "n")],
        c: weft.Tensor[weft.f32, ("m", "n")], records: weft.Tensor[weft.u64, ("w",)]):
    kernel(a, b, c, records).launch(grid=c.shape[0] // TILE, block=3 * GROUP)
"""
)


class Mode(NamedTuple):
    """How a kernel is marked: its profiler's arguments."""

    name: str
    profiler: str
    more: str = ""

    @property
    def is_tirx(self) -> bool:
        """Whether its buffer is CudaProfiler's."""
        return self.profiler == "CudaProfiler"

    def setup(self, groups: int, leader: str, group: str) -> str:
        """The line that makes the profiler."""
        if self.is_tirx:
            made = (
                f"CudaProfiler(records, weft.grid_dim.x * {groups}, {groups}, {leader}{self.more})"
            )
        else:
            made = f"Profiler(('region',), groups={groups}, buffer=records, leader={leader}{self.more})"
        return f"p = {made}; p.init({group})"


PEER = Mode("tirx with fences", "CudaProfiler", ", fence=True")
MODES = (
    Mode("track", "Profiler"),
    Mode("track, ring", "Profiler", ", overflow='ring', records=1024"),
    Mode("wide", "Profiler", ", format='wide'"),
    Mode("tirx", "CudaProfiler"),
    PEER,
)
OPTIONS = "--target cuda"
TRIPS = 256
SIZE = 1024


def compiled(source: str, options: str, **parts: str) -> Any:
    """The host function of a module made from a template, compiled for the types that it names."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "measured.py"
        path.write_text(source.format(**parts))
        spec = spec_from_file_location("measured", path)
        assert spec is not None
        assert spec.loader is not None
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
        return weft.compile(module.run, *_examples(source), options=options)


def _examples(source: str) -> list[Any]:
    """Stand-ins for a template's arguments."""
    words = weft.fake_tensor(weft.u64, ("w",))
    if source == CYCLES:
        return [weft.fake_tensor(weft.i64, ("b",)), weft.fake_tensor(weft.f32, ("s",)), words, 1]
    shapes = (("m", "k"), ("k", "n"), ("m", "n"))
    return [*(weft.fake_tensor(weft.f32, shape) for shape in shapes), words]


def marks_of(mode: Mode | None, groups: int, leader: str, group: str) -> dict[str, str]:
    """The lines of a template that mark, or nothing."""
    names = ("setup", "start", "end", "finish")
    if mode is None:
        return dict.fromkeys(names, "pass")
    lines = (mode.setup(groups, leader, group), "p.start(0)", "p.end(0)", "p.finalize()")
    return dict(zip(names, lines, strict=True))


def _on_device(array: np.ndarray) -> Any:
    dtype = {"float32": weft.f32, "uint64": weft.u64, "int64": weft.i64}[array.dtype.name]
    return weft.copy(weft.empty(array.shape, dtype, 0), array)


def records_of(mode: Mode | None, words: int, device: str) -> Any:
    """An empty buffer of a mode's."""
    if mode is not None and not mode.is_tirx:
        return buffer(words, device)
    zeros = np.zeros(words, np.uint64)
    return zeros if device == "cpu" else _on_device(zeros)


def renew(mode: Mode | None, records: Any) -> None:
    """Makes a buffer ready for the next launch, which is not timed."""
    if mode is None:
        return
    if not mode.is_tirx:
        prepare(records)
        return
    weft.copy(records, np.zeros(records.shape, np.uint64))


def check(mode: Mode, records: Any, most: int) -> None:
    """The measured launch did record: every record, where the mode keeps all."""
    found = decode_tirx(records) if mode.is_tirx else decode_track(records)
    kept = len(found.records) - mode.is_tirx * len(found.tracks)
    if "ring" not in mode.name and (found.problems or kept != most):
        raise AssertionError(f"{mode.name}: {kept} of {most} records, {found.problems[:2]}")


def cycle_figures(blocks: int, case: str, repeats: int) -> Iterator[Figure]:
    """Cycles that one record adds to an iteration of a loop, with a trip count that is not known."""
    source = _on_device(np.ones(128, np.float32))
    out = _on_device(np.zeros(blocks, np.int64))
    words = 64 + blocks * (16 + 2 * (2 * TRIPS + 2))
    cycles: dict[str, float] = {}
    for mode in (None, *MODES):
        run = compiled(CYCLES, OPTIONS, trips="n", **marks_of(mode, 1, "tid == 0", "0"))
        records = records_of(mode, words, "cuda")
        measured: list[float] = []
        for _ in range(repeats):
            renew(mode, records)
            run(out, source, records, TRIPS)
            driver.synchronize(0)
            found = weft.copy(np.empty(blocks, np.int64), out)
            measured.append(float(np.median(found)))
        if mode is not None:
            check(mode, records, blocks * 2 * TRIPS)
        cycles["" if mode is None else mode.name] = float(np.median(measured[1:] or measured))
    each = {name: (value - cycles[""]) / (2 * TRIPS) for name, value in cycles.items() if name}
    for name, value in each.items():
        yield Figure(f"profiler_cost/gpu/{case}/{name}", value, "cyc", PEER.name, each[PEER.name])


def inflation_figures(repeats: int) -> Iterator[Figure]:
    """How many times as long the pipelined GEMM takes with markers, by the median of its runs."""
    random = np.random.default_rng(0)
    a, b = (_on_device(random.standard_normal((SIZE, SIZE), dtype=np.float32)) for _ in range(2))
    c = _on_device(np.zeros((SIZE, SIZE), np.float32))
    tiles = SIZE // 16
    per_block = 2 * (2 * tiles * tiles + tiles)
    words = 1 << 16 | tiles * 3 * (16 + 2 * 2 * tiles * tiles + 4) * 2
    candidates: dict[str, Any] = {}
    for mode in (None, *MODES):
        marks = marks_of(mode, 3, "lane == 0", "role")
        run, records = compiled(PIPELINE, OPTIONS, **marks), records_of(mode, words, "cuda")

        def measure(run: Any = run, records: Any = records, mode: Mode | None = mode) -> float:
            renew(mode, records)
            begin = time.perf_counter()
            run(a, b, c, records)
            driver.synchronize(0)
            return time.perf_counter() - begin

        measure()
        if mode is not None:
            check(mode, records, tiles * per_block)
        candidates["" if mode is None else mode.name] = measure
    found = medians(interleave(candidates, repeats))
    yield Figure("profiler_cost/gpu/pipelined GEMM", 1e3 * found[""], "ms", note="unmarked")
    for mode in MODES:
        ratio, peer = found[mode.name] / found[""], found[PEER.name] / found[""]
        yield Figure(f"profiler_cost/gpu/inflation/{mode.name}", ratio, "x", PEER.name, peer)


def gpu_figures(repeats: int) -> Iterator[Figure]:
    """All figures of a GPU, or one that says why there are none."""
    try:
        count = driver.device_count()
    except (weft.CudaError, weft.UnavailableError, OSError) as error:
        count, why = 0, str(error).splitlines()[0]
    else:
        why = "no GPU"
    if not count:
        yield Figure("profiler_cost/gpu", None, "ns", note=f"not run: {why}")
        return
    found = calibrate("--target cuda")
    yield Figure("profiler_cost/gpu/record", found.cost_ns, "ns", note="one after the other")
    yield Figure("profiler_cost/gpu/clock step", found.step_ns, "ns")
    full = 4 * driver.device_properties(0).multiprocessor_count
    yield from cycle_figures(1, "a block alone", repeats)
    yield from cycle_figures(full, "a full GPU", repeats)
    yield from inflation_figures(max(repeats, 11))
