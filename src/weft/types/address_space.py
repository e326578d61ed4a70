# SPDX-License-Identifier: Apache-2.0
"""Address spaces of kernels: global, shared and local memory.

Out: the names that tensor types and pointers use.
"""

from __future__ import annotations

from typing import Final

GLOBAL: Final = "global"
SHARED: Final = "shared"
LOCAL: Final = "local"

ADDRESS_SPACES: Final = (GLOBAL, SHARED, LOCAL)
"""global: device memory, where arguments point; shared: per block; local: per thread."""
