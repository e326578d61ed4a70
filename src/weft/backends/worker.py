# SPDX-License-Identifier: Apache-2.0
"""LLVM's work, where no signal's exception can interrupt it.

Python runs signal handlers only on the main thread. llvmlite's objects dispose of what they own line by line,
and an exception between two lines disposes of it twice. So LLVM runs elsewhere, and a handler's exception ends the
wait for it.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, TypeVar

from weft.codegen.llvm.lock import holds_llvm
from weft.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Callable

_Result = TypeVar("_Result")


def away_from_signals(call: Callable[[], _Result]) -> _Result:
    """Calls it on a thread without signal handlers: this one, or a worker if this is the main thread.

    Also on this thread if it holds LLVM's lock, as at interpreter shutdown: a worker would wait forever.
    """
    if threading.get_ident() != threading.main_thread().ident or holds_llvm():
        return call()
    return Worker(call).result()
