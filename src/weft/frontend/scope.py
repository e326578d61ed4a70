# SPDX-License-Identifier: Apache-2.0
"""What the names of a traced function mean: its variables, then those around it, then Python's.

In: assignments and reads. Out: values, or the error that says where a name got lost.
"""

from __future__ import annotations

import builtins
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final

from weft.errors import NameResolutionError, TypeMismatchError
from weft.frontend.structure import contains_staged
from weft.language import LanguageName, hint_for, resolve

if TYPE_CHECKING:
    from xdsl.ir import SSAValue

    from weft.frontend.source.names import Names
    from weft.frontend.source.text import FunctionSource
    from weft.frontend.state.captured import Captures
    from weft.location import SourceLocation

_BUILTINS: Final = vars(builtins)
_ABSENT: Final = object()


class Undefined:
    """What a variable holds that is not assigned on every path that leads here.

    Attributes:
        reason: the rest of the sentence "'x' ...".
        hint: what to do about it.
    """

    __slots__ = ("hint", "reason")

    def __init__(self, reason: str, hint: str = "") -> None:
        self.reason = reason
        self.hint = hint

    def error(self, name: str) -> NameResolutionError:
        """The error of using the variable."""
        return NameResolutionError("NAME_UNDEFINED", f"'{name}' {self.reason}", hint=self.hint)


class LeftEarly(Undefined):
    """What a variable holds that has a value only where a loop was left by `break`, such as what was looked for.

    Behind the loop, and in its `else`, it is known which of the two happened.

    Attributes:
        value: the value there; elsewhere nobody looks at it.
        loop: the loop.
    """

    __slots__ = ("loop", "value")

    def __init__(self, value: Any, loop: object, line: int) -> None:
        super().__init__(
            f"is assigned only where the loop in line {line} is left by a break",
            "assign it before the loop, or in the loop's else",
        )
        self.value = value
        self.loop = loop


class WhenDecided(Undefined):
    """What a variable holds that a condition assigns in a part which is not always evaluated.

    Behind ``if a and (t := f()) > 0:`` it has its value, since the condition holds only where all of it was.

    Attributes:
        value: the value there; elsewhere nobody looks at it.
        holds: the truth of the condition that tells that it was evaluated: true for ``and``, false for ``or``.
        condition: the condition's value; None until it is known.
    """

    __slots__ = ("condition", "holds", "value")

    def __init__(self, undefined: Undefined, value: Any, *, holds: bool) -> None:
        super().__init__(undefined.reason, undefined.hint)
        self.value = value
        self.holds = holds
        self.condition: SSAValue | None = None


class Conflict:
    """What a variable holds whose paths brought values that do not go together.

    Attributes:
        text: the rest of the sentence "'x' ...", with both values and both places.
        hint: what to do about it.
    """

    __slots__ = ("hint", "text")

    def __init__(self, text: str, hint: str) -> None:
        self.text = text
        self.hint = hint

    def error(self, name: str) -> TypeMismatchError:
        """The error of using the variable."""
        return TypeMismatchError("TYPE_JOIN", f"'{name}' {self.text}", hint=self.hint)


def return_type_error(function: str, conflict: Conflict) -> TypeMismatchError:
    """The error for a function whose paths return different types."""
    return TypeMismatchError(
        "RETURN_TYPE",
        f"'{function}' returns different types: its value {conflict.text}",
        hint=conflict.hint,
    )


class Scope:
    """The variables of one function while it is traced.

    Attributes:
        values: variable → value now. Control flow swaps the dict for each region that it traces.
        places: variable → where it was last assigned, for messages.
        covered: variable → its value outside of the comprehensions that are being evaluated and have a
            variable of that name. Functions defined outside of them see that one.
        local_names: every name that the function assigns somewhere, which Python makes local.
        parent: the scope of the function around a nested one, or None.
        is_foreign: whether `parent` belongs to another function of the IR: a host function, whose run-time
            values a kernel cannot see.
        source: the outermost function that these statements belong to, with globals and closure.
    """

    __slots__ = (
        "_captures",
        "covered",
        "is_foreign",
        "local_names",
        "parent",
        "places",
        "source",
        "values",
    )

    def __init__(
        self,
        source: FunctionSource,
        local_names: Names,
        captures: Captures,
        parent: Scope | None = None,
        is_foreign: bool = False,
    ) -> None:
        self.values: dict[str, Any] = {}
        self.places: dict[str, SourceLocation] = {}
        self.covered: dict[str, Any] = {}
        self.local_names = local_names
        self.parent = parent
        self.source = source
        self.is_foreign = is_foreign
        self._captures = captures

    def assign(self, name: str, value: object, place: SourceLocation) -> None:
        """Gives a variable its value."""
        self.values[name] = value
        self.places[name] = place

    def cover(self, names: Names) -> list[str]:
        """Notes that a comprehension has variables of these names; returns those that no other covers yet."""
        new = [name for name in names if name not in self.covered]
        for name in new:
            self.covered[name] = self.values.get(name, _ABSENT)
        return new

    def uncover(self, names: list[str]) -> None:
        """Ends `cover`, with what it returned."""
        for name in names:
            del self.covered[name]

    def lookup(self, name: str) -> Any:
        """The value of a name.

        Raises:
            NameResolutionError: if it is not assigned here, or not known at all.
            TypeMismatchError: if the paths that lead here brought different types.
        """
        return self._meaning(name, self.values.get(name, _ABSENT))

    def _meaning(self, name: str, value: Any) -> Any:
        if value is not _ABSENT:
            if isinstance(value, Undefined | Conflict):
                raise value.error(name)
            return value
        if name in self.local_names:
            raise NameResolutionError(
                "NAME_UNDEFINED", f"'{name}' is used before it is assigned in this function"
            )
        if self.parent is not None:
            value = self.parent.lookup_from_nested(name)
            if self.is_foreign and contains_staged(value):
                raise TypeMismatchError(
                    "CAPTURED_STAGED",
                    f"'{name}' is a run-time value of the host function, which a kernel cannot see",
                    hint="pass it to the kernel as an argument",
                )
            return value
        return self._from_python(name)

    def lookup_from_nested(self, name: str) -> Any:
        """The value of a name for a function that was defined here, outside of any comprehension."""
        value = self.covered.get(name, self.values.get(name, _ABSENT))
        return self._meaning(name, value)

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
            return value
        raise self._unknown(name)

    def _unknown(self, name: str) -> NameResolutionError:
        known = {*self.local_names, *self.source.closure, *self.source.globals, *_BUILTINS}
        near = get_close_matches(name, sorted(known), n=3, cutoff=0.6)
        hint = f"did you mean {' or '.join(near)}?" if near else ""
        hint = hint or hint_for(name, near=())
        return NameResolutionError("NAME_UNKNOWN", f"'{name}' is not defined", hint=hint)


def resolved(value: object) -> Any:
    """A value of Python's as compiled code sees it: names of the kernel language become what they stand for.

    Raises:
        UnavailableError: for a name of the language that this version lacks.
    """
    if isinstance(value, LanguageName) and value.name != "math":
        return resolve(value.name)
    return value
