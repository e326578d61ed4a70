# SPDX-License-Identifier: Apache-2.0
"""Python functions that need tracing although none of their arguments is staged.

In: a Python function and its arguments. Out: whether its code, a function that it calls, or a method, property or
operator of an object that it reaches by name, at any depth, uses one of weft's names; whether an argument is meaningful
only in a kernel.
"""

from __future__ import annotations

import dis
import functools
import inspect
import itertools
import sys
from enum import Enum
from opcode import opname
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any, Final, cast

from weft.blame import HEAP_TYPE, package_of
from weft.frontend.context import BoundMethod, FrontendCallable, LocalFunction
from weft.frontend.state.captured import cell_contents, code_names
from weft.frontend.state.reachable import CACHED
from weft.frontend.structure import PLAIN, Deferred, attributes_of, passed_on, slots_of
from weft.language import LanguageName
from weft.language.functions import BoundFunction, DeviceFunction, HostFunction, StagedFunction
from weft.language.operation import Operation
from weft.language.values import StagedContext, StagedNamespace, is_staged
from weft.types.dtype import DType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


_OF_THE_KERNEL: Final = (
    StagedNamespace,
    StagedContext,
    Operation,
    LocalFunction,
    BoundMethod,
    FrontendCallable,
    Deferred,
)
_LEAVES: Final = (type, ModuleType, FunctionType, BuiltinFunctionType, Enum)


def holds_kernel_object(value: object) -> bool:
    """Whether a value, or something inside it, is staged or emits code when used, such as a profiler.

    Searches containers and attributes of objects, at every depth: Python cannot run a function that uses such a value.
    """
    return _reaches(value, _is_of_kernel, set())


def needs_tracing(function: FunctionType, *given: object) -> bool:
    """Whether a function must be inlined, because of names in its code or its arguments."""
    return _reaches(given, _is_used_in_kernel, set()) or reaches_language(function, *given)


def _is_of_kernel(value: object) -> bool:
    return is_staged(value) or isinstance(value, _OF_THE_KERNEL)


def _is_used_in_kernel(value: object) -> bool:
    """The same, or a name or function of the language passed in order to be called."""
    if isinstance(value, FunctionType):
        return reaches_language(value)
    return _is_of_kernel(value) or isinstance(value, LanguageName)


def _reaches(value: object, is_found: Callable[[object], bool], seen: set[int]) -> bool:
    if is_found(value):
        return True
    if type(value) in PLAIN or isinstance(value, _LEAVES) or id(value) in seen:
        return False
    seen.add(id(value))
    return any(_reaches(item, is_found, seen) for item in _contents(value))


def _contents(value: Any) -> Iterator[Any]:
    """The contents of a container or an object."""
    if isinstance(value, dict):
        yield from cast("dict[Any, Any]", value).values()
    elif isinstance(value, tuple | list | set | frozenset):
        yield from cast("Iterable[Any]", value)
    elif isinstance(value, functools.partial):
        bound = cast("functools.partial[Any]", value)
        yield from (bound.func, bound.args, bound.keywords)
    elif isinstance(value, MethodType):
        yield from (value.__func__, value.__self__)
    yield from passed_on(value)
    yield from (item for _, item in attributes_of(value))


# What names in the code of a function mean that it is not plain Python; weft's own name operations directly.
_LANGUAGE: Final = (
    LanguageName,
    StagedFunction,
    DeviceFunction,
    DType,
    Operation,
    StagedNamespace,
)
# Arguments and attributes with that meaning, which may be a type or a kernel for another use.
_CALLED: Final = (LanguageName, DeviceFunction, Operation)
_LIBRARIES: Final = frozenset(
    ("weft", "numpy", "torch", "jax", "cupy", *sys.stdlib_module_names)
) - {"__main__"}
_CONTAINERS: Final = (tuple, list, set, frozenset)
# The operators of BINARY_OP by its argument; assignments follow, then, from Python 3.14 on, the subscript.
_BINARY: Final = (
    *("add", "and", "floordiv", "lshift", "matmul", "mul", "mod"),
    *("or", "pow", "rshift", "sub", "truediv", "xor"),
)
# Methods that other instructions call, which no name in the code says.
_METHODS: Final = {
    "BINARY_SUBSCR": ("__getitem__",),
    "COMPARE_OP": ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"),
    "CONTAINS_OP": ("__contains__",),
    "UNARY_NEGATIVE": ("__neg__",),
    "UNARY_INVERT": ("__invert__",),
    "UNARY_POSITIVE": ("__pos__",),
    "CALL_INTRINSIC_1": ("__pos__",),
    "UNARY_NOT": ("__bool__",),
    "POP_JUMP_IF_TRUE": ("__bool__",),
    "POP_JUMP_IF_FALSE": ("__bool__",),
    "PUSH_NULL": ("__call__",),  # neither a global nor an attribute is called
    "CALL_FUNCTION_EX": ("__call__",),
}
_CONSTRUCTION: Final = ("__init__", "__new__", "__post_init__")


