# SPDX-License-Identifier: Apache-2.0
"""Joins: where two paths of control flow meet, their values become one.

In: a variable's value at the end of each path. Out: one value, and the two regions' yields for it; or a marker whose
use is an error that names both places.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from xdsl.dialects import ub
from xdsl.ir import Block

from weft.arguments.records import make
from weft.errors import WeftError
from weft.frontend.state.constants import kind
from weft.frontend.state.reachable import applied
from weft.frontend.structure import children, flatten, rebuild, same_constant
from weft.language.ir_types import ir_type
from weft.language.memory.views import view_as
from weft.language.numbers.complex import common_complex
from weft.language.numbers.convert import common_dtype, constant, convert, operand, wide_dtype
from weft.language.values import Fragment, Scalar, Tensor, tensor_text
from weft.types.dtype import DType, bool_

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.ir import Attribute, SSAValue

    from weft.dialects.builder import Builder
    from weft.dialects.simt.fragment import FragmentType
    from weft.dialects.simt.types import TensorType
    from weft.frontend.state.changes import State
    from weft.frontend.state.reachable import Slot
    from weft.frontend.structure import Shape

_EXPRESSION: Final = object()
_JOIN_HINT: Final = "convert one of them, such as weft.f32(x), so that both paths agree"
_TENSOR_HINT: Final = (
    "a variable's tensors must have the same dtype, rank, layout class and address space; "
    "access each in its own branch"
)
_FRAGMENT_HINT: Final = "a variable's fragments must have the same dtype, shape and layout"


class Mismatch(Exception):
    """Two leaves that cannot become one.

    Attributes:
        hint: what to do.
    """

    def __init__(self, hint: str) -> None:
        super().__init__(hint)
        self.hint = hint


class TensorLeaf(NamedTuple):
    """The type of a tensor that regions yield: of its elements, with their sign, and of its value in the IR."""

    dtype: DType
    type: TensorType


class FragmentLeaf(NamedTuple):
    """The type of a fragment that regions yield, as a tensor's."""

    dtype: DType
    type: FragmentType


LeafType = DType | TensorLeaf | FragmentLeaf
"""The type of a leaf that regions yield: a scalar's, a tensor's or a fragment's."""


@dataclass(slots=True, eq=False)
class _Yielded:
    """A leaf yielded by the regions: the operation's result of that index; a tensor's name."""

    index: int
    type: LeafType
    name: str


class Join:
    """Collects the yields of two regions; variables with equal values share one result.

    Args:
        builder: of the function.
        state: the trace's.
        blocks: the ends of the regions, where what they yield is converted.
        changed: what each region left in slots of objects made before.

    Attributes:
        firsts, seconds: the values that the first and the second region yield, in order.
    """

    __slots__ = ("_blocks", "_builder", "_changed", "_found", "_state", "firsts", "seconds")

    def __init__(
        self,
        builder: Builder,
        state: State,
        blocks: tuple[Block, Block],
        changed: tuple[dict[Slot, Any], dict[Slot, Any]],
    ) -> None:
        self._builder = builder
        self._blocks = blocks
        self._changed = changed
        self._state = state
        self._found: dict[tuple[SSAValue, SSAValue], _Yielded] = {}
        self.firsts: list[SSAValue] = []
        self.seconds: list[SSAValue] = []

    def add(
        self, first: object, second: object, before: object = _EXPRESSION, name: str = ""
    ) -> Any:
        """One value for both; leaves that are yielded are replaced by `finish`.

        Args:
            first, second: the values.
            before: a variable's value before the fork, or None: it becomes wide (`wide_dtype`), unless it was
                narrow. In an expression, a literal takes the type of the other side.
            name: the variable's, which a joined tensor gets.

        Raises:
            Mismatch: if there is none.
        """
        if first is second:
            return first
        with applied(self._changed[0]):
            shape, first_leaves = flatten(first)
        with applied(self._changed[1]):
            other_shape, second_leaves = flatten(second)
        if shape != other_shape:
            raise Mismatch("containers must have the same type and length on both paths")
        # Which one it is, is decided in the kernel, so neither may change any more.
        self._state.forget(first)
        self._state.forget(second)
        old_shape, old_leaves = flatten(before)
        olds = old_leaves if old_shape == shape else [None] * len(first_leaves)
        trios = zip(first_leaves, second_leaves, olds, strict=True)
        return rebuild(shape, iter([self._leaf(*trio, name) for trio in trios]))

    def add_beside_nothing(self, value: object, side: int) -> Any:
        """As `add`, where the region other than `side` yields a value that is never read."""
        with applied(self._changed[side]):
            shape, leaves = flatten(value)
        blanks = [blank_like(self._builder, leaf) for leaf in leaves]
        if all(blank is leaf for blank, leaf in zip(blanks, leaves, strict=True)):
            return value
        blank = rebuild(shape, iter(blanks))
        return self.add(value, blank) if side == 0 else self.add(blank, value)

    def _leaf(self, first: object, second: object, before: object, name: str) -> object:
        if first is second:
            return first
        first, second = typed_leaf(self._builder, first), typed_leaf(self._builder, second)
        keeps = before is _EXPRESSION or _has_narrow(before, first) or _has_narrow(before, second)
        joined = joined_type(first, second, widens=not keeps)
        if joined is None:
            return first
        leaves = zip((first, second), self._blocks, strict=True)
        one, other = (typed_value(self._builder, leaf, joined, block) for leaf, block in leaves)
        name = name or _either_name(first, second)
        if one is other:
            return leaf_of(one, joined, name)
        found = self._found.get((one, other))
        if found is None or found.type != joined:
            found = _Yielded(len(self.firsts), joined, name)
            self._found[one, other] = found
            self.firsts.append(one)
            self.seconds.append(other)
        return found

    def finish(self, value: Any, results: Sequence[SSAValue]) -> Any:
        """The value from `add`, with the operation's results."""
        shape, leaves = flatten(value)
        if not any(isinstance(leaf, _Yielded) for leaf in leaves):
            return value
        finished = [
            leaf_of(results[leaf.index], leaf.type, leaf.name)
            if isinstance(leaf, _Yielded)
            else leaf
            for leaf in leaves
        ]
        return rebuild(shape, iter(finished))


