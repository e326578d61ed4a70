# SPDX-License-Identifier: Apache-2.0
"""The `tvm-ffi` executor: a library, called through the TVM-FFI ABI.

In: nothing. Out: its load policy.
"""

from __future__ import annotations

from weft.runtime.executor.base import LOAD_TVM_FFI


class TVMFFIExecutor:
    """As the library executor; the result is a TVM-FFI function for any language."""

    __slots__ = ()

    name = "tvm-ffi"
    load_policy = LOAD_TVM_FFI

    def __repr__(self) -> str:
        return f"<weft executor {self.name}>"
