# SPDX-License-Identifier: Apache-2.0
"""Every f32 function of one argument, for every one of the 2**32 arguments, on the CPU or on a GPU.

In: names of functions of `weft.math`; none means all. Out: for each the largest error in units in the last place
and its argument, beside what docs/mathematics.md promises; 1 if a promise is broken. NumPy's f64 is the reference,
and mpmath for the worst argument. Some two minutes a function; `--stride 16` takes every 16th argument. With `--gpu`
torch's f64 is the reference, and a function takes seconds: the results are those of the GPU's code with ``--math
portable``, with `--fast` of the default.
`--f64` looks at some million arguments in f64 instead, against x87's long double.

    python -m tools.sweep_math asin acos
    python -m tools.sweep_math --stride 16
    python -m tools.sweep_math --f64
    python -m tools.sweep_math --gpu
    python -m tools.sweep_math --gpu --fast
"""

from __future__ import annotations

import argparse
import math
import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import mpmath
import numpy as np

import weft

if TYPE_CHECKING:
    from collections.abc import Callable

PAGE = Path(__file__).resolve().parents[1] / "docs" / "mathematics.md"
CHUNK = 1 << 18
ARGUMENTS = 1 << 32
INFINITY = float("inf")


class Reference(NamedTuple):
    """A function, elementwise over f64, and of one mpmath number."""

    doubles: Callable[[Any], Any]
    exact: Callable[[Any], Any]


def _erf(x: Any) -> Any:
    """The error function; NumPy has none, so Python's where neither its series nor its limit will do."""
    magnitude = np.abs(x)
    series = x * (2 / math.sqrt(math.pi)) * (1 - x * x / 3)
    result = np.where(magnitude < 2.0**-8, series, np.sign(x))
    between = (magnitude >= 2.0**-8) & (magnitude < 5.0)
    result[between] = [math.erf(value) for value in x[between].tolist()]
    return result


def _is(numpy: Callable[[Any], Any]) -> Reference:
    """A function that iterations, and is the same in every format."""
    return Reference(numpy, lambda x: mpmath.mpf(float(numpy(float(x)))))


REFERENCES: dict[str, Reference] = {
    "exp": Reference(np.exp, mpmath.exp),
    "exp2": Reference(np.exp2, lambda x: mpmath.mpf(2) ** x),
    "expm1": Reference(np.expm1, mpmath.expm1),
    "log": Reference(np.log, mpmath.log),
    "log2": Reference(np.log2, lambda x: mpmath.log(x) / mpmath.log(2)),
    "log10": Reference(np.log10, lambda x: mpmath.log(x) / mpmath.log(10)),
    "log1p": Reference(np.log1p, mpmath.log1p),
    "sin": Reference(np.sin, mpmath.sin),
    "cos": Reference(np.cos, mpmath.cos),
    "tan": Reference(np.tan, mpmath.tan),
    "asin": Reference(np.arcsin, mpmath.asin),
    "acos": Reference(np.arccos, mpmath.acos),
    "atan": Reference(np.arctan, mpmath.atan),
    "sinh": Reference(np.sinh, mpmath.sinh),
    "cosh": Reference(np.cosh, mpmath.cosh),
    "tanh": Reference(np.tanh, mpmath.tanh),
    "asinh": Reference(np.arcsinh, mpmath.asinh),
    "acosh": Reference(np.arccosh, mpmath.acosh),
    "atanh": Reference(np.arctanh, mpmath.atanh),
    "erf": Reference(_erf, mpmath.erf),
    "cbrt": Reference(np.cbrt, lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x))),
    "sqrt": Reference(np.sqrt, mpmath.sqrt),
    "rsqrt": Reference(lambda x: 1 / np.sqrt(x), lambda x: 1 / mpmath.sqrt(x)),
    "abs": _is(np.abs),
    "floor": _is(np.floor),
    "ceil": _is(np.ceil),
    "trunc": _is(np.trunc),
    "round": _is(np.rint),
}


# Where a GPU has an instruction of its own, with a bound of its own on the same page.
ON_A_GPU = {"rsqrt": 2.0}


def promised() -> dict[str, dict[str, float]]:
    """The bounds of docs/mathematics.md: function → element type → units in the last place."""
    rows = re.findall(r"^\| (`.+`) \| ([\d.]+) \| ([\d.]+) \|$", PAGE.read_text(), re.MULTILINE)
    return {
        name: {"f32": float(f32), "f64": float(f64)}
        for names, f32, f64 in rows
        for name in re.findall(r"`(\w+)`", names)
    }


