# SPDX-License-Identifier: Apache-2.0
"""sinh, cosh, tanh and their inverses, from exp, expm1 and log1p.

In: a float. Out: at most 3 ulp off (cosh, tanh, asinh and atanh 2). Polynomials: tools/minimax.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from weft.codegen.math_library.exponential import KINDS, exp_scaled
from weft.codegen.math_library.formula import Formula

if TYPE_CHECKING:
    from weft.codegen.llvm.module_printer import LibraryEntry, ModulePrinter

# tanh(x) = x + x z t(z), z = x**2, |x| ≤ 0.625
TANH: Final = {
    "f32": (
        0.002141998108365348,
        -0.008176401940833583,
        0.021700325536003047,
        -0.05394669910414351,
        0.1333320554232322,
        -0.3333333079174565,
    ),
    "f64": (
        8.532847682596374e-07,
        -4.599588012137014e-06,
        1.4628363980267873e-05,
        -3.865557002002752e-05,
        9.670128767552932e-05,
        -0.00023907590709407365,
        0.0005900178507043133,
        -0.0014558331424652136,
        0.003592127922411973,
        -0.008863235522738589,
        0.021869488535863613,
        -0.05396825396824692,
        0.13333333333333325,
        -0.3333333333333333,
    ),
}
TANH_BOUNDARY: Final = 0.625
_LN2: Final = 0.6931471805599453
# Beyond it a square would overflow, and adding 1 no longer matters.
_LARGE: Final = {"f32": 2.0**28, "f64": 2.0**500}


def _tanh(name: str) -> LibraryEntry:
    def entry(module: ModulePrinter) -> str:
        f = Formula(module, f"tanh.{name}", KINDS[name], KINDS[name])
        (x,) = f.arguments
        a = f.fabs(x)
        z = f.mul(a, a)
        small = f.fma(f.mul(a, z), f.horner(z, TANH[name]), a)
        power = f.library("exp", f.add(a, a))
        large = f.sub(1.0, f.div(2.0, f.add(power, 1.0)))
        return f.finish(f.copysign(f.select(f.compare("olt", a, TANH_BOUNDARY), small, large), x))

    return entry


def _sinh(name: str) -> LibraryEntry:
    def entry(module: ModulePrinter) -> str:
        f = Formula(module, f"sinh.{name}", KINDS[name], KINDS[name])
        (x,) = f.arguments
        a = f.fabs(x)
        e = f.library("expm1", a)
        small = f.mul(f.add(e, f.div(e, f.add(e, 1.0))), 0.5)
        half = exp_scaled(f, a, -1)
        large = f.sub(half, f.div(0.25, half))
        return f.finish(f.copysign(f.select(f.compare("olt", a, 1.0), small, large), x))

    return entry


def _cosh(name: str) -> LibraryEntry:
    def entry(module: ModulePrinter) -> str:
        f = Formula(module, f"cosh.{name}", KINDS[name], KINDS[name])
        half = exp_scaled(f, f.fabs(f.arguments[0]), -1)
        return f.finish(f.add(half, f.div(0.25, half)))

    return entry


def _asinh(name: str) -> LibraryEntry:
    """log(a + sqrt(a**2 + 1)), without cancellation near 0 and without overflow."""

    def entry(module: ModulePrinter) -> str:
        f = Formula(module, f"asinh.{name}", KINDS[name], KINDS[name])
        (x,) = f.arguments
        a = f.fabs(x)
        square = f.mul(a, a)
        root = f.add(f.sqrt(f.add(square, 1.0)), 1.0)
        is_large = f.compare("ogt", a, _LARGE[name])
        argument = f.select(is_large, a, f.add(a, f.div(square, root)))
        extra = f.select(is_large, _LN2, 0.0)
        value = f.add(f.library("log1p", argument), extra)
        return f.finish(f.copysign(value, x))

    return entry


def _acosh(name: str) -> LibraryEntry:
    """log(x + sqrt(x**2 - 1)) through t = x - 1."""

    def entry(module: ModulePrinter) -> str:
        f = Formula(module, f"acosh.{name}", KINDS[name], KINDS[name])
        (x,) = f.arguments
        t = f.sub(x, 1.0)
        root = f.sqrt(f.fma(t, t, f.add(t, t)))
        is_large = f.compare("ogt", x, _LARGE[name])
        argument = f.select(is_large, x, f.add(t, root))
        extra = f.select(is_large, _LN2, 0.0)
        value = f.add(f.library("log1p", argument), extra)
        return f.finish(f.select(f.compare("olt", x, 1.0), float("nan"), value))

    return entry


def _atanh(name: str) -> LibraryEntry:
    """log((1 + a) / (1 - a)) / 2; both forms of log1p's argument are exact where used."""

    def entry(module: ModulePrinter) -> str:
        f = Formula(module, f"atanh.{name}", KINDS[name], KINDS[name])
        (x,) = f.arguments
        a = f.fabs(x)
        twice, rest = f.add(a, a), f.sub(1.0, a)
        quotient = f.div(f.select(f.compare("olt", a, 0.5), f.mul(twice, a), twice), rest)
        argument = f.select(f.compare("olt", a, 0.5), f.add(twice, quotient), quotient)
        return f.finish(f.copysign(f.mul(f.library("log1p", argument), 0.5), x))

    return entry


HYPERBOLIC: dict[str, LibraryEntry] = {
    f"{stem}.{name}": make(name)
    for stem, make in (
        ("tanh", _tanh),
        ("sinh", _sinh),
        ("cosh", _cosh),
        ("asinh", _asinh),
        ("acosh", _acosh),
        ("atanh", _atanh),
    )
    for name in KINDS
}
