# SPDX-License-Identifier: Apache-2.0
"""Compile-time state: which changes traced code may make where, including those made by Python.

A change happens at compile time: once, regardless of run-time conditions and loops. So objects made outside the staged
region being traced must not change in it; nor, anywhere, may containers or iterators that the traced code did not make
itself.

In: a function to be run by Python, and its arguments. Out: its value, or the refusal.
"""

from __future__ import annotations

import operator
from collections import deque
from dataclasses import dataclass
from functools import partial
from types import BuiltinFunctionType, CellType, FunctionType, MethodType
from typing import TYPE_CHECKING, Any, Final, cast

from weft.blame import is_of_weft
from weft.errors import UnsupportedSyntaxError
from weft.frontend.state import constants
from weft.frontend.state.reachable import (
    CACHED,
    Held,
    Reach,
    Slot,
    has_slots,
    is_fixed,
    is_inert,
    is_iterator,
    is_plain_iterator,
    is_plain_object,
    iterators,
)
from weft.frontend.state.repeatable import (
    holds_foreign_code,
    is_plain_data,
    is_repeatable,
)
from weft.frontend.structure import children
from weft.types.dtype import DType

if TYPE_CHECKING:
    from collections.abc import Callable

    from weft.frontend.state.captured import Captures

_CONTAINERS: Final = (list, dict, set, deque)
_PLAIN_KINDS: Final = (type, DType)


def _is_plain(value: object) -> bool:
    """Whether what Python does with an argument depends on nothing else."""
    plain = is_inert(value) and is_plain_data(value)
    kind = type(value)
    is_class = kind in _PLAIN_KINDS or kind.__module__ == "typing"
    return plain or is_class or is_plain_iterator(value)


@dataclass(slots=True, eq=False)
class _Made:
    """An object made by traced code: its region, its order among others, and whether it must stay as it is."""

    item: object  # alive, so that its id stays its own
    region: object
    number: int
    is_fixed: bool = False


class _Trial:
    """Traced iterations that may be undone: the earlier objects they changed."""

    def __init__(self, started: int) -> None:
        self.started = started
        self.changed: list[tuple[Held, str]] = []


