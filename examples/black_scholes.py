# SPDX-License-Identifier: Apache-2.0
"""Prices European options by the Black-Scholes formula: transcendental functions and a helper.

Shapes: `spot`, `strike`, `years`, `call` and `put` have n float32 elements; rate and volatility are
scalars. The cumulative normal distribution is the polynomial of Abramowitz and Stegun 26.2.17
(error below 7.5e-8). It is a plain Python function: a kernel that calls one gets its body.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np

import weft
from examples.common import Arguments, Arrays, Example, show

COEFFICIENTS = (0.319381530, -0.356563782, 1.781477937, -1.821255978, 1.330274429)
INVERSE_SQRT_2PI = 0.3989422804014327


def cumulative_normal(x):
    """The probability that a normally distributed number is at most x."""
    t = 1.0 / (1.0 + 0.2316419 * abs(x))
    polynomial = 0.0
    for coefficient in COEFFICIENTS[::-1]:  # a compile-time sequence: the loop unrolls
        polynomial = (polynomial + coefficient) * t
    tail = INVERSE_SQRT_2PI * weft.math.exp(-0.5 * x * x) * polynomial
    return 1.0 - tail if x >= 0.0 else tail


@weft.kernel
def black_scholes_kernel(
    spot: weft.Tensor,
    strike: weft.Tensor,
    years: weft.Tensor,
    call: weft.Tensor,
    put: weft.Tensor,
    rate: weft.f32,
    volatility: weft.f32,
):
    """Price one call and one put option per iteration."""
    for i in weft.each(spot.shape[0]):
        s, k, t = spot[i], strike[i], years[i]
        deviation = volatility * weft.math.sqrt(t)
        d1 = (weft.math.log(s / k) + (rate + 0.5 * volatility * volatility) * t) / deviation
        d2 = d1 - deviation
        discounted = k * weft.math.exp(-rate * t)
        below_d1, below_d2 = cumulative_normal(d1), cumulative_normal(d2)
        call[i] = s * below_d1 - discounted * below_d2
        put[i] = discounted * (1.0 - below_d2) - s * (1.0 - below_d1)


Vector = Annotated[
    weft.Tensor, weft.Tensor[weft.f32, ("n",)]
]  # mypy takes this one as an alias, too


@weft.jit
def black_scholes(
    spot: Vector,
    strike: Vector,
    years: Vector,
    call: Vector,
    put: Vector,
    rate: weft.f32 = 0.02,
    volatility: weft.f32 = 0.3,
):
    """Write the prices of n call and n put options."""
    black_scholes_kernel(spot, strike, years, call, put, rate, volatility).launch(
        over=spot.shape[0]
    )


def make_arguments(n: int) -> Arguments:
    """Options with spot 5 to 30, strike 1 to 100, up to ten years."""
    random = np.random.default_rng(3)

    def uniform(low: float, high: float) -> np.ndarray:
        return (low + (high - low) * random.random(n, dtype=np.float32)).astype(np.float32)

    return {
        "spot": uniform(5, 30),
        "strike": uniform(1, 100),
        "years": uniform(0.25, 10),
        "call": np.empty(n, np.float32),
        "put": np.empty(n, np.float32),
        "rate": 0.02,
        "volatility": 0.3,
    }


def fake_arguments():
    """Five vectors of one length and two numbers."""
    n = weft.sym("n")
    return *(weft.fake_tensor(weft.f32, (n,)) for _ in range(5)), 0.02, 0.3


def _numpy_cumulative_normal(x: np.ndarray) -> np.ndarray:
    t = np.float32(1) / (np.float32(1) + np.float32(0.2316419) * np.abs(x))
    polynomial = np.zeros_like(x)
    for coefficient in COEFFICIENTS[::-1]:
        polynomial = (polynomial + np.float32(coefficient)) * t
    tail = np.float32(INVERSE_SQRT_2PI) * np.exp(np.float32(-0.5) * x * x) * polynomial
    result: np.ndarray = np.where(x >= 0, np.float32(1) - tail, tail)
    return result


def reference(
    spot: np.ndarray,
    strike: np.ndarray,
    years: np.ndarray,
    call: np.ndarray,
    put: np.ndarray,
    rate: float,
    volatility: float,
) -> Arrays:
    """What NumPy says, in float32 too."""
    rate32, volatility32 = np.float32(rate), np.float32(volatility)
    deviation = volatility32 * np.sqrt(years)
    drift = rate32 + np.float32(0.5) * volatility32 * volatility32
    d1 = (np.log(spot / strike) + drift * years) / deviation
    d2 = d1 - deviation
    discounted = strike * np.exp(-rate32 * years)
    below_d1, below_d2 = _numpy_cumulative_normal(d1), _numpy_cumulative_normal(d2)
    one = np.float32(1)
    return {
        "call": spot * below_d1 - discounted * below_d2,
        "put": discounted * (one - below_d2) - spot * (one - below_d1),
    }


EXAMPLE = Example(
    name="black_scholes",
    function=black_scholes,
    make_arguments=make_arguments,
    fake_arguments=fake_arguments,
    reference=reference,
    describe=lambda n: f"{n:,} options",
    size=1 << 20,
    test_size=1003,
    tolerance=2e-5,  # prices up to 100, where one unit in the last place of a float32 is 7.6e-6
    instructions=("fma.rn.f32", "sqrt.rn.f32", "div.rn.f32"),
)

if __name__ == "__main__":
    show(EXAMPLE)
