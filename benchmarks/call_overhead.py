# SPDX-License-Identifier: Apache-2.0
"""What one call of a compiled function costs, beside a call of the same function through tvm_ffi.

The function checks its arguments and launches nothing: what is left is the marshaller and the wrapper.
Both callables run the same machine code.
"""

from __future__ import annotations

import importlib.util
import timeit
from typing import TYPE_CHECKING, Any

import numpy as np
import tvm_ffi  # noqa: F401  as_tvm_ffi needs its types

import weft
from benchmarks.harness import (
    Figure,
    interleave,
    medians,
    parse_arguments,
    report,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CALLS = 20_000
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


CASES = (
    # name, function, call
    ("0 arguments", "empty", "f()"),
    ("int and float", "scalars", "f(1, 2.0)"),
)
ARRAY_CASES = (
    ("1 {} array", "one", "f(a)"),
    ("3 {} arrays", "three", "f(a, b, c)"),
    ("3 {} arrays by keyword", "three", "f(a, b=b, c=c)"),
)


def compiled_functions() -> dict[str, Any]:
    """The functions above, each for any length."""
    vector = weft.fake_tensor(weft.f32, (weft.sym("n"),))
    options = "--target cpu --enable-tvm-ffi"
    return {
        "empty": weft.compile(empty, options=options),
        "one": weft.compile(one, vector, options=options),
        "three": weft.compile(three, vector, vector, vector, options=options),
        "scalars": weft.compile(scalars, 1, 2.0, options=options),
    }


def nanoseconds(call: str, names: dict[str, Any]) -> float:
    """Time of one evaluation of `call`, in a loop of its own; the loop counts in, about 4 ns."""
    return timeit.Timer(call, globals=names).timeit(CALLS) / CALLS * 1e9


def figures(rounds: int) -> Iterator[Figure]:
    """Nanoseconds of each case through weft and, by position, through tvm_ffi."""
    functions = compiled_functions()
    foreign = {name: function.as_tvm_ffi() for name, function in functions.items()}
    cases = [(name, function, call, {}) for name, function, call in CASES]
    for library, make in arrays().items():
        given = {"a": make(), "b": make(), "c": make()}
        cases += [
            (name.format(library), function, call, given) for name, function, call in ARRAY_CASES
        ]
    for name, function, call, given in cases:
        ours = {"f": functions[function], **given}
        theirs = {"f": foreign[function], **given}
        by_position = call.replace("b=", "").replace("c=", "")
        found = medians(
            interleave(
                {
                    "weft": lambda call=call, names=ours: nanoseconds(call, names),
                    "tvm_ffi": lambda call=by_position, names=theirs: nanoseconds(call, names),
                },
                rounds,
            )
        )
        note = "tvm_ffi by position" if call != by_position else ""
        yield Figure(
            f"call_overhead/{name}", found["weft"], "ns", "tvm_ffi", found["tvm_ffi"], note
        )


def main() -> None:
    """Print every figure."""
    arguments = parse_arguments(__doc__ or "", rounds=15)
    report(figures(arguments.rounds), arguments.json)


if __name__ == "__main__":
    main()
