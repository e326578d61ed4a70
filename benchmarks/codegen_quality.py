# SPDX-License-Identifier: Apache-2.0
"""The machine code of weft's kernels beside nvcc's, counted without a GPU.

Each kernel is written twice, line for line, `codegen/kernels.py` and `codegen/kernels.cu`, which NVRTC compiles. Of the
code for sm_90a nvdisasm gives the control flow, and of that counts the hot piece: the loop that does most work itself,
so the innermost and most unrolled one; the whole kernel, without what it calls, where no loop does any. Figures:

* instructions: SASS instructions of that piece for each unit of work. A unit is something that the source makes the
  machine do, such as a product, or the four bytes of an element that is written; so unrolling, vector accesses and
  fused operations count as what they achieve.
* registers: per thread.
* warps: those that a multiprocessor holds at once, from registers, shared memory and block size; more is better.
* spills: bytes per thread that are stored to and loaded from local memory.

In: nothing. Out: figures, and the geometric mean of their ratios.
"""

from __future__ import annotations

import base64
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import weft
from benchmarks.codegen import kernels
from benchmarks.codegen.sass import functions, hot_cost
from benchmarks.harness import PEERS_PYTHON, Figure, Missing, Worker, parse_arguments, report
from weft.backends.cuda.diagnostics import read_resources
from weft.types.capabilities import resident_warps

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.codegen.sass import Block

ARCHITECTURE = "sm_90a"
SOURCE = Path(kernels.__file__).with_suffix(".cu")

V, V4, INT, BYTES = (
    weft.fake_tensor(weft.f32, ("n",)),
    weft.fake_tensor(weft.f32, ("n",), alignment_bytes=16),
    weft.fake_tensor(weft.i32, (None,)),
    weft.fake_tensor(weft.u8, (None,)),
)
ROWS, COLUMNS, IMAGE = (
    weft.fake_tensor(weft.f32, ("rows", "columns")),
    weft.fake_tensor(weft.f32, ("columns",)),
    weft.fake_tensor(weft.u8, ("rows", "columns")),
)
A, B, C = (weft.fake_tensor(weft.f32, shape) for shape in (("m", "k"), ("k", "n"), ("m", "n")))
ANY, HEADS, KEYS = (
    weft.fake_tensor(weft.f32, shape) for shape in ((None,), (None, 32), ("keys", 32))
)


class Case(NamedTuple):
    """A kernel of the suite.

    Attributes:
        block: threads of a block.
        arguments: stand-ins for the kernel's arguments.
        work: opcodes that do the work, see `sass.work`.
        per_unit: how much of it a unit is.
        unit: what a unit is.
    """

    block: int | tuple[int, int]
    arguments: tuple[Any, ...]
    work: str
    per_unit: int
    unit: str


CASES = {
    "copy": Case(256, (V, V), "STG", 4, "element"),
    "saxpy": Case(256, (1.0, V, V), "STG", 4, "element"),
    "saxpy_vec4": Case(256, (1.0, V4, V4), "STG", 4, "element"),
    "reduction": Case(256, (V, ANY), "LDG", 4, "element"),
    "softmax": Case(256, (ROWS, ROWS), "STG", 4, "element"),
    "layernorm": Case(256, (ROWS, COLUMNS, COLUMNS, ROWS), "STG", 4, "element"),
    "transpose": Case(
        (32, 8), (ROWS, weft.fake_tensor(weft.f32, ("columns", "rows"))), "STG", 4, "element"
    ),
    "matmul_naive": Case((32, 8), (A, B, C), "FFMA|FMUL", 1, "product"),
    "matmul_tiled": Case((16, 16), (A, B, C), "FFMA|FMUL", 1, "product"),
    "sgemm": Case(256, (A, B, C), "FFMA|FMUL", 1, "product"),
    "stencil5x5": Case(
        (32, 8), (ROWS, weft.fake_tensor(weft.f32, (5, 5)), ROWS), "STG", 4, "element"
    ),
    "fft_step": Case(256, (1, V, V, V, V), "STG", 16, "butterfly"),
    "nbody": Case(
        256, (V, V, V, V, weft.fake_tensor(weft.f32, ("n", 3))), "MUFU.RSQ", 1, "interaction"
    ),
    "black_scholes": Case(256, (V, V, V, V, V), "STG", 8, "option"),
    "spmv": Case(256, (INT, INT, ANY, V, ANY), "FFMA|FMUL", 1, "product"),
    "histogram": Case(256, (BYTES, INT), "ATOMS", 1, "element"),
    "blur_u8": Case((32, 8), (IMAGE, IMAGE), "STG", 1, "element"),
    "scan": Case(256, (V, V, ANY), "SHFL", 5, "element"),
    "attention": Case(128, (HEADS, KEYS, KEYS, HEADS), "LDS", 256, "key"),
    "gelu": Case(256, (V, V), "STG", 4, "element"),
}


