# SPDX-License-Identifier: Apache-2.0
"""The TVM-FFI ABI seen from Python: functions, objects, tensors, errors, each with one owner.

In: handles and Python values. Out: the same values on the other side of the ABI. Names are imported on first use.
`weft._native` does the work.
"""

from __future__ import annotations

import sys as _sys

# Module → the public names that it defines.
_PUBLIC = {
    "weft.ffi.abi": ("TypeIndex",),
    "weft.ffi.any": ("Any", "AnyView", "Bytes", "String"),
    "weft.ffi.container": ("Array", "Dict", "List", "Map", "Shape"),
    "weft.ffi.data_type": ("DataType",),
    "weft.ffi.device": ("Device", "current_stream", "use_stream"),
    "weft.ffi.error": ("Error", "error_of", "register_error", "to_error"),
    "weft.ffi.function": (
        "Function",
        "Module",
        "function_at",
        "get_global",
        "global_metadata",
        "list_global",
        "load_module",
        "name_parameters",
        "register_global",
        "remove_global",
        "system_library",
        "wrap_function",
    ),
    "weft.ffi.library": ("release_callbacks",),
    "weft.ffi.object": ("Object", "TypeInfo", "create_object", "register_object", "type_info"),
    "weft.ffi.tensor": ("Tensor", "TensorView", "from_dlpack", "to_array", "to_dlpack"),
}
_MODULE_OF = {name: module for module, names in _PUBLIC.items() for name in names}


def __getattr__(name: str) -> object:
    """Imports what `name` needs, once; then it is an ordinary attribute of this module."""
    if name == "__all__":
        return sorted(_MODULE_OF)
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'weft.ffi' has no attribute {name!r}")
    module = _MODULE_OF[name]
    try:
        from weft.imports import imported

        found = imported(module)
    except ImportError as error:
        if not _sys.is_finalizing():
            raise
        raise ImportError(
            f"weft.ffi.{name} is first used while the interpreter shuts down; "
            f"write `from weft.ffi import {name}` at the top of the module"
        ) from error
    # The whole module: a finalizer at shutdown needs `unload` where the program used `load`.
    globals().update((each, getattr(found, each)) for each in _PUBLIC[module])
    return globals()[name]


def __dir__() -> list[str]:
    shown = {name for name in globals() if name.startswith("__") or f"weft.ffi.{name}" in _PUBLIC}
    return sorted({*shown, *_MODULE_OF})
