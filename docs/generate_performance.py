# SPDX-License-Identifier: Apache-2.0
"""Writes docs/performance.md and its pictures from a record of measurements.

In: docs/performance.json, which `python -m benchmarks.performance` writes on a GPU. Out: the page, and a picture for each
kind of kernels and for each function; `python -m docs.generate_performance` writes them, and tests/docs compares. The
measurements in the pages of functions come from here, too.
"""

from __future__ import annotations

import json
import re
import statistics
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from benchmarks.ready_kernels import SCALE, Measured, mean_ratio
from docs import roofline

if TYPE_CHECKING:
    from collections.abc import Mapping

FOLDER: Final = Path(__file__).parent
RECORD: Final = "performance.json"
PAGE: Final = "performance.md"
PICTURES: Final = Path("images") / "performance"
FUNCTIONS: Final = "functions"  # the folder of pictures that has one for each
KINDS: Final = {
    "rows": ("Functions of rows", "64 M elements in rows of 1024 to 131072."),
    "reductions": ("Reductions", "64 M elements, all of them or along one dimension."),
    "device_wide": (
        "Scans, sorts and compactions",
        "Vectors of 1 M and 64 M elements; top_k of rows of 131072. CuPy calls CUB. `compress` and `run_length_encode` wait for the "
        "number of results, as torch's do.",
    ),
    "elementwise": (
        "Functions of elements",
        "8192 x 8192 elements; rope of 16384 tokens with 32 heads of 128, cross_entropy of 4096 rows of 128000.",
    ),
    "moves": ("Transposes and gathers", "8192 x 8192 elements; 16384 of 32000 rows of 4096."),
    "transforms": (
        "Fourier transforms",
        "32 M complex numbers, or 64 M real ones, in rows of 256 to 1 M. torch calls cuFFT.",
    ),
    "gemm": (
        "GEMM and attention",
        "GEMM by m x n x k, the second operand transposed; attention of 2 sequences, 16 heads of 128. torch "
        "calls cuBLAS and its own choice for attention. The peer of `scaled_gemm` converts its operands to bfloat16 first. "
        "`sparse_matvec` has 2 M rows of 16 nonzeros on average, in random columns.",
    ),
    "attention": (
        "Attention",
        "Forward, and forward with backward, of 16384 tokens with 2048 elements each, by the length of sequences and the size of "
        "heads. torch takes its own choice.",
    ),
    "tensor_cores": (
        "Tensor-core examples",
        "[hopper_gemm](../examples/hopper_gemm.py) by m x n x k and [attention](../examples/attention.py) by the length of "
        "sequences, heads of 128 and 64, beside NVIDIA's libraries.",
    ),
}
"""Title of each kind, and its rows in words."""
OF_EXAMPLES: Final = {"tensor_cores"}
"""Kinds whose rows are not functions of `weft.kernels`."""
ABOUT: Final = """\
# Performance

Written by `make performance` on one GPU: each kernel beside the library calls that replace it, and beside the GPU's roofline.

* Times are of whole calls, Python included: the median over series of calls between two CUDA events, candidates interleaved. Data is
  random, and inputs change from call to call, so that they are not in caches.
* **The roofline** of a row is the longer of two times: to copy its bytes, and to do its operations in a kernel of fused multiply-adds
  or of MMAs on tiles that stay in shared memory. Both are measured in the same run, so that a share can exceed 1: a sum only
  reads, which is faster than a copy.
* Bytes are counted once per input and output. A sort moves them several times, so its share is low.
* Further columns are another library's time over weft's: **more than 1 means that weft is faster**. The last column names
  the fastest library where it is faster than weft. "–": no such call was measured.

`python -m benchmarks.model` measures whole models: a training step of four of Llama 3 8B's layers with its vocabulary, with the peak of
memory, and steps of decoding at batch 1 to 64 and 1 k to 32 k keys, with and without CUDA graphs, beside torch, `torch.compile` and Liger.

[kernels.md](kernels.md) describes the functions; the [notes](../notes/README.md) list the experiments.
"""


