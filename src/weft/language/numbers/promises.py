# SPDX-License-Identifier: Apache-2.0
"""Known divisors of integers, dims and strides: the one place that computes them.

They follow from arithmetic, from a signature's ``weft.sym(..., divisibility=8)``, from ``weft.assume(n % 8 == 0)``, on
every path that leads to a value. In: a value of the IR, or a tensor and a dimension. Out: a divisor; a value whose
operations show the promise of its signature.
"""

from __future__ import annotations

from math import gcd, lcm, prod
from typing import TYPE_CHECKING, Final, cast

from xdsl.dialects import arith, scf, ub
from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Block, Operation

from weft.dialects.builder import constant_integer
from weft.dialects.simt.memory import DimOp, ReinterpretOp, ReshapeOp, ScratchOp, StrideOp, ViewOp
from weft.dialects.simt.scalar import FloorModOp
from weft.dialects.simt.types import DYNAMIC, UNBOUNDED, TensorType
from weft.language.ir_types import ir_type
from weft.language.values import Scalar, Tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from xdsl.ir import Attribute, OpResult, SSAValue

    from weft.dialects.builder import Builder
    from weft.dialects.simt.debug import AssumeOp

_MOST: Final = 1 << 16
_MOST_VISITED: Final = 100
# A divisor of both operands divides the result.
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
    FloorModOp,
)
_EXTENSIONS: Final = (arith.ExtSIOp, arith.ExtUIOp)
_SHIFTS_RIGHT: Final = (arith.ShRSIOp, arith.ShRUIOp)
_EQUAL, _UNEQUAL = 0, 1  # predicates of `arith.cmpi`


Multiples = tuple[int, ...]
"""Known powers of two that divide a leaf: one for an integer, those of dims, then of strides for a tensor."""


class Visited(dict["tuple[SSAValue, Block]", int]):
    """Factors found for one question, by value and by the block whose assumptions hold.

    Args:
        left: how many more values are looked at; further ones are unknown.
    """

    def __init__(self, left: list[int] | None = None) -> None:
        super().__init__()
        self._left = [_MOST_VISITED] if left is None else left

    def anew(self) -> Visited:
        """For the same question under another assumption."""
        return Visited(self._left)

    def goes_on(self) -> bool:
        """Counts a value; whether it is looked at."""
        self._left[0] -= 1
        return self._left[0] > 0


class CountedBlock(Block):
    """A loop's body while it is traced; its first argument counts from `lower` in steps of `step`.

    Attributes:
        divisor: a power of two that divides each of its values.
    """

    divisor: int

    def __init__(
        self, builder: Builder, types: Sequence[Attribute], lower: SSAValue, step: SSAValue
    ) -> None:
        super().__init__(arg_types=types)
        self.divisor = min(factor_of(builder, lower), factor_of(builder, step))


class ForwardedBlock(Block):
    """A `while` loop's body while it is traced: its arguments are the values of the condition's block.

    Attributes:
        sources: a value for each argument.
    """

    sources: Sequence[SSAValue]

    def __init__(self, sources: Sequence[SSAValue]) -> None:
        super().__init__(arg_types=[value.type for value in sources])
        self.sources = sources


def promised(builder: Builder, value: Scalar, divisibility: int) -> Scalar:
    """The value with its low bits cleared, which the caller has checked to be zero.

    So everything computed from it shows the power of two in its divisor, here and in LLVM: ``n % 8`` is 0.
    """
    divisor = divisibility & -divisibility
    if divisor > 1:
        mask = builder.constant(ir_type(value.dtype), -divisor)
        value = Scalar(builder.emit(arith.AndIOp(value.ssa, mask), "multiple").result, value.dtype)
    _note(builder, value.ssa, divisibility, is_signed=value.dtype.is_signed)
    return value


def promise_tensor(
    builder: Builder, tensor: SSAValue, dims: Sequence[int], strides: Sequence[int]
) -> None:
    """Notes what divides each dim and each stride of an argument, which the caller or the host function has checked.

    A stride that reaches no element, since its dim is 0 or 1, may be any number.
    """
    for dimension, divisor in enumerate(dims):
        _note(builder, (DimOp, tensor, dimension), divisor)
    for dimension, divisor in enumerate(strides):
        _note(builder, ("stride", tensor, dimension), power_of_two(divisor))


def promised_dim(builder: Builder, tensor: SSAValue, dimension: int) -> int:
    """The power of two that divides a dim of an argument in the whole function."""
    return power_of_two(_promised(builder, (DimOp, tensor, dimension)))


