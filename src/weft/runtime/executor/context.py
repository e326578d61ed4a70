# SPDX-License-Identifier: Apache-2.0
"""The `context` executor: a module per device's primary context.

In: nothing. Out: its load policy.
"""

from __future__ import annotations

from weft.runtime.executor.base import LOAD_CONTEXT


class ContextExecutor:
    """Loads kernels into each device's primary context on first use, for tools that need CUmodule handles."""

    __slots__ = ()

    name = "context"
    load_policy = LOAD_CONTEXT

    def __repr__(self) -> str:
        return f"<weft executor {self.name}>"