def rows_of(record: Mapping[str, Any], kind: str) -> list[Measured]:
    """Rows of a kind."""
    return [Measured(**row) for row in record["kinds"][kind]["rows"]]


def page(record: Mapping[str, Any]) -> str:
    """Text of the page."""
    parts = [ABOUT.rstrip(), _table(("", ""), [*record["machine"].items()])]
    kinds = [kind for kind in KINDS if kind in record["kinds"]]
    parts += ["## In short", _summary(record, kinds)]
    for kind in kinds:
        title, what = KINDS[kind]
        parts += [f"## {title}", what, _conditions(record, kind)]
        parts += [
            f"![{alternative}]({(PICTURES / name).as_posix()})"
            for name, alternative, _ in _pictures_of_kind(record, kind)
        ]
        parts.append(_rows(rows_of(record, kind), record["kinds"][kind]["ceilings"]))
    return "\n\n".join(parts) + "\n"


def _summary(record: Mapping[str, Any], kinds: list[str]) -> str:
    """A line for each kind."""
    lines: list[tuple[str, ...]] = []
    for kind in kinds:
        rows, ceilings = rows_of(record, kind), record["kinds"][kind]["ceilings"]
        found = mean_ratio(rows)
        shares = [share for row in rows if (share := row.share(ceilings)) is not None]
        title = KINDS[kind][0]
        lines.append(
            (
                f"[{title}](#{title.lower().replace(' ', '-').replace(',', '')})",
                str(len(rows)),
                "–" if found is None else f"{found[0]:.2f}",
                str(sum(row.is_lost for row in rows)),
                "–" if found is None else f"{found[1].ratio:.2f}, {found[1].name}",
                f"{statistics.median(shares):.2f}" if shares else "–",
            )
        )
    heads = (
        "",
        "rows",
        "fastest other over weft, mean",
        "slower than another",
        "worst",
        "share of the roofline, median",
    )
    return _table(heads, lines)


def _conditions(record: Mapping[str, Any], kind: str) -> str:
    """Date and ceilings of a kind's run."""
    found = record["kinds"][kind]
    when, ceilings = found["when"], found["ceilings"]
    copied = f"a copy moved {ceilings['memory'] / SCALE['GB/s']:.0f} GB/s"
    peaks = [
        f"{value / SCALE['TFLOP/s']:.0f} TFLOP/s of {name}"
        for name, value in ceilings.items()
        if name != "memory"
    ]
    newest = max(one["when"] for one in record["kinds"].values())
    older = ", earlier than other kinds; weft may have changed between" if when != newest else ""
    return f"Measured on {when} UTC{older}. In this run {copied}; arithmetic alone reached {', '.join(peaks)}."


def _rows(rows: list[Measured], ceilings: Mapping[str, float]) -> str:
    peers = [*dict.fromkeys(who for row in rows for who in row.microseconds if who != "weft")]
    lines: list[tuple[str, ...]] = []
    for row in rows:
        time, speed, share = row.microseconds.get("weft"), row.speed("weft"), row.share(ceilings)
        lines.append(
            (
                row.name.replace("/", ", "),
                "–" if time is None else f"{time:.4g}",
                "–" if speed is None else f"{speed:.4g} {row.unit}",
                "–" if share is None else f"{share:.2f}",
                *(_ratio(row, who) for who in peers),
                _verdict(row),
            )
        )
    return _table(("", "µs", "speed", "of the roofline", *peers, "slower than"), lines)


def _ratio(row: Measured, who: str) -> str:
    time = row.microseconds.get(who)
    return "–" if time is None or row.ours is None else f"{time / row.ours:.2f}"


def _verdict(row: Measured) -> str:
    if row.wrong:
        return f"**wrong**: {row.wrong}"
    if row.ours is None:
        return f"**failed**: {row.failed.get('weft', 'not measured')}"
    return f"**{row.best}**" if row.is_lost else ""


def _table(heads: tuple[str, ...], lines: list[Any]) -> str:
    rows = [heads, ("---",) * len(heads), *lines]
    return "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in rows)


class Function(NamedTuple):
    """Measurements of a function of `weft.kernels`."""

    kind: str
    rows: list[Measured]


