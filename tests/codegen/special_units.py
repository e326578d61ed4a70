# SPDX-License-Identifier: Apache-2.0
"""A GPU's special function units on the CPU, with the errors that the PTX ISA allows them.

In: how far each result is from the correctly rounded one. Out: kernels of IR text that use fast functions on such
units. `choices` are all possible results of `ex2` and `rcp`, and the ends and the middle of `rsqrt`'s.

    python -m tests.codegen.special_units [name ...]

prints the largest error of each function of one argument over all of them, and where it is.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import numpy as np

from tests.codegen.kernel_runner import CpuKernel, apply, elementwise
from tools.sweep_math import REFERENCES, units_off
from weft.backends.cpu import stages
from weft.backends.cuda.fast_math import FAST
from weft.codegen.llvm.module_printer import ModulePrinter
from weft.codegen.math_library.formula import Formula

if TYPE_CHECKING:
    from weft.backends.host import HostMachine
    from weft.codegen.llvm.module_printer import LibraryEntry, Target

# "2 ulp from correctly rounded result" (ex2), "1" ulp (rcp), 2**-22.9 in relative terms (rsqrt).
EX2 = (-2, -1, 0, 1, 2)
RCP = (-1, 1)
RSQRT = (-1, 0, 1)
RSQRT_ERROR = 2.0**-22.9
# function → units that it uses
USES: dict[str, tuple[str, ...]] = {
    "exp": ("ex2",),
    "exp2": ("ex2",),
    "log1p": ("rcp",),
    "tanh": ("ex2", "rcp"),
    "erf": ("ex2",),
    "asin": ("rsqrt",),
    "acos": ("rsqrt",),
    "atan": ("rcp",),
    "atan2": ("rcp",),
    "powf": ("ex2", "rcp"),
}


def choices(name: str) -> list[dict[str, int]]:
    """All combinations of the errors of a function's units."""
    found: list[dict[str, int]] = [{}]
    for unit in USES[name]:
        steps = {"ex2": EX2, "rcp": RCP, "rsqrt": RSQRT}[unit]
        found = [{**one, unit: step} for one in found for step in steps]
    return found


def _entry(name: str, count: int, exact: Any, finish: Any) -> LibraryEntry:
    """A unit: `exact` of doubles, rounded to a float, changed by `finish`; subnormal numbers become 0."""

    def entry(module: ModulePrinter) -> str:
        f = Formula(module, f"{name}.f32", "float", *("float",) * count)
        arguments = [_flushed(f, x) for x in f.arguments]
        wide = Formula(module, "", "double", kind="double")
        wide.share(f)
        value = exact(wide, *(f.let(f"fpext float {x} to double") for x in arguments))
        rounded = finish(f, wide, value, f.let(f"fptrunc double {value} to float"))
        return f.finish(_flushed(f, rounded))

    return entry


def _flushed(f: Formula, x: str) -> str:
    tiny = f.compare("olt", f.fabs(x), 2.0**-126)
    return f.select(tiny, f.copysign(0.0, x), x)


def _by_units(units_off: int) -> Any:
    """So many units in the last place of the exact value away; exact where that is 1, as the ISA lists it for 2**±0."""

    def finish(f: Formula, wide: Formula, value: str, rounded: str) -> str:
        power = wide.integer_op("and", wide.bits(value), 0x7FF0000000000000)
        unit = wide.call("llvm.maxnum", wide.mul(wide.from_bits(power), 2.0**-23), 2.0**-149)
        back = f.let(f"fpext float {rounded} to double")
        moved = f.let(f"fptrunc double {wide.fma(unit, float(units_off), back)} to float")
        moved = f.select(f.compare("olt", moved, 0.0), 0.0, moved)
        keeps = wide.compare("oeq", value, 1.0)
        keeps = f.let(f"or i1 {keeps}, {wide.compare('ult', value, 2.0**-150)}")
        keeps = f.let(f"or i1 {keeps}, {wide.compare('uge', value, 2.0**128)}")
        return f.select(keeps, rounded, moved)

    return finish


def _neighbor(direction: int) -> Any:
    """The float next to the exact value, below it in magnitude or above."""

    def finish(f: Formula, wide: Formula, value: str, rounded: str) -> str:
        magnitude = f.fabs(rounded)
        back = f.let(f"fpext float {magnitude} to double")
        beyond = wide.compare("ogt" if direction < 0 else "olt", back, wide.fabs(value))
        step = f.let(f"select i1 {beyond}, i32 {direction}, i32 0")
        moved = f.from_bits(f.integer_op("add", f.bits(magnitude), step))
        is_finite = f.compare("olt", magnitude, float("inf"))
        return f.select(is_finite, f.copysign(moved, rounded), rounded)

    return finish