class Measured(NamedTuple):
    """Counts of one kernel's code."""

    instructions: float
    registers: int
    warps: int
    spills: int


def measure(name: str, blocks: dict[str, Block], resources: Any) -> Measured:
    """Counts one kernel.

    Args:
        name: of its case.
        blocks: of its code.
        resources: with the attributes of `weft.backends.cuda.diagnostics.KernelResources`.
    """
    case = CASES[name]
    threads = math.prod(case.block) if isinstance(case.block, tuple) else case.block
    return Measured(
        hot_cost(blocks, case.work, case.per_unit).per_unit,
        resources.registers,
        resident_warps(ARCHITECTURE, threads, resources.registers, resources.shared_memory_bytes),
        resources.spill_store_bytes + resources.spill_load_bytes,
    )


def of_weft(name: str) -> Measured:
    """Compiles a kernel of the suite with weft, and counts."""
    case = CASES[name]
    arguments = getattr(kernels, name), case.block, (1, 1, 1), case.arguments
    compiled = weft.compile(kernels.launch, *arguments, options=f"--gpu-arch {ARCHITECTURE}")
    return measure(name, functions(compiled.cubin)[name], compiled.kernels[name])


def of_nvrtc() -> tuple[str, dict[str, Measured]]:
    """Compiles the CUDA C++ of the suite, and counts; first the compiler's version.

    Raises:
        Missing: if NVRTC is not installed.
    """
    worker = Worker("benchmarks.peers.nvrtc", str(SOURCE), PEERS_PYTHON)
    answer = worker.ask()
    worker.close()
    code = functions(base64.b64decode(str(answer["cubin"])))
    resources = read_resources(str(answer["log"]))
    return worker.version, {name: measure(name, code[name], resources[name]) for name in CASES}


def figures() -> Iterator[Figure]:
    """Every figure of every kernel, then the geometric means."""
    peers: dict[str, Measured] = {}
    try:
        version, peers = of_nvrtc()
    except Missing as reason:
        version = str(reason)
    ratios: dict[str, list[float]] = {}
    for name, case in CASES.items():
        ours, theirs = of_weft(name), peers.get(name)
        for index, what in enumerate(Measured._fields):
            value = float(ours[index])
            peer = float(theirs[index]) if theirs else None
            note = f"per {case.unit}" if what == "instructions" else ""
            figure = Figure(
                f"codegen_quality/{name}/{what}", value, _UNITS[what], "NVRTC", peer, note
            )
            if figure.ratio:
                ratios.setdefault(what, []).append(figure.ratio)
            yield figure
    for what, found in ratios.items():
        mean = math.exp(sum(map(math.log, found)) / len(found))
        note = f"of {len(found)} ratios; {version}"
        yield Figure(f"codegen_quality/geometric mean/{what}", mean, "x", note=note)
    if not peers:
        yield Figure("codegen_quality/geometric mean", None, "x", note=version)


_UNITS = {"instructions": "SASS", "registers": "regs", "warps": "warp", "spills": "B"}


def main() -> None:
    """Print every figure."""
    report(figures(), parse_arguments(__doc__ or "", repeats=1).json)


if __name__ == "__main__":
    main()
