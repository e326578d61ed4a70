# SPDX-License-Identifier: Apache-2.0
"""The list of the examples, in the order in which they are worth reading.

In: nothing. Out: `EXAMPLES`, which the demo, the tests and the benchmarks walk through. Next: demo.
"""

from __future__ import annotations

from examples import (
    add_one,
    black_scholes,
    box_blur,
    histogram,
    mandelbrot,
    matmul,
    n_body,
    saxpy,
    strided_copy,
)

EXAMPLES = (
    add_one.EXAMPLE,
    saxpy.EXAMPLE,
    strided_copy.EXAMPLE,
    black_scholes.EXAMPLE,
    mandelbrot.EXAMPLE,
    matmul.EXAMPLE,
    n_body.EXAMPLE,
    histogram.EXAMPLE,
    box_blur.EXAMPLE,
)
