# SPDX-License-Identifier: Apache-2.0
"""Cost of the profiler: instructions and registers per record, and events per second on the host.

Kernels are compiled for sm_90a and disassembled; a record's price is what a loop with two records has more
than the same loop without, and in straight code what eight records add. The peer is TIRx's own scheme, its
strided records with a fence each, written in weft. Encoders and decoders run beside plain Python loops that do
the same. Out: figures, and those of profiler_gpu where there is a GPU.
"""

from __future__ import annotations

import tempfile
import time
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import weft
from benchmarks.codegen.sass import functions, loops, reachable
from benchmarks.harness import Figure, interleave, medians, parse_arguments, report
from benchmarks.profiler_gpu import MODES as PRODUCT_MODES
from benchmarks.profiler_gpu import PIPELINE, compiled, gpu_figures, marks_of
from weft.profiler import perfetto
from weft.profiler.perfetto import FIELDS, encode_events
from weft.profiler.records import RECORD
from weft.profiler.timeline import EVENT
from weft.profiler.tirx import decode_tirx

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ARCHITECTURE = "sm_90a"
EVENTS = 400_000

LOOP = """
import weft
from weft.profiler import CudaProfiler, Profiler

@weft.kernel
def kernel(out: weft.Tensor, source: weft.Tensor, records: weft.Tensor, n: weft.i32):
    tile = weft.shared((1024,), weft.f32)
    tid = weft.thread_idx.x
    {setup}
    tile[tid] = source[tid]
    weft.sync_threads()
    total = weft.f32(0)
    for i in range({trips}):
        {start}
        # The barrier keeps the load in its round, and the assembler from unrolling the loop away.
        total += tile[(i * 32 + tid) & 1023]
        weft.sync_threads()
        {end}
    out[tid] = total

@weft.jit
def run(out: weft.Tensor, source: weft.Tensor, records: weft.Tensor, n: weft.i32):
    kernel(out, source, records, n).launch(grid=2, block=128)
"""
STRAIGHT = """
import weft
from weft.profiler import CudaProfiler, Profiler

@weft.kernel
def kernel(out: weft.Tensor, source: weft.Tensor, records: weft.Tensor, n: weft.i32):
    tid = weft.thread_idx.x
    {setup}
    total = weft.f32(0)
    for i in weft.static_range({trips}):
        {start}
        total += source[tid + 128 * i]
        {end}
    out[tid] = total

@weft.jit
def run(out: weft.Tensor, source: weft.Tensor, records: weft.Tensor, n: weft.i32):
    kernel(out, source, records, n).launch(grid=2, block=128)
"""
TRACK = "p = Profiler(('region',), buffer=records, leader=tid == 0{more}); p.init(0)"
TIRX = "p = CudaProfiler(records, weft.grid_dim.x, 1, tid == 0{more}); p.init(0)"
# Name of the mode → how its profiler is made.
MODES = {
    "track": TRACK.format(more=""),
    "track, payload of 16 bits": TRACK.format(more=""),
    "track, ring": TRACK.format(more=", overflow='ring'"),
    "wide": TRACK.format(more=", format='wide'"),
    "tirx": TIRX.format(more=""),
    "tirx with fences": TIRX.format(more=", fence=True"),
}
PEER = "tirx with fences"


class Compiled:
    """The machine code of one kernel.

    Attributes:
        blocks: of its control flow.
        registers: per thread.
    """

    def __init__(self, source: str) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "measured.py"
            path.write_text(source)
            spec = spec_from_file_location("measured", path)
            assert spec is not None
            assert spec.loader is not None
            module = module_from_spec(spec)
            spec.loader.exec_module(module)
            floats = weft.fake_tensor(weft.f32, (None,))
            words = weft.fake_tensor(weft.u64, (None,))
            options = f"--gpu-arch {ARCHITECTURE}"
            made = weft.compile(module.run, floats, floats, words, 1, options=options)
            self.blocks = functions(made.cubin)["kernel"]
            self.registers: int = made.kernels["kernel"].registers

    def loops(self) -> list[list[str]]:
        """The instructions of each loop."""
        return [self.instructions(body) for body in loops(self.blocks)]

    def instructions(self, names: set[str]) -> list[str]:
        """Those of some blocks."""
        return [text for name in names for text in self.blocks[name].instructions]


