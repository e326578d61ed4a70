# SPDX-License-Identifier: Apache-2.0
"""Attributes, items and operators of objects: tensors, containers, modules, instances of users' classes.

In: a value and a name or an index. Out: a value; loads of elements of tensors. In: a user's class and its arguments, or
an operator and its operands. Out: the instance, whose ``__init__`` is inlined and may take run-time values and which
traced code may change where it was made; the inlined result of the class's method. `NONE` for a class that Python makes
instances of, and where there is no method.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import math
import operator
import sys
from enum import Enum
from types import FunctionType, MemberDescriptorType, ModuleType
from typing import TYPE_CHECKING, Any, Final, cast

from weft.arguments.records import is_dataclass
from weft.arguments.scalar import numpy_scalar_dtype
from weft.blame import HEAP_TYPE, is_of_weft
from weft.errors import NameResolutionError, TypeMismatchError, UnavailableError
from weft.frontend.context import BoundMethod, FrontendCallable, OverIterations
from weft.frontend.expressions.staging import holds_kernel_object, needs_tracing
from weft.frontend.paths import resolved
from weft.frontend.source import is_generated
from weft.frontend.state import constants
from weft.frontend.state.captured import class_attribute, is_constant
from weft.frontend.state.reachable import Attributes, is_fixed, is_plain_object
from weft.frontend.state.repeatable import is_repeatable
from weft.frontend.structure import PLAIN, contains_staged
from weft.language import LANGUAGE, LanguageName, hint_for
from weft.language.asynchronous.tensor_map import are_maps, chosen_map
from weft.language.control import MOST_CHOICES, chosen_number
from weft.language.functions import BoundFunction, KernelFunction
from weft.language.matrix import fragment
from weft.language.memory import access, arrays, views
from weft.language.values import (
    Fragment,
    RunTimeIterable,
    Scalar,
    StagedNamespace,
    StagedSequence,
    Tensor,
    describe,
    is_staged,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from weft.frontend.context import Evaluator, Frame
    from weft.frontend.state.captured import Captures


_FACTS: Final = {"shape": access.dim, "strides": access.stride}
_ABSENT: Final = object()
_CONTAINERS: Final = (list, dict, set)  # whose methods are Python's own
_REPACKING: Final = ("_replace", "_asdict", "_make")  # of named tuples


def attribute(visitor: Evaluator, node: ast.Attribute) -> Any:
    """``value.attr``."""
    frame = visitor.frame
    return read(frame, visitor.evaluate(node.value), frame.source.mangled(node.attr), node)


def read(frame: Frame, value: Any, name: str, node: ast.AST) -> Any:
    """The attribute `name` of a value; operations are located at `node`.

    Raises:
        NameResolutionError: if there is no such attribute.
    """
    if isinstance(value, Fragment):
        return fragment.attribute(frame.mark(node), value, name)
    if isinstance(value, Tensor):
        return views.attribute(frame.mark(node), value, name)
    if is_staged(value):
        return access.attribute(frame.mark(node), value, name)
    value = resolved(value)  # weft.thread_idx may come from a default or a container
    if isinstance(value, StagedNamespace):
        refuse_misplaced(frame, value)
        return access.attribute(frame.mark(node), value, name)
    if isinstance(value, LanguageName):
        return _of_namespace(value, name)
    if name == "over" and isinstance(value, KernelFunction | BoundFunction):
        return _Over(value)
    if name == "max_clusters" and isinstance(value, KernelFunction | BoundFunction):
        return _MaxClusters(value)
    if contains_staged(value) or (_is_computed(value, name) and _is_of_kernel(value, name)):
        return _of_container(frame, value, name)
    run = constants.python if _is_stored(value, name) else frame.state.run
    found = run(f"'.{name}'", _python_attribute, value, name)
    _capture(frame, value, name, found, node)
    return resolved(found)


def _is_computed(value: Any, name: str) -> bool:
    """Whether an attribute is a method or a property of a user's class."""
    if isinstance(value, FrontendCallable):
        return False
    kind = cast("type[Any]", type(value))
    return isinstance(class_attribute(kind, name), FunctionType | property)


def _is_of_kernel(value: Any, name: str) -> bool:
    """Whether a method is of an object that holds what only a kernel knows, or a property reaches the language."""
    found = class_attribute(cast("type[Any]", type(value)), name)
    reads = isinstance(found, property) and isinstance(found.fget, FunctionType)
    return holds_kernel_object(value) or (reads and needs_tracing(cast("Any", found).fget, value))


