# SPDX-License-Identifier: Apache-2.0
"""The `library` executor: a library that belongs to no context.

In: nothing. Out: its load policy.
"""

from __future__ import annotations

from weft.runtime.executor.base import LOAD_LIBRARY


class LibraryExecutor:
    """Loads kernels once, for every device, without a context. The default."""

    __slots__ = ()

    name = "library"
    load_policy = LOAD_LIBRARY

    def __repr__(self) -> str:
        return f"<weft executor {self.name}>"
