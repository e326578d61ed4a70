# SPDX-License-Identifier: Apache-2.0
"""The facts on a path of control flow: each name's value, and whether control continues.

In: assignments and exits, in program order. Out: `Path`, which a fork copies for each side and then joins again;
docs/control-flow.md follows one through a function. A name is a variable of the function, else an enclosing one's, else
Python's; reads give values, or an error that explains why a name has none.
"""

from __future__ import annotations

import builtins
from copy import copy
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final

from weft.errors import NameResolutionError, TypeMismatchError
from weft.frontend.structure import contains_staged, staged_attribute
from weft.language import NAMESPACES, LanguageName, hint_for, resolve

if TYPE_CHECKING:
    from xdsl.ir import SSAValue

    from weft.frontend.source import FunctionSource
    from weft.frontend.state.captured import Captures
    from weft.frontend.state.reachable import Slot
    from weft.frontend.syntax import Exits, Names
    from weft.language.values import Scalar
    from weft.location import SourceLocation


@dataclass(slots=True, eq=False)
class Assigned:
    """A variable has a value.

    Attributes:
        value: a Python object, or a staged value.
        place: of its assignment, for messages.
    """

    value: Any
    place: SourceLocation | None = None


@dataclass(slots=True, eq=False)
class Undefined:
    """A variable is not assigned on every path that leads here.

    Attributes:
        reason: the rest of the sentence "'x' ...".
        hint: what to do about it.
        place: of its last assignment, or None.
    """

    reason: str
    hint: str = ""
    place: SourceLocation | None = None

    def error(self, name: str) -> NameResolutionError:
        """The error for using the variable."""
        return NameResolutionError("NAME_UNDEFINED", f"'{name}' {self.reason}", hint=self.hint)

    def without_value(self) -> Undefined:
        """The same once nothing can prove that it has a value."""
        return Undefined(self.reason, self.hint, self.place)


@dataclass(slots=True, eq=False)
class LeftEarly(Undefined):
    """A variable has a value only if a loop was left by `break`, such as a search result.

    After the loop, and in its `else`, it is known which happened.

    Attributes:
        value: then; otherwise never read.
        loop: the loop.
    """

    value: Any = None
    loop: EnclosingLoop | None = None


@dataclass(slots=True, eq=False)
class WhenDecided(Undefined):
    """A variable is assigned by a conditionally evaluated part of a condition.

    After ``if a and (t := f()) > 0:`` it has its value, since the condition holds only if all of it was evaluated.

    Attributes:
        value: then; otherwise never read.
        holds: the truth of the condition that implies its evaluation: true for ``and``, false for ``or``.
        condition: the condition's value; None until it is known.
    """

    value: Any = None
    holds: bool = True
    condition: SSAValue | None = None


@dataclass(slots=True, eq=False)
class Conflict:
    """The paths that lead here have incompatible values of a variable.

    Attributes:
        text: the rest of the sentence "'x' ...", with both values and both places.
        hint: what to do about it.
        place: of its last assignment, or None.
    """

    text: str
    hint: str
    place: SourceLocation | None = None

    def error(self, name: str) -> TypeMismatchError:
        """The error for using the variable."""
        return TypeMismatchError("TYPE_JOIN", f"'{name}' {self.text}", hint=self.hint)

    def result_error(self, function: str) -> TypeMismatchError:
        """The error for a function whose paths return such values."""
        return TypeMismatchError(
            "RETURN_TYPE",
            f"'{function}' returns different types: its value {self.text}",
            hint=self.hint,
            location=self.place,
        )


Binding = Assigned | Undefined | Conflict
"""A variable's state on a path; reading it is an error unless `Assigned`."""

NOT_RETURNED: Final = Undefined("has not been returned")


class EnclosingLoop:
    """A loop as seen by the branches in its body.

    Attributes:
        line: of its statement.
        exits: how control leaves its body.
        head: names read in a later iteration, or after the loop.
    """

    __slots__ = ("exits", "head", "line")

    def __init__(self, line: int, exits: Exits, head: Names) -> None:
        self.line = line
        self.exits = exits
        self.head = head

    def left_early(self, value: Any, place: SourceLocation | None) -> LeftEarly:
        """A variable with this value only if the loop is left by a break."""
        reason = f"is assigned only where the loop in line {self.line} is left by a break"
        hint = "assign it before the loop, or in the loop's else"
        return LeftEarly(reason, hint, place, value, self)


class Path:
    """One path of control flow, at the place being traced.

    Flags are bools if known, else staged; None after a join if unused.

    Attributes:
        variables: the function's variables, in the order of their first assignment.
        live: whether control continues in this block: false after a break, continue or return.
        looping: whether the innermost loop continues: false after a break or return.
        active: whether the function continues: false after a return.
        broken: whether this iteration of the innermost loop may have met a break.
        result: the function's result.
        changed: at the end of a region, the values of items and attributes of objects made before it.
    """

    __slots__ = ("active", "broken", "changed", "live", "looping", "result", "variables")

    def __init__(self) -> None:
        self.variables: dict[str, Binding] = {}
        self.live: bool | Scalar | None = True
        self.looping: bool | Scalar | None = True
        self.active: bool | Scalar | None = True
        self.broken = False
        self.result: Binding = NOT_RETURNED
        self.changed: dict[Slot, Any] = {}

    def copy(self) -> Path:
        """A copy that continues independently."""
        made = copy(self)
        made.variables = dict(self.variables)
        made.changed = {}
        return made

    def where(self, condition: SSAValue, holds: bool) -> Path:
        """The path where a condition holds, or does not, with everything it decides."""
        made = self.copy()
        for name, binding in self.variables.items():
            if isinstance(binding, WhenDecided) and binding.holds is holds:
                if binding.condition is condition:
                    made.variables[name] = Assigned(binding.value, binding.place)
        return made

    def place(self, name: str) -> SourceLocation | None:
        """The place of a variable's last assignment, if any."""
        binding = self.variables.get(name)
        return binding and binding.place

    def resume(self, loop: EnclosingLoop | None) -> None:
        """Control surely continues here: no exit was taken, and no break in this iteration of the loop."""
        self.live = self.looping = self.active = True
        if loop is not None:
            self.broken = False
            self.settle(loop, was_left=False)

    def end(self, flag: Scalar) -> None:
        """Control does not continue here, since `flag` is false, as are all flags it implies."""
        for name in ("live", "looping", "active"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, bool) and value.ssa is flag.ssa:
                setattr(self, name, False)

    def settle(self, loop: EnclosingLoop, *, was_left: bool) -> None:
        """Settles whether a loop was left by a break, and the variables that depend on it."""
        for name, binding in self.variables.items():
            if isinstance(binding, LeftEarly) and binding.loop is loop:
                known = Assigned(binding.value, binding.place)
                self.variables[name] = known if was_left else binding.without_value()


