# SPDX-License-Identifier: Apache-2.0
"""Fourier transforms of rows, beside torch's, which are cuFFT's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchmarks.ready.case import Case, normal
from weft import kernels

if TYPE_CHECKING:
    from collections.abc import Iterator

ELEMENTS = 1 << 25  # complex numbers of an input
LENGTHS = (256, 997, 1000, 4096, 16384, 1 << 20)  # of rows; 997 is prime
REAL_LENGTHS = (1000, 4096, 1 << 20)
TOLERANCE = {"complex64": 1e-5, "complex128": 1e-13}


def cases(torch: Any, scale: int = 1) -> Iterator[Case]:
    """Rows of 256 to 1 M numbers, of complex64, complex128 and float32."""
    for name, tolerance in TOLERANCE.items():
        part = "float32" if name == "complex64" else "float64"
        for length in LENGTHS:
            columns = min(length, ELEMENTS // scale)
            shape = (ELEMENTS // scale // columns, columns, 2)

            def make(seed: int, part: str = part, shape: tuple[int, ...] = shape) -> list[Any]:
                return [torch.view_as_complex(normal(torch, part, seed, *shape))]

            yield Case(
                f"fft/{name}/{length}",
                make,
                kernels.fft,
                {"torch": torch.fft.fft},
                2 * shape[0] * columns * getattr(torch, name).itemsize,
                tolerance=tolerance,
            )
    for length in REAL_LENGTHS:
        yield from _of_reals(torch, length, 2 * ELEMENTS // scale)


def _of_reals(torch: Any, length: int, elements: int) -> Iterator[Case]:
    columns = min(length, elements)
    rows, half = elements // columns, columns // 2 + 1
    work = rows * (columns + 2 * half) * 4
    yield Case(
        f"rfft/float32/{length}",
        lambda seed: [normal(torch, "float32", seed, rows, columns)],
        kernels.rfft,
        {"torch": torch.fft.rfft},
        work,
        tolerance=TOLERANCE["complex64"],
    )
    yield Case(
        f"irfft/float32/{length}",
        lambda seed: [torch.fft.rfft(normal(torch, "float32", seed, rows, columns))],
        lambda x: kernels.irfft(x, columns),
        {"torch": lambda x: torch.fft.irfft(x, columns)},
        work,
        tolerance=TOLERANCE["complex64"],
    )