def clock_reads(body: list[str]) -> int:
    """Records in a piece of code: each reads a clock once."""
    return sum("SR_CLOCKLO" in text or "SR_GLOBALTIMERLO" in text for text in body)


def barriers(body: list[str]) -> int:
    """Iterations of the source's loop in a piece of code."""
    return sum(text.startswith("BAR.SYNC") for text in body)


def per_record_in_loop(setup: str, trips: str, payload: str) -> float:
    """Instructions that a record adds to one iteration of a loop."""
    # Unmarked code is unrolled at will; the loop that takes one iteration at a time is the one to compare with.
    bare = Compiled(LOOP.format(setup="pass", trips="n", start="pass", end="pass"))
    base = min(len(body) for body in bare.loops() if barriers(body) == 1)
    marked = Compiled(
        LOOP.format(setup=setup, trips=trips, start=f"p.start(0{payload})", end="p.end(0)")
    )
    body = max(marked.loops(), key=clock_reads)
    repeats = barriers(body)
    # An unrolled round has no counter, comparison and branch of its own.
    own = base if repeats == 1 else _unrolled(bare, repeats)
    return (len(body) - own) / clock_reads(body)


def _unrolled(bare: Compiled, repeats: int) -> float:
    """Instructions of that many unmarked iterations in one body."""
    single = min(len(body) for body in bare.loops() if barriers(body) == 1)
    unrolled = max(bare.loops(), key=barriers)
    each = (len(unrolled) - single) / (barriers(unrolled) - 1)
    return single + each * (repeats - 1)


def per_record_straight(setup: str, payload: str) -> float:
    """Instructions that a record adds to code without a loop: sixteen records against eight."""
    counts: list[int] = []
    for trips in (4, 8):
        marks = {"start": f"p.start(0{payload})", "end": "p.end(0)"}
        marked = Compiled(STRAIGHT.format(setup=setup, trips=trips, **marks))
        bare = Compiled(STRAIGHT.format(setup="pass", trips=trips, start="pass", end="pass"))
        counts.append(_issued(marked) - _issued(bare))
    return (counts[1] - counts[0]) / 8


def _issued(compiled: Compiled) -> int:
    """Instructions that the kernel's entry leads to."""
    return len(compiled.instructions(reachable(compiled.blocks)))


def registers_added(setup: str, payload: str) -> int:
    """Registers per thread that the profiler adds to the loop."""
    marks = {"start": f"p.start(0{payload})", "end": "p.end(0)"}
    marked = Compiled(LOOP.format(setup=setup, trips="n", **marks))
    bare = Compiled(LOOP.format(setup="pass", trips="n", start="pass", end="pass"))
    return marked.registers - bare.registers


def code_figures() -> Iterator[Figure]:
    """Instructions and registers per record."""
    goals = {"known": "goal ≤ 4.0", "unknown": "goal ≤ 7.0"}
    trips = {"known": "100", "unknown": "n"}
    for case, measure in (
        ("straight", per_record_straight),
        ("loop known", lambda setup, payload: per_record_in_loop(setup, trips["known"], payload)),
        (
            "loop unknown",
            lambda setup, payload: per_record_in_loop(setup, trips["unknown"], payload),
        ),
        ("registers", registers_added),
    ):
        peer = float(measure(MODES[PEER], ""))
        for mode, setup in MODES.items():
            payload = ", payload=weft.u16(tid)" if "payload" in mode else ""
            value = float(measure(setup, payload)) if mode != PEER else peer
            goal = goals.get(case.removeprefix("loop "), "") if mode == "track" else ""
            name = f"profiler_cost/{case}/{mode}"
            unit = "regs" if case == "registers" else "SASS"
            yield Figure(name, value, unit, PEER, peer, goal)
    yield from product_registers()


def product_registers() -> Iterator[Figure]:
    """Registers that the profiler adds to the pipelined GEMM, whose own are many enough to count.

    Below 32 a multiprocessor has registers for all the threads that it can hold, and ptxas spends them freely; a
    small loop says little.
    """
    options = f"--gpu-arch {ARCHITECTURE}"
    needed = {
        mode: compiled(PIPELINE, options, **marks_of(mode, 3, "lane == 0", "role"))
        .kernels["kernel"]
        .registers
        for mode in (None, *PRODUCT_MODES)
    }
    peer = float(needed[PRODUCT_MODES[-1]] - needed[None])
    for mode in PRODUCT_MODES:
        name = f"profiler_cost/registers, pipelined GEMM/{mode.name}"
        yield Figure(name, float(needed[mode] - needed[None]), "regs", PEER, peer)


