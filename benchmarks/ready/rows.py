# SPDX-License-Identifier: Apache-2.0
"""Functions of rows, and reductions: softmax, norms, sums, beside torch's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchmarks.ready.case import TOLERANCE, Case, eager_and_compiled, normal, triton
from weft import kernels

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Call = Callable[[Any, Any, Any], Any]

ELEMENTS = 1 << 26  # of each input
COLUMNS = (1024, 4096, 16384, 32768, 131072)
WIDEST = 16384  # columns of a norm in a model
TRITON_COLUMNS = 16384  # a block of its tutorials' kernels keeps a row in registers


def of_rows(torch: Any, scale: int = 1) -> Iterator[Case]:
    """Rows of 1k to 128k elements."""
    for name in TOLERANCE:
        for columns in COLUMNS:
            yield from _of_rows(torch, name, columns // scale, ELEMENTS // scale)
            if columns <= WIDEST:
                yield from _norm_grads(torch, name, columns // scale, ELEMENTS // scale)


def _matrix(torch: Any, name: str, columns: int, elements: int, seed: int) -> Any:
    return normal(torch, name, seed, elements // columns, columns)


def _of_rows(torch: Any, name: str, columns: int, elements: int) -> Iterator[Case]:
    functional, dtype = torch.nn.functional, getattr(torch, name)

    def make(seed: int) -> list[Any]:
        x = _matrix(torch, name, columns, elements, seed)
        return [x, torch.ones(columns, dtype=dtype), torch.empty_like(x)]

    def by_triton(what: str, parameters: int) -> dict[str, Call]:
        if columns > TRITON_COLUMNS:
            return {}

        def into(call: Callable[..., Any]) -> Call:
            def run(x: Any, w: Any, out: Any) -> Any:
                call(x, *[w] * parameters, out)
                return out

            return run

        return {who: into(call) for who, call in triton(what).items()}

    calls: tuple[tuple[str, Call, Call, dict[str, Call]], ...] = (
        (
            "softmax",
            lambda x, w, out: kernels.softmax(x, out=out),
            lambda x, w, out: torch.softmax(x, -1),
            by_triton("softmax", 0),
        ),
        (
            "log_softmax",
            lambda x, w, out: kernels.log_softmax(x, out=out),
            lambda x, w, out: torch.log_softmax(x, -1),
            {},
        ),
        (
            "layer_norm",
            lambda x, w, out: kernels.layer_norm(x, w, w, out=out),
            lambda x, w, out: functional.layer_norm(x, w.shape, w, w),
            by_triton("layernorm", 2),
        ),
        (
            "rms_norm",
            lambda x, w, out: kernels.rms_norm(x, w, eps=1e-6, out=out),
            lambda x, w, out: functional.rms_norm(x, w.shape, w, 1e-6),
            {},
        ),
    )
    for what, ours, theirs, more in calls:
        peers = {**eager_and_compiled(torch, theirs), **more}
        title, work = f"{what}/{name}/{columns}", 2 * elements * dtype.itemsize
        yield Case(title, make, ours, peers, work, "GB/s", TOLERANCE[name])

    for what in ("softmax", "log_softmax"):
        yield _softmax_grad(torch, what, name, columns, elements)


def _softmax_grad(torch: Any, what: str, name: str, columns: int, elements: int) -> Case:
    """The derivative of softmax or of its logarithm, from the result."""
    ours, forward = getattr(kernels, f"{what}_backward"), getattr(torch, what)
    backward = getattr(torch.ops.aten, f"_{what}_backward_data")

    def make(seed: int) -> list[Any]:
        x, gradient = (_matrix(torch, name, columns, elements, seed + k) for k in range(2))
        return [gradient, forward(x, -1)]

    return Case(
        f"{what}_backward/{name}/{columns}",
        make,
        ours,
        eager_and_compiled(torch, lambda gradient, y: backward(gradient, y, -1, y.dtype)),
        3 * elements * getattr(torch, name).itemsize,
        "GB/s",
        2 * TOLERANCE[name],
    )


def _norm_grads(torch: Any, name: str, columns: int, elements: int) -> Iterator[Case]:
    """The derivatives of norms by their input and weights."""

    def make(seed: int) -> list[Any]:
        x, gradient = (_matrix(torch, name, columns, elements, seed + k) for k in range(2))
        return [gradient, x, torch.ones(columns, dtype=x.dtype)]

    def grads(gradient: Any, x: Any, w: Any, eps: float, is_centered: bool) -> tuple[Any, ...]:
        g, x, found = gradient.float(), x.float(), gradient.dtype
        if is_centered:
            x = x - x.mean(-1, keepdim=True)
        scale = torch.rsqrt((x * x).mean(-1, keepdim=True) + eps)
        x, weighted = x * scale, g * w.float()
        by_x = weighted - x * (weighted * x).mean(-1, keepdim=True)
        if is_centered:
            by_x = by_x - weighted.mean(-1, keepdim=True)
        of_columns = (g * x).sum(0), *((g.sum(0),) if is_centered else ())
        return tuple(one.to(found) for one in (by_x * scale, *of_columns))

    for what, eps, is_centered in (("layer_norm", 1e-5, True), ("rms_norm", 1e-6, False)):
        ours: Any = getattr(kernels, f"{what}_backward")

        def theirs(gradient: Any, x: Any, w: Any, eps: Any = eps, kind: Any = is_centered) -> Any:
            return grads(gradient, x, w, eps, kind)

        yield Case(
            f"{what}_backward/{name}/{columns}",
            make,
            ours,
            eager_and_compiled(torch, theirs),
            3 * elements * getattr(torch, name).itemsize,
            "GB/s",
            2 * TOLERANCE[name],
        )


def reductions(torch: Any, scale: int = 1) -> Iterator[Case]:
    """Sums, maxima and their places, of all elements and along either dimension."""
    for name in TOLERANCE:
        for what in ("sum", "max", "argmax"):
            for axis, columns in ((None, 8192), (-1, 1024), (-1, 131072), (0, 8192)):
                yield _reduction(torch, name, what, axis, columns // scale, ELEMENTS // scale)
        for what in ("mean", "min", "argmin"):
            yield _reduction(torch, name, what, -1, COLUMNS[0] // scale, ELEMENTS // scale)
        yield _by_a_function(torch, name, COLUMNS[0] // scale, ELEMENTS // scale)


def _reduction(
    torch: Any, name: str, what: str, axis: int | None, columns: int, elements: int
) -> Case:
    keywords: dict[str, Any] = {} if axis is None else {"dim": axis}
    function, theirs = getattr(kernels, what), getattr(torch, what)
    if what in ("max", "min") and axis is not None:  # torch's gives a pair
        theirs = getattr(torch, f"a{what}")

    def make(seed: int) -> list[Any]:
        return [_matrix(torch, name, columns, elements, seed)]

    return Case(
        f"{what}/{name}/{'all' if axis is None else f'axis {axis} of {columns}'}",
        make,
        lambda x: function(x, axis=axis),
        eager_and_compiled(torch, lambda x: theirs(x, **keywords)),
        elements * getattr(torch, name).itemsize,
        "GB/s",
        TOLERANCE[name] if what in ("sum", "mean") else 0.0,
    )


def _by_a_function(torch: Any, name: str, columns: int, elements: int) -> Case:
    """The element of the largest magnitude; torch has that in two steps."""

    def larger(one: Any, other: Any) -> Any:
        return one if abs(one) >= abs(other) else other

    def theirs(x: Any) -> Any:
        return x.gather(-1, x.abs().argmax(-1, keepdim=True))[:, 0]

    return Case(
        f"reduce to the largest magnitude/{name}/{columns}",
        lambda seed: [_matrix(torch, name, columns, elements, seed)],
        lambda x: kernels.reduce(x, larger, 0.0, axis=-1).abs(),
        eager_and_compiled(torch, lambda x: theirs(x).abs()),
        elements * getattr(torch, name).itemsize,
    )