class State:
    """The compile-time state of one IR function.

    Args:
        program: name of the compiled module, whose package's globals are examined.
        captures: where calls that Python runs are recorded, and refused for the disk if they may read any state.

    Attributes:
        regions: the regions of staged control flow being traced, outermost first.
    """

    def __init__(self, program: str, captures: Captures) -> None:
        self._captures = captures
        self.regions: list[object] = []
        # For each region, what slots of objects made around it held before their first change in it.
        self._before: list[dict[Slot, Any]] = []
        self._program = program
        self._made: dict[int, _Made] = {}
        self._trials: list[_Trial] = []

    @property
    def region(self) -> object:
        """The innermost region; None outside run-time control flow."""
        return self.regions[-1] if self.regions else None

    def enter(self, region: object) -> None:
        """The start of a region."""
        self.regions.append(region)
        self._before.append({})

    def leave(self) -> dict[Slot, Any]:
        """The end of the innermost region: takes its changes of slots back, and returns what they held."""
        self.regions.pop()
        changed: dict[Slot, Any] = {}
        for slot, value in self._before.pop().items():
            now = slot.found()
            if now is not value:
                changed[slot] = now
                slot.put_back(value)
        return changed

    def note(self, item: Any) -> Any:
        """Records that an object was made here and may be changed here; returns it."""
        self._made[id(item)] = _Made(item, self.region, len(self._made))
        return item

    def forget(self, value: Any) -> None:
        """From now on containers must not change, since only the running kernel knows which one it is."""
        if made := self._made.get(id(value)):
            made.is_fixed = True
        _, items = children(value) or ((), ())
        for item in items:
            self.forget(item)

    def lose(self, iterator: object) -> None:
        """Marks an iterator as unusable: only the running kernel knows its position."""
        nowhere = object()
        for part in iterators(iterator):
            self._made[id(part)] = _Made(part, nowhere, len(self._made))

    def _is_lost(self, iterator: object) -> bool:
        """Whether an iterator, or one of its sources, was advanced under a condition no longer in force."""
        found = (self._made.get(id(part)) for part in iterators(iterator))
        regions = (None, *self.regions)
        return any(made is not None and made.region not in regions for made in found)

    def adopt(self, iterator: object) -> None:
        """Moves an iterator of the enclosing region into this one, where it is used from now on.

        A loop whose iterations depend on a run-time condition consumes an unknown part of it.
        """
        around = self.regions[-2] if len(self.regions) > 1 else None
        for part in iterators(iterator):
            made = self._made.get(id(part))
            if made is not None and made.region is around:
                made.region = self.region

    def may_advance(self, iterator: object) -> bool:
        """Whether an iterator and its sources may be advanced here, changing nothing else."""
        return all(
            is_plain_iterator(part) and self.may_change(part) for part in iterators(iterator)
        )

    def may_change(self, item: object) -> bool:
        """Whether an object was made by traced code under exactly the current conditions."""
        made = self._made.get(id(item))
        return made is not None and made.region is self.region and not made.is_fixed

    def change(self, item: object, how: str) -> None:
        """Called before traced code changes a container: raises if it must not be changed here.

        Raises:
            UnsupportedSyntaxError: since the change would happen once, at compile time.
        """
        if not self.may_change(item):
            raise _refusal(item, how)
        if self._trials:
            self._record(Held(item, Reach(self._program).content(item) or []), how)

    def assign(self, slot: Slot, value: Any) -> None:
        """Assigns an item or an attribute; in regions inside the one where the object was made, an item that exists.

        There it is carried through loops and joined after branches, like a variable. An attribute that the object does
        not have yet is new in the region, and exists after a branch if both sides assign it.

        Raises:
            UnsupportedSyntaxError: if the object was not made by traced code, or is not known at compile time.
        """
        item, how = slot.item, "an assignment"
        made = self._made.get(id(item))
        if made is None or made.region is self.region:
            self.change(item, how)
            slot.write(value)
            return
        is_around = made.region in (None, *self.regions) and not made.is_fixed
        is_new = not slot.exists and not is_plain_object(item)
        if not is_around or is_new or not has_slots(item):
            raise _refusal(item, how)
        self.put(slot, value)

    def put(self, slot: Slot, value: Any) -> None:
        """Assigns a slot's value at the end of a loop or a branch."""
        made = self._made.get(id(slot.item))
        if self._before and made is not None and made.region is not self.region:
            self._before[-1].setdefault(slot, slot.found())
        if self._trials:
            content = Reach(self._program).content(slot.item) or []
            self._record(Held(slot.item, content), "an assignment")
        slot.write(value)

    def is_made(self, item: object) -> bool:
        """Whether traced code made an object."""
        return id(item) in self._made

    def run(self, what: str, function: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
        """``function(*arguments, **keywords)``, run by Python.

        Raises:
            UnsupportedSyntaxError: if it changed something that must not change here.
            CompileError: if it raises.
        """
        roots = (function, *arguments, *keywords.values())
        # A partial object is only made here; its content is examined when it is called.
        is_known = function is partial or (
            is_repeatable(function)
            and all(map(_is_plain, roots[1:]))
            and not (is_of_weft(function) and holds_foreign_code(roots[1:]))
        )
        if not is_known:
            self._captures.refuse(f"{what} runs in Python while it is compiled")
        self._captures.read_run(roots, self.is_made)
        for value in roots:
            if is_iterator(value) and self._is_lost(value):
                raise _refusal(value, what)
        if all(map(is_fixed, roots)):
            made = constants.python(what, function, *arguments, **keywords)
            return made if is_fixed(made) else self._note_new(made, roots)
        before = self._looked_at(function, roots)
        try:
            made = constants.python(what, function, *arguments, **keywords)
        finally:
            self._check(before, what, roots)
        return made if is_fixed(made) else self._note_new(made, roots)

    def ask(self, what: str, function: Callable[..., Any], *arguments: Any) -> Any:
        """Like `run`, for operators, indices and the like, with fewer checks if no user code runs."""
        if all(map(is_inert, arguments)):
            is_item = function is operator.getitem and type(arguments[0]) in (list, tuple)
            if not is_item and not all(map(is_plain_data, arguments)):
                self._captures.refuse(f"{what} runs in Python while it is compiled")
                self._captures.read_run(arguments, self.is_made)
            return constants.python(what, function, *arguments)
        return self.run(what, function, *arguments)

    def begin_trial(self) -> None:
        """Records changes until `end_trial`."""
        self._trials.append(_Trial(len(self._made)))

    def end_trial(self, *, keep: bool) -> None:
        """The end of a trial.

        Args:
            keep: whether the trace stays; else all changes are undone.
        Raises:
            UnsupportedSyntaxError: for a change that cannot be undone.
        """
        trial = self._trials.pop()
        if keep:
            for held, how in trial.changed if self._trials else ():
                self._record(held, how)
            return
        for held, how in reversed(trial.changed):
            if not held.restore():
                raise _refusal(held.item, how)

    def _looked_at(self, function: Any, roots: tuple[Any, ...]) -> Reach:
        """A snapshot of what may change in a call."""
        reach = Reach(self._program)
        receiver = _receiver(function)
        if isinstance(function, BuiltinFunctionType) and type(receiver) in _CONTAINERS:
            # A container's method may change it, and runs its arguments.
            roots = roots[1:]
            if self._trials or not self.may_change(receiver):
                reach.add_alone(receiver)
        if self.regions or self._trials:
            return reach.add(*roots)
        for value in roots:
            if _is_direct(value) and not self.may_change(value):
                reach.add_alone(value)
        return reach

    def _check(self, before: Reach, how: str, roots: tuple[Any, ...]) -> None:
        changed = before.changed()
        if not changed:
            return
        direct = {id(value) for value in (_receiver(roots[0]), *roots)}
        refused = [held for held in changed if not self._allows(held.item, direct)]
        if refused:
            for held in refused:
                held.restore()
            item = refused[0].item
            if is_iterator(item):
                # The iterator named by the program pulls from it.
                item = next((value for value in roots if is_iterator(value)), item)
            raise _refusal(item, how, is_hidden=id(item) not in direct)
        for held in changed:
            self._record(held, how)
            if self.may_change(held.item) and (self.regions or self._trials):
                # Objects made by an object belong to the program like that object.
                self._note_unknown(held.item, before)

    def _allows(self, item: Any, direct: set[int]) -> bool:
        is_handed = id(item) in direct and _is_direct(item)
        return self.may_change(item) or not (self.regions or is_handed)

    def _record(self, held: Held, how: str) -> None:
        if self._trials:
            trial, made = self._trials[-1], self._made.get(id(held.item))
            if made is None or made.number < trial.started:
                trial.changed.append((held, how))

    def _note_new(self, made: Any, roots: tuple[Any, ...]) -> Any:
        """Records objects that a call made, not those passed through; returns its result."""
        if not isinstance(roots[0], CACHED):
            self._note_unknown(made, lambda: Reach(self._program).add(*roots))
        return made

    def _note_unknown(self, item: Any, known: Reach | Callable[[], Reach]) -> None:
        """Records an object's contents not known yet."""
        held = Reach(self._program, data_only=True).add(item).held
        unknown = [
            found.item
            for identity, found in held.items()
            if identity not in self._made and not isinstance(found.item, type | FunctionType)
        ]
        if unknown:
            known = known if isinstance(known, Reach) else known()
            for found in unknown:
                if found not in known:
                    self.note(found)


def _receiver(function: Any) -> Any:
    """The object that a method is called on."""
    return function.__self__ if isinstance(function, BuiltinFunctionType | MethodType) else None


def _is_direct(value: Any) -> bool:
    """Whether a program changes the object itself, rather than something it keeps."""
    return isinstance(value, _CONTAINERS) or is_iterator(value)


def _refusal(item: Any, how: str, *, is_hidden: bool = False) -> UnsupportedSyntaxError:
    """The error for a change; `is_hidden` if the program does not name the changed object."""
    kind = cast("type[Any]", type(item))
    what = f"this {kind.__name__} cannot be changed by {how}"
    hint = "make the container where it is changed, or keep the values in a weft.local array"
    if is_iterator(item):
        what = f"this {getattr(item, 'kind', kind.__name__)} cannot be advanced"
        hint = "make the iterator where its items are taken, or keep the items in a tuple"
    elif isinstance(item, FunctionType | MethodType):
        what = f"what {item.__name__}() keeps between calls cannot be changed by {how}"
        hint = "pass it values and take its result; functools.cache remembers results"
    elif isinstance(item, CellType):
        what = f"what {how} keeps between calls cannot be changed"
        hint = "pass it values and take its result; functools.cache remembers results"
    elif isinstance(item, type):
        what = f"the class {item.__name__} cannot be changed by {how}"
        hint = "pass it values and take its result; functools.cache remembers results"
    elif is_hidden:
        hint = "make the object where it is changed; functools.cache and cached_property may keep results"
    elif not isinstance(item, _CONTAINERS):
        hint = "make the object where it is changed, or keep its values in variables"
    return UnsupportedSyntaxError(
        "MUTATION",
        f"{what} here: that would happen once, when the function is compiled",
        hint=hint,
    )