# ---- the host's side


def some_events(count: int) -> np.ndarray:
    """Slices on 528 tracks with 16 names, as a trace of a whole GPU has."""
    random = np.random.default_rng(0)
    events = np.zeros(count, EVENT)
    events["time"] = 1_700_000_000_000_000_000 + np.cumsum(random.integers(32, 200, count))
    events["type"] = np.tile([1, 2], count // 2)
    events["track"] = np.repeat(random.integers(0, 528, count // 2), 2)
    events["name"] = np.repeat(random.integers(0, 16, count // 2), 2)
    return events


def encode_in_python(events: list[tuple[int, int, int, int]]) -> bytes:
    """The same packets as `encode_events`, one at a time."""
    packet, inner = FIELDS["TracePacket"], FIELDS["TrackEvent"]
    parts: list[bytes] = []
    for moment, kind, track, name in events:
        body = (
            perfetto.number(inner["type"], kind)
            + perfetto.number(inner["track_uuid"], track + 1)
            + perfetto.number(inner["name_iid"], name + 1)
        )
        parts.append(
            perfetto.message(
                1,
                perfetto.number(packet["timestamp"], moment),
                perfetto.number(packet["trusted_packet_sequence_id"], 1),
                perfetto.number(packet["sequence_flags"], 2),
                perfetto.message(packet["track_event"], body),
            )
        )
    return b"".join(parts)


def some_words(count: int) -> np.ndarray:
    """A buffer in the `tirx` format: 528 tracks that each end with a finalize."""
    tracks = 528
    repeats = count // tracks
    words = np.zeros(1 + tracks * repeats, np.uint64)
    words[0] = 4 << 32 | tracks // 4
    place = np.arange(tracks * repeats)
    tag = (place % tracks) << 12 | (place // tracks // 2 % 16) << 2 | place // tracks % 2
    tag[-tracks:] = (place[-tracks:] % tracks) << 12 | 3
    words[1:] = ((place * 7 + 1000) & 0xFFFFFFFF) << 32 | tag
    return words


def decode_in_python(words: np.ndarray) -> list[tuple[int, int, int, int]]:
    """The loop of TIRx's page: track, event, kind and time of each word."""
    found: list[tuple[int, int, int, int]] = []
    for index in range(1, len(words)):
        word = int(words[index])
        if word == 0:
            continue
        moment, tag = word >> 32, word & 0xFFFFFFFF
        found.append((tag >> 12, (tag >> 2) & 0x3FF, tag & 3, moment))
    return found


def host_figures(repeats: int) -> Iterator[Figure]:
    """Millions of events per second, beside plain Python loops."""
    events, words = some_events(EVENTS), some_words(EVENTS)
    few = 20_000
    listed: Any = [
        (int(e["time"]), int(e["type"]), int(e["track"]), int(e["name"])) for e in events[:few]
    ]
    check = encode_in_python(listed)
    assert check.count(b"\x5a") >= few
    assert len(decode_tirx(words).records) == len(words) - 1
    assert decode_tirx(words).records.dtype == RECORD
    candidates: dict[str, Callable[[], float]] = {
        "encode": lambda: _rate(lambda: encode_events(events), len(events)),
        "encode in Python": lambda: _rate(lambda: encode_in_python(listed), few),
        "decode": lambda: _rate(lambda: decode_tirx(words), len(words)),
        "decode in Python": lambda: _rate(lambda: decode_in_python(words[:few]), few),
    }
    found = medians(interleave(candidates, repeats))
    for case, goal in (("encode", "goal ≥ 4 M/s"), ("decode", "")):
        yield Figure(
            f"profiler_cost/{case}",
            found[case],
            "M/s",
            "a Python loop",
            found[f"{case} in Python"],
            goal,
        )


def _rate(action: Callable[[], object], count: int) -> float:
    begin = time.perf_counter()
    action()
    return count / (time.perf_counter() - begin) / 1e6


def main() -> None:
    """Print all figures."""
    arguments = parse_arguments(__doc__ or "", repeats=7)
    report(host_figures(arguments.repeats), arguments.json)
    report(code_figures(), arguments.json)
    report(gpu_figures(arguments.repeats), arguments.json)


if __name__ == "__main__":
    main()
