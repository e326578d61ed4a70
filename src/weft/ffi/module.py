# SPDX-License-Identifier: Apache-2.0
"""Shared libraries with functions of the ABI.

In: a path. Out: a module; its functions are attributes.
"""

from __future__ import annotations

import json
from os import PathLike, fspath
from typing import Any

from weft import _native
from weft.ffi.object import Object
from weft.ffi.registry import standard_function


class Module(Object):
    """A loaded library. Its export ``__tvm_ffi_<name>`` is ``module.<name>``.

    A function keeps its module loaded. Objects that the library made do not: see `load_module`.

    Example:
        >>> from weft.ffi.library import find_ffi_library
        >>> path = find_ffi_library().replace("libtvm_ffi", "libtvm_ffi_testing")
        >>> library = load_module(path)
        >>> library.kind, library.has_function("testing_dll_schema_id_int")
        ('library', True)
        >>> library.testing_dll_schema_id_int(5), library["testing_dll_schema_id_int"](6)
        (5, 6)
    """

    __slots__ = ()

    def get_function(self, name: str, *, imports: bool = False) -> _native.Function:
        """The function of that name.

        Args:
            name: without the prefix ``__tvm_ffi_``.
            imports: also look in imported modules.

        Raises:
            KeyError: if the module has no such function.
        """
        found = standard_function("ffi.ModuleGetFunction")(self, name, imports)
        if found is None:
            raise KeyError(f"{self!r} has no function {name!r}")
        found.__name__ = name
        return found

    def has_function(self, name: str, *, imports: bool = False) -> bool:
        """Whether the module defines a function of that name."""
        return standard_function("ffi.ModuleImplementsFunction")(self, name, imports)

    def function_metadata(self, name: str, *, imports: bool = False) -> dict[str, Any]:
        """The library's metadata of a function: `type_schema` is its signature. Empty for most."""
        text = standard_function("ffi.ModuleGetFunctionMetadata")(self, name, imports)
        return json.loads(text) if text else {}

    def function_doc(self, name: str, *, imports: bool = False) -> str:
        """The library's documentation of a function, possibly empty."""
        return standard_function("ffi.ModuleGetFunctionDoc")(self, name, imports) or ""

    @property
    def kind(self) -> str:
        """``"library"`` for a shared library."""
        return standard_function("ffi.ModuleGetKind")(self)

    @property
    def imports(self) -> tuple[Module, ...]:
        """The modules that this one imports."""
        return tuple(super().__getattr__("imports_"))

    def import_module(self, module: Module) -> None:
        """Adds a module in which functions are also looked up."""
        standard_function("ffi.ModuleImportModule")(self, module)

    def clear_imports(self) -> None:
        """Forgets all imported modules."""
        standard_function("ffi.ModuleClearImports")(self)

    @property
    def write_formats(self) -> tuple[str, ...]:
        """The formats that `write_to_file` takes."""
        return tuple(standard_function("ffi.ModuleGetWriteFormats")(self))

    def write_to_file(self, path: str | PathLike[str], format: str = "") -> None:
        """Writes the module, for kinds that can be written."""
        standard_function("ffi.ModuleWriteToFile")(self, fspath(path), format)

    def inspect_source(self, format: str = "") -> str:
        """The module's source, for kinds that keep it."""
        return standard_function("ffi.ModuleInspectSource")(self, format)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"'Module' object has no attribute {name!r}")
        try:
            return self.get_function(name)
        except KeyError as error:
            raise AttributeError(error.args[0]) from None

    def __getitem__(self, name: str) -> _native.Function:
        return self.get_function(name)

    def __repr__(self) -> str:
        return f"<weft.ffi.Module of kind {self.kind!r}>"


def load_module(path: str | PathLike[str], *, keep_loaded: bool = True) -> Module:
    """Loads a shared library.

    Args:
        path: of the library.
        keep_loaded: keep it for the life of the process. With False it is unloaded once the module and all its
            functions are gone; all objects it made must be gone by then, since their deleters are the library's code.

    Raises:
        RuntimeError: if the library cannot be loaded; the loader's message.
        FileNotFoundError: if there is no such file.

    Example:
        >>> from weft.ffi.library import find_ffi_library
        >>> path = find_ffi_library().replace("libtvm_ffi", "libtvm_ffi_testing")
        >>> load_module(path).testing_dll_schema_id_int(42)
        42
    """
    text = fspath(path)
    try:
        module = standard_function("ffi.ModuleLoadFromFile")(text)
    except RuntimeError as error:
        from pathlib import Path

        if not Path(text).exists():
            raise FileNotFoundError(f"no library {text!r}") from error
        raise
    if keep_loaded:
        standard_function("ffi.ModuleGlobalsAdd")(module)
    return module


def system_library(prefix: str = "") -> Module:
    """The functions linked into the program and registered with libtvm_ffi, by prefix.

    Example:
        >>> system_library().has_function("a_function_that_is_not_linked")
        False
    """
    return standard_function("ffi.SystemLib")(prefix)
