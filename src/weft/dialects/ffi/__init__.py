# SPDX-License-Identifier: Apache-2.0
"""The `ffi` dialect: a function with the TVM-FFI ABI, written as the contract it checks.

In: the families' operations, one per promise. Out: `FFI`, which a context loads. Every check that fails sets the
error and ends the function; codegen expands the operations when it prints LLVM text.
"""

from __future__ import annotations

from typing import Final

from weft.dialects.definition import dialect_of
from weft.dialects.ffi import checks, function

FFI: Final = dialect_of("ffi", checks, function)
