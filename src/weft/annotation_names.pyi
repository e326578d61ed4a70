# SPDX-License-Identifier: Apache-2.0
"""The element types for type checkers; the module does not exist at run time.

``weft.f32`` is an object that converts (``weft.f32(x)``), is passed on (``weft.local(4, weft.f32)``), and annotates a
parameter that computes like a number and may have one as its default. No class does all of this, so checkers see
nothing, as by an incomplete stub. They are defined in `weft.types.dtype`.
"""

from typing import Any

def __getattr__(name: str) -> Any: ...  # pyright: ignore[reportIncompleteStub]  on purpose
