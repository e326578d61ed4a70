# SPDX-License-Identifier: Apache-2.0
"""Links objects in memory into this process with weft's own linker.

In: the bytes of a relocatable object, the wanted symbols. Out: their addresses, valid while the handle lives. Needs no
LLVM. Objects need only libc and libm.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from weft import _native
from weft.errors import REPORT_HINT, InternalCompilerError

if TYPE_CHECKING:
    from collections.abc import Sequence

KNOWS_THIS_MACHINE: Final = _native.HOST_MACHINE != 0
"""Whether the linker knows this machine's relocations: those of x86-64 and aarch64, on Linux."""


def link_object(
    data: bytes, symbols: Sequence[str], debuggable: bool = False
) -> _native.LinkedObject:
    """Loads an object and looks up symbols in it.

    Args:
        data: a relocatable object for this machine.
        symbols: names of functions or data in it.
        debuggable: tell gdb, which then knows its functions and lines.
    Raises:
        InternalCompilerError: if the object is damaged or for another machine, or a symbol is missing in it or among
            its references.
    """
    try:
        return _native.LinkedObject(data, symbols, debuggable)
    except ValueError as error:
        raise InternalCompilerError("OBJECT_LOADING", str(error), hint=REPORT_HINT) from error
