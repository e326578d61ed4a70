# SPDX-License-Identifier: Apache-2.0
"""Scans, sorts, selections and histograms of long vectors, beside torch's and CuPy's, which are CUB's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchmarks.ready.case import Case, cupy
from weft import kernels

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Call = Callable[[Any], Any]

LENGTHS = (1 << 20, 1 << 26)
BINS = 256


def cases(torch: Any) -> Iterator[Case]:
    """Vectors of 1 M and 64 M elements."""
    for length in LENGTHS:
        yield from _of_length(torch, length)


def _of_length(torch: Any, length: int) -> Iterator[Case]:
    peer = cupy()

    def floats(seed: int) -> list[Any]:
        generator = torch.Generator("cuda").manual_seed(seed)
        return [torch.randn(length, generator=generator, device="cuda")]

    def integers(most: int, dtype: Any) -> Callable[[int], list[Any]]:
        def make(seed: int) -> list[Any]:
            generator = torch.Generator("cuda").manual_seed(seed)
            return [torch.randint(most, (length,), generator=generator, device="cuda", dtype=dtype)]

        return make

    def of_cupy(name: str) -> dict[str, Call]:
        if peer is None:
            return {}
        call = getattr(peer, name)
        return {"cupy": lambda x: torch.from_dlpack(call(peer.from_dlpack(x)))}

    calls: tuple[tuple[str, Any, int, Call, dict[str, Call]], ...] = (
        (
            "cumsum/float32",
            floats,
            8,
            kernels.cumsum,
            {"torch": lambda x: torch.cumsum(x, 0), **of_cupy("cumsum")},
        ),
        (
            "sort/int32",
            integers(1 << 31, torch.int32),
            8,
            kernels.sort,
            {"torch": lambda x: torch.sort(x).values, **of_cupy("sort")},
        ),
        (
            "sort/float32",
            floats,
            8,
            kernels.sort,
            {"torch": lambda x: torch.sort(x).values, **of_cupy("sort")},
        ),
        (
            "argsort/float32",
            floats,
            12,
            kernels.argsort,
            {"torch": lambda x: torch.sort(x, stable=True).indices},
        ),
        (
            "histogram/int32",
            integers(BINS, torch.int32),
            4,
            lambda x: kernels.histogram(x, BINS),
            {"torch": lambda x: torch.bincount(x, minlength=BINS)},
        ),
    )
    for name, make, size, ours, peers in calls:
        tolerance = 1e-4 if name.startswith("cumsum") else 0.0
        yield Case(f"{name}/{length}", make, ours, peers, size * length, "GB/s", tolerance)
