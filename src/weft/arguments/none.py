# SPDX-License-Identifier: Apache-2.0
"""The argument kind `None`: a function compiled with None accepts only None there.

In: None as an example or annotation. Out: `NoneKind`.
"""

from __future__ import annotations

import types
from typing import TYPE_CHECKING

from weft.arguments.base import MISSING, ArgumentKind, describe

if TYPE_CHECKING:
    from weft.arguments.base import Place, Symbols


class NoneKind(ArgumentKind):
    """None: passed by the caller, seen by the traced function as Python's None."""

    title = "None"
    is_staged = False

    @property
    def text(self) -> str:
        return "None"

    @classmethod
    def is_annotated_by(cls, annotation: object) -> bool:
        return annotation is None or annotation is types.NoneType

    @classmethod
    def recognizes(cls, value: object) -> bool:
        return value is None

    @classmethod
    def infer(cls, annotation: object, value: object, place: Place, symbols: Symbols) -> NoneKind:
        if value is not None and value is not MISSING:
            raise place.error("ARGUMENT_NOT_NONE", f"expected None, received {describe(value)}")
        return cls()
