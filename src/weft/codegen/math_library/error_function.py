# SPDX-License-Identifier: Apache-2.0
"""erf: a polynomial below 1, one minus the exponential of a polynomial above.

In: a float. Out: at most 2 ulp off. Polynomials: tools/minimax.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from weft.codegen.math_library.exponential import KINDS
from weft.codegen.math_library.formula import Formula

if TYPE_CHECKING:
    from weft.codegen.llvm.module_printer import LibraryEntry, ModulePrinter

# erf(x) = x + x e(x**2) for |x| < 1; the last coefficient is 2 / sqrt(π) - 1.
ERF: Final = {
    "f32": (
        7.858105096131244e-05,
        -0.0008011593438376583,
        0.005188505505453938,
        -0.026853920474421162,
        0.11283588369785875,
        -0.3761262623299732,
        0.1283791658734803,
    ),
    "f64": (
        5.946253618359215e-11,
        -1.1366296267209922e-09,
        1.4658056120126356e-08,
        -1.6350053745997377e-07,
        1.646097576963756e-06,
        -1.4925593711006097e-05,
        0.00012055331046448607,
        -0.0008548326979042036,
        0.005223977624787003,
        -0.02686617064507367,
        0.11283791670954862,
        -0.3761263890318375,
        0.12837916709551257,
    ),
}
# erfc(x) = exp(-q(x)) for 1 ≤ x ≤ 4 (f64: 6)
ERFC_EXPONENT: Final = {
    "f32": (
        2.1686712622209525e-05,
        -0.0004413346746931791,
        0.004204552993488472,
        -0.025208231477891405,
        0.10841853502721104,
        0.6332199348086248,
        1.1295784018291641,
        -0.00018803515181415795,
    ),
    "f64": (
        1.7715529157363948e-13,
        -8.873162153562464e-12,
        2.0935231962117592e-10,
        -3.092804405813393e-09,
        3.205453628610126e-08,
        -2.471937330656904e-07,
        1.4648151626179991e-06,
        -6.764286034373721e-06,
        2.4215984302629957e-05,
        -6.459392811360525e-05,
        0.000110432608674576,
        -2.1413153096382485e-05,
        -0.0005531706417407058,
        0.001675842964485909,
        -0.0002030509838376695,
        -0.019127558062339924,
        0.10277058088874182,
        0.6366208131077503,
        1.1283788992391384,
        2.9411499540387755e-08,
    ),
}
LARGEST_ERF: Final = {"f32": 4.0, "f64": 6.0}


def _erf(name: str) -> LibraryEntry:
    def entry(module: ModulePrinter) -> str:
        f = Formula(module, f"erf.{name}", KINDS[name], KINDS[name])
        (x,) = f.arguments
        a = f.fabs(x)
        small = f.fma(a, f.horner(f.mul(a, a), ERF[name]), a)
        capped = f.select(f.compare("ogt", a, LARGEST_ERF[name]), LARGEST_ERF[name], a)
        exponent = f.neg(f.horner(capped, ERFC_EXPONENT[name]))
        large = f.sub(1.0, f.library("exp", exponent))
        return f.finish(f.copysign(f.select(f.compare("olt", a, 1.0), small, large), x))

    return entry


ERROR_FUNCTION: dict[str, LibraryEntry] = {f"erf.{name}": _erf(name) for name in KINDS}
