# SPDX-License-Identifier: Apache-2.0
"""The benchmark of the sanitizer's cost runs to its end, and its kernels are free of findings."""

from __future__ import annotations

from benchmarks import sanitizer_cost


def test_the_benchmark_has_a_figure_for_each_kernel():
    found = list(sanitizer_cost.figures(1, calls=1))
    assert [figure.name.partition("/")[2] for figure in found] == [
        *(f"bounds/{name}" for name in (*sanitizer_cost.KERNELS, "geometric mean")),
        *(f"all/{name}" for name in (*sanitizer_cost.WAITING, "geometric mean")),
    ]
    assert all(figure.value for figure in found)
