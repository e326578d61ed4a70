# SPDX-License-Identifier: Apache-2.0
"""Functions of rows, and reductions: softmax, norms, sums, beside torch's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchmarks.ready.case import Case
from weft import kernels

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Call = Callable[[Any, Any, Any], Any]

ELEMENTS = 1 << 26  # of each input
COLUMNS = (1024, 4096, 16384, 32768, 131072)
TOLERANCE = {"float32": 1e-5, "bfloat16": 1e-2}


def cases(torch: Any) -> Iterator[Case]:
    """Rows of 1k to 128k elements, then reductions of the same sizes."""
    for name in ("float32", "bfloat16"):
        for columns in COLUMNS:
            yield from _of_rows(torch, name, columns)
        yield from _reductions(torch, name)


def _matrix(torch: Any, name: str, columns: int, seed: int) -> Any:
    generator = torch.Generator("cuda").manual_seed(seed)
    shape = (ELEMENTS // columns, columns)
    return torch.randn(shape, generator=generator, device="cuda").to(getattr(torch, name))


def _of_rows(torch: Any, name: str, columns: int) -> Iterator[Case]:
    functional, dtype = torch.nn.functional, getattr(torch, name)

    def make(seed: int) -> list[Any]:
        x = _matrix(torch, name, columns, seed)
        return [x, torch.ones(columns, dtype=dtype, device="cuda"), torch.empty_like(x)]

    size = 2 * ELEMENTS * dtype.itemsize
    calls: tuple[tuple[str, Call, Call], ...] = (
        (
            "softmax",
            lambda x, w, out: kernels.softmax(x, out=out),
            lambda x, w, out: torch.softmax(x, -1, out=out),
        ),
        (
            "log_softmax",
            lambda x, w, out: kernels.log_softmax(x, out=out),
            lambda x, w, out: torch.log_softmax(x, -1, out=out),
        ),
        (
            "layer_norm",
            lambda x, w, out: kernels.layer_norm(x, w, w, out=out),
            lambda x, w, out: functional.layer_norm(x, w.shape, w, w),
        ),
        (
            "rms_norm",
            lambda x, w, out: kernels.rms_norm(x, w, eps=1e-6, out=out),
            lambda x, w, out: functional.rms_norm(x, w.shape, w, 1e-6),
        ),
    )
    for what, ours, theirs in calls:
        yield Case(
            f"{what}/{name}/{columns}", make, ours, {"torch": theirs}, size, "GB/s", TOLERANCE[name]
        )


def _reductions(torch: Any, name: str) -> Iterator[Case]:
    dtype = getattr(torch, name)
    size = ELEMENTS * dtype.itemsize
    for what in ("sum", "max", "argmax"):
        for axis, columns in ((None, 8192), (-1, 1024), (-1, 131072), (0, 8192)):
            keywords: dict[str, Any] = {} if axis is None else {"dim": axis}
            ours, theirs = getattr(kernels, what), getattr(torch, what)
            is_pair = what == "max" and axis is not None
            if is_pair:
                theirs = torch.amax

            def make(seed: int, columns: int = columns) -> list[Any]:
                return [_matrix(torch, name, columns, seed)]

            def our(x: Any, function: Any = ours, axis: int | None = axis) -> Any:
                return function(x, axis=axis)

            def their(x: Any, function: Any = theirs, keywords: Any = keywords) -> Any:
                return function(x, **keywords)

            yield Case(
                f"{what}/{name}/{'all' if axis is None else f'axis {axis} of {columns}'}",
                make,
                our,
                {"torch": their},
                size,
                "GB/s",
                TOLERANCE[name] if what == "sum" else 0.0,
            )
