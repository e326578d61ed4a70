# SPDX-License-Identifier: Apache-2.0
"""Whether two trials have written the same, by a kernel of weft's own: on the device, for every element type.

In: tensors by name. Out: the names of those that differ, and by how much.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING, Any

import weft
from weft.api import jit, kernel
from weft.driver.memory import copy, empty, zeros
from weft.types.device import CPU
from weft.types.dtype import u32

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


@kernel
def _difference_kernel(expected: weft.Tensor, got: weft.Tensor, largest: weft.Tensor) -> None:
    """Each iteration compares one element. Floats of at least 0 are in the order of their bits."""
    for index in weft.each(expected.shape):
        x, y = weft.f64(expected[index]), weft.f64(got[index])
        if not (expected[index] == got[index] or (x != x and y != y)):
            error = weft.f32(abs(x - y) / max(1.0, abs(x)))
            if error != error:
                error = weft.f32(math.inf)
            weft.atomic_max(largest, 0, weft.bitcast(max(error, 1e-30), weft.u32))


@jit
def _difference(expected: weft.Tensor, got: weft.Tensor, largest: weft.Tensor) -> None:
    _difference_kernel(expected, got, largest).launch(over=expected.shape)


def largest_difference(expected: Any, got: Any) -> float:
    """The largest difference of two tensors: absolute where the expected value is below 1, relative above.

    Two NaN are equal; NaN and a number differ by infinity.
    """
    if not expected.ndim:
        expected, got = expected[None], got[None]
    device = "cpu" if expected.device[0] == CPU else expected.device[1]
    largest = zeros(1, u32, device)
    _difference(expected, got, largest)
    bits = copy(empty(1, u32), largest).item()
    return struct.unpack("f", struct.pack("I", bits))[0]


def differing(
    expected: Iterable[tuple[str, Any]], got: Iterable[tuple[str, Any]], tolerance: float
) -> Iterator[tuple[str, float]]:
    """The tensors whose largest difference is above the tolerance: the name, and the difference."""
    for (name, wanted), (_, found) in zip(expected, got, strict=True):
        difference = largest_difference(wanted, found) if wanted.size else 0.0
        if difference > tolerance:
            yield name, difference
