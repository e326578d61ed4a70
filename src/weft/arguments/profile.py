# SPDX-License-Identifier: Apache-2.0
"""The parameter that a function gets besides its own when a kernel of it records into a buffer of weft's.

In: nothing. Out: its name and its kind; callers leave it out, and its default brings the buffer. Next: signature.
"""

from __future__ import annotations

from typing import Final

from weft.arguments.tensor import TensorKind
from weft.types.dims import Dim
from weft.types.dtype import u64

PROFILE_NAME: Final = "profile"
"""The parameter's name; a second launch in one function has `profile_1`, and so on."""


def profile_kind(name: str = PROFILE_NAME) -> TensorKind:
    """What the buffer is: words, fewer than 2³¹, so that 32-bit cursors reach all of them."""
    return TensorKind(u64, (Dim(f"{name}_words"),))