def _is_stored(value: Any, name: str) -> bool:
    """Whether an attribute is only looked up, without running user code."""
    kind = cast("type[Any]", type(value))
    if isinstance(value, type | Enum):
        owners = (value, kind) if isinstance(value, type) else (kind,)
        found = [class_attribute(owner, name, _ABSENT) for owner in owners]
        is_made = all(one is _ABSENT for one in found) and name not in getattr(
            value, "__dict__", ()
        )
        return not ((is_made and _makes_attributes(kind)) or any(map(_is_users_code, found)))
    if is_fixed(value) or kind in _CONTAINERS:
        return True
    found: Any = class_attribute(kind, name, _ABSENT)
    if kind.__getattribute__ is not object.__getattribute__ or found is _ABSENT:
        return not _makes_attributes(kind)
    return not _is_users_code(found)


def _makes_attributes(kind: type) -> bool:
    """Whether a class has code of its own for attributes that nothing defines, or for all; of a class its metaclass."""
    own = kind.__getattribute__
    return hasattr(kind, "__getattr__") or own not in (
        *(object.__getattribute__, type.__getattribute__),
    )


def has(frame: Frame, value: Any, name: str) -> bool:
    """``hasattr(value, name)`` of a compile-time object."""
    run = constants.python if _is_stored(value, name) else frame.state.run
    found = bool(run("hasattr()", hasattr, value, name))
    kind = cast("type[Any]", type(value))
    may_change = hasattr(value, "__dict__") or kind.__flags__ & HEAP_TYPE
    is_ours = is_of_weft(value if isinstance(value, ModuleType) else kind)
    if may_change and not is_ours and not frame.state.is_made(value):
        frame.context.session.captures.read_presence(value, name, found)
    return found


def _is_users_code(found: object) -> bool:
    """Whether reading a member of a class runs a user's property or descriptor."""
    if isinstance(found, property):
        return not (is_of_weft(found.fget) and is_repeatable(found.fget))
    get = getattr(cast("Any", type(found)), "__get__", None)
    return isinstance(get, FunctionType) and get.__module__ not in ("enum", "types")


def _python_attribute(value: Any, name: str) -> Any:
    try:
        return getattr(value, name)
    except AttributeError as error:
        is_ours = isinstance(value, RunTimeIterable)
        text = f"{value} has no attribute {name!r}" if is_ours else str(error)
        raise NameResolutionError("UNKNOWN_ATTRIBUTE", text) from None


def _of_namespace(namespace: LanguageName, name: str) -> Any:
    """``weft.math.exp``."""
    try:
        return resolved(getattr(namespace, name))
    except AttributeError:
        known = [row for row in LANGUAGE if row.startswith(f"{namespace.name}.")]
        hint = hint_for(name, near=known)
        if isinstance(getattr(math, name, None), float):
            hint = f"write math.{name}, from Python's math module"
        raise NameResolutionError(
            "UNKNOWN_NAME", f"weft.{namespace.name} has no operation {name}", hint=hint
        ) from None


def refuse_misplaced(frame: Frame, value: Any) -> None:
    """Raises if a host function uses a feature of kernel threads, or a kernel one of host functions.

    Raises:
        UnavailableError: naming the operation.
    """
    if frame.context.is_host and not value.on_host:
        raise UnavailableError(
            "HOST_OPERATION",
            f"{value!r} needs a thread of a kernel; this is a host function",
            hint="move it into a kernel, and launch that",
        )
    if not frame.context.is_host and not getattr(value, "in_kernels", True):
        raise UnavailableError(
            "KERNEL_OPERATION",
            f"{value!r} works in a host function; this is a kernel",
            hint="let each thread write its own elements"
            if value.name.startswith("Tensor.")
            else "pass its result as an argument; kernels have weft.shared, weft.local and weft.global_scratch",
        )


def _capture(frame: Frame, value: Any, name: str, found: Any, node: ast.AST) -> None:
    """Records the read if a later call could find another value."""
    kind = cast("type[Any]", type(value))
    is_module = isinstance(value, ModuleType)
    if is_of_weft(value if is_module else kind):
        return
    captures = frame.context.session.captures
    own: Any = getattr(value, "__dict__", ())
    if frame.state.is_made(value):  # whose class may change, but no attributes of its own
        if name not in own and kind.__flags__ & HEAP_TYPE and not isinstance(value, type):
            captures.read_member(kind, name, node)
        return
    if is_module or name in own:
        is_frozen = not is_module and is_dataclass(kind, frozen=True)
        if not (is_frozen and name in kind.__dataclass_fields__ and is_constant(found)):
            captures.read_attribute(value, name, found, node)
    elif isinstance(value, type) or kind.__flags__ & HEAP_TYPE:
        _capture_of_class(captures, value, name, found, node)