def promised_fast() -> dict[str, float]:
    """The bounds of fast functions in docs/mathematics.md: function → units in the last place."""
    return {name: row[1] for name, row in fast_table().items()}


def fast_table() -> dict[str, tuple[float, float, int, int]]:
    """The rows of fast functions: the error that the PTX ISA allows, the bound, instructions portable and fast."""
    row = r"^\| `(\w+)` \| ([\d.]+) \| (?:[\d.]+|–) \| ([\d.]+) \| (\d+) \| (\d+) \|$"
    return {
        name: (float(allowed), float(bound), int(portable), int(fast))
        for name, allowed, bound, portable, fast in re.findall(row, PAGE.read_text(), re.MULTILINE)
    }


def units_off(got: Any, exact: Any) -> Any:
    """The error of f32 results in units in the last place of the exact f64 values.

    Infinity where only one of the two is NaN or infinite, and for a zero of the wrong sign.
    """
    exponent = np.maximum((exact.view(np.int64) >> 52) & 0x7FF, 1023 - 126)
    scale = ((2 * 1023 + 23 - exponent) << 52).view(np.float64)
    error = np.abs(got.astype(np.float64) - exact) * scale
    zero = (exact == 0) & (np.signbit(got) != np.signbit(exact))
    finite = np.isfinite(error) & ~zero
    if finite.all():
        return error
    nearest = exact.astype(np.float32)
    alike = ((got == nearest) & ~zero) | (np.isnan(got) & np.isnan(nearest))
    overflows = np.isinf(got) & (np.abs(exact) > np.finfo(np.float32).max)
    return np.where(finite, error, np.where(alike | overflows, 0.0, INFINITY))


@weft.kernel
def _apply_kernel(x: weft.Tensor, y: weft.Tensor, function: weft.Constexpr) -> None:
    i = weft.block_idx.x * weft.block_dim.x + weft.thread_idx.x
    if i < x.shape[0]:
        y[i] = function(x[i])


@weft.jit
def _apply(x: weft.Tensor, y: weft.Tensor, function: weft.Constexpr) -> None:
    _apply_kernel(x, y, function).launch(grid=weft.ceil_div(x.shape[0], 256), block=256)


def sample(name: str, seed: int = 0) -> tuple[float, np.float64]:
    """The largest error in f64 near 0, near 1 and up to 700, of results that are normal numbers."""
    random = np.random.default_rng(seed)
    x = np.concatenate(
        [
            (random.random(CHUNK) * 2 - 1) * 2.0 ** random.integers(-12, 4, CHUNK),
            1 + (random.random(CHUNK) * 2 - 1) * 2.0 ** -random.integers(0, 20, CHUNK),
            random.random(CHUNK) * 1400 - 700,
        ]
    )
    y = np.empty_like(x)
    _apply(x, y, getattr(weft.math, name))
    with np.errstate(all="ignore"):
        exact = REFERENCES[name].doubles(x.astype(np.longdouble))
        unit = np.ldexp(1.0, np.frexp(exact.astype(np.float64))[1] - 53)
        error = (np.abs(y - exact) / unit).astype(np.float64)
    error[~np.isfinite(exact) | (np.abs(exact) < np.finfo(np.float64).tiny)] = 0.0
    error[np.isnan(error)] = INFINITY
    most = int(error.argmax())
    return float(error[most]), x[most]


def sweep(name: str, stride: int = 1) -> tuple[float, np.float32]:
    """The largest error of a function over every `stride`-th bit pattern, and the argument that has it."""
    reference = REFERENCES[name].doubles
    x, y = np.zeros(CHUNK, np.float32), np.zeros(CHUNK, np.float32)
    run = weft.compile(_apply, x, y, getattr(weft.math, name))
    steps = np.arange(CHUNK, dtype=np.uint64) * np.uint64(stride)
    worst, where = -1.0, np.float32(0)
    with np.errstate(all="ignore"):
        for first in range(0, ARGUMENTS, CHUNK * stride):
            patterns = steps + np.uint64(first)
            x = patterns[patterns < ARGUMENTS].astype(np.uint32).view(np.float32)
            y = np.empty_like(x)
            run(x, y)
            error = units_off(y, reference(x.astype(np.float64)))
            most = int(error.argmax())
            if error[most] > worst:
                worst, where = float(error[most]), x[most]
    return exact_error(name, where, worst), where


def _torch_references() -> dict[str, Callable[[Any], Any]]:
    """The same functions of torch's f64 tensors; those that torch lacks are put together."""
    import torch

    own: dict[str, Callable[[Any], Any]] = {
        "cbrt": lambda x: torch.copysign(x.abs().pow(1 / 3), x),
        "rsqrt": lambda x: 1 / x.sqrt(),
    }
    return {name: own.get(name) or getattr(torch, name) for name in REFERENCES}


