# SPDX-License-Identifier: Apache-2.0
"""Where a kernel's data lives: global, shared or local memory.

Out: the names that tensor types and pointers use.
"""

from __future__ import annotations

from typing import Final

GLOBAL: Final = "global"
SHARED: Final = "shared"
LOCAL: Final = "local"

ADDRESS_SPACES: Final = (GLOBAL, SHARED, LOCAL)
"""global: the device's memory, all that arguments point at; shared: one block's; local: one thread's."""
