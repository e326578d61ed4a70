# SPDX-License-Identifier: Apache-2.0
"""What is known on one path of control flow: what each variable holds, and how far control goes on.

In: assignments and exits, in the order of the program. Out: `Path`, which a fork copies for each of its sides and
then makes one again; docs/control-flow.md follows one through a function.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from weft.errors import NameResolutionError, TypeMismatchError

if TYPE_CHECKING:
    from xdsl.ir import SSAValue

    from weft.frontend.source.names import Exits, Names
    from weft.language.values import Scalar
    from weft.location import SourceLocation


@dataclass(slots=True, eq=False)
class Assigned:
    """A variable has a value.

    Attributes:
        value: a Python object, or a staged value.
        place: where it was assigned, for messages.
    """

    value: Any
    place: SourceLocation | None = None


@dataclass(slots=True, eq=False)
class Undefined:
    """A variable is not assigned on every path that leads here.

    Attributes:
        reason: the rest of the sentence "'x' ...".
        hint: what to do about it.
        place: where it was assigned last, or None.
    """

    reason: str
    hint: str = ""
    place: SourceLocation | None = None

    def error(self, name: str) -> NameResolutionError:
        """The error of using the variable."""
        return NameResolutionError("NAME_UNDEFINED", f"'{name}' {self.reason}", hint=self.hint)

    def without_value(self) -> Undefined:
        """The same where nothing can tell any more that there is a value."""
        return Undefined(self.reason, self.hint, self.place)


@dataclass(slots=True, eq=False)
class LeftEarly(Undefined):
    """A variable has a value only where a loop was left by `break`, such as what was looked for.

    After the loop, and in its `else`, it is known which of the two happened.

    Attributes:
        value: the value there; elsewhere it is never read.
        loop: the loop.
    """

    value: Any = None
    loop: EnclosingLoop | None = None


@dataclass(slots=True, eq=False)
class WhenDecided(Undefined):
    """A variable is assigned by a part of a condition that is not always evaluated.

    After ``if a and (t := f()) > 0:`` it has its value, since the condition holds only where all of it was.

    Attributes:
        value: the value there; elsewhere it is never read.
        holds: the truth of the condition that tells that it was evaluated: true for ``and``, false for ``or``.
        condition: the condition's value; None until it is known.
    """

    value: Any = None
    holds: bool = True
    condition: SSAValue | None = None


@dataclass(slots=True, eq=False)
class Conflict:
    """The paths that lead here brought values of a variable that do not go together.

    Attributes:
        text: the rest of the sentence "'x' ...", with both values and both places.
        hint: what to do about it.
        place: where it was assigned last, or None.
    """

    text: str
    hint: str
    place: SourceLocation | None = None

    def error(self, name: str) -> TypeMismatchError:
        """The error of using the variable."""
        return TypeMismatchError("TYPE_JOIN", f"'{name}' {self.text}", hint=self.hint)

    def result_error(self, function: str) -> TypeMismatchError:
        """The error of a function whose paths return such values."""
        return TypeMismatchError(
            "RETURN_TYPE",
            f"'{function}' returns different types: its value {self.text}",
            hint=self.hint,
            location=self.place,
        )


Binding = Assigned | Undefined | Conflict
"""What a variable holds on a path; it is read where it is `Assigned`, and an error elsewhere."""

NOT_RETURNED: Final = Undefined("has not been returned")


class EnclosingLoop:
    """A loop as the branches in its body see it.

    Attributes:
        line: where it stands.
        exits: how control leaves its body.
        head: names that are read in a later round, or after the loop.
    """

    __slots__ = ("exits", "head", "line")

    def __init__(self, line: int, exits: Exits, head: Names) -> None:
        self.line = line
        self.exits = exits
        self.head = head

    def left_early(self, value: Any, place: SourceLocation | None) -> LeftEarly:
        """A variable that has this value only where the loop is left by a break."""
        reason = f"is assigned only where the loop in line {self.line} is left by a break"
        hint = "assign it before the loop, or in the loop's else"
        return LeftEarly(reason, hint, place, value, self)


class Path:
    """One path of control flow, at the place that is being traced.

    The flags are bools where Python knows, else staged ones; None after a join where nothing asks for them.

    Attributes:
        variables: the function's variables, in the order of their first assignment.
        live: whether control goes on in this block: false after a break, continue or return.
        looping: whether the innermost loop goes on: false once a break or return was met.
        active: whether the function goes on: false once a return was met.
        broken: whether a break may have been met in this round of the innermost loop.
        result: what the function returns.
    """

    __slots__ = ("active", "broken", "live", "looping", "result", "variables")

    def __init__(self) -> None:
        self.variables: dict[str, Binding] = {}
        self.live: bool | Scalar | None = True
        self.looping: bool | Scalar | None = True
        self.active: bool | Scalar | None = True
        self.broken = False
        self.result: Binding = NOT_RETURNED

    def copy(self) -> Path:
        """The same path, to be gone on with on its own."""
        made = copy(self)
        made.variables = dict(self.variables)
        return made

    def where(self, condition: SSAValue, holds: bool) -> Path:
        """The path where a condition holds, or does not: what it decides is known there."""
        made = self.copy()
        for name, binding in self.variables.items():
            if isinstance(binding, WhenDecided) and binding.holds is holds:
                if binding.condition is condition:
                    made.variables[name] = Assigned(binding.value, binding.place)
        return made

    def place(self, name: str) -> SourceLocation | None:
        """Where a variable was assigned last, if it was."""
        binding = self.variables.get(name)
        return binding and binding.place

    def resume(self, loop: EnclosingLoop | None) -> None:
        """Control surely goes on here: nothing was left, and in this round of the loop no break was met."""
        self.live = self.looping = self.active = True
        if loop is not None:
            self.broken = False
            self.settle(loop, was_left=False)

    def end(self, flag: Scalar) -> None:
        """Control does not go on here, since `flag` is false: so are all that it stands for."""
        for name in ("live", "looping", "active"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, bool) and value.ssa is flag.ssa:
                setattr(self, name, False)

    def settle(self, loop: EnclosingLoop, *, was_left: bool) -> None:
        """It is known now whether a loop was left by a break: so is what has a value only where it was."""
        for name, binding in self.variables.items():
            if isinstance(binding, LeftEarly) and binding.loop is loop:
                known = Assigned(binding.value, binding.place)
                self.variables[name] = known if was_left else binding.without_value()
