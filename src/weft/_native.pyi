# SPDX-License-Identifier: Apache-2.0
"""What the extension offers; each part is written in native/, one file per concern."""

# The rows of native/include/weft/runtime_table.h: (name, LLVM function type text).
RUNTIME_TABLE: tuple[tuple[str, str], ...]
RUNTIME_TABLE_VERSION: int

def open_ffi_library(path: str) -> None: ...
def ffi_library_is_open() -> bool: ...
