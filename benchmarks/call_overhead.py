# SPDX-License-Identifier: Apache-2.0
"""What one call of a compiled function costs, beside a call of the same function through tvm_ffi.

The function checks its arguments and launches nothing: what is left is the marshaller and the wrapper.
Both callables run the same machine code.
"""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

import numpy as np

import weft
from benchmarks.harness import (
    Figure,
    interleave,
    medians,
    nanoseconds_per_call,
    parse_arguments,
    report,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Vector = weft.Tensor[weft.f32, ("n",)]


@weft.jit
def empty():
    """Take nothing and do nothing."""


@weft.jit
def one(a: Vector):
    """Check one vector and do nothing."""


@weft.jit
def three(a: Vector, b: Vector, c: Vector):
    """Check three vectors of one length and do nothing."""


@weft.jit
def scalars(a: weft.i32, b: weft.f32):
    """Check two scalars and do nothing."""


def arrays() -> dict[str, Callable[[], Any]]:
    """Makers of the arrays that are passed, by library; only of libraries that are installed."""
    makers: dict[str, Callable[[], Any]] = {"numpy": lambda: np.zeros(16, np.float32)}
    if importlib.util.find_spec("torch") is not None:
        import torch

        makers["torch"] = lambda: torch.zeros(16)
    return makers


def calls() -> dict[str, tuple[Callable[[], object], Callable[[], object]]]:
    """Each case: the call through weft and the same through tvm_ffi."""
    vector = weft.fake_tensor(weft.f32, (weft.sym("n"),))
    compiled = {
        "empty": weft.compile(empty, options="--target cpu --enable-tvm-ffi"),
        "one": weft.compile(one, vector, options="--target cpu --enable-tvm-ffi"),
        "three": weft.compile(three, *[vector] * 3, options="--target cpu --enable-tvm-ffi"),
        "scalars": weft.compile(scalars, 1, 2.0, options="--target cpu --enable-tvm-ffi"),
    }
    foreign = {name: function.as_tvm_ffi() for name, function in compiled.items()}
    cases: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
        "0 arguments": (compiled["empty"], foreign["empty"]),
        "int and float": (
            lambda f=compiled["scalars"]: f(1, 2.0),
            lambda f=foreign["scalars"]: f(1, 2.0),
        ),
    }
    for library, make in arrays().items():
        a, b, c = make(), make(), make()
        cases[f"1 {library} array"] = (
            lambda f=compiled["one"], a=a: f(a),
            lambda f=foreign["one"], a=a: f(a),
        )
        cases[f"3 {library} arrays"] = (
            lambda f=compiled["three"], a=a, b=b, c=c: f(a, b, c),
            lambda f=foreign["three"], a=a, b=b, c=c: f(a, b, c),
        )
        cases[f"3 {library} arrays by keyword"] = (
            lambda f=compiled["three"], a=a, b=b, c=c: f(a, b=b, c=c),
            lambda f=foreign["three"], a=a, b=b, c=c: f(a, b, c),
        )
    return cases


def figures(rounds: int) -> Iterator[Figure]:
    """Nanoseconds of each case, without the time of the `lambda` around the call."""
    nothing = lambda: None  # noqa: E731
    for name, (ours, theirs) in calls().items():
        measured = interleave(
            {
                "weft": lambda call=ours: nanoseconds_per_call(call),
                "tvm_ffi": lambda call=theirs: nanoseconds_per_call(call),
                "loop": lambda: nanoseconds_per_call(nothing),
            },
            rounds,
        )
        found = medians(measured)
        yield Figure(
            f"call_overhead/{name}",
            found["weft"] - found["loop"],
            "ns",
            "tvm_ffi",
            found["tvm_ffi"] - found["loop"],
            f"loop {found['loop']:.0f} ns subtracted",
        )


def main() -> None:
    """Print every figure."""
    arguments = parse_arguments(__doc__ or "", rounds=15)
    report(figures(arguments.rounds), arguments.json)


if __name__ == "__main__":
    main()