def reaches_language(function: FunctionType, *given: object) -> bool:
    """Whether a function must be inlined even for compile-time arguments, since its code is not plain Python.

    Plain Python runs in Python, without restrictions; a helper such as
    ``def thread(): return weft.thread_idx.x`` cannot.
    """
    return _Search().finds(function, given)


class _Search:
    """A search through all that a function reaches; each object is visited once.

    Objects are asked for the names of all functions found, their instances' attributes and their classes' methods.
    """

    def __init__(self) -> None:
        self._names: set[str] = set()
        self._called: set[str] = set()
        self._objects: list[Any] = []
        self._seen: dict[int, Any] = {}  # alive, so that an id stays its own
        self._pending: list[Any] = []
        self._first: FunctionType | None = None

    def finds(self, function: FunctionType, given: Iterable[object]) -> bool:
        self._first = function
        self._pending = [function, *given]
        asked = 0, 0, 0
        while True:
            while self._pending:
                if self._add(self._pending.pop()):
                    return True
            now = len(self._names), len(self._called), len(self._objects)
            if now == asked:
                return False
            asked = now
            for item in self._objects:
                self._pending += _named_members(item, self._names)
                self._pending += map(_call_of, _named_members(item, self._called))

    def _add(self, value: Any) -> bool:
        """Looks at a value; whether it is one of the language's."""
        if isinstance(value, _CALLED):
            return True
        if type(value) in PLAIN or id(value) in self._seen:
            return False
        self._seen[id(value)] = value
        if isinstance(value, FunctionType):
            return self._add_function(value)
        parts = _parts(value)
        if parts is not None:
            self._pending += parts
        elif _is_users(value if isinstance(value, type) else value.__class__):
            if isinstance(value, type):
                self._names.update(_CONSTRUCTION)
            self._objects.append(value)
        return False

    def _add_function(self, function: FunctionType) -> bool:
        takes_numbers = _takes_numbers_alone(function)
        named = list(_named_values(function, takes_numbers=takes_numbers))
        # Other functions call a host function as Python does: with arrays, while it compiles this one.
        called = [
            value
            for value in named
            if function is self._first or not isinstance(value, HostFunction)
        ]
        if any(_is_language(one) for one in called if not (takes_numbers and one is _package())):
            return True
        self._pending += named
        self._names.update(code_names(function.__code__))
        names, called = _unnamed(function.__code__)
        self._names |= names
        self._called |= called
        own = function.__globals__
        self._pending += (_call_of(own[name]) for name in called if name in own)
        return False


def _unnamed(code: CodeType) -> tuple[set[str], set[str]]:
    """The methods that a function's instructions call; the names of the globals and attributes that it calls."""
    methods: set[str] = set()
    called: set[str] = set()
    instructions, argument = code.co_code, 0
    for place in range(0, len(instructions), 2):
        name = opname[instructions[place]]
        argument = argument << 8 | instructions[place + 1]
        if name == "EXTENDED_ARG":
            continue
        methods.update(_METHODS.get(name, ()))
        if name == "BINARY_OP":
            is_subscript = argument == 2 * len(_BINARY)
            one = _BINARY[argument % len(_BINARY)]
            methods.update(
                ("__getitem__",) if is_subscript else (f"__{p}{one}__" for p in ("", "r", "i"))
            )
        elif name == "LOAD_METHOD":
            called.add(code.co_names[argument])
        elif (
            name in ("LOAD_GLOBAL", "LOAD_ATTR")
            and argument & 1
            and argument >> 1 < len(code.co_names)
        ):
            called.add(code.co_names[argument >> 1])
        argument = 0
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            more, others = _unnamed(constant)
            methods |= more
            called |= others
    return methods, called