def _has_narrow(before: object, value: object) -> bool:
    """Whether two values have the same narrow type."""
    if not isinstance(before, Scalar) or not isinstance(value, Scalar):
        return False
    return before.dtype is value.dtype is not wide_dtype(value.dtype)


def _either_name(first: object, second: object) -> str:
    """A name for one tensor of two: `(a or b)`."""
    names: dict[str, None] = {}
    for one in (first, second):
        if isinstance(one, Tensor):
            is_either = one.name.startswith("(") and one.name.endswith(")")
            names.update(dict.fromkeys(one.name[1:-1].split(" or ") if is_either else [one.name]))
    text = " or ".join(names)
    return text if len(names) < 2 else f"({text})" if len(text) < 60 else "tensor"


def blank_like(builder: Builder, value: object) -> object:
    """A value like this one that is never read: a zero for a scalar, poison for a fragment or an unknown tensor."""
    if isinstance(value, Tensor):
        owner = value.ssa.owner
        if (owner if isinstance(owner, Block) else owner.parent) in (builder.entry, builder.block):
            return value
        blank = builder.entry_operation(ub.PoisonOp(value.type), key=("blank", value.type))
        return Tensor(blank.result, value.dtype, value.name)
    if isinstance(value, Fragment):
        blank = builder.entry_operation(ub.PoisonOp(value.type), key=("blank", value.type))
        return Fragment(blank.result, value.dtype)
    if not isinstance(value, Scalar):
        return value
    zero = 0.0 if value.dtype.is_float else 0
    return Scalar(builder.constant(ir_type(value.dtype), zero), value.dtype)


def typed_leaf(builder: Builder, value: Any) -> Any:
    """A leaf for joining: a NumPy scalar becomes a typed constant."""
    if isinstance(value, Scalar | Tensor | Fragment | int | float | str) and not hasattr(
        value, "dtype"
    ):
        return value
    is_numpy = getattr(value, "ndim", None) == 0 and not isinstance(
        value, Scalar | Tensor | Fragment
    )
    return operand(builder, value) if is_numpy else value


def joined_leaves(builder: Builder, value: Any) -> tuple[Shape | None, list[Any]]:
    """The shape of a value, and its leaves for joining."""
    shape, leaves = flatten(value)
    return shape, [typed_leaf(builder, leaf) for leaf in leaves]


def leaf_of(ssa: SSAValue, leaf_type: LeafType, name: str) -> Scalar | Tensor | Fragment:
    """A leaf of that type; a tensor gets the name."""
    if isinstance(leaf_type, FragmentLeaf):
        return Fragment(ssa, leaf_type.dtype)
    if isinstance(leaf_type, TensorLeaf):
        return Tensor(ssa, leaf_type.dtype, name)
    return Scalar(ssa, leaf_type)


def type_in_ir(leaf_type: LeafType) -> Attribute:
    """The type of a leaf's SSA value."""
    return ir_type(leaf_type) if isinstance(leaf_type, DType) else leaf_type.type


def typed_value(builder: Builder, leaf: Any, wanted: LeafType, block: Block) -> SSAValue:
    """A leaf as a value of that type, if need be converted at the end of `block`."""
    if isinstance(leaf, Fragment):
        return leaf.ssa
    assert not isinstance(wanted, FragmentLeaf)
    if not isinstance(leaf, Scalar | Tensor):
        assert not isinstance(wanted, TensorLeaf)
        return constant(builder, leaf, wanted).ssa
    with builder.at(block):
        if isinstance(wanted, TensorLeaf):
            return view_as(builder, leaf, wanted.type)  # pyright: ignore[reportArgumentType]
        return convert(builder, leaf, wanted).ssa


def is_number(value: object) -> bool:
    """Whether a compile-time value can become a scalar."""
    return isinstance(value, int | float | complex)


