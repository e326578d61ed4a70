# SPDX-License-Identifier: Apache-2.0
"""The element types as type checkers shall see them; there is no such module when Python runs.

``weft.f32`` is an object that converts (``weft.f32(x)``), is passed on (``weft.local(4, weft.f32)``), and annotates
a parameter that computes like a number and may have one as its default. No class is all of these, so that a checker
is told nothing, in the way that an incomplete stub tells it. What they are is in `weft.types.dtype`.
"""

from typing import Any

def __getattr__(name: str) -> Any: ...  # pyright: ignore[reportIncompleteStub]  on purpose
