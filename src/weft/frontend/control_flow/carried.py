# SPDX-License-Identifier: Apache-2.0
"""The variables that a loop carries from one iteration to the next, and their types.

In: names that the body assigns and that are live, and flags of the path. Out: values for block arguments and yields;
the body is retraced until the types are stable, so that `acc = 0.0; acc += x` takes the type of x.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from weft._native import constant_key
from weft.dialects.builder import name_value
from weft.errors import CompileError, TypeMismatchError
from weft.frontend.context import BoundMethod, LocalFunction
from weft.frontend.control_flow.joins import (
    FragmentLeaf,
    Mismatch,
    TensorLeaf,
    blank_like,
    describe_side,
    is_number,
    joined_constants,
    joined_leaves,
    joined_type,
    joined_typed,
    leaf_of,
    leaf_type_of,
    type_in_ir,
    typed_value,
    weak_dtype,
)
from weft.frontend.paths import Assigned, Conflict, LeftEarly
from weft.frontend.state.reachable import Slot, applied
from weft.frontend.structure import Shape, flatten, rebuild
from weft.language.numbers.convert import wide_dtype
from weft.language.numbers.promises import multiples_of, set_multiples
from weft.language.values import Fragment, Scalar, Tensor
from weft.types.dtype import DType

if TYPE_CHECKING:
    import ast
    from collections.abc import Hashable, Iterator, Sequence

    from xdsl.ir import Attribute, Block, SSAValue

    from weft.dialects.builder import Builder
    from weft.frontend.context import Frame
    from weft.frontend.control_flow.joins import LeafType
    from weft.frontend.paths import Binding, EnclosingLoop, Path, Undefined
    from weft.frontend.state.changes import State
    from weft.language.numbers.promises import Multiples
    from weft.location import SourceLocation

MOST_ITERATIONS: Final = 12
_MOST_TRIES: Final = 4
_HINT: Final = "give it the type before the loop, such as x = weft.f32(0)"


class _Variable:
    """A carried value: a variable, or a path's own flag or result.

    Attributes:
        name: the variable, or the attribute of `Path`.
        is_own: whether it is an attribute of `Path`.
        slot: the item or attribute; None for a variable.
        shape: of its container; None for a plain value.
        first: its leaves before the loop. A leaf that is never read is a blank.
        types: of the leaves; None for a leaf that is the same compile-time value, or tensor, in each iteration.
        multiples: known divisors of the leaves in every iteration, and after the loop; empty where none is known.
        bound: the leaves as arguments and results of the loop's blocks.
        place: where it was assigned before the loop, or None.
        is_blank: whether it had no value before the loop, so that `first` is never read.
        is_early: whether it has a value only after a break.
    """

    __slots__ = (
        *("bound", "first", "is_blank", "is_early", "is_own"),
        *("multiples", "name", "place", "shape", "slot", "types"),
    )

    def __init__(self, name: str, *, is_own: bool = False, slot: Slot | None = None) -> None:
        self.name = name
        self.is_own = is_own
        self.is_blank = self.is_early = False
        self.slot = slot
        self.place: SourceLocation | None = None
        self.first: list[Any] = []
        self.shape: Shape | None = None
        self.types: list[LeafType | None] = []
        self.multiples: list[Multiples] = []
        self.bound: list[tuple[int, Scalar | Tensor]] = []

    def begin(self, value: Any, place: SourceLocation | None) -> None:
        """Its value before the loop."""
        self.place = place
        self.shape, self.first = flatten(value)
        self.types = [leaf.dtype if isinstance(leaf, Scalar) else None for leaf in self.first]
        self.multiples = [()] * len(self.first)

    def read(self, path: Path) -> Binding | None:
        """Its value on a path, whose changes of slots are in place."""
        if self.slot is not None:
            return Assigned(self.slot.read())
        if not self.is_own:
            return path.variables.get(self.name)
        return path.result if self.name == "result" else Assigned(getattr(path, self.name))

    def bind(
        self,
        builder: Builder,
        path: Path,
        loop: EnclosingLoop,
        state: State | None,
        arguments: Iterator[SSAValue],
    ) -> None:
        """Binds it to block arguments or results, which are named after it; slots only if there is a state."""
        leaves: list[Any] = []
        for index, (leaf, kind) in enumerate(zip(self.first, self.types, strict=True)):
            if kind is not None:
                leaf = leaf_of(next(arguments), kind, self.name)
                name_value(leaf.ssa, self.name if self.shape is None else f"{self.name}_{index}")
                if not isinstance(leaf, Fragment):
                    self.bound.append((index, leaf))
                    set_multiples(builder, leaf, self.multiples[index])
            leaves.append(leaf)
        value = rebuild(self.shape, iter(leaves))
        if self.slot is not None:
            if state is not None:
                state.put(self.slot, value)
            return
        early = self.is_early
        binding = loop.left_early(value, self.place) if early else Assigned(value, self.place)
        if not self.is_own:
            path.variables[self.name] = binding
        elif self.name == "result":
            path.result = binding
        else:
            setattr(path, self.name, value)


class Carried:
    """The values carried by a loop.

    Args:
        frame: the call being traced.
        loop: the loop.
        node: its statement.
        names: variables that may be carried, in order.
        own: the path's own values that may be carried: `looping`, `active`, `result`.
        always_runs: whether the body runs at least once, and so may be the first to assign.
    """

    __slots__ = ("_always_runs", "_frame", "_key", "_loop", "_tries", "_unknown", "_variables")

    def __init__(
        self,
        frame: Frame,
        loop: EnclosingLoop,
        node: ast.stmt,
        names: Sequence[str],
        own: Sequence[str],
        *,
        always_runs: bool,
    ) -> None:
        self._frame = frame
        self._loop = loop
        self._always_runs = always_runs
        self._tries = 0
        self._key = _loop_key(frame, node)
        self._variables: list[_Variable] = []
        # Variables without a value before the loop; the first iteration shows their type.
        self._unknown: list[_Variable] = []
        for name, is_own in [*((name, False) for name in names), *((name, True) for name in own)]:
            variable = _Variable(name, is_own=is_own)
            binding = variable.read(frame.scope.path)
            if isinstance(binding, Assigned):
                shape, leaves = joined_leaves(frame.builder, binding.value)
                # After the loop it may be another one.
                frame.state.forget(binding.value)
                variable.begin(rebuild(shape, iter(leaves)), binding.place)
                self._variables.append(variable)
            elif always_runs or loop.exits.breaks or is_own:
                self._unknown.append(variable)
        self._recall()

    def _recall(self) -> None:
        """Begins with the loop's previous types if everything it reads was the same.

        A nested loop is retraced with its outer loop; without this, each level would double the number of iterations.
        """
        known = self._frame.context.session.loop_types.get(self._key, {})
        variables = {(variable.name, variable.is_own): variable for variable in self._variables}
        for key, (kinds, types, multiples) in known.items():
            variable = variables.get(key)
            if isinstance(key, Slot) and key.exists:
                leaves = joined_leaves(self._frame.builder, key.read())[1]
                variable = self._add_slot(key) if _kinds(leaves) == kinds else None
            if variable is not None and len(types) == len(variable.types):
                variable.types, variable.multiples = list(types), list(multiples)

    def remember(self) -> None:
        """Records the types, which are stable."""
        if self._key is not None:
            self._frame.context.session.loop_types[self._key] = {
                v.slot or (v.name, v.is_own): (
                    *(_kinds(v.first) if v.slot else (), tuple(v.types)),
                    tuple(v.multiples),
                )
                for v in self._variables
            }

    @property
    def names(self) -> list[str]:
        """The variables that have a value after the loop."""
        return [v.name for v in self._variables if not v.is_own and v.slot is None]

    def types(self) -> list[Attribute]:
        """Types of the block arguments."""
        return [type_in_ir(kind) for v in self._variables for kind in v.types if kind is not None]

    def first_values(self, builder: Builder) -> list[SSAValue]:
        """The variables' values before the loop."""
        return [
            typed_value(builder, leaf, kind, builder.block)
            for v in self._variables
            for leaf, kind in zip(v.first, v.types, strict=True)
            if kind is not None
        ]

    def bind(self, path: Path, arguments: Sequence[SSAValue], *, slots: bool = True) -> None:
        """Binds a path's variables, and slots unless not wanted, to block arguments or results."""
        remaining = iter(arguments)
        state = self._frame.state if slots else None
        for variable in self._variables:
            variable.bind(self._frame.builder, path, self._loop, state, remaining)

    def last_values(self, builder: Builder, path: Path, block: Block) -> list[SSAValue]:
        """The values at `block`, where an iteration ends, in the variables' types, which `update` found stable."""
        found: list[SSAValue] = []
        with applied(path.changed):
            for variable in self._variables:
                binding = variable.read(path)
                assert isinstance(binding, Assigned | LeftEarly)
                _, leaves = joined_leaves(builder, binding.value)
                for leaf, kind in zip(leaves, variable.types, strict=True):
                    if kind is not None:
                        found.append(typed_value(builder, leaf, kind, block))
        return found

    def update(self, path: Path) -> bool:
        """Updates the types from a traced iteration; returns whether to retrace it.

        Raises:
            TypeMismatchError: for a variable that changes its type from iteration to iteration.
        """
        known = {variable.slot for variable in self._variables}
        # An attribute that an iteration is the first to assign is not there at the start of the next.
        found = [self._add_slot(slot) for slot in path.changed if slot not in known and slot.exists]
        with applied(path.changed):
            return self._update_all(path) or bool(found)

    def learns(self, *ends: tuple[Path, Block]) -> bool:
        """Updates the known multiples of the values in every iteration; returns whether to retrace one.

        A divisor of a value before the loop, which each iteration preserves, divides it in all. So an iteration traced
        with nothing known shows what may be; another, traced with that, must confirm it.

        Args:
            ends: the path and the block at the end of an iteration, and of its condition; their types are stable.
        """
        builder = self._frame.builder
        found = [[multiples_of(builder, leaf) for leaf in v.first] for v in self._variables]
        while True:
            for variable, multiples in zip(self._variables, found, strict=True):
                for index, leaf in variable.bound:
                    set_multiples(builder, leaf, multiples[index])
            lower = found
            for path, block in ends:
                with applied(path.changed), builder.at(block):
                    lower = [
                        self._lower(variable.read(path), multiples)
                        for variable, multiples in zip(self._variables, lower, strict=True)
                    ]
            if lower == found:
                break
            found = lower
        self._tries += 1
        learned = False
        for variable, multiples in zip(self._variables, found, strict=True):
            pairs = zip(multiples, variable.types, strict=True)
            known = [
                () if kind is None or set(one) == {1} or self._tries > _MOST_TRIES else one
                for one, kind in pairs
            ]
            learned |= any(
                set(new) | set(old) != {1} and new != old
                for new, old in zip(known, variable.multiples, strict=True)
            )
            variable.multiples, variable.bound = known, []
        return learned

    def _lower(self, binding: Binding | None, multiples: list[Multiples]) -> list[Multiples]:
        """The known multiples of a variable's leaves before an iteration and at its end."""
        assert isinstance(binding, Assigned | LeftEarly)
        builder = self._frame.builder
        leaves = joined_leaves(builder, binding.value)[1]
        return [
            tuple(map(min, before, multiples_of(builder, leaf)))
            for before, leaf in zip(multiples, leaves, strict=True)
        ]

    def _add_slot(self, slot: Slot) -> _Variable:
        variables = self._frame.scope.path.variables.items()
        owner = (name for name, each in variables if getattr(each, "value", None) is slot.item)
        variable = _Variable(f"{next(owner, 'item')}_{slot.key}", slot=slot)
        shape, leaves = joined_leaves(self._frame.builder, slot.read())
        variable.begin(rebuild(shape, iter(leaves)), None)
        self._variables.append(variable)
        return variable

    def _update_all(self, path: Path) -> bool:
        changed = False
        builder = self._frame.builder
        for variable in list(self._unknown):
            binding = variable.read(path)
            if variable.is_own and isinstance(binding, Conflict):
                raise self._not_joined(variable, binding)
            if isinstance(binding, Assigned | LeftEarly):
                shape, leaves = joined_leaves(builder, binding.value)
                is_early = not (self._always_runs or variable.is_own)
                variable.is_early = is_early or isinstance(binding, LeftEarly)
                blanks = [blank_like(builder, leaf) for leaf in leaves]
                place = binding.place if variable.is_early else None
                variable.begin(rebuild(shape, iter(blanks)), place)
                variable.is_blank = True
                self._variables.append(variable)
                self._unknown.remove(variable)
                changed = True
        for variable in list(self._variables):
            binding = variable.read(path)
            if isinstance(binding, Assigned | LeftEarly):
                changed |= self._update(variable, binding)
            elif variable.is_early:
                # Another break leaves it without a value, so it has none after the loop.
                self._variables.remove(variable)
                changed = True
            elif binding is not None:
                raise self._not_joined(variable, binding)
        return changed

    def _not_joined(self, variable: _Variable, binding: Undefined | Conflict) -> CompileError:
        """The error for a variable without a single value at the end of an iteration."""
        if variable.is_own and isinstance(binding, Conflict):
            return binding.result_error(self._frame.name)
        error = binding.error(variable.name)
        error.location = binding.place
        return error

    def _update(self, variable: _Variable, binding: Assigned | LeftEarly) -> bool:
        shape, leaves = joined_leaves(self._frame.builder, binding.value)
        if shape != variable.shape:
            raise self._changes(variable, binding, "a container keeps its type and length")
        changed = False
        for index, leaf in enumerate(leaves):
            before = variable.types[index]
            if variable.is_blank and _widens(before, leaf):
                # Computed from a variable that has become wide after the iteration that showed the type.
                variable.first[index] = blank_like(self._frame.builder, leaf)
                before = leaf.dtype
            try:
                kind = _leaf_type(variable.first[index], before, leaf)
            except Mismatch as mismatch:
                raise self._changes(variable, binding, mismatch.hint) from None
            if kind != variable.types[index]:
                if isinstance(kind, TensorLeaf) and variable.types[index] is None:
                    # Its alignment follows from its strides, so that they begin as known.
                    variable.multiples[index] = multiples_of(
                        self._frame.builder, variable.first[index]
                    )
                variable.types[index] = kind
                changed = True
        return changed

    def _changes(
        self, variable: _Variable, binding: Assigned | LeftEarly, hint: str
    ) -> TypeMismatchError:
        first = rebuild(variable.shape, iter(variable.first))
        before = f" (line {variable.place.line})" if variable.place is not None else ""
        after = f" (line {binding.place.line})" if binding.place is not None else ""
        what = "the returned value" if variable.is_own else f"'{variable.name}'"
        what = str(variable.slot or what)
        return TypeMismatchError(
            "TYPE_LOOP",
            f"{what} is {describe_side(first)} before the loop{before} and "
            f"{describe_side(binding.value)} at the end of its body{after}",
            hint=hint,
            location=binding.place,
        )

    def unstable(self) -> TypeMismatchError:
        """The error for types that never settle."""
        names = ", ".join(f"'{name}'" for name in self.names)
        return TypeMismatchError(
            "TYPE_LOOP", f"the types of {names} do not settle in this loop", hint=_HINT
        )


