# SPDX-License-Identifier: Apache-2.0
"""Every function of weft's library, in one table.

In: the families. Out: `LIBRARY`, name → what prints it. A function is printed into a module when something
in that module uses it. Next: formula.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from weft.codegen.math_library.remainder import REMAINDER
from weft.codegen.math_library.small_floats import SMALL_FLOATS

if TYPE_CHECKING:
    from weft.codegen.math_library.formula import LibraryEntry

LIBRARY: Final[dict[str, LibraryEntry]] = {
    **SMALL_FLOATS,
    **REMAINDER,
}