def _parts(value: Any) -> Iterable[Any] | None:
    """The contents of a method, a descriptor or a container; None for another object."""
    if isinstance(value, MethodType):
        return value.__func__, value.__self__
    if isinstance(value, BoundFunction):
        return (value.owner,)
    if isinstance(value, functools.partial):
        bound = cast("functools.partial[Any]", value)
        return bound.func, *bound.args, *bound.keywords.values()
    if isinstance(value, CACHED):
        return (value.__wrapped__,)
    if isinstance(value, staticmethod | classmethod):
        return (cast("Any", value).__func__,)
    if isinstance(value, property):
        return (value.fget,)
    if isinstance(value, functools.cached_property):
        return (cast("Any", value).func,)
    if isinstance(value, dict):
        return cast("dict[Any, Any]", value).values()
    return cast("Iterable[Any]", value) if type(value) in _CONTAINERS else None


def _is_users(kind: type) -> bool:
    return bool(kind.__flags__ & HEAP_TYPE) and package_of(kind) not in _LIBRARIES


def _named_members(item: Any, names: set[str]) -> Iterator[Any]:
    """The attributes of an object or a class that have one of the names, without running descriptors."""
    kind = cast("type", item if isinstance(item, type) else item.__class__)
    for base in kind.__mro__:
        if base.__flags__ & HEAP_TYPE:
            own = vars(base)
            yield from (own[name] for name in names & own.keys())
    own = getattr(item, "__dict__", None)
    if type(own) is dict:
        found = cast("dict[str, Any]", own)
        yield from (found[name] for name in names & found.keys())
    for name in () if isinstance(item, type) else names & slots_of(kind).keys():
        try:
            yield slots_of(kind)[name].__get__(item)
        except AttributeError:
            continue  # it is not assigned


def _call_of(value: Any) -> Any:
    """The method that a call of an object runs; None for a function, and for a class, which makes an instance."""
    kind = cast("type", value.__class__)
    return inspect.getattr_static(kind, "__call__", None) if _is_users(kind) else None


def _is_language(value: object) -> bool:
    if isinstance(value, ModuleType):
        return value.__name__ == "weft" or value.__name__.startswith("weft.primitives.")
    return isinstance(value, _LANGUAGE)


# The numbers among weft's names: a function that takes no others from the package is plain Python.
_NUMBERS: Final = frozenset(("MAX_THREADS", "VECTOR_BYTES", "WARP_SIZE"))
_LOADS: Final = ("LOAD_GLOBAL", "LOAD_NAME")


def _package() -> ModuleType:
    return sys.modules["weft"]


def _takes_numbers_alone(function: FunctionType) -> bool:
    """Whether a function names the package for its numbers, such as `weft.WARP_SIZE`, alone."""
    code, own = function.__code__, function.__globals__
    if _NUMBERS.isdisjoint(code_names(code)):
        return False
    if any(one is _package() for cell in function.__closure__ or () for one in cell_contents(cell)):
        return False
    names = {name for name in code_names(code) if own.get(name) is _package()}
    return bool(names) and _takes_numbers(code, names)


def _takes_numbers(code: CodeType, names: set[str]) -> bool:
    instructions = [one for one in dis.get_instructions(code) if one.opname != "CACHE"]
    for one, following in itertools.pairwise(instructions):
        if one.opname in _LOADS and one.argval in names and following.argval not in _NUMBERS:
            return False
    nested = [one for one in code.co_consts if isinstance(one, CodeType)]
    return all(_takes_numbers(one, names) for one in nested)


def _named_values(function: FunctionType, *, takes_numbers: bool = False) -> Iterator[Any]:
    """The current values of the names in a function's code: globals, free variables, names in modules.

    Args:
        takes_numbers: whether it takes numbers alone from the package, where other names are not the package's: `math`.
    """
    names = list(code_names(function.__code__))
    for name in names:
        if name not in function.__globals__:
            continue
        value = function.__globals__[name]
        yield value
        if isinstance(value, ModuleType):
            is_package = takes_numbers and value is _package()
            inside = [one for one in names if one in _NUMBERS] if is_package else names
            yield from (vars(value)[inner] for inner in inside if inner in vars(value))
    yield from function.__defaults__ or ()
    yield from (function.__kwdefaults__ or {}).values()
    for cell in function.__closure__ or ():
        yield from cell_contents(cell)
