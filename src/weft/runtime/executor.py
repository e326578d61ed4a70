# SPDX-License-Identifier: Apache-2.0
"""Executors: how kernels are loaded, one load policy each over the same code image.

In: options. Out: an executor, and the reason for the log.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Executor(NamedTuple):
    """A load policy over a code image.

    Attributes:
        name: shown by ``fn.executor.name`` and the log.
        load_policy: enum weft_load_policy of runtime_table.h.
    """

    name: str
    load_policy: int

    def __repr__(self) -> str:
        return f"<weft executor {self.name}>"


_CONTEXT: Final = Executor("context", 0)
"""Loads kernels into each device's primary context on first use, for tools that know modules and no libraries."""
_LIBRARY: Final = Executor("library", 1)
"""Loads kernels once, for every device, without a context. The default."""
_TVM_FFI: Final = Executor("tvm-ffi", 2)
"""As the library executor; the result is a TVM-FFI function for any language."""

EXECUTORS: Final = {executor.name: executor for executor in (_CONTEXT, _LIBRARY, _TVM_FFI)}


def choose_executor(wanted: str | None, enable_tvm_ffi: bool) -> tuple[Executor, str]:
    """The executor for these options, and the reason.

    Args:
        wanted: a name of `EXECUTORS`, or None.
        enable_tvm_ffi: whether ``--enable-tvm-ffi`` was given.
    """
    if wanted is not None:
        return EXECUTORS[wanted], f"--executor {wanted}"
    if enable_tvm_ffi:
        return _TVM_FFI, "--enable-tvm-ffi"
    return _LIBRARY, "the default"
