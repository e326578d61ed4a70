# SPDX-License-Identifier: Apache-2.0
"""How long the first call of a compiled function took, which no compilation can know: kernels are loaded by it.

In: a code image, and the seconds of the first call that succeeded. Out: a table on the standard error stream,
in the form of the compiler's own.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weft import _native


def times_table(heading: str, rows: Sequence[tuple[str, float]]) -> str:
    """Names and milliseconds, one row each under a heading.

    Example:
        >>> print(times_table("add_one: stages", [("trace", 1.25)]))
        weft: add_one: stages, in milliseconds
          trace      1.25
    """
    width = max((len(name) for name, _ in rows), default=0)
    lines = [f"weft: {heading}, in milliseconds"]
    lines += [f"  {name:<{width}}  {milliseconds:8.2f}" for name, milliseconds in rows]
    return "\n".join(lines)


class CallTimes:
    """Prints what loading and the first launch of one function took; only ``--time`` and WEFT_TIME make one.

    Args:
        name: the function's.
        image: its code, which knows how long it took to load on each device.
    """

    __slots__ = ("_image", "_name", "_told")

    def __init__(self, name: str, image: _native.CodeImage) -> None:
        self._name = name
        self._image = image
        self._told: set[int] = set(image.load_times)

    def _loads(self) -> list[tuple[str, float]]:
        """Devices that the code has been loaded on since this was last asked."""
        new = {d: s for d, s in self._image.load_times.items() if d not in self._told}
        self._told |= new.keys()
        return [(f"load on cuda:{device}", seconds * 1e3) for device, seconds in new.items()]

    def preloaded(self) -> None:
        """Prints what a load ahead of the first call took, if there was one to make."""
        if loads := self._loads():
            print(times_table(f"{self._name}: preload", loads), file=sys.stderr)

    def called(self, seconds: float) -> None:
        """Prints the parts of the first call: the launch is what is left when loading is done."""
        loads = self._loads()
        launch = seconds * 1e3 - sum(milliseconds for _, milliseconds in loads)
        rows = [*loads, ("first launch", launch)]
        print(times_table(f"{self._name}: first call", rows), file=sys.stderr)
