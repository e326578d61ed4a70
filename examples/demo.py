# SPDX-License-Identifier: Apache-2.0
"""Runs every example on this CPU, shows the code of add_one, and the code for a GPU.

In: nothing, or names of examples. Out: one table of figures checked against NumPy, add_one's stages
in brief, each kernel's resources on sm_90a, and two pictures in demo-output. It needs no GPU.
"""

from __future__ import annotations

import argparse
import inspect
import platform
import re
import sys
import textwrap
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import weft
from examples.add_one import EXAMPLE as ADD_ONE
from examples.add_one import add_one, add_one_kernel
from examples.catalog import EXAMPLES
from examples.common import Example, Report, run
from examples.picture import write_png

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

ARCHITECTURE = "sm_90a"
EXCERPT_LINES = 8
EXCERPT_COLUMNS = 110

RUN_COLUMNS = ("kernel", "size", "compile ms", "run ms", "NumPy ms", "max error", "")
RESOURCE_COLUMNS = (
    "kernel",
    "compile ms",
    "registers",
    "spill bytes",
    "stack bytes",
    "shared bytes",
    "threads",
    "PTX",
    "SASS",
)
# Left out of the excerpts: the origin of each line.
LLVM_LOCATIONS = r", !dbg !\d+|^!.*"
PTX_LOCATIONS = r"^\s*\.loc.*|^\$L__(tmp|func).*"
SASS_INSTRUCTION = r"^\s*/\*[0-9a-f]{4,}\*/.*"
SASS_LOCATIONS = r"^\s*//##.*|^\.L_x_\d+:"
NO_CUDA = f"""\
compiling for {ARCHITECTURE} is not possible here: {{reason}}
  The assembler comes with the extra `cuda`: pip install 'weft-lang[cuda]'. It needs no GPU."""


class Table:
    """Rows under a heading, printed as they come: words to the left, figures to the right."""

    def __init__(self, columns: Sequence[str], widths: Sequence[int], words: int) -> None:
        self.widths = widths
        self.words = words
        self.row(columns)
        print("  ".join("-" * width for width in widths))

    def row(self, cells: Sequence[str]) -> None:
        """Print one row, at once: a long table shows how far it is."""
        padded = (
            cell.ljust(width) if position < self.words else cell.rjust(width)
            for position, (cell, width) in enumerate(zip(cells, self.widths, strict=True))
        )
        print("  ".join(padded).rstrip(), flush=True)


def heading(text: str) -> None:
    """A title with an empty line before it."""
    print(f"\n{text}\n{'=' * len(text)}")


def import_compiler() -> float:
    """Compile something once, so that no row of the table pays for loading the compiler.

    Returns:
        milliseconds.
    """
    start = time.perf_counter()
    weft.compile(add_one, *ADD_ONE.make_arguments(1).values())
    return (time.perf_counter() - start) * 1000


def run_examples(examples: Iterable[Example], quick: bool, pictures: Path) -> list[Report]:
    """Run, check and time each example on the CPU, and write the pictures."""
    heading("The examples on this CPU, checked against NumPy")
    first_ms = import_compiler()
    table = Table(RUN_COLUMNS, (20, 25, 10, 9, 9, 9, 6), words=2)
    reports = []
    for example in examples:
        report = run(example, example.test_size if quick else example.size)
        reports.append(report)
        figures = (report.compile_ms, report.run_ms, report.numpy_ms)
        table.row(
            (
                example.name,
                example.describe(report.size),
                *(f"{figure:.1f}" if figure >= 0.1 else f"{figure:.3f}" for figure in figures),
                f"{report.error:.1e}" if report.error else "0",
                "ok" if report.passed else "WRONG",
            )
        )
    print(
        "Times are the best of several. The first compilation in the process took "
        f"{first_ms:.0f} ms, imports included."
    )
    for report in reports:
        if report.example.picture is not None:
            path = pictures / f"{report.example.name}.png"
            print(f"wrote {write_png(path, report.example.picture(report.arguments))}")
    return reports


def excerpt(
    title: str, text: str, begin: str = "", lines: int = EXCERPT_LINES, hide: str = "(?!)"
) -> None:
    """Print a few lines of a text.

    Args:
        title: of the text.
        text: all of it.
        begin: the first line that contains this is the first that is shown.
        lines: how many are shown.
        hide: a regular expression; what matches is removed, and lines that become empty are too.
    """
    stripped = (re.sub(hide, "", line).rstrip() for line in text.expandtabs(8).splitlines())
    all_lines = [line for line in stripped if line]
    first = next((number for number, line in enumerate(all_lines) if begin in line), 0)
    chosen = textwrap.dedent("\n".join(all_lines[first : first + lines])).splitlines()
    left = len(all_lines) - first - len(chosen)
    print(f"\n-- {title}")
    for line in chosen:
        print("   " + (line if len(line) <= EXCERPT_COLUMNS else line[: EXCERPT_COLUMNS - 1] + "…"))
    if left > 0:
        print(f"   … {left} more lines")


