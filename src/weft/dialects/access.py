# SPDX-License-Identifier: Apache-2.0
"""Traits by which an operation describes its accesses, its synchronization, its requirements and its name.

Passes read these instead of listing classes: bounds checks, the sanitizer's instrumentation, traces, remarks, and the
search for written arguments.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeVar, cast

from xdsl.dialects.builtin import StringAttr
from xdsl.traits import OpTrait

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from xdsl.ir import Operation, SSAValue

Kind = Literal["read", "written", "updated"]
Extent = Literal["elements", "tile", "box", "mapped", "barrier"]
"""Elements from `indices` on; a whole tile; a fragment's box, clipped to the array; a box of a map; an mbarrier."""


class Access(NamedTuple):
    """An access that every operation of a class makes.

    Attributes:
        tensor: name of the operand that is accessed.
        kind: of the access.
        extent: of the access.
        indices: name of the operand or operands with the first element's indices.
        elements: name of the operands or results that hold the elements; the access has as many consecutive ones.
        number: name of the property with the number of elements, where no operand or result holds them.
        size: name of the operand with a tile's size in bytes, where the tile's shape does not give it.
        unless: name of an operand with which the access is not unconditional, and is left to the operation.
        is_atomic: whether each element is accessed in one step.
        argument: position of the array among the arguments of the call in the source; -1 if the text does not give it.
    """

    tensor: str
    kind: Kind
    extent: Extent = "elements"
    indices: str = "indices"
    elements: str = ""
    number: str = ""
    size: str = ""
    unless: str = ""
    is_atomic: bool = False
    argument: int = -1


class FoundAccess(NamedTuple):
    """An access of one operation; attributes as those of `Access`, with values for names."""

    tensor: SSAValue
    kind: Kind
    extent: Extent
    indices: tuple[SSAValue, ...]
    elements: tuple[SSAValue, ...]
    length: int
    size: SSAValue | None
    is_atomic: bool
    argument: int


@dataclass(frozen=True)
class Accesses(OpTrait):
    """The arrays that an operation accesses; without any, it accesses none in spite of its memory effects.

    Attributes:
        accesses: in the order in which their bounds are checked.
        is_required: whether others wait for the operation or use its result, so that it cannot be skipped.
    """

    accesses: tuple[Access, ...] = ()
    is_required: bool = False

    def of(self, op: Any) -> Iterator[FoundAccess]:
        """Yields the accesses of an operation of the class."""
        for one in self.accesses:
            if one.unless and getattr(op, one.unless) is not None:
                continue
            tensor = getattr(op, one.tensor)
            indices = _values(op, one.indices) if one.extent not in ("tile", "mapped") else ()
            elements = _values(op, one.elements)
            length = getattr(op, one.number).value.data if one.number else len(elements) or 1
            size = getattr(op, one.size) if one.size else None
            yield FoundAccess(
                *(tensor, one.kind, one.extent, indices, elements, length, size),
                *(one.is_atomic, one.argument),
            )


def _values(op: Any, name: str) -> tuple[SSAValue, ...]:
    found: Any = getattr(op, name) if name else ()
    return cast("tuple[SSAValue, ...]", found) if isinstance(found, tuple) else (found,)


Completion = Literal["elements", "phase", "store", "mma"]


@dataclass(frozen=True)
class StartsAsync(OpTrait):
    """The operation starts accesses that run asynchronously to the thread.

    Attributes:
        completion: of `cp_async.copy`'s elements, an mbarrier's phase, a group of stores, or a `wgmma` group.
    """

    completion: Completion


Scope = Literal["warp", "warpgroup", "threads", "block", "cluster", "grid", "barrier", "copies"]


@dataclass(frozen=True)
class Synchronizes(OpTrait):
    """The operation waits: for the threads of a scope, a barrier in memory, or the thread's own copies.

    Attributes:
        scope: of the threads that wait for each other, `threads` for those of a named barrier.
        awaited: with the scope `copies`, the sanitizer's event for their end.
    """

    scope: Scope
    awaited: str = ""


@dataclass(frozen=True)
class Orders(OpTrait):
    """The operation orders accesses, and waits for none.

    Attributes:
        event: the sanitizer's.
    """

    event: str


@dataclass(frozen=True)
class CalledAs(OpTrait):
    """The operation's name in the language, for remarks.

    Attributes:
        text: in which `{kind}` stands for the operation's property `kind`.
        spellings: of kinds that are spelled differently there.
    """

    text: str
    spellings: Mapping[str, str] = field(default_factory=dict[str, str], hash=False)

    def of(self, op: Any) -> str:
        """Returns the name of an operation of the class."""
        kind: Any = getattr(op, "kind", None)
        kind = kind.data if isinstance(kind, StringAttr) else ""
        return self.text.format(kind=self.spellings.get(kind, kind))


@dataclass(frozen=True)
class Requires(OpTrait):
    """The operation needs a feature that architectures may lack.

    A property `requirement` says it where it depends on the operation.

    Attributes:
        feature: of `weft.types.capabilities`.
        called: the operation's name in the language, where that of `CalledAs` is not meant.
        hint: beyond the choice of another architecture.
    """

    feature: str
    called: str = ""
    hint: str = ""


@dataclass(frozen=True)
class OwnMemory(OpTrait):
    """The result is memory of the function's own: a thread's, a block's or a call's."""


Part = Literal["none", "one", "all"]


@dataclass(frozen=True)
class NeedsParts(OpTrait):
    """The parts of its tensors that an operation needs, where these are not the pointer and all strides.

    Attributes:
        pointer: whether it computes an address.
        dims: none, that of the property `dimension`, or all.
        strides: the same.
    """

    pointer: bool
    dims: Part = "none"
    strides: Part = "none"


_TraitT = TypeVar("_TraitT", bound=OpTrait)
_NO_ACCESSES: Final = Accesses()


def trait_of(op: Operation | type[Operation], trait: type[_TraitT]) -> _TraitT | None:
    """Returns the trait of an operation, or of a class of operations; None if it has none."""
    return op.get_trait(trait)


def accesses_of(op: Operation) -> Iterator[FoundAccess]:
    """Yields the accesses that an operation's class declares."""
    return (trait_of(op, Accesses) or _NO_ACCESSES).of(op)


def element_access(op: Operation) -> FoundAccess | None:
    """Returns the access of elements that an operation makes before the next one begins; None if it makes none."""
    if trait_of(op, StartsAsync) is None:
        for access in accesses_of(op):
            if access.extent == "elements":
                return access
    return None


def barrier_of(op: Operation) -> tuple[SSAValue, SSAValue] | None:
    """Returns the mbarrier that an operation accesses: its array and its index."""
    for access in accesses_of(op):
        if access.extent == "barrier":
            return access.tensor, access.indices[0]
    return None


def requirement_of(op: Operation) -> Requires | None:
    """Returns an operation's requirement of the architecture, with its name in the language."""
    found: Requires | None = getattr(op, "requirement", None) or trait_of(op, Requires)
    if found is None or found.called:
        return found
    name = trait_of(op, CalledAs)
    return Requires(found.feature, name.of(op) if name is not None else op.name, found.hint)


def written_by(op: Operation) -> Sequence[SSAValue]:
    """Returns the values that an operation with a write effect may write: all operands if its class does not say.

    A property `written` says it where it depends on the operation.
    """
    declared, found = trait_of(op, Accesses), getattr(op, "written", None)
    if found is not None or declared is None:
        return op.operands if found is None else found
    return [access.tensor for access in declared.of(op) if access.kind != "read"]