def _capture_of_class(captures: Captures, value: Any, name: str, found: Any, node: ast.AST) -> None:
    """Records an attribute that the object itself does not have."""
    kind = cast("type[Any]", type(value))
    raw = class_attribute(value if isinstance(value, type) else kind, name, _ABSENT)
    if raw is _ABSENT and isinstance(value, type):
        raw = class_attribute(kind, name, _ABSENT)
        value = kind if raw is not _ABSENT else value
    if isinstance(raw, MemberDescriptorType) or (raw is _ABSENT and _makes_attributes(kind)):
        captures.read_attribute(value, name, found, node)  # a slot, or made by __getattr__
    elif raw is not _ABSENT:
        captures.read_member(value, name, node)
        if isinstance(raw, property) and isinstance(raw.fget, FunctionType):
            captures.read_function(raw.fget)


def _of_container(frame: Frame, value: Any, name: str) -> Any:
    """An attribute of a container with staged items: fields directly, methods and properties inlined."""
    kind = cast("type[Any]", type(value))
    described = inspect.getattr_static(kind, name, None)
    if isinstance(described, property | FunctionType):
        frame.context.session.captures.read_member(kind, name, name)
    if isinstance(described, property) and isinstance(described.fget, FunctionType):
        return frame.inline(described.fget, (value,))
    if isinstance(described, FunctionType) and not is_mover(value, name):
        return BoundMethod(described, value)
    found = getattr(value, name, _ABSENT)
    if found is _ABSENT:
        raise NameResolutionError(
            "UNKNOWN_ATTRIBUTE",
            f"{constants.kind(value)} has no attribute {name!r}",
            hint="after a branch or a loop, only attributes assigned before it or in both branches exist"
            if frame.state.is_made(value)
            else "",
        )
    return found


def is_mover(value: Any, name: str) -> bool:
    """Whether a method only rearranges a container's items, so that Python can run it."""
    return (
        name in _REPACKING and isinstance(value, tuple) and hasattr(cast("Any", value), "_fields")
    )


def subscript(visitor: Evaluator, node: ast.Subscript) -> Any:
    """``value[index]``."""
    frame = visitor.frame
    if isinstance(node.value, ast.Attribute) and node.value.attr in _FACTS:
        value = visitor.evaluate(node.value.value)
        if isinstance(value, Tensor) and not value.type.is_pointer:
            return _tensor_fact(visitor, value, node, node.value.attr)
        value = read(frame, value, node.value.attr, node.value)
    else:
        value = visitor.evaluate(node.value)
    index = visitor.index(node.slice, value)
    if isinstance(value, KernelFunction | BoundFunction):
        return _configured(frame, value, index)
    if isinstance(value, StagedSequence):
        return value.item(frame.mark(node), index)
    if type(value) not in PLAIN:
        frame.mark(node)
        found = call(frame, value, "__getitem__", index)
        if found is not NONE:
            return found
    if isinstance(value, Fragment):
        return fragment.columns(frame.mark(node), value, index)
    if isinstance(value, Tensor):
        if not views.is_part(value, index):
            refuse_elements(frame, value)
        return views.subscript(frame.mark(node), value, index)
    return item(frame, value, index)


def _configured(frame: Frame, kernel: KernelFunction | BoundFunction, configuration: Any) -> Any:
    """``kernel[grid, block]`` or ``kernel.over(iterations)``; of a method, with its instance."""
    if isinstance(kernel, KernelFunction):
        return frame.context.configure(frame, kernel, configuration)
    return frame.context.configure(frame, kernel.function, configuration, (kernel.owner,))