def joined_type(first: object, second: object, *, widens: bool = True) -> LeafType | None:
    """The type in which two leaves meet; None if they are the same value.

    Scalars must agree; a constant takes the scalar's type; two constants the type of both. If the join `widens`, a
    constant takes the scalar's wide type, and so does a scalar that meets another of that type. Tensors meet in a type
    with the facts that hold for both.

    Raises:
        Mismatch: if there is none.
    """
    if isinstance(first, Scalar):
        if isinstance(second, Scalar):
            if first.dtype is not second.dtype:
                return _wide_of(first.dtype, second.dtype, widens=widens)
            return None if first.ssa is second.ssa else first.dtype
        return weak_dtype(second, first.dtype, widens=widens)
    if isinstance(second, Scalar):
        return weak_dtype(first, second.dtype, widens=widens)
    if isinstance(first, Tensor | Fragment) and type(first) is type(second):
        return None if first.ssa is second.ssa else joined_typed(leaf_type_of(first), second)  # pyright: ignore
    if same_constant(first, second):
        return None
    if not is_number(first) or not is_number(second):
        raise Mismatch(
            "values that are not numbers must be the same on both paths; decide at compile time"
        )
    if isinstance(first, bool) != isinstance(second, bool):
        raise Mismatch(_JOIN_HINT)
    return joined_constants(first, second)


def leaf_type_of(value: Tensor | Fragment) -> TensorLeaf | FragmentLeaf:
    """A tensor's or a fragment's type."""
    if isinstance(value, Fragment):
        return FragmentLeaf(value.dtype, value.type)
    return TensorLeaf(value.dtype, value.type)


def joined_typed(one: TensorLeaf | FragmentLeaf, other: object) -> TensorLeaf | FragmentLeaf:
    """The type in which a tensor or a fragment of one type meets another value.

    Raises:
        Mismatch: if there is none.
    """
    if isinstance(one, FragmentLeaf):
        if isinstance(other, Fragment) and leaf_type_of(other) == one:
            return one
        raise Mismatch(_FRAGMENT_HINT)
    if isinstance(other, Tensor) and other.dtype is one.dtype:
        joined = one.type.joined(other.type)
        if joined is not None:
            return TensorLeaf(one.dtype, joined)
    raise Mismatch(_TENSOR_HINT)


def _wide_of(first: DType, second: DType, *, widens: bool) -> DType:
    """The one of two types that is the other's wide type."""
    for wide, narrow in ((first, second), (second, first)):
        if widens and wide is wide_dtype(narrow):
            return wide
    raise Mismatch(_JOIN_HINT)


def joined_constants(first: object, second: object) -> DType:
    """The type in which two different constants meet: that of the wider, a float for an int with a float."""
    try:
        if isinstance(first, bool):
            return bool_
        if isinstance(first, complex) or isinstance(second, complex):
            return common_complex(first, second)
        return common_dtype(first, second)  # pyright: ignore[reportArgumentType]
    except WeftError as error:
        raise Mismatch(error.message) from None


def weak_dtype(value: object, dtype: DType, *, widens: bool) -> DType:
    """`dtype`, or its wide type, if a compile-time value can be a scalar of that type.

    Raises:
        Mismatch: if it cannot.
    """
    if widens:
        dtype = wide_dtype(dtype)
    if not is_number(value):
        raise Mismatch("a number and something else cannot be one variable; decide at compile time")
    if dtype.is_complex:
        return dtype
    if isinstance(value, complex) or isinstance(value, bool) != dtype.is_bool:
        raise Mismatch(_JOIN_HINT)
    if isinstance(value, float) and not dtype.is_float:
        raise Mismatch(_JOIN_HINT)
    if not isinstance(value, float) and dtype.is_integer:
        number = int(value)  # pyright: ignore[reportArgumentType]
        if not dtype.minimum <= number <= dtype.maximum:
            raise Mismatch(f"{dtype} holds {dtype.minimum} to {dtype.maximum}")
    return dtype


def widened(builder: Builder, first: object, last: Any) -> Any:
    """A variable's value after an unrolled iteration, wide where it was a literal before it; not what lists hold."""
    before, after = children(first), children(last)
    if before is None or after is None:
        if not isinstance(last, Scalar) or not is_number(first) or isinstance(first, bool):
            return last
        return convert(builder, last, wide_dtype(last.dtype))
    if first is last or isinstance(last, list | dict) or before[0] != after[0]:
        return last  # pyright: ignore[reportUnknownVariableType]
    items = [widened(builder, *pair) for pair in zip(before[1], after[1], strict=True)]
    return make(type(last), after[0], tuple(items))


def describe_side(value: object) -> str:
    """A path's value for a message; a container by its items."""
    if value is None:
        return "None"
    if isinstance(value, Tensor):
        return tensor_text(value, value.name)
    if isinstance(value, tuple):
        items: list[str] = [describe_side(item) for item in value]  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        return f"({', '.join(items)}{',' if len(items) == 1 else ''})"
    return kind(value)


def conflict(first: object, first_line: int, second: object, second_line: int) -> str:
    """The sentence about a variable whose values cannot be joined, with both places."""
    return (
        f"is {describe_side(first)} (line {first_line}) on one path and "
        f"{describe_side(second)} (line {second_line}) on the other"
    )
