# SPDX-License-Identifier: Apache-2.0
"""Finds libtvm_ffi without importing the `tvm_ffi` package.

Out: the library's path, and the library opened inside `weft._native`.
"""

import atexit
import gc
import os
from importlib.util import find_spec

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
        path = os.path.join(folder, "lib", "libtvm_ffi.so")  # noqa: PTH118  pathlib takes 3 ms
        if os.path.isfile(path):  # noqa: PTH113
            return path
    places = ", ".join(spec.submodule_search_locations)
    raise ImportError(f"no lib/libtvm_ffi.so in {places}; {_INSTALL_HINT}")


def open_ffi_library() -> None:
    """Opens libtvm_ffi in this process, once; it is never closed.

    Raises:
        ImportError: the library is missing, or has another ABI than weft was built for.

    Example:
        >>> open_ffi_library()
    """
    if not _native.ffi_library_is_open():
        _native.open_ffi_library(find_ffi_library())
        atexit.register(release_callbacks)
        _native.set_release_gil_default(not config.hold_gil)


def release_callbacks() -> int:
    """Releases the Python callables that foreign code, containers and the table of global functions still hold.

    It runs by itself when the interpreter shuts down: such a callable keeps its module's variables alive, so that their
    finalizers would never run and an open file's text would be lost. Call it to end earlier: calling one of these
    callables then raises a RuntimeError. Callables that only Python holds are left to the garbage collector. Before and
    after, it waits for all used devices and collects garbage; finalizers in the first collection may still call
    everything.

    Returns:
        How many were released.

    Example:
        >>> import weft
        >>> _ = weft.ffi.register_global("example.released", lambda: 1, override=True)
        >>> weft.ffi.release_callbacks() >= 1
        True
        >>> weft.ffi.get_global("example.released")()
        Traceback (most recent call last):
            ...
        RuntimeError: a Python callback was called after it had been released: ...
    """
    if not _native.has_foreign_callbacks():
        return 0
    _native.synchronize_used()
    gc.collect()
    _native.synchronize_used()
    released = _native.release_callbacks()
    gc.collect()
    return released