def sweep_on_gpu(name: str, stride: int = 1, math: str = "fast") -> tuple[float, np.float32]:
    """As `sweep`, with the code, the reference and the comparison on the GPU, in larger pieces."""
    import torch

    reference = _torch_references()[name]
    piece = 1 << 26
    run = weft.compile[weft.MathFunctions(math)](
        _apply, *(torch.zeros(1, device="cuda") for _ in range(2)), getattr(weft.math, name)
    )
    steps = torch.arange(piece, device="cuda", dtype=torch.int64) * stride
    worst, where = -1.0, np.float32(0)
    for first in range(0, ARGUMENTS, piece * stride):
        patterns = steps + first
        x = patterns[patterns < ARGUMENTS].to(torch.int32).view(torch.float32)
        y = torch.full_like(x, torch.nan)
        run(x, y)
        error = _units_off_on_gpu(torch, y, reference(x.double()))
        most = int(error.argmax())
        if float(error[most]) > worst:
            worst, where = float(error[most]), x[most].cpu().numpy()[()]
    return worst, where


def _units_off_on_gpu(torch: Any, got: Any, exact: Any) -> Any:
    """`units_off` in torch."""
    exponent = ((exact.view(torch.int64) >> 52) & 0x7FF).clamp(min=1023 - 126)
    scale = ((2 * 1023 + 23 - exponent) << 52).view(torch.float64)
    error = (got.double() - exact).abs() * scale
    zero = (exact == 0) & (got.signbit() != exact.signbit())
    nearest = exact.float()
    alike = ((got == nearest) & ~zero) | (got.isnan() & nearest.isnan())
    overflows = got.isinf() & (exact.abs() > torch.finfo(torch.float32).max)
    finite = error.isfinite() & ~zero
    return torch.where(finite, error, torch.where(alike | overflows, 0.0, INFINITY))


def exact_error(name: str, argument: np.float32, measured: float) -> float:
    """The error for one argument as mpmath has it; what was measured where that is not a finite number."""
    if not math.isfinite(measured) or not np.isfinite(argument):
        return measured
    x, y = np.array([argument]), np.zeros(1, np.float32)
    _apply(x, y, getattr(weft.math, name))
    with mpmath.workprec(300):
        value = REFERENCES[name].exact(mpmath.mpf(float(argument)))
        if not isinstance(value, mpmath.mpf) or not np.isfinite(y[0]):
            return measured
        exponent = max(mpmath.frexp(value)[1] - 24, -149) if value else -149
        return float(abs(mpmath.mpf(float(y[0])) - value) / mpmath.mpf(2) ** exponent)


def main() -> int:
    """Sweeps the functions that the command line names, or all; 1 if a promise is broken."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", choices=[[], *REFERENCES], help="default: all")
    parser.add_argument("--stride", type=int, default=1, help="take every n-th argument")
    parser.add_argument("--f64", action="store_true", help="sample f64 (not erf)")
    parser.add_argument("--gpu", action="store_true", help="sweep the GPU's code (needs torch)")
    parser.add_argument(
        "--fast", action="store_true", help="its functions of --math fast, the default"
    )
    arguments = parser.parse_args()
    if arguments.f64 and np.finfo(np.longdouble).nmant <= np.finfo(np.float64).nmant:
        parser.error("--f64 needs a machine whose long double is wider than double")
    if arguments.fast and not arguments.gpu:
        parser.error("--fast is about a GPU's code; add --gpu")
    bounds, fast, broken = promised(), promised_fast(), False
    known = [name for name in REFERENCES if name in fast or not arguments.fast]
    names = arguments.names or [name for name in known if name != "erf" or not arguments.f64]
    for name in names:
        start = time.monotonic()
        if arguments.f64:
            worst, where = sample(name)
        elif arguments.gpu:
            kind = "fast" if arguments.fast else "portable"
            worst, where = sweep_on_gpu(name, arguments.stride, kind)
        else:
            worst, where = sweep(name, arguments.stride)
        bound = bounds[name]["f64" if arguments.f64 else "f32"]
        bound = ON_A_GPU.get(name, bound) if arguments.gpu else bound
        bound = fast.get(name, bound) if arguments.fast else bound
        verdict = "" if worst <= bound else f"  ABOVE the bound {bound}"
        broken |= worst > bound
        seconds = time.monotonic() - start
        print(f"{name:6} {worst:.4f} ulp at {where!s} ({seconds:.0f} s){verdict}", flush=True)
    return int(broken)


if __name__ == "__main__":
    sys.exit(main())
