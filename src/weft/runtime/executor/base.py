# SPDX-License-Identifier: Apache-2.0
"""What an executor is: how kernels are loaded, and which device a call runs on.

In: a code image. Out: a state for generated code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from typing import Any

# enum weft_load_policy of runtime_table.h
LOAD_CONTEXT: Final = 0
LOAD_LIBRARY: Final = 1
LOAD_TVM_FFI: Final = 2


class Executor(Protocol):
    """A load policy over a code image. Every executor, weft's own or a user's, has these two attributes.

    Attributes:
        name: what ``fn.executor.name`` and the log say.
        load_policy: `LOAD_CONTEXT`, `LOAD_LIBRARY` or `LOAD_TVM_FFI`.
    """

    name: str
    load_policy: int


def check_executor(executor: Any) -> None:
    """Checks that an executor made by a user's class keeps the protocol.

    Raises:
        TypeError: if it has no name or no known load policy.
    """
    name = getattr(executor, "name", None)
    policy = getattr(executor, "load_policy", None)
    if not isinstance(name, str) or policy not in (LOAD_CONTEXT, LOAD_LIBRARY, LOAD_TVM_FFI):
        raise TypeError(
            f"an executor has a `name` (str) and a `load_policy` (0, 1 or 2); "
            f"{type(executor).__name__} has name {name!r} and load_policy {policy!r}"
        )
