# SPDX-License-Identifier: Apache-2.0
"""Functions of the ABI: callable, called back, found by name, and loaded from shared libraries.

In: addresses of C functions, Python callables, names, paths. Out: one callable type, a TVMFFIFunction to other
languages; one table of names, shared with C++ programs and the tvm_ffi package; a module, whose functions are
attributes. Calls never run code of this file.
"""

from __future__ import annotations

import json
from functools import cache
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Final, Literal, overload

from weft import _native
from weft.ffi.object import Object

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping


Function: Final = _native.Function
"""A function of the ABI: compiled by weft, foreign, or a wrapped Python callable.

Attributes:
    release_gil: whether a call releases the GIL. Foreign functions do unless `WEFT_HOLD_GIL` is set, since they may
        block or wait for a thread that needs it; compiled functions and wrapped callables do not. False makes calls of
        a short foreign function about 25 ns faster.
    writes: whether it may write into its array arguments; read-only ones are then refused, at any depth. True for
        foreign functions; set it to False for one that only reads. Compiled functions know which arguments they write,
        and Python callables receive arrays as they are.
    tensor_type: the class of returned tensors, such as ``numpy.ndarray``; None: that of the first tensor argument, else
        `weft.ffi.Tensor`.
    objects: ``"values"`` returns arrays and maps as tuples and dicts, ``"objects"`` all containers as
        classes of weft.ffi, ``"tvm_ffi"`` objects as classes of that package, which must be imported.
    __name__: its name in errors, from the signature if there is one.

Example:
    >>> shape = get_global("ffi.Shape")
    >>> isinstance(shape, Function), shape.release_gil, shape(2, 3)
    (True, True, Shape((2, 3)))
    >>> shape.release_gil = False
"""


def wrap_function(
    callable: Callable[..., Any],
    *,
    tensor_type: type | None = None,
    objects: str | None = None,
    views: bool = False,
) -> _native.Function:
    """A function of the ABI that calls a Python callable, from any language and any thread.

    Exceptions become FFI errors, and the same exceptions again when they reach Python. Any thread may release the
    function, even after the interpreter has ended; calling it then is an error.

    Args:
        callable: called with the arguments as Python values. Tensors arrive as the caller's own array if
            the call came from weft, else as the array type of the call's first tensor.
        tensor_type: the class to pass tensors as instead.
        objects: how objects arrive; see `Function`.
        views: arguments arrive as unconverted `AnyView`s, valid until the callable returns.

    Raises:
        TypeError: if `callable` is not callable or `tensor_type` is not an array class.
        ValueError: if `objects` is not one of the three words.

    Example:
        >>> add = wrap_function(lambda a, b: a + b)
        >>> add(2, 3)
        5
    """
    return _native.wrap_callable(callable, tensor_type, objects, views)


def function_at(
    safe_call: int, handle: int | None = None, *, keep: object = None
) -> _native.Function:
    """A function over a C function ``int (void* handle, const TVMFFIAny*, int32_t, TVMFFIAny*)``.

    Args:
        safe_call: its address.
        handle: its first argument.
        keep: the owner of the code, kept alive as long as the function or any object made from it.

    Raises:
        ValueError: if the address is null.
        TypeError: if it is not an int.

    Example:
        >>> double = wrap_function(lambda x: 2 * x)
        >>> again = function_at(double.safe_call_address, double.handle_address, keep=double)
        >>> again(21)
        42
    """
    return _native.Function.from_address(safe_call, handle, keep)