def argument_divisor(builder: Builder, value: Scalar) -> int:
    """The divisor of a number that a launch passes; 1 for a constant, so that kernels are the same for all of them."""
    if value.constant is not None or not value.dtype.is_integer:
        return 1
    return divisor_of(builder, value.ssa, is_signed=value.dtype.is_signed) or 1


def _promised(builder: Builder, key: Hashable) -> int:
    return lcm(*(divisor for since, divisor, _ in builder.divisors.get(key, ()) if since is None))


def known_multiples(builder: Builder, tensor: SSAValue) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The divisors of a tensor's dims and strides, for `promise_tensor` elsewhere; ones for a pointer."""
    dimensions = range(cast("TensorType", tensor.type).rank)
    return (
        tuple(dim_divisor(builder, tensor, dimension) for dimension in dimensions),
        tuple(stride_factor(builder, tensor, dimension) for dimension in dimensions),
    )


def note_quotient(builder: Builder, quotient: SSAValue, divisor: int) -> None:
    """Notes the known divisor of the quotient of an exact division."""
    assert isinstance(quotient.owner, Operation)
    _note(builder, quotient, power_of_two(divisor), quotient.owner)


def note_assumed(builder: Builder, assumed: AssumeOp) -> None:
    """Records divisors from an assumption; they hold in the assumption's block, after it."""
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
    elif isinstance(owner, FloorModOp | arith.RemSIOp | arith.RemUIOp):
        divisor = constant_integer(owner.rhs)
        is_signed = not isinstance(owner, arith.RemUIOp)
        known = abs(divisor) if divisor is not None else factor_of(builder, owner.rhs)
        _note_value(builder, owner.lhs, known, assumed, is_signed=is_signed)


def _note_value(
    builder: Builder,
    value: SSAValue,
    divisor: int,
    assumed: AssumeOp,
    *,
    is_signed: bool | None = None,
) -> None:
    _note(builder, _key(value), divisor, assumed, is_signed=is_signed)
    if isinstance(value.owner, _EXTENSIONS):
        is_inner_signed = isinstance(value.owner, arith.ExtSIOp)
        if is_signed is not None and is_signed is not is_inner_signed:
            divisor = power_of_two(divisor)
        _note_value(builder, value.owner.input, divisor, assumed, is_signed=is_inner_signed)


def _note(
    builder: Builder,
    key: Hashable,
    divisor: int,
    since: Operation | None = None,
    *,
    is_signed: bool | None = None,
) -> None:
    """Notes a divisor: of the number that its bits are as a signed or an unsigned one, or of both for None.

    A power of two divides both if it divides one.
    """
    if divisor > 1:
        if divisor & (divisor - 1) == 0:
            is_signed = None
        builder.divisors.setdefault(key, []).append((since, divisor, is_signed))


def _noted(builder: Builder, key: Hashable) -> int:
    """The largest power of two noted that holds where the next operation goes."""
    facts = builder.divisors.get(key, ())
    found = (power_of_two(divisor) for since, divisor, _ in facts if builder.is_after(since))
    return max(found, default=1)


def _key(value: SSAValue) -> Hashable:
    """The same for each reading of a dim or stride."""
    owner = value.owner
    if isinstance(owner, DimOp | StrideOp):
        return type(owner), owner.tensor, owner.dimension.value.data
    return value


def divides(builder: Builder, divisor: int, value: Scalar) -> bool:
    """Whether an integer is known to be a multiple of another, where the next operation goes."""
    if divisor == 0:
        return False
    return divisor_of(builder, value.ssa, is_signed=value.dtype.is_signed) % divisor == 0


def divisor_of(builder: Builder, value: SSAValue, *, is_signed: bool) -> int:
    """A number that divides an integer, as far as is known where the next operation goes; 0 for the constant 0.

    Divisors known from arithmetic count by their power of two, since it may wrap.
    """
    number = constant_integer(value)
    if number is not None:
        return abs(number) if is_signed else number & ((1 << _bits(value)) - 1)
    found, owner = factor_of(builder, value), value.owner
    if isinstance(owner, DimOp):
        return lcm(found, dim_divisor(builder, owner.tensor, owner.dimension.value.data))
    for since, divisor, is_noted_signed in builder.divisors.get(_key(value), ()):
        if is_noted_signed in (None, is_signed) and builder.is_after(since):
            found = lcm(found, divisor)
    if isinstance(owner, _EXTENSIONS):
        is_inner_signed = isinstance(owner, arith.ExtSIOp)
        if is_signed or not is_inner_signed:
            found = lcm(found, divisor_of(builder, owner.input, is_signed=is_inner_signed))
    return found