def _loop_key(frame: Frame, node: ast.stmt) -> Hashable:
    """The loop with everything its types depend on; None if unknown."""
    variables = frame.scope.path.variables
    found: list[Hashable] = [node]
    analysis = frame.source.analysis
    # Assigned names count too: a variable may pass through the loop unread.
    for name in sorted((analysis.read(node) | analysis.assigned([node])) & variables.keys()):
        binding = variables[name]
        shape, leaves = flatten(getattr(binding, "value", None))
        found += [name, type(binding), shape]
        for leaf in leaves:
            if isinstance(leaf, LocalFunction | BoundMethod):
                return None  # it has variables of its own
            found.append(_leaf_key(leaf))
    return tuple(found)


def _kinds(leaves: list[Any]) -> tuple[Hashable, ...]:
    """The parts of a slot's value before the loop that decide its types."""
    return tuple(map(_leaf_key, leaves))


def _leaf_key(value: Any) -> Hashable:
    if isinstance(value, Scalar):
        return value.dtype
    if isinstance(value, Tensor | Fragment):
        return leaf_type_of(value)
    return constant_key(value) if isinstance(value, int | float | str) else id(value)


def _widens(before: LeafType | None, last: Any) -> bool:
    """Whether a leaf of a narrow type is at the end of the iteration one of its wide type."""
    if not isinstance(last, Scalar) or not isinstance(before, DType):
        return False
    return before is not last.dtype is wide_dtype(before)


def _leaf_type(first: Any, before: LeafType | None, last: Any) -> LeafType | None:
    """The type of a leaf that was `first` before the loop, of type `before` in this iteration and `last` at its end.

    Raises:
        Mismatch: if it changes.
    """
    if before is None:
        return joined_type(first, last)
    if isinstance(before, TensorLeaf | FragmentLeaf):
        return joined_typed(before, last)
    if isinstance(last, Scalar):
        if before in (last.dtype, wide_dtype(last.dtype)):
            return before
        if not is_number(first):
            raise Mismatch(_HINT)
        return weak_dtype(first, last.dtype, widens=True)
    try:
        return weak_dtype(last, before, widens=False)
    except Mismatch:
        if not is_number(first) or not is_number(last) or isinstance(first, bool):
            raise
        wider = joined_constants(first, last)
        if wider is before:
            raise
        return wider
