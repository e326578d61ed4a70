# SPDX-License-Identifier: Apache-2.0
"""Scales of blocks of 8-bit factors: one for 128 elements of a row of `a`, one for 128 x 128 elements of `b`.

In: where an element is. Out: its scale.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from weft.kernels.host.arrays import Array
from weft.language.numbers.math import min as lesser

BLOCK: Final = 128


class Scales(NamedTuple):
    """What elements of the factors are multiplied by; None: nothing.

    Attributes:
        a: (..., m, blocks of k).
        b: (..., blocks of k, blocks of n).
    """

    a: Array | None = None
    b: Array | None = None

    def of_a(self, place: Any, row: Any, k: Any) -> Any:
        """The scale of an element of `a` of a tile's matrix; traced in kernels."""
        stack = place.matrix if self.a.ndim > 2 else ()  # type: ignore[union-attr]
        return self.a[(*stack, row, k // BLOCK)]  # type: ignore[index]

    def of_b(self, place: Any, k: Any, column: Any) -> Any:
        """The scale of an element of `b`; traced in kernels."""
        stack = place.matrix if self.b.ndim > 2 else ()  # type: ignore[union-attr]
        return self.b[(*stack, k // BLOCK, column // BLOCK)]  # type: ignore[index]

    def of_rows(self, place: Any, k: Any) -> Any:
        """The scale of a tile's sums of a block, by the row; 0 after the last block. Traced in kernels."""
        last_row, blocks = self.a.shape[-2] - 1, self.a.shape[-1]  # type: ignore[union-attr]
        inside, k = k < BLOCK * blocks, lesser(k, BLOCK * blocks - 1)
        of_b = self.of_b(place, k, place.column)

        def of_row(i: Any) -> Any:
            scale = self.of_a(place, lesser(place.row + i, last_row), k) * of_b
            return scale if inside else 0.0

        return of_row


UNSCALED: Final = Scales()
