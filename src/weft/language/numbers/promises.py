# SPDX-License-Identifier: Apache-2.0
"""The power of two that is known to divide an integer, a dim, a stride: the one place that computes it.

It is known from arithmetic, from a signature's ``weft.sym(..., divisibility=8)``, from ``weft.assume(n % 8 == 0)``.
In: a value of the IR, or a tensor and a dimension. Out: a power of two; a value whose operations show the promise of
its signature.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Final, cast

from xdsl.dialects import arith
from xdsl.ir import Block

from weft.dialects.builder import constant_integer
from weft.dialects.simt.memory import DimOp, ScratchOp, StrideOp
from weft.dialects.simt.types import DYNAMIC, UNBOUNDED, TensorType
from weft.dialects.simt.views import ViewOp
from weft.language.ir_types import ir_type
from weft.language.values import Scalar

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from xdsl.ir import Attribute, Operation, SSAValue

    from weft.dialects.builder import Builder
    from weft.dialects.simt.debug import AssumeOp
    from weft.language.values import Tensor

_MOST: Final = 1 << 16
# What divides both operands divides the result.
_OF_BOTH: Final = (
    arith.AddiOp,
    arith.SubiOp,
    arith.MinSIOp,
    arith.MaxSIOp,
    arith.MinUIOp,
    arith.MaxUIOp,
    arith.OrIOp,
    arith.XOrIOp,
    arith.RemSIOp,
    arith.RemUIOp,
)
_EXTENSIONS: Final = (arith.ExtSIOp, arith.ExtUIOp)
_EQUAL, _UNEQUAL = 0, 1  # predicates of `arith.cmpi`


class CountedBlock(Block):
    """A loop's body while it is traced; its first argument counts from `lower` in steps of `step`.

    Attributes:
        factor: a power of two that divides each of its values.
    """

    factor: int

    def __init__(
        self, builder: Builder, types: Sequence[Attribute], lower: SSAValue, step: SSAValue
    ) -> None:
        super().__init__(arg_types=types)
        self.factor = min(factor_of(builder, lower), factor_of(builder, step))


def promised(builder: Builder, value: Scalar, divisibility: int) -> Scalar:
    """The value with its low bits cleared, which the caller has checked to be zero.

    So everything computed from it shows the power of two in its divisor, here and in LLVM: ``n % 8`` is 0.
    """
    factor = divisibility & -divisibility
    if factor == 1:
        return value
    mask = builder.constant(ir_type(value.dtype), -factor)
    return Scalar(builder.emit(arith.AndIOp(value.ssa, mask), "multiple").result, value.dtype)


def promise_tensor(
    builder: Builder, tensor: SSAValue, dims: Sequence[int], strides: Sequence[int]
) -> None:
    """Notes what divides each dim and each stride of an argument, which the caller or the host function has checked.

    A stride that reaches no element, since its dim is 0 or 1, may be any number.
    """
    for dimension, divisor in enumerate(dims):
        _note(builder, (DimOp, tensor, dimension), power_of_two(divisor))
    for dimension, divisor in enumerate(strides):
        _note(builder, ("stride", tensor, dimension), power_of_two(divisor))


def known_multiples(builder: Builder, tensor: SSAValue) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The factors of a tensor's dims and strides, for `promise_tensor` in another function; ones for a pointer."""
    dimensions = range(cast("TensorType", tensor.type).rank)
    return (
        tuple(dim_factor(builder, tensor, dimension) for dimension in dimensions),
        tuple(stride_factor(builder, tensor, dimension) for dimension in dimensions),
    )


def note_assumed(builder: Builder, assumed: AssumeOp) -> None:
    """Notes what an assumption says of multiples; it holds in the assumption's block, after it."""
    _note_condition(builder, assumed.condition, assumed)


def _note_condition(builder: Builder, condition: SSAValue, assumed: AssumeOp) -> None:
    owner = condition.owner
    if isinstance(owner, arith.AndIOp):
        _note_condition(builder, owner.lhs, assumed)
        _note_condition(builder, owner.rhs, assumed)
        return
    wanted = _EQUAL
    if isinstance(owner, arith.XOrIOp) and constant_integer(owner.rhs) not in (None, 0):
        owner, wanted = owner.lhs.owner, _UNEQUAL  # not (a != b)
    if not isinstance(owner, arith.CmpiOp) or owner.predicate.value.data != wanted:
        return
    for one, other in ((owner.lhs, owner.rhs), (owner.rhs, owner.lhs)):
        if constant_integer(other) == 0:
            _note_zero(builder, one, assumed)
        else:
            _note_value(builder, one, factor_of(builder, other), assumed)


def _note_zero(builder: Builder, rest: SSAValue, assumed: AssumeOp) -> None:
    """Notes that a remainder, ``n % 8`` or ``n & 7``, is 0."""
    owner = rest.owner
    while isinstance(owner, _EXTENSIONS):
        owner = owner.input.owner
    if isinstance(owner, arith.AndIOp):
        for value, mask in ((owner.lhs, owner.rhs), (owner.rhs, owner.lhs)):
            bits = constant_integer(mask)
            if bits is not None:
                _note_value(builder, value, power_of_two(~bits), assumed)
    elif isinstance(owner, arith.RemSIOp | arith.RemUIOp):
        _note_value(builder, owner.lhs, factor_of(builder, owner.rhs), assumed)


