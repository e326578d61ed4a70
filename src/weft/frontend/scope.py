# SPDX-License-Identifier: Apache-2.0
"""The names of a traced function: its variables, then enclosing ones, then Python's.

In: assignments and reads. Out: values, or an error that explains why a name has none.
"""

from __future__ import annotations

import builtins
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final

from weft.errors import NameResolutionError, TypeMismatchError
from weft.frontend.paths import Assigned, Path
from weft.frontend.structure import contains_staged
from weft.language import NAMESPACES, LanguageName, hint_for, resolve

if TYPE_CHECKING:
    from weft.frontend.paths import Binding
    from weft.frontend.source.names import Names
    from weft.frontend.source.text import FunctionSource
    from weft.frontend.state.captured import Captures
    from weft.location import SourceLocation

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
        """Ends `cover`, with what it returned."""
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
            if self.is_foreign and contains_staged(value):
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