def cuda_missing() -> str:
    """Why nothing can be compiled for CUDA here, or an empty string."""
    try:
        compile_for_gpu(ADD_ONE)
    except (weft.ToolchainError, weft.UnavailableError) as error:
        return error.message
    return ""


def compile_for_gpu(example: Example) -> Any:
    """The example's function for sm_90a, from fake arguments: neither a GPU nor data is at hand."""
    return weft.compile[weft.GPUArch(ARCHITECTURE)](example.function, *example.fake_arguments())


def show_stages(missing: str) -> None:
    """Follow add_one from Python to machine code, a few lines of each stage."""
    heading("What became of add_one")
    excerpt("Python", inspect.getsource(add_one_kernel.function))
    arguments = ADD_ONE.make_arguments(128).values()
    compiled = weft.compile(add_one, *arguments) if missing else compile_for_gpu(ADD_ONE)
    module = str(compiled.ir_module)
    excerpt("fn.signature", str(compiled.signature))
    excerpt("fn.ir_module: the kernel", module, begin="simt.kernel", lines=14)
    excerpt("fn.ir_module: the host function", module, begin="func.func", lines=11)
    excerpt("fn.ir_module: the wrapper, which checks the arguments", module, "ffi.func", lines=12)
    excerpt("fn.llvm_ir", compiled.llvm_ir, "define", lines=14, hide=LLVM_LOCATIONS)
    if missing:
        return
    excerpt("fn.ptx", compiled.ptx, "ld.param", lines=15, hide=PTX_LOCATIONS)
    try:
        excerpt("fn.sass", compiled.sass, "/*0000*/", lines=14, hide=SASS_LOCATIONS)
    except (weft.ToolchainError, weft.UnavailableError) as error:
        print(f"\n-- fn.sass\n   {error.message}")


def instructions(ptx: str, sass: str) -> tuple[int, int]:
    """How many instructions a program has as PTX and as machine code, without the padding."""
    in_ptx = [line for line in ptx.splitlines() if re.match(r"\s+(@!?%p\d+ )?[a-z]", line)]
    in_sass = [
        line for line in re.findall(SASS_INSTRUCTION, sass, re.MULTILINE) if "NOP" not in line
    ]
    return len(in_ptx), len(in_sass)


def show_resources(examples: Iterable[Example]) -> None:
    """One row per kernel: its resources on a multiprocessor, and the length of its code."""
    heading(f"Each kernel compiled for {ARCHITECTURE}")
    table = Table(RESOURCE_COLUMNS, (23, 10, 9, 11, 11, 12, 7, 8, 8), words=1)
    for example in examples:
        start = time.perf_counter()
        compiled = compile_for_gpu(example)
        compile_ms = (time.perf_counter() - start) * 1000
        try:
            counts = [str(count) for count in instructions(compiled.ptx, compiled.sass)]
        except (weft.ToolchainError, weft.UnavailableError):
            counts = [str(instructions(compiled.ptx, "")[0]), "-"]
        for name, kernel in compiled.kernels.items():
            figures = (
                kernel.registers,
                kernel.spill_store_bytes + kernel.spill_load_bytes,
                kernel.stack_bytes,
                kernel.shared_memory_bytes,
                kernel.max_threads,
            )
            table.row((name, f"{compile_ms:.1f}", *map(str, figures), *counts))
    print("Registers, spills and stack are per thread; PTX and SASS are numbers of instructions.")


def selected(names: Sequence[str]) -> list[Example]:
    """The examples with those names, or all.

    Raises:
        SystemExit: for an unknown name.
    """
    known = {example.name: example for example in EXAMPLES}
    if unknown := [name for name in names if name not in known]:
        raise SystemExit(f"no example {', '.join(unknown)}; there are {', '.join(known)}")
    return [known[name] for name in names] or list(EXAMPLES)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo; 0 when every result was right."""
    parser = argparse.ArgumentParser(prog="python -m examples.demo", description="weft's examples")
    parser.add_argument("names", nargs="*", help="examples to run; all unless given")
    parser.add_argument("--quick", action="store_true", help="small sizes")
    parser.add_argument("--pictures", type=Path, default=Path("demo-output"), metavar="FOLDER")
    options = parser.parse_args(arguments)
    examples = selected(options.names)

    start = time.perf_counter()
    print(
        f"weft {weft.__version__} on Python {platform.python_version()}, NumPy {np.__version__}, "
        f"{platform.machine()}"
    )
    reports = run_examples(examples, options.quick, options.pictures)
    missing = cuda_missing()
    show_stages(missing)
    if missing:
        print("\n" + NO_CUDA.format(reason=missing))
    else:
        show_resources(examples)
    wrong = [report.example.name for report in reports if not report.passed]
    seconds = time.perf_counter() - start
    print(f"\n{len(reports) - len(wrong)} of {len(reports)} right, in {seconds:.0f} s.")
    if wrong:
        print(f"wrong: {', '.join(wrong)}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