def name_parameters(
    function: _native.Function,
    name: str,
    parameters: Iterable[str],
    *,
    defaults: Mapping[str, object] | None = None,
    keyword_only: int = 0,
) -> _native.Function:
    """The same function with named parameters, so that it takes keywords and defaults.

    Args:
        function: a function of the ABI, which has no names itself.
        name: its name in errors.
        parameters: one name for each argument, in order.
        defaults: by parameter.
        keyword_only: how many of the last parameters are keyword-only.

    Raises:
        ValueError: if two parameters share a name, a default names no parameter, or `keyword_only` exceeds their
            number.

    Example:
        >>> power = wrap_function(lambda base, exponent: base**exponent)
        >>> power = name_parameters(power, "power", ("base", "exponent"), defaults={"exponent": 2})
        >>> power(3), power(base=2, exponent=5)
        (9, 32)
    """
    names = tuple(parameters)
    for index, parameter in enumerate(names):
        if parameter in names[:index]:
            raise ValueError(
                f"name_parameters: expected distinct names, received {parameter!r} twice"
            )
    plan = _native.CallPlan(
        name,
        f"{name}({', '.join(names)})",
        names,
        positional_count=len(names) - keyword_only,
        defaults=defaults,
        release_gil=function.release_gil,
        owned_tensors=True,
        foreign=True,
    )
    named = _native.Function.from_object(function.to_object(), borrowed=False, plan=plan)
    named.writes = function.writes
    return named


@overload
def get_global(name: str, *, allow_missing: Literal[False] = False) -> _native.Function: ...
@overload
def get_global(name: str, *, allow_missing: bool) -> _native.Function | None: ...
def get_global(name: str, *, allow_missing: bool = False) -> _native.Function | None:
    """The global function of that name.

    Args:
        name: of the function.
        allow_missing: return None where there is none, instead of raising.
    Raises:
        KeyError: if there is none; the message lists similar names.

    Example:
        >>> get_global("ffi.Shape")(2, 3), get_global("example.missing", allow_missing=True)
        (Shape((2, 3)), None)
    """
    found = _native.get_global(name)
    if found is not None or allow_missing:
        return found
    from difflib import get_close_matches

    near = get_close_matches(name, list_global(), n=3)
    hint = f"; similar names: {', '.join(near)}" if near else ""
    raise KeyError(f"there is no global function {name!r}{hint}")


def register_global(
    name: str, function: Callable[..., Any] | None = None, *, override: bool = False
) -> Any:
    """Registers a callable under a name for every user of the library; also a decorator.

    Args:
        name: by convention with a prefix, ``"package.function"``.
        function: a Python callable, which is wrapped, or a function of the ABI. None makes a decorator.
        override: replace a function of that name.

    Returns:
        The registered function, or the decorator, which returns the callable unchanged.

    Raises:
        ValueError: if the name is taken and `override` is False.

    Example:
        >>> _ = register_global("example.double", lambda x: 2 * x, override=True)
        >>> get_global("example.double")(21)
        42
    """
    if function is None:

        def decorate(decorated: Callable[..., Any]) -> Callable[..., Any]:
            register_global(name, decorated, override=override)
            return decorated

        return decorate
    made = function if isinstance(function, _native.Function) else wrap_function(function)
    if not override and _native.get_global(name) is not None:
        raise ValueError(f"global function {name!r} exists already; override=True replaces it")
    _native.set_global(name, made, override)
    return made


def list_global() -> list[str]:
    """The names of all global functions, in order.

    Example:
        >>> "ffi.Array" in list_global()
        True
    """
    names = standard_function("ffi.FunctionListGlobalNamesFunctor")()
    return sorted(names(index) for index in range(names(-1)))


def remove_global(name: str) -> None:
    """Removes a global function; existing references stay valid.

    Raises:
        KeyError: if there is not one of that name.

    Example:
        >>> _ = register_global("example.temporary", lambda: 1, override=True)
        >>> remove_global("example.temporary")
        >>> "example.temporary" in list_global()
        False
    """
    if not standard_function("ffi.FunctionRemoveGlobal")(name):
        raise KeyError(f"there is no global function {name!r}")


def global_metadata(name: str) -> dict[str, Any]:
    """The metadata of a global function: `type_schema` is its signature. Empty for most.

    Raises:
        KeyError: if there is not one of that name.

    Example:
        >>> global_metadata("ffi.Shape")
        {'type_schema': '{"type":"ffi.Function"}'}
    """
    get_global(name)
    text = standard_function("ffi.GetGlobalFuncMetadata")(name)
    return json.loads(text) if text else {}


@cache
def standard_function(name: str, objects: str = "values") -> _native.Function:
    """One of libtvm_ffi's own functions; short, so the GIL is held."""
    found = get_global(name)
    found.release_gil = False
    found.objects = objects
    return found


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
