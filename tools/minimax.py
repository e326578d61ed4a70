# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: E501  the table's rows are formulas
"""Polynomials of the math library: minimax coefficients by Remez's exchange, printed as Python floats.

In: the table below (function, interval, weight, degree). Out: the coefficients that the modules of
src/weft/codegen/math_library hold, highest power first, with the relative error. Needs mpmath.

    python tools/minimax.py [name ...]
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import mpmath as mp

if TYPE_CHECKING:
    from collections.abc import Callable

mp.mp.dps = 60
Number = mp.mpf
Function = "Callable[[Number], Number]"


def remez(
    function: Callable[[Number], Number],
    weight: Callable[[Number], Number],
    low: Number,
    high: Number,
    degree: int,
) -> tuple[list[Number], Number]:
    """The polynomial p for which the largest weight(x) * |p(x) - function(x)| is smallest."""
    count = degree + 2
    nodes = [
        (low + high) / 2 + (high - low) / 2 * mp.cos(mp.pi * (count - 1 - k) / (count - 1))
        for k in range(count)
    ]
    coefficients: list[Number] = []
    level = mp.mpf(0)
    for _ in range(12):
        matrix, right = mp.matrix(count, count), mp.matrix(count, 1)
        for row, x in enumerate(nodes):
            for power in range(degree + 1):
                matrix[row, power] = x**power
            matrix[row, degree + 1] = (-1) ** row / weight(x)
            right[row] = function(x)
        solution = mp.lu_solve(matrix, right)
        coefficients = [solution[power] for power in range(degree + 1)]
        level = abs(solution[degree + 1])

        def error(x: Number, c: list[Number] = coefficients) -> Number:
            return weight(x) * (mp.polyval(c[::-1], x) - function(x))

        grid = [low + (high - low) * k / (40 * count) for k in range(40 * count + 1)]
        values = [error(x) for x in grid]
        peaks: list[tuple[Number, Number]] = []
        for x, value in zip(grid, values, strict=True):
            if peaks and mp.sign(peaks[-1][1]) == mp.sign(value):
                if abs(value) > abs(peaks[-1][1]):
                    peaks[-1] = (x, value)
            else:
                peaks.append((x, value))
        if len(peaks) < count:
            break
        while len(peaks) > count:
            peaks.pop(0 if abs(peaks[0][1]) < abs(peaks[-1][1]) else -1)
        nodes = [x for x, _ in peaks]
        if max(abs(v) for _, v in peaks) < level * mp.mpf("1.01"):
            break
    return coefficients[::-1], level


def series(function: Callable[[Number], Number], at_zero: Number) -> Callable[[Number], Number]:
    """The function, with a limit at 0."""
    return lambda z: at_zero if abs(z) < mp.mpf("1e-15") else function(z)


ONE = mp.mpf(1)
HALF_LN2 = mp.log(2) / 2
SQRT_HALF = mp.sqrt(mp.mpf(1) / 2)
QUARTER_PI = mp.pi / 4
EIGHTH = mp.tan(mp.pi / 8)
TINY = mp.mpf("1e-9")


def _odd(function: Callable[[Number], Number], limit: Number) -> Callable[[Number], Number]:
    """(f(x) - x) / x**3 as a function of z = x**2."""
    return series(lambda z: (function(mp.sqrt(z)) - mp.sqrt(z)) / mp.sqrt(z) ** 3, limit)


def _odd_weight(function: Callable[[Number], Number]) -> Callable[[Number], Number]:
    """Turns the error of that into the relative error of f."""
    return lambda z: max(z, TINY) * mp.sqrt(max(z, TINY)) / function(mp.sqrt(max(z, TINY)))


def _erf_scaled(z: Number) -> Number:
    return mp.erf(mp.sqrt(z)) / mp.sqrt(z)


def _erfc_exponent(x: Number) -> Number:
    return -mp.log(mp.erfc(x))


# name: (function of z, weight, low, high, degree)
POLYNOMIALS = {
    # exp(r) = 1 + r + r**2 q(r)
    "exp.f32": (series(lambda r: (mp.exp(r) - 1 - r) / r**2, ONE / 2), lambda r: HALF_LN2**2, -HALF_LN2 * 1.01, HALF_LN2 * 1.01, 4),
    "exp.f64": (series(lambda r: (mp.exp(r) - 1 - r) / r**2, ONE / 2), lambda r: HALF_LN2**2, -HALF_LN2 * 1.01, HALF_LN2 * 1.01, 9),
    # log(1 + f) = f - f**2 / 2 + f**3 p(f)
    "log.f32": (series(lambda f: (mp.log1p(f) - f + f * f / 2) / f**3, ONE / 3), lambda f: f**2 + TINY, SQRT_HALF - 1, mp.sqrt(2) - 1, 8),
    # log(1 + f) = 2 s + s z r(z), s = f / (2 + f), z = s**2
    "log.f64": (series(lambda z: (2 * mp.atanh(mp.sqrt(z)) - 2 * mp.sqrt(z)) / mp.sqrt(z) ** 3, 2 * ONE / 3), lambda z: z + TINY, mp.mpf(0), mp.mpf("0.02944"), 6),
    # log(1 + f) = 2 s + s z (2/3 + z t(z))
    "pow.f64": (series(lambda z: ((2 * mp.atanh(mp.sqrt(z)) - 2 * mp.sqrt(z)) / mp.sqrt(z) ** 3 - 2 * ONE / 3) / z, 2 * ONE / 5), lambda z: ONE, mp.mpf(0), mp.mpf("0.02944"), 8),
    "sin.f32": (_odd(mp.sin, -ONE / 6), _odd_weight(mp.sin), mp.mpf(0), QUARTER_PI**2 * 1.01, 3),
    "sin.f64": (_odd(mp.sin, -ONE / 6), _odd_weight(mp.sin), mp.mpf(0), QUARTER_PI**2 * 1.01, 6),
    # cos(r) = 1 - z / 2 + z**2 c(z)
    "cos.f32": (series(lambda z: (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z**2, ONE / 24), lambda z: z**2 + TINY, mp.mpf(0), QUARTER_PI**2 * 1.01, 2),
    "cos.f64": (series(lambda z: (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z**2, ONE / 24), lambda z: z**2 + TINY, mp.mpf(0), QUARTER_PI**2 * 1.01, 6),
    "tan.f32": (_odd(mp.tan, ONE / 3), _odd_weight(mp.tan), mp.mpf(0), QUARTER_PI**2 * 1.01, 6),
    "tan.f64": (_odd(mp.tan, ONE / 3), _odd_weight(mp.tan), mp.mpf(0), QUARTER_PI**2 * 1.01, 15),
    "asin.f32": (_odd(mp.asin, ONE / 6), _odd_weight(mp.asin), mp.mpf(0), mp.mpf("0.2501"), 5),
    "asin.f64": (_odd(mp.asin, ONE / 6), _odd_weight(mp.asin), mp.mpf(0), mp.mpf("0.2501"), 12),
    "atan.f32": (_odd(mp.atan, -ONE / 3), _odd_weight(mp.atan), mp.mpf(0), EIGHTH**2 * 1.01, 4),
    "atan.f64": (_odd(mp.atan, -ONE / 3), _odd_weight(mp.atan), mp.mpf(0), EIGHTH**2 * 1.01, 11),
    # fast functions, on a longer interval or for a logarithm
    "atan.fast": (_odd(mp.atan, -ONE / 3), _odd_weight(mp.atan), mp.mpf(0), ONE, 7),
    "atanh.fast": (series(lambda z: (mp.atanh(mp.sqrt(z)) - mp.sqrt(z)) / mp.sqrt(z) ** 3, ONE / 3), lambda z: z + TINY, mp.mpf(0), mp.mpf("0.02944"), 3),
    "tanh.f32": (_odd(mp.tanh, -ONE / 3), _odd_weight(mp.tanh), mp.mpf(0), mp.mpf("0.391"), 5),
    "tanh.f64": (_odd(mp.tanh, -ONE / 3), _odd_weight(mp.tanh), mp.mpf(0), mp.mpf("0.391"), 13),
    # erf(x) = x e(z) below 1; erfc(x) = exp(-q(x)) above
    "erf.f32": (series(_erf_scaled, 2 / mp.sqrt(mp.pi)), lambda z: 1 / (_erf_scaled(z) if z else ONE), mp.mpf(0), ONE, 6),
    "erf.f64": (series(_erf_scaled, 2 / mp.sqrt(mp.pi)), lambda z: 1 / (_erf_scaled(z) if z else ONE), mp.mpf(0), ONE, 12),
    "erfc_exponent.f32": (_erfc_exponent, mp.erfc, ONE, mp.mpf(4), 7),
    "erfc_exponent.f64": (_erfc_exponent, mp.erfc, ONE, mp.mpf(6), 19),
    # cbrt of m in [1, 8): a start for Newton's method
    "cbrt": (mp.cbrt, lambda m: 1 / mp.cbrt(m), ONE, mp.mpf(2), 3),
}  # fmt: skip


def main(names: list[str]) -> None:
    """Prints the polynomials with these names, or all."""
    for name in names or POLYNOMIALS:
        function, weight, low, high, degree = POLYNOMIALS[name]
        coefficients, error = remez(function, weight, low, high, degree)
        print(f"{name}: relative error 2**{float(mp.log(error, 2)):.1f}")
        for coefficient in coefficients:
            print(f"    {float(coefficient)!r},")


if __name__ == "__main__":
    main(sys.argv[1:])
