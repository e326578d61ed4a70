# SPDX-License-Identifier: Apache-2.0
"""sin, cos, tan: polynomials on |r| ≤ π/4, chosen by the quadrant.

In: a float of any size. Out: at most 2 ulp off; infinity gives NaN. Polynomials: tools/minimax.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from weft.codegen.math_library.exponential import KINDS
from weft.codegen.math_library.formula import Formula
from weft.codegen.math_library.range_reduction import reduced

if TYPE_CHECKING:
    from weft.codegen.llvm.module_printer import LibraryEntry, ModulePrinter

# sin(r) = r + r z s(z), z = r**2
_S: Final = {
    "f32": (
        2.7177482545486014e-06,
        -0.00019839273252492975,
        0.008333329184262337,
        -0.16666666639763883,
    ),
    "f64": (
        -7.577853706102755e-13,
        1.605834945047956e-10,
        -2.505210477529843e-08,
        2.755731921366008e-06,
        -0.00019841269841254028,
        0.008333333333333321,
        -0.16666666666666666,
    ),
}
# cos(r) = 1 - z / 2 + z**2 c(z)
_C: Final = {
    "f32": (2.4434853897810435e-05, -0.0013887337320470233, 0.04166664627970125),
    "f64": (
        4.7377185797726236e-14,
        -1.1470284687522302e-11,
        2.087675429130271e-09,
        -2.755731921504709e-07,
        2.480158730157074e-05,
        -0.0013888888888888874,
        0.041666666666666664,
    ),
}
# tan(r) = r + r z t(z)
_T: Final = {
    "f32": (
        0.00443055914392125,
        -1.8068665565585135e-05,
        0.010918674688148606,
        0.021251038598464344,
        0.054065782311366474,
        0.13332613117110306,
        0.33333351166617553,
    ),
    "f64": (
        4.6433439991406e-06,
        -1.3097355970072516e-05,
        2.6864102596026993e-05,
        -1.9777445882662075e-05,
        3.545601530717022e-05,
        2.8817558584079916e-05,
        0.00010102882059596443,
        0.000237931520970372,
        0.0005902850666811663,
        0.0014557939038738498,
        0.0035921325829721897,
        0.008863235177693303,
        0.02186948855396087,
        0.053968253967717185,
        0.13333333333334155,
        0.3333333333333333,
    ),
}


def _has_bit(f: Formula, quadrant: str, bit: int) -> str:
    return f.integer_op("icmp ne", f.integer_op("and", quadrant, bit), 0)


def _sine_or_cosine(stem: str, name: str) -> LibraryEntry:
    """cos(x) is sin one quadrant later."""

    def entry(module: ModulePrinter) -> str:
        f = Formula(module, f"{stem}.{name}", KINDS[name], KINDS[name])
        (x,) = f.arguments
        r, quadrant = reduced(f, x)
        if stem == "cos":
            quadrant = f.integer_op("add", quadrant, 1)
        z = f.mul(r, r)
        sine = f.fma(f.mul(r, z), f.horner(z, _S[name]), r)
        cosine = f.fma(f.mul(z, z), f.horner(z, _C[name]), f.fma(z, -0.5, 1.0))
        value = f.select(_has_bit(f, quadrant, 1), cosine, sine)
        value = f.select(_has_bit(f, quadrant, 2), f.neg(value), value)
        if stem == "sin":
            value = f.select(f.compare("oeq", x, 0.0), x, value)
        return f.finish(value)

    return entry


def _tangent(name: str) -> LibraryEntry:
    """tan in even quadrants, -1 / tan in odd ones."""

    def entry(module: ModulePrinter) -> str:
        f = Formula(module, f"tan.{name}", KINDS[name], KINDS[name])
        (x,) = f.arguments
        r, quadrant = reduced(f, x)
        z = f.mul(r, r)
        cube, polynomial = f.mul(r, z), f.horner(z, _T[name])
        tangent = f.fma(cube, polynomial, r)
        # -1 / tangent, with one Newton step that corrects the tangent's rounding error.
        inverse = f.div(-1.0, tangent)
        lost = f.fma(cube, polynomial, f.sub(r, tangent))
        error = f.fma(inverse, lost, f.fma(inverse, tangent, 1.0))
        cotangent = f.fma(inverse, error, inverse)
        value = f.select(_has_bit(f, quadrant, 1), cotangent, tangent)
        return f.finish(f.select(f.compare("oeq", x, 0.0), x, value))

    return entry


TRIGONOMETRIC: dict[str, LibraryEntry] = {
    **{f"{stem}.{name}": _sine_or_cosine(stem, name) for stem in ("sin", "cos") for name in KINDS},
    **{f"tan.{name}": _tangent(name) for name in KINDS},
}
