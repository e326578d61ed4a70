# SPDX-License-Identifier: Apache-2.0
"""``weft.random``: random numbers in kernels, each a function of a seed and a counter."""

from __future__ import annotations

from weft.primitives import TYPE_CHECKING, resolver

if TYPE_CHECKING:
    from weft.primitives import philox as philox  # noqa: PLC0414  public

_MODULES = {
    "philox": "philox",
}
__all__ = tuple(_MODULES)  # pyright: ignore[reportUnsupportedDunderAll]
__getattr__ = resolver(__name__, _MODULES)


def __dir__() -> list[str]:
    return sorted(_MODULES)
