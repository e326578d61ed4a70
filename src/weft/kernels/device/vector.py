# SPDX-License-Identifier: Apache-2.0
"""An annotation for host functions whose arrays begin at multiples of 16 bytes, as the caller has found."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from weft.arguments.tensor_spec import TensorSpec

BYTES: Final = 16

if TYPE_CHECKING:
    Aligned = Any
else:
    Aligned = TensorSpec(alignment_bytes=BYTES)