def _bits(value: SSAValue) -> int:
    return cast("IntegerType", value.type).width.data


def factor_of(builder: Builder, value: SSAValue, visited: Visited | None = None) -> int:
    """A power of two, at most 65,536, that divides an integer, as far as is known where the next operation goes.

    Valid even if the arithmetic wraps.
    """
    number = constant_integer(value)
    if number is not None:
        return power_of_two(number)
    visited = Visited() if visited is None else visited
    place = value, builder.block
    found = visited.get(place)
    if found is None:
        found = _noted(builder, _key(value))
        if visited.goes_on():
            found = max(_shown(builder, value, visited), found)
        visited[place] = found
    return found


def _shown(builder: Builder, value: SSAValue, visited: Visited) -> int:
    """A divisor by arithmetic, and by the paths that lead to a value."""
    owner = value.owner
    if isinstance(owner, arith.MuliOp):
        return min(prod(factor_of(builder, one, visited) for one in owner.operands), _MOST)
    if isinstance(owner, arith.ShLIOp):
        bits = constant_integer(owner.rhs)
        return min(factor_of(builder, owner.lhs, visited) << min(bits or 0, 16), _MOST)
    if isinstance(owner, _SHIFTS_RIGHT):
        bits = constant_integer(owner.rhs)
        known = factor_of(builder, owner.lhs, visited)
        return 1 if bits is None else max(known >> min(bits, 16), 1)
    if isinstance(owner, _OF_BOTH):
        return min(factor_of(builder, one, visited) for one in owner.operands)
    if isinstance(owner, arith.SelectOp):
        return min(factor_of(builder, one, visited) for one in owner.operands[1:])
    if isinstance(owner, arith.AndIOp):
        return max(factor_of(builder, one, visited) for one in owner.operands)
    if isinstance(owner, CountedBlock):
        return owner.divisor if value is owner.args[0] else 1
    if isinstance(owner, (*_EXTENSIONS, arith.TruncIOp)):
        return factor_of(builder, owner.input, visited)
    if isinstance(owner, DimOp):
        return power_of_two(dim_divisor(builder, owner.tensor, owner.dimension.value.data, visited))
    if isinstance(owner, StrideOp):
        return _stride_by_dims(builder, owner.tensor, owner.dimension.value.data)
    if isinstance(owner, scf.IfOp):
        return _of_paths(builder, value, lambda one: factor_of(builder, one, visited))
    if isinstance(owner, ForwardedBlock):
        return factor_of(builder, owner.sources[owner.args.index(value)], visited)
    if isinstance(owner, scf.ForOp | scf.WhileOp):
        return _of_loop(builder, value, visited)
    return 1


def _of_loop(builder: Builder, value: SSAValue, visited: Visited) -> int:
    """A divisor of a loop's result: one of the value before it, if each iteration preserves it."""
    loop = value.owner
    assert isinstance(loop, scf.ForOp | scf.WhileOp)
    is_for = isinstance(loop, scf.ForOp)
    entered = loop.body.block.args[1:] if is_for else loop.before_region.block.args
    body = loop.body.block if is_for else loop.after_region.block
    noted: dict[Hashable, list[tuple[Operation | None, int, bool | None]]] = {
        one: builder.divisors.get(one, []) for one in (*entered, *body.args)
    }
    known = _factors(builder, loop.iter_args if is_for else loop.arguments, visited.anew())
    while True:
        _set_divisors(builder, entered, known)
        results = known
        if not is_for:
            with builder.at(loop.before_region.block):
                results = _factors(builder, _last(loop.before_region.block)[1:], visited.anew())
            _set_divisors(builder, body.args, results)
        with builder.at(body):
            lower = list(map(min, known, _factors(builder, _last(body), visited.anew())))
        if lower == known:
            break
        known = lower
    builder.divisors.update(noted)
    return results[loop.results.index(cast("OpResult", value))]


def _last(block: Block) -> Sequence[SSAValue]:
    assert block.last_op is not None
    return block.last_op.operands


def _factors(builder: Builder, values: Sequence[SSAValue], visited: Visited) -> list[int]:
    return [
        factor_of(builder, one, visited) if isinstance(one.type, IntegerType) else 1
        for one in values
    ]


