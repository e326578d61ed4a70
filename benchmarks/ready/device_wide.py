# SPDX-License-Identifier: Apache-2.0
"""Scans, sorts, compactions and histograms of long vectors, beside torch's and CuPy's, which are CUB's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.ready.case import Case, cupy, integers, normal
from weft import kernels

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Call = Callable[[Any], Any]

LENGTHS = (1 << 20, 1 << 26)
BINS = 256
LARGEST = 50  # elements of a row that top_k gives
RUN = 4  # elements of a run, in the mean


class Row(NamedTuple):
    """A function of a vector.

    Attributes:
        name: of the function and its elements.
        make: the vector, or a matrix of as many elements.
        moved: bytes that a call reads and writes for each element.
        ours: weft's call.
        theirs: torch's.
        cupy: the name of CuPy's function, or an empty string.
        tolerance: as of a case.
    """

    name: str
    make: Callable[[int, int], Any]
    moved: float
    ours: Call
    theirs: Call
    cupy: str = ""
    tolerance: float = 0.0


def cases(torch: Any, scale: int = 1) -> Iterator[Case]:
    """Vectors of 1 M and 64 M elements."""
    module = cupy()
    for length in LENGTHS:
        count = length // scale
        for row in _rows(torch):
            peers: dict[str, Call] = {"torch": row.theirs}
            if row.cupy and module is not None:
                peers["CuPy"] = _of_cupy(torch, module, getattr(module, row.cupy))
            yield Case(
                f"{row.name}/{count}",
                lambda seed, row=row, count=count: [row.make(count, seed)],
                row.ours,
                peers,
                row.moved * count,
                "GB/s",
                row.tolerance,
            )


def _of_cupy(torch: Any, module: Any, call: Call) -> Call:
    return lambda x: torch.from_dlpack(call(module.from_dlpack(x)))


def _is_positive(value: Any) -> Any:
    return value > 0


def _runs(found: tuple[Any, Any, Any]) -> tuple[Any, Any]:
    """What counts of a result of `run_length_encode`; the host waits for the number, as torch's does."""
    values, lengths, count = found
    return values[: int(count)], lengths[: int(count)]


def _selected(found: tuple[Any, Any]) -> Any:
    values, count = found
    return values[: int(count)]


def _rows(torch: Any) -> tuple[Row, ...]:
    def floats(count: int, seed: int) -> Any:
        return normal(torch, "float32", seed, count)

    def below(end: int, dtype: Any) -> Callable[[int, int], Any]:
        return lambda count, seed: integers(torch, end, dtype, seed, count)

    def rows(count: int, seed: int) -> Any:
        return normal(torch, "float32", seed, max(1, count >> 17), min(count, 1 << 17))

    def repeated(count: int, seed: int) -> Any:
        changes = integers(torch, RUN, torch.int32, seed, count) == 0
        return changes.cumsum(0).to(torch.int32)

    i32, i64 = torch.int32, torch.int64
    ordered: Call = lambda x: torch.sort(x).values  # noqa: E731
    largest = LARGEST
    return (
        Row("cumsum/float32", floats, 8, kernels.cumsum, lambda x: x.cumsum(0), "cumsum", 1e-4),
        Row(
            "scan by max/float32",
            floats,
            8,
            lambda x: kernels.scan(x, max),
            lambda x: x.cummax(0).values,
        ),
        Row("sort/int32", below(1 << 31, i32), 8, kernels.sort, ordered, "sort"),
        Row("sort/float32", floats, 8, kernels.sort, ordered, "sort"),
        Row("sort/int64", below(1 << 62, i64), 16, kernels.sort, ordered, "sort"),
        Row(
            "argsort/float32",
            floats,
            12,
            kernels.argsort,
            lambda x: torch.sort(x, stable=True).indices,
        ),
        Row(
            f"top_k of {largest}/float32",
            rows,
            4,
            lambda x: kernels.top_k(x, largest)[0],
            lambda x: torch.topk(x, largest).values,
        ),
        Row(
            "compress/float32",
            floats,
            6,
            lambda x: _selected(kernels.compress(_is_positive, x)),
            lambda x: x[x > 0],
        ),
        Row(
            "partition/float32",
            floats,
            8,
            lambda x: kernels.partition(_is_positive, x)[0],
            lambda x: torch.cat([x[x > 0], x[x <= 0]]),
        ),
        Row(
            "run_length_encode/int32",
            repeated,
            4 + 12 / RUN,
            lambda x: _runs(kernels.run_length_encode(x)),
            lambda x: torch.unique_consecutive(x, return_counts=True),
        ),
        Row(
            "histogram/int32",
            below(BINS, i32),
            4,
            lambda x: kernels.histogram(x, BINS),
            lambda x: torch.bincount(x, minlength=BINS),
        ),
    )
