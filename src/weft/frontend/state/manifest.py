# SPDX-License-Identifier: Apache-2.0
"""Reads of a compilation, by the path from its function, so that another process can read it again and compare.

In: the captures of a trace. Out: `Manifest`: each read by the place of its owner, and one digest of all contents; the
same of what is there now.
"""

from __future__ import annotations

import builtins
import math
import operator
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from weft.arguments.constant import ConstantKind
from weft.blame import is_of_weft, top_package
from weft.frontend.source.text import plain_function
from weft.frontend.state.captured import Captures, cell_contents
from weft.frontend.state.content import Content, Unknown

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from weft.arguments.signature import Signature
    from weft.frontend.source.text import FunctionSource

ROOT: Final = -1
_ABSENT: Final = object()
_PATHS: Final = "paths"
"""The kind of a last step, which has the path of each file in the digest."""

# Of one read: the number of the read whose value owns it, or ROOT; its kind; its name.
Step = tuple[int, str, str]


class Manifest(NamedTuple):
    """A value that was read, or is there now.

    Attributes:
        steps: each read, after that of its owner.
        digest: of all values.
        captures: the values, which direct calls compare again.
        functions: those whose text was read, by id.
        values: of the steps, in order.
    """

    steps: tuple[Step, ...]
    digest: str
    captures: Captures
    functions: dict[int, FunctionType]
    values: tuple[Any, ...]


def describe(
    source: FunctionSource,
    signature: Signature,
    captures: Captures,
    traced: Iterable[Any],
    *,
    has_paths: bool = False,
) -> Manifest:
    """The manifest of a trace that has just ended.

    Args:
        source: of the host function.
        signature: of its parameters, some of which are constants.
        captures: what was read.
        traced: the functions whose text was traced.
        has_paths: whether the result holds paths of their files, so that it is of this checkout only.
    Raises:
        Unknown: if something was read that has no path or no content.
    """
    if captures.unknown:
        raise Unknown(captures.unknown)
    owners: dict[int, int] = {}
    steps: list[Step] = []
    values: list[Any] = []
    content = Content(source.texts)
    _own(owners, source.function, ROOT)
    for name, value in _constants(signature).items():
        _own(owners, value, len(steps))
        steps.append((ROOT, "constant", name))
        values.append(value)
        content.add(value)
    for read in captures.reads.values():
        if read.kind == "global" and top_package(read.owner.get("__name__")) == "weft":  # pyright: ignore
            continue
        owner = owners.get(id(read.owner))
        if owner is None and _is_ours(read.owner):
            continue
        if owner is None:
            raise Unknown(f"{read.name}, which was not reached by a name")
        if read.kind != "presence":
            _own(owners, read.value, len(steps))
        steps.append((owner, read.kind, read.name))
        values.append(read.value)
        content.add(read.value)
    for function in traced:
        plain = plain_function(function)
        if plain is None or is_of_weft(plain) or plain is source.function:
            continue
        if id(plain) not in content.functions:
            raise Unknown(f"{plain.__qualname__}, which was not reached by a name")
    if not all(value.is_current() for value in captures.values()):
        raise Unknown("a value that changed meanwhile")
    if has_paths:
        steps.append((ROOT, _PATHS, ""))
        _say_paths(content, source)
    digest = content.digest()
    return Manifest(tuple(steps), digest, captures, content.functions, tuple(values))


def read_again(
    source: FunctionSource, signature: Signature, steps: Sequence[Step]
) -> Manifest | None:
    """The present value where a trace read; None if a place is gone.

    Raises:
        Unknown: if the content of a value cannot be told.
    """
    constants = _constants(signature)
    captures, content = Captures(), Content(source.texts)
    values: list[Any] = []
    for owner_number, kind, name in steps:
        if kind == _PATHS:
            _say_paths(content, source)
            break
        owner = source.function if owner_number == ROOT else values[owner_number]
        value = (
            constants.get(name, _ABSENT)
            if kind == "constant"
            else _read(captures, owner, kind, name)
        )
        if value is _ABSENT:
            return None
        values.append(value)
        content.add(value)
    digest = content.digest()
    _note_reached(captures, source, content)
    return Manifest(tuple(steps), digest, captures, content.functions, tuple(values))


def _note_reached(captures: Captures, source: FunctionSource, content: Content) -> None:
    """Records what a trace would have recorded beside names: the code of functions, what classes define."""
    captures.read_code(source.function)
    for function in content.functions.values():
        captures.read_code(function)
    for kernel in content.kernels:
        captures.read_staged(kernel)
    for kind in content.classes:
        captures.read_class(kind)
    for item in content.objects:
        captures.read_names(item)


def _say_paths(content: Content, source: FunctionSource) -> None:
    functions = content.functions.values()
    content.say(source.file, *(function.__code__.co_filename for function in functions))


def _read(captures: Captures, owner: Any, kind: str, name: str) -> Any:
    if kind == "attribute":
        value = getattr(owner, name, _ABSENT)
        if value is not _ABSENT:
            captures.read_attribute(owner, name, value, name)
        return value
    if kind == "presence":
        captures.read_presence(owner, name, is_there := hasattr(owner, name))
        return is_there
    function = plain_function(owner)
    if function is None:
        return _ABSENT
    if kind == "global":
        namespace = function.__globals__
        if name not in namespace:
            value = getattr(builtins, name, _ABSENT)
            if value is not _ABSENT:
                captures.read_builtin(namespace, name, value)
            return value
        captures.read_global(namespace, name, namespace[name])
        return namespace[name]
    if name not in function.__code__.co_freevars or not function.__closure__:
        return _ABSENT
    cell = function.__closure__[function.__code__.co_freevars.index(name)]
    for value in cell_contents(cell):
        captures.read_cell(cell, name, value)
        return value
    return _ABSENT


def _is_ours(owner: object) -> bool:
    """Whether it is a module that only weft's own functions have named: it is as the key says."""
    return isinstance(owner, ModuleType) and (owner in (math, operator) or is_of_weft(owner))


def _own(owners: dict[int, int], value: Any, number: int) -> None:
    """Notes that an object, and a function's namespace and cells, are reached by a read."""
    owners.setdefault(id(value), number)
    function = plain_function(value)
    if function is not None:
        owners.setdefault(id(function.__globals__), number)
        for cell in function.__closure__ or ():
            owners.setdefault(id(cell), number)


def _constants(signature: Signature) -> dict[str, Any]:
    """The values of the compile-time parameters."""
    kinds = ((parameter.name, parameter.kind) for parameter in signature.parameters)
    return {name: kind.value for name, kind in kinds if isinstance(kind, ConstantKind)}