def functions(record: Mapping[str, Any]) -> dict[str, Function]:
    """Functions of `weft.kernels` with rows in the record: the first word of a row is its function."""
    found: dict[str, Function] = {}
    for kind in KINDS:
        if kind in record["kinds"] and kind not in OF_EXAMPLES:
            for row in rows_of(record, kind):
                name = re.split(r"\W", row.name, maxsplit=1)[0]
                found.setdefault(name, Function(kind, [])).rows.append(row)
    return found


def section(record: Mapping[str, Any], name: str, images: str) -> str:
    """Measurements for a function's page: pictures and rows; empty without any.

    Args:
        record: what was measured.
        name: of the function.
        images: the way from the page to the folder of pictures.
    """
    if name not in (known := functions(record)):
        return ""
    kind, rows = known[name]
    ceilings = record["kinds"][kind]["ceilings"]
    drawn = _pictures(name, name, rows, ceilings)
    shown = [f"![{words}]({images}/{FUNCTIONS}/{file})" for file, words, _ in drawn]
    where = f"On one {record['machine']['GPU']}: {KINDS[kind][1]}"
    return "\n\n".join([where, _conditions(record, kind), *shown, _rows(rows, ceilings)]) + "\n"


def _pictures(
    stem: str, title: str, rows: list[Measured], ceilings: Mapping[str, float]
) -> list[tuple[str, str, str]]:
    """The pictures of rows: name, words for those who do not see it, SVG."""
    found = [(f"{stem}.svg", f"{title}: shares of the roofline", roofline.shares(rows, ceilings))]
    if any(row.unit == "TFLOP/s" for row in rows):
        drawn = roofline.roofline(rows, ceilings)
        found.append((f"{stem}-roofline.svg", f"{title}: roofline plot", drawn))
    return found


def _pictures_of_kind(record: Mapping[str, Any], kind: str) -> list[tuple[str, str, str]]:
    return _pictures(kind, KINDS[kind][0], rows_of(record, kind), record["kinds"][kind]["ceilings"])


def pictures(record: Mapping[str, Any]) -> dict[str, str]:
    """The SVG of each picture by its name, those of functions in a folder of their own."""
    kinds = [kind for kind in KINDS if kind in record["kinds"]]
    found = {name: drawn for kind in kinds for name, _, drawn in _pictures_of_kind(record, kind)}
    for name, (kind, rows) in functions(record).items():
        drawn = _pictures(name, name, rows, record["kinds"][kind]["ceilings"])
        found |= {f"{FUNCTIONS}/{file}": text for file, _, text in drawn}
    return found


def text_of(record: Mapping[str, Any]) -> str:
    """The record as a file: a line for each row, numbers with as many digits as are measured."""

    def rounded(value: Any) -> Any:
        if isinstance(value, float):
            return float(f"{value:.5g}")
        if isinstance(value, dict):
            return {key: rounded(one) for key, one in value.items()}
        return value

    kinds: list[str] = []
    for kind, found in record["kinds"].items():
        ceilings = json.dumps(rounded(found["ceilings"]))
        rows = ",\n".join(json.dumps(rounded(row)) for row in found["rows"])
        kinds.append(
            f'"{kind}": {{"when": "{found["when"]}", "ceilings": {ceilings}, "rows": [\n{rows}]}}'
        )
    machine, everything = json.dumps(record["machine"]), ",\n".join(kinds)
    return f'{{"machine": {machine},\n"kinds": {{{everything}}}}}\n'


def write(folder: Path = FOLDER) -> None:
    """Writes the page and the pictures of the record in a folder."""
    record = json.loads((folder / RECORD).read_text())
    (folder / PAGE).write_text(page(record))
    drawn = pictures(record)
    for old in drawn_in(folder) - set(drawn):
        (folder / PICTURES / old).unlink()
    for name, text in drawn.items():
        place = folder / PICTURES / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)


def drawn_in(folder: Path) -> set[str]:
    """The names of the pictures that a folder has."""
    pictures = folder / PICTURES
    return {path.relative_to(pictures).as_posix() for path in pictures.rglob("*.svg")}


if __name__ == "__main__":
    write()
