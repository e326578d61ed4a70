# SPDX-License-Identifier: Apache-2.0
"""The table of executors, and which one a compilation gets.

In: the options' executor and whether the TVM-FFI one was asked for. Out: an executor and the reason.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from weft.runtime.executor.base import check_executor
from weft.runtime.executor.context import ContextExecutor
from weft.runtime.executor.library import LibraryExecutor
from weft.runtime.executor.tvm_ffi import TVMFFIExecutor

if TYPE_CHECKING:
    from weft.runtime.executor.base import Executor

EXECUTORS: Final = {
    executor.name: executor for executor in (ContextExecutor, LibraryExecutor, TVMFFIExecutor)
}


def choose_executor(wanted: str | type | None, enable_tvm_ffi: bool) -> tuple[Executor, str]:
    """The executor for these options, and why it is that one.

    Args:
        wanted: a name of the table, a class with the Executor protocol, or None.
        enable_tvm_ffi: whether ``--enable-tvm-ffi`` was given.
    Raises:
        TypeError: if a class of the user's does not keep the protocol.
    """
    if isinstance(wanted, str):
        return EXECUTORS[wanted](), f"--executor {wanted}"
    if wanted is not None:
        executor = wanted()
        check_executor(executor)
        return executor, f"the class {wanted.__name__}"
    if enable_tvm_ffi:
        return TVMFFIExecutor(), "--enable-tvm-ffi"
    return LibraryExecutor(), "the default"