class _Over(FrontendCallable):
    """``kernel.over``, called with the number of iterations."""

    __slots__ = ("_kernel",)

    def __init__(self, kernel: KernelFunction | BoundFunction) -> None:
        self._kernel = kernel

    def call(self, frame: Frame, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
        """``kernel.over(iterations)``."""
        given = [*arguments, *keywords.values()]
        if len(given) != 1 or not keywords.keys() <= {"iterations"}:
            raise TypeMismatchError(
                "LAUNCH_OVER",
                "over takes one number of iterations",
                hint="write kernel.over(n)(...)",
            )
        return _configured(frame, self._kernel, OverIterations(given[0]))


class _MaxClusters(FrontendCallable):
    """``kernel.max_clusters``, called with the number of blocks."""

    __slots__ = ("_kernel",)

    def __init__(self, kernel: KernelFunction | BoundFunction) -> None:
        self._kernel = kernel

    def call(self, frame: Frame, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
        """``kernel.max_clusters(blocks)``."""
        given = [*arguments, *keywords.values()]
        if len(given) != 1 or not keywords.keys() <= {"blocks"}:
            raise TypeMismatchError(
                "MAX_CLUSTERS",
                "max_clusters takes one number, of the blocks in a cluster",
                hint="write kernel.max_clusters(2)",
            )
        kernel = self._kernel
        own = kernel if isinstance(kernel, KernelFunction) else kernel.function
        return frame.context.max_clusters(frame, own, given[0])


def refuse_elements(frame: Frame, tensor: Tensor) -> None:
    """Raises if a host function touches an element.

    Raises:
        UnavailableError: naming the tensor.
    """
    if frame.context.is_host:
        raise UnavailableError(
            "HOST_ELEMENT",
            f"a host function cannot read or write elements of '{tensor.name}'",
            hint="do it in a kernel; host functions compute with scalars and shapes",
        )


def _tensor_fact(visitor: Evaluator, tensor: Tensor, node: ast.Subscript, name: str) -> Any:
    index = visitor.evaluate(node.slice)
    builder = visitor.frame.mark(node)
    if isinstance(index, int) and not isinstance(index, bool):
        # A single dimension, since the whole tuple would emit operations for all.
        return _FACTS[name](builder, tensor, index)
    return item(visitor.frame, access.attribute(builder, tensor, name), index)


def item(frame: Frame, value: Any, index: Any) -> Any:
    """``value[index]`` of a compile-time container.

    Raises:
        TypeMismatchError: for an index known only at run time.
    """
    if isinstance(index, Scalar) and are_maps(value):
        return chosen_map(frame.builder, value, index)
    if contains_staged(index) and _is_array(value) and not frame.context.is_host:
        return arrays.table_item(frame.builder, arrays.table(frame.builder, value), index)
    if isinstance(index, Scalar) and _are_numbers(value) and not frame.context.is_host:
        return chosen_number(frame.builder, value, index)
    if contains_staged(index):
        raise TypeMismatchError(
            "INDEX_STAGED",
            f"{constants.kind(value)} is indexed by {describe(index)}, known only at run time",
            hint="make it a NumPy array, pass it to the kernel as a tensor, or unroll with weft.static_range",
        )
    if is_staged(value):
        raise TypeMismatchError("TYPE_NOT_SUBSCRIPTABLE", f"{describe(value)} has no elements")
    return resolved(frame.state.ask("the index", operator.getitem, value, index))


def _is_array(value: Any) -> bool:
    """Whether a captured value is a NumPy array."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and type(value) is numpy.ndarray


def _are_numbers(value: Any) -> bool:
    """Whether a value is a tuple or list of numbers, which a run-time number may index."""
    return (
        type(value) in (tuple, list)
        and 0 < len(value) <= MOST_CHOICES
        and all(
            isinstance(one, Scalar | int | float) or numpy_scalar_dtype(one) is not None
            for one in value
        )
    )


def make(frame: Frame, kind: Any, arguments: list[Any], keywords: dict[str, Any]) -> Any:
    """``kind(*arguments, **keywords)``, with its ``__init__`` inlined; `NONE` if it is not of this sort."""
    if not isinstance(kind, type) or type(kind).__call__ is not type.__call__:
        return NONE
    if kind.__new__ is not object.__new__ or is_dataclass(kind, frozen=True):
        return NONE
    start = inspect.getattr_static(kind, "__init__")
    if not isinstance(start, FunctionType):
        return NONE
    after = inspect.getattr_static(kind, "__post_init__", None)
    run = after if is_generated(start) else start
    is_traced = contains_staged(arguments) or contains_staged(keywords)
    if not is_traced and not (
        isinstance(run, FunctionType) and needs_tracing(run, kind, arguments, keywords)
    ):
        return NONE
    made = constants.python(f"{kind.__name__}()", object.__new__, kind)
    if not is_plain_object(made):
        return NONE
    frame.state.note(made)
    if is_generated(start):
        return _filled(frame, made, start, after, arguments, keywords)
    if frame.inline(start, [made, *arguments], keywords) is not None:
        raise TypeMismatchError(
            "CALL_ARGUMENTS", f"{kind.__name__}.__init__() should return None, as Python demands"
        )
    return made


def base_methods(frame: Frame) -> Any:
    """The value of ``super()`` in a method being inlined; `NONE` outside of one."""
    cell, parameters = frame.source.closure.get("__class__"), frame.source.tree.args
    first = next(iter([*parameters.posonlyargs, *parameters.args]), None)
    if cell is None or first is None or frame.scope.parent is not None:
        return NONE
    return constants.python("super()", super, cell.cell_contents, frame.scope.lookup(first.arg))


def _filled(
    frame: Frame,
    made: Any,
    start: FunctionType,
    after: Any,
    arguments: list[Any],
    keywords: dict[str, Any],
) -> Any:
    """An instance of a dataclass, with its fields as its generated ``__init__`` assigns them."""
    kind = cast("Any", type(made))
    signature = inspect.signature(start)
    try:
        given = signature.bind(made, *arguments, **keywords).arguments
    except TypeError as error:
        raise TypeMismatchError("CALL_ARGUMENTS", f"{kind.__name__}(): {error}") from None
    handed: list[Any] = []
    attributes = Attributes(made)
    for field in kind.__dataclass_fields__.values():
        if field.init and field.name in given:
            value = given[field.name]
        elif field.default_factory is not dataclasses.MISSING:
            value = frame.state.run(f"{field.name}=", field.default_factory)
        elif field.default is not dataclasses.MISSING:
            value = field.default
        else:
            continue
        if field._field_type.name == "_FIELD":
            attributes[field.name] = value
        elif field._field_type.name == "_FIELD_INITVAR":
            handed.append(value)
    if isinstance(after, FunctionType):
        frame.inline(after, [made, *handed], {})
    return made


NONE: Final = NotImplemented
"""The value for "no method": Python's own, which a method may return too."""

_BINARY: Final = {
    "+": "add",
    "-": "sub",
    "*": "mul",
    "/": "truediv",
    "//": "floordiv",
    "%": "mod",
    "**": "pow",
    "<<": "lshift",
    ">>": "rshift",
    "&": "and",
    "|": "or",
    "^": "xor",
    "@": "matmul",
}
_UNARY: Final = {"-": "__neg__", "+": "__pos__", "~": "__invert__"}
# Operator → its method, and the other operand's method tried next.
_COMPARISONS: Final = {
    "==": ("__eq__", "__eq__"),
    "!=": ("__ne__", "__ne__"),
    "<": ("__lt__", "__gt__"),
    "<=": ("__le__", "__ge__"),
    ">": ("__gt__", "__lt__"),
    ">=": ("__ge__", "__le__"),
}


def binary(frame: Frame, sign: str, left: Any, right: Any, *, in_place: bool = False) -> Any:
    """``left sign right`` by a method of either operand's class."""
    name = _BINARY[sign]
    found: Any = NONE
    if in_place:
        found = call(frame, left, f"__i{name}__", right)
    if found is NONE:
        found = call(frame, left, f"__{name}__", right)
    return call(frame, right, f"__r{name}__", left) if found is NONE else found


def unary(frame: Frame, sign: str, value: Any) -> Any:
    """``sign value`` by a method of the value's class."""
    return call(frame, value, _UNARY[sign])


def compare(frame: Frame, sign: str, left: Any, right: Any) -> Any:
    """``left sign right`` by a method of either operand's class."""
    first, second = _COMPARISONS[sign]
    found = call(frame, left, first, right)
    return call(frame, right, second, left) if found is NONE else found


def call(frame: Frame, owner: Any, name: str, *arguments: Any) -> Any:
    """``owner.name(*arguments)``, inlined if the class is the user's and a value is staged."""
    function = find(owner, name)
    kind = cast("type[Any]", type(owner))
    if kind.__flags__ & HEAP_TYPE:  # also without the method, which the class may get later
        frame.context.session.captures.read_member(kind, name, name)
    if function is None:
        return NONE
    if not holds_kernel_object((owner, *arguments)) and not needs_tracing(
        function, owner, *arguments
    ):
        return NONE
    return frame.inline(function, (owner, *arguments), {})


def find(owner: Any, name: str) -> FunctionType | None:
    """The method of that name, if the object's class has one in Python."""
    if is_staged(owner) or isinstance(owner, type):
        return None
    function = inspect.getattr_static(cast("Any", type(owner)), name, None)
    # Methods generated by `dataclass` have no text; the front end implements them.
    if not isinstance(function, FunctionType) or is_generated(function):
        return None
    return function
