# SPDX-License-Identifier: Apache-2.0
"""The time of a compiled function's first call, which loads its kernels.

In: a code image, and the seconds of the first successful call. Out: a table on standard error, in the form of the
compiler's own.
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
    """Prints the times of loading and of a function's first launch; made for ``--time`` and WEFT_TIME only.

    Args:
        name: the function's.
        image: its code, which knows its loading time on each device.
    """

    def __init__(self, name: str, image: _native.CodeImage) -> None:
        self._name = name
        self._image = image
        self._told: set[int] = set(image.load_times)

    def _loads(self) -> list[tuple[str, float]]:
        """Devices that the code was loaded on since the last call."""
        new = {d: s for d, s in self._image.load_times.items() if d not in self._told}
        self._told |= new.keys()
        return [(f"load on cuda:{device}", seconds * 1e3) for device, seconds in new.items()]

    def preloaded(self) -> None:
        """Prints the time of a preload, if it loaded anything."""
        if loads := self._loads():
            print(times_table(f"{self._name}: preload", loads), file=sys.stderr)

    def called(self, seconds: float) -> None:
        """Prints the parts of the first call: the launch is the time not spent loading."""
        loads = self._loads()
        launch = seconds * 1e3 - sum(milliseconds for _, milliseconds in loads)
        rows = [*loads, ("first launch", launch)]
        print(times_table(f"{self._name}: first call", rows), file=sys.stderr)