def _plain(_f: Formula, _wide: Formula, _value: str, rounded: str) -> str:
    return rounded


def _fma_down(module: ModulePrinter) -> str:
    """Exact in doubles for the arguments of `exp`; the result is an integer."""
    f = Formula(module, "unit.fma_down.f32", "float", "float", "float", "float")
    wide = Formula(module, "", "double", kind="double")
    wide.share(f)
    a, b, c = (f.let(f"fpext float {x} to double") for x in f.arguments)
    floor = wide.call("llvm.floor", wide.add(wide.mul(a, b), c))
    return f.finish(f.let(f"fptrunc double {floor} to float"))


def _fma_saturated(module: ModulePrinter) -> str:
    f = Formula(module, "unit.fma_saturated.f32", "float", "float", "float", "float")
    value = f.fma(*f.arguments)
    positive = f.select(f.compare("ogt", value, 0.0), value, 0.0)
    return f.finish(f.select(f.compare("ogt", positive, 1.0), 1.0, positive))


def units(ex2: int = 0, rcp: int = 1, rsqrt: int = 0) -> dict[str, LibraryEntry]:
    """The units with these errors."""

    def two_to(wide: Formula, x: str) -> str:
        return wide.library("exp2", x)

    def root(wide: Formula, x: str) -> str:
        return wide.mul(wide.div(1.0, wide.sqrt(x)), 1.0 + rsqrt * RSQRT_ERROR)

    return {
        "unit.ex2.f32": _entry("unit.ex2", 1, two_to, _by_units(ex2)),
        "unit.rcp.f32": _entry("unit.rcp", 1, lambda wide, x: wide.div(1.0, x), _neighbor(rcp)),
        "unit.rsqrt.f32": _entry("unit.rsqrt", 1, root, _plain),
        "unit.fma_down.f32": _fma_down,
        "unit.fma_saturated.f32": _fma_saturated,
    }


def fast_kernel(text: str, errors: dict[str, int], machine: HostMachine | None = None) -> CpuKernel:
    """A kernel of IR text compiled for the CPU with fast functions on these units."""

    def printer(target: Target, *others: Any) -> ModulePrinter:
        rows, symbols, library, debug = others
        made = ModulePrinter(target, rows, symbols, {**library, **FAST, **units(**errors)}, debug)
        made.fast_math = True
        return made

    with patch.object(stages, "ModulePrinter", printer):
        return CpuKernel(text, machine)


# Where a function differs from its argument and its limit; the odd ones are swept on one side.
_RANGES = {
    "log1p": [(2.0**-25, 2.0**25), (-(2.0**-25), -1.0)],
    "erf": [(2.0**-13, 4.1)],
    "asin": [(2.0**-13, 1.0)],
    "acos": [(2.0**-26, 1.0), (-(2.0**-26), -1.0)],
    "atan": [(2.0**-13, 2.0**26)],
    "tanh": [(2.0**-13, 10.0)],
    "exp": [(2.0**-25, 90.0), (-(2.0**-25), -105.0)],
    "exp2": [(2.0**-26, 129.0), (-(2.0**-26), -151.0)],
}


def worst_error(name: str, stride: int = 1) -> tuple[float, float, dict[str, int]]:
    """The largest error over a function's range, its argument, and what the units did."""
    text = elementwise(f"%r = math.{name} %v0 : f32", ["f32"], "f32")
    kernels = [(errors, fast_kernel(text, errors)) for errors in choices(name)]
    worst: tuple[float, float, dict[str, int]] = (-1.0, 0.0, {})
    for ends in _RANGES[name]:
        first, last = (int(np.float32(end).view(np.uint32)) for end in ends)
        for start in range(first, last + 1, stride << 20):
            patterns = np.arange(start, min(last + 1, start + (stride << 20)), stride, np.uint32)
            x = patterns.view(np.float32)
            exact = REFERENCES[name].doubles(x.astype(np.float64))
            for errors, kernel in kernels:
                error = units_off(apply(kernel, np.float32, x), exact)
                most = int(error.argmax())
                if not error[most] <= worst[0]:
                    worst = (float(error[most]), float(x[most]), errors)
    return worst


if __name__ == "__main__":
    for function in sys.argv[1:] or _RANGES:
        largest, argument, made = worst_error(function)
        print(f"{function:6} {largest:.4f} ulp at {argument!r}, with {made}", flush=True)
