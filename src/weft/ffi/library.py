# SPDX-License-Identifier: Apache-2.0
"""Knows where libtvm_ffi is, without importing the `tvm_ffi` package.

In: nothing. Out: the library's path, and the library opened inside `weft._native`.
Next room: `weft._native`, which asks for the library when a function is first made.
"""

from importlib.util import find_spec
from pathlib import Path

from weft import _native
from weft.config import config

_INSTALL_HINT = "install it with: python -m pip install apache-tvm-ffi"


def find_ffi_library() -> str:
    """Path of libtvm_ffi: `WEFT_LIBTVM_FFI`, else that in the installed apache-tvm-ffi package.

    The package is located, not imported: importing it loads NumPy or torch and replaces signal handlers.

    Raises:
        ImportError: the package is not installed, or holds no library.

    Example:
        >>> find_ffi_library().endswith("libtvm_ffi.so")
        True
    """
    if config.libtvm_ffi is not None:
        return config.libtvm_ffi
    spec = find_spec("tvm_ffi")
    if spec is None or not spec.submodule_search_locations:
        raise ImportError(f"weft needs the package apache-tvm-ffi; {_INSTALL_HINT}")
    for folder in spec.submodule_search_locations:
        path = Path(folder) / "lib" / "libtvm_ffi.so"
        if path.is_file():
            return str(path)
    places = ", ".join(spec.submodule_search_locations)
    raise ImportError(f"no lib/libtvm_ffi.so in {places}; {_INSTALL_HINT}")


def open_ffi_library() -> None:
    """Opens libtvm_ffi in this process; does nothing when it is open. It is never closed.

    Raises:
        ImportError: the library is missing, or is not the ABI weft was built for.

    Example:
        >>> open_ffi_library()
    """
    if not _native.ffi_library_is_open():
        _native.open_ffi_library(find_ffi_library())
        _native.set_release_gil_default(not config.hold_gil)