def _note_value(builder: Builder, value: SSAValue, factor: int, assumed: AssumeOp) -> None:
    _note(builder, _key(value), factor, assumed)
    if isinstance(value.owner, _EXTENSIONS):
        _note_value(builder, value.owner.input, factor, assumed)


def _note(builder: Builder, key: Hashable, factor: int, since: Operation | None = None) -> None:
    if factor > 1:
        builder.factors.setdefault(key, []).append((since, min(factor, _MOST)))


def _noted(builder: Builder, key: Hashable) -> int:
    """The largest factor noted that holds where the next operation goes."""
    factors = (factor for since, factor in builder.factors.get(key, ()) if builder.is_after(since))
    return max(factors, default=1)


def _key(value: SSAValue) -> Hashable:
    """The same for each reading of a dim or stride."""
    owner = value.owner
    if isinstance(owner, DimOp | StrideOp):
        return type(owner), owner.tensor, owner.dimension.value.data
    return value


def factor_of(builder: Builder, value: SSAValue) -> int:
    """A power of two, at most 65,536, that divides an integer, as far as is known where the next operation goes.

    Valid even if the arithmetic wraps.
    """
    number = constant_integer(value)
    if number is not None:
        return power_of_two(number)
    return max(_shown(builder, value), _noted(builder, _key(value)))


def _shown(builder: Builder, value: SSAValue) -> int:
    """What arithmetic shows."""
    owner = value.owner
    if isinstance(owner, arith.MuliOp):
        return min(factor_of(builder, owner.lhs) * factor_of(builder, owner.rhs), _MOST)
    if isinstance(owner, arith.ShLIOp):
        bits = constant_integer(owner.rhs)
        return min(factor_of(builder, owner.lhs) << min(bits or 0, 16), _MOST)
    if isinstance(owner, _OF_BOTH):
        return min(factor_of(builder, owner.lhs), factor_of(builder, owner.rhs))
    if isinstance(owner, arith.SelectOp):
        return min(factor_of(builder, owner.lhs), factor_of(builder, owner.rhs))
    if isinstance(owner, arith.AndIOp):
        return max(factor_of(builder, owner.lhs), factor_of(builder, owner.rhs))
    if isinstance(owner, CountedBlock):
        return owner.factor if value is owner.args[0] else 1
    if isinstance(owner, (*_EXTENSIONS, arith.TruncIOp)):
        return factor_of(builder, owner.input)
    if isinstance(owner, StrideOp):
        return _stride_by_dims(builder, owner.tensor, owner.dimension.value.data)
    return 1


def dim_factor(builder: Builder, tensor: SSAValue, dimension: int) -> int:
    """A power of two that divides a dim of a tensor; 1 for a pointer."""
    length = cast("TensorType", tensor.type).dims[dimension]
    if length == UNBOUNDED:
        return 1
    if length != DYNAMIC:
        return power_of_two(length)
    owner = tensor.owner
    if isinstance(owner, ViewOp | ScratchOp):
        return factor_of(builder, owner.size(dimension))
    return _noted(builder, (DimOp, tensor, dimension))


def stride_factor(builder: Builder, tensor: SSAValue, dimension: int) -> int:
    """A power of two that divides the elements which an index along a dimension skips, at each step."""
    kind, owner = cast("TensorType", tensor.type), tensor.owner
    fixed = kind.static_stride(dimension)
    if fixed is not None:
        return power_of_two(fixed)
    found = [_noted(builder, (what, tensor, dimension)) for what in (StrideOp, "stride")]
    found.append(_stride_by_dims(builder, tensor, dimension))
    if isinstance(owner, ViewOp):
        source, step = owner.dimensions[dimension]
        found.append(stride_factor(builder, owner.source, source) * power_of_two(step))
    return min(max(found), _MOST)


def offset_multiple(builder: Builder, tensor: Tensor, dimension: int, index: int | Scalar) -> int:
    """A divisor of the elements that an index along a dimension skips; 0 for the index 0, which skips none."""
    if isinstance(index, int) and index == 0:
        return 0
    known = abs(index) if isinstance(index, int) else factor_of(builder, index.ssa)
    return known * stride_factor(builder, tensor.ssa, dimension)


def _stride_by_dims(builder: Builder, tensor: SSAValue, dimension: int) -> int:
    kind = cast("TensorType", tensor.type)
    if kind.layout.data != "contiguous":
        return 1
    after = range(dimension + 1, kind.rank)
    return min(prod(dim_factor(builder, tensor, inner) for inner in after), _MOST)


def power_of_two(number: int) -> int:
    """The largest power of two, at most 65,536, that divides a number."""
    return min(number & -number, _MOST) if number else _MOST