def _set_divisors(builder: Builder, values: Sequence[SSAValue], divisors: Sequence[int]) -> None:
    for value, divisor in zip(values, divisors, strict=True):
        builder.divisors[value] = [(None, divisor, None)]


def _of_paths(builder: Builder, value: SSAValue, known: Callable[[SSAValue], int]) -> int:
    """The common divisor of a value on both paths of an `if`, each with the assumptions made on it."""
    owner = value.owner
    assert isinstance(owner, scf.IfOp)
    index = owner.results.index(cast("OpResult", value))
    found = 0
    for region in owner.regions:
        with builder.at(region.block):
            found = gcd(found, known(_last(region.block)[index]))
        if found == 1:
            break
    return found


def dim_factor(builder: Builder, tensor: SSAValue, dimension: int) -> int:
    """A power of two that divides a dim of a tensor; 1 for a pointer."""
    return power_of_two(dim_divisor(builder, tensor, dimension))


def dim_divisor(
    builder: Builder, tensor: SSAValue, dimension: int, visited: Visited | None = None
) -> int:
    """A number that divides a dim of a tensor; 1 for a pointer, 0 for a tensor that is never read."""
    length = cast("TensorType", tensor.type).dims[dimension]
    if length == UNBOUNDED:
        return 1
    if length != DYNAMIC:
        return length
    owner = tensor.owner

    def known(one: SSAValue) -> int:
        return dim_divisor(builder, one, dimension, visited)

    found = 1
    if isinstance(owner, ViewOp | ReinterpretOp | ReshapeOp | ScratchOp):
        size = owner.size(dimension)
        found = lcm(factor_of(builder, size, visited), divisor_of(builder, size, is_signed=True))
    elif isinstance(owner, scf.IfOp):
        found = _of_paths(builder, tensor, known)
    elif isinstance(owner, arith.SelectOp):
        found = gcd(*map(known, owner.operands[1:]))
    elif isinstance(owner, ub.PoisonOp):
        return 0
    for since, divisor, _ in builder.divisors.get((DimOp, tensor, dimension), ()):
        if builder.is_after(since):
            found = lcm(found, divisor)
    return found


def stride_factor(builder: Builder, tensor: SSAValue, dimension: int) -> int:
    """A power of two that divides the elements which an index along a dimension skips, at each step."""
    kind, owner = cast("TensorType", tensor.type), tensor.owner
    fixed = kind.static_stride(dimension)
    if fixed is not None:
        return power_of_two(fixed)
    found = [_noted(builder, (what, tensor, dimension)) for what in (StrideOp, "stride")]
    found.append(_stride_by_dims(builder, tensor, dimension))

    def known(one: SSAValue) -> int:
        return stride_factor(builder, one, dimension)

    if isinstance(owner, ViewOp):
        source, step = owner.dimensions[dimension]
        found.append(stride_factor(builder, owner.source, source) * power_of_two(step))
    elif isinstance(owner, scf.IfOp):
        found.append(_of_paths(builder, tensor, known))
    elif isinstance(owner, arith.SelectOp):
        found.append(gcd(*map(known, owner.operands[1:])))
    elif isinstance(owner, ub.PoisonOp):
        return _MOST
    elif isinstance(owner, ReinterpretOp):
        before, after = owner.bits
        of_source = stride_factor(builder, owner.source, dimension)
        found.append(max(of_source * power_of_two(before) // power_of_two(after), 1))
    return min(max(found), _MOST)


def multiples_of(builder: Builder, value: object) -> Multiples:
    """The known multiples of a leaf; none for floats, bools and objects."""
    if isinstance(value, Scalar):
        return (factor_of(builder, value.ssa),) if value.dtype.is_integer else ()
    if isinstance(value, Tensor):
        dims, strides = known_multiples(builder, value.ssa)
        return (*map(power_of_two, dims), *strides)
    return (power_of_two(value),) if isinstance(value, int) else ()


def set_multiples(builder: Builder, value: object, multiples: Multiples) -> None:
    """Replaces the facts about an argument or a result of a loop."""
    if isinstance(value, Scalar) and multiples:
        builder.divisors[value.ssa] = [(None, multiples[0], None)]
    elif isinstance(value, Tensor):
        for number, multiple in enumerate(multiples):
            what, dimension = (DimOp, "stride")[number >= value.rank], number % value.rank
            builder.divisors[what, value.ssa, dimension] = [(None, multiple, None)]


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
