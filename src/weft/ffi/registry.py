# SPDX-License-Identifier: Apache-2.0
"""Global functions by name, in one table shared with C++ programs and the tvm_ffi package.

In: names, callables. Out: functions.
"""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, overload

from weft import _native
from weft.ffi.function import wrap_function

if TYPE_CHECKING:
    from collections.abc import Callable


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