_BUILTINS: Final = vars(builtins)
_ABSENT: Final = object()


class Scope:
    """The variables of one function while it is traced.

    Attributes:
        path: the path being traced. Control flow swaps it for each region.
        covered: variable → its value outside the comprehensions being evaluated that hide it, as seen by functions
            defined outside them.
        local_names: every name assigned anywhere in the function, which Python makes local.
        parent: the scope of the enclosing function, or None.
        is_foreign: whether `parent` belongs to another IR function: a host function, whose run-time values a kernel
            cannot see.
        source: the outermost function of these statements, with globals and closure.
    """

    __slots__ = ("_captures", "covered", "is_foreign", "local_names", "parent", "path", "source")

    def __init__(
        self,
        source: FunctionSource,
        local_names: Names,
        captures: Captures,
        parent: Scope | None = None,
        is_foreign: bool = False,
    ) -> None:
        self.path = Path()
        self.covered: dict[str, Binding | None] = {}
        self.local_names = local_names
        self.parent = parent
        self.source = source
        self.is_foreign = is_foreign
        self._captures = captures

    def assign(self, name: str, value: object, place: SourceLocation) -> None:
        """Gives a variable its value."""
        self.path.variables[name] = Assigned(value, place)

    def assigned(self) -> dict[str, object]:
        """The variables that have a value."""
        variables = self.path.variables
        return {
            name: found.value for name, found in variables.items() if isinstance(found, Assigned)
        }

    def cover(self, names: Names) -> list[str]:
        """Records that a comprehension hides these names; returns those not hidden before."""
        new = [name for name in names if name not in self.covered]
        for name in new:
            self.covered[name] = self.path.variables.get(name)
        return new

    def uncover(self, names: list[str]) -> None:
        """Ends `cover`, with its result."""
        for name in names:
            del self.covered[name]

    def lookup(self, name: str) -> Any:
        """The value of a name.

        Raises:
            NameResolutionError: if it is not assigned here, or unknown.
            TypeMismatchError: if the paths that lead here have different types.
        """
        return self._meaning(name, self.path.variables.get(name))

    def _meaning(self, name: str, binding: Binding | None) -> Any:
        if isinstance(binding, Assigned):
            return binding.value
        if binding is not None:
            raise binding.error(name)
        if name in self.local_names:
            raise NameResolutionError(
                "NAME_UNDEFINED", f"'{name}' is used before it is assigned in this function"
            )
        if self.parent is not None:
            value = self.parent.lookup_from_nested(name)
            if self.is_foreign and (contains_staged(value) or staged_attribute(value)):
                raise TypeMismatchError(
                    "CAPTURED_STAGED",
                    f"'{name}' is a run-time value of the host function, which a kernel cannot see",
                    hint="pass it to the kernel as an argument",
                )
            return value
        return self._from_python(name)

    def lookup_from_nested(self, name: str) -> Any:
        """The value of a name for a function defined here, outside any comprehension."""
        binding = self.covered[name] if name in self.covered else self.path.variables.get(name)
        return self._meaning(name, binding)

    def _from_python(self, name: str) -> Any:
        cell = self.source.closure.get(name)
        if cell is not None:
            try:
                value = cell.cell_contents
            except ValueError:
                raise NameResolutionError(
                    "NAME_UNDEFINED", f"'{name}' of the enclosing function has no value yet"
                ) from None
            self._captures.read_cell(cell, name, value)
            return resolved(value)
        namespace = self.source.globals
        value = namespace.get(name, _ABSENT)
        if value is not _ABSENT:
            self._captures.read_global(namespace, name, value)
            return resolved(value)
        value = _BUILTINS.get(name, _ABSENT)
        if value is not _ABSENT:
            self._captures.read_builtin(namespace, name, value)
            return value
        raise self._unknown(name)

    def _unknown(self, name: str) -> NameResolutionError:
        known = {*self.local_names, *self.source.closure, *self.source.globals, *_BUILTINS}
        near = get_close_matches(name, sorted(known), n=3, cutoff=0.6)
        hint = f"did you mean {' or '.join(near)}?" if near else ""
        hint = hint or hint_for(name, near=())
        return NameResolutionError("NAME_UNKNOWN", f"'{name}' is not defined", hint=hint)


def resolved(value: object) -> Any:
    """A Python value in compiled code: names of the kernel language become their objects.

    Raises:
        UnavailableError: for a name of the language missing in this version.
    """
    if isinstance(value, LanguageName) and value.name not in NAMESPACES:
        return resolve(value.name)
    return value
