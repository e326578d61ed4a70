# SPDX-License-Identifier: Apache-2.0
"""Ranges, choices and checks: ``static_range``, ``unroll``, ``ceil_div``, ``select``, ``static_assert``.

In: compile-time and staged values. Out: the same, and `StagedRange`, which the front end turns into loops.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from xdsl.dialects import arith

from weft.errors import CompileError, TypeMismatchError, ValueRangeError
from weft.language.debug import emit_assert
from weft.language.numbers.complex import common_complex, is_complex
from weft.language.numbers.convert import common_dtype, expect_scalar, index_dtype, to_common, truth
from weft.language.numbers.operators import binary, compare, unary
from weft.language.operation import operation
from weft.language.values import RunTimeIterable, Scalar, describe, is_staged, item_text
from weft.types import dtype as types

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weft.dialects.builder import Builder
    from weft.types.dtype import DType

_MOST_COPIES: Final = 1024


class StagedRange(RunTimeIterable):
    """A ``range`` that a loop goes over at run time.

    Attributes:
        start, stop, step: a `Scalar` or a Python int each, as given.
        factor: how often to unroll the loop; None leaves it to the compiler.
        dtype: type of the loop's variable, i32, i64 or u64.
    """

    __slots__ = ("dtype", "factor", "start", "step", "stop")

    def __init__(
        self,
        start: Scalar | int,
        stop: Scalar | int,
        step: Scalar | int,
        factor: int | None = None,
    ) -> None:
        self.start = start
        self.stop = stop
        self.step = step
        self.factor = factor
        self.dtype = _loop_dtype(start, stop, step)

    @property
    def known(self) -> range | None:
        """Python's range, if it is known at compile time."""
        parts = [part for part in (self.start, self.stop, self.step) if isinstance(part, int)]
        return range(*parts) if len(parts) == 3 else None

    def __repr__(self) -> str:
        parts = ", ".join(item_text(part) for part in (self.start, self.stop, self.step))
        return f"range({parts})"

    def bounds(self, builder: Builder) -> tuple[Scalar, Scalar, Scalar]:
        """Start, stop and step in the loop variable's type."""
        start, stop, step = (
            to_common(builder, part, self.dtype) for part in (self.start, self.stop, self.step)
        )
        return start, stop, step


def make_range(builder: Builder, *arguments: object) -> range | StagedRange:
    """``range(stop)``, ``range(start, stop)``, ``range(start, stop, step)`` of integers.

    All constant: Python's own range. Else a `StagedRange`; its variable is i32 if that holds all three types, else i64;
    u32 makes it i64, and u64 makes it u64.

    Raises:
        TypeMismatchError: for a wrong number of arguments, a non-integer, or a signed integer with u64.
        ValueRangeError: for a constant step of 0, and for a negative constant end with u64.
    """
    if not 1 <= len(arguments) <= 3:
        raise TypeMismatchError(
            "CALL_ARGUMENTS",
            f"range takes 1 to 3 integers, received {len(arguments)} arguments",
            hint="range(stop), range(start, stop) or range(start, stop, step)",
        )
    parts = [_range_part(builder, argument) for argument in arguments]
    start = parts[0] if len(parts) > 1 else 0
    stop = parts[1] if len(parts) > 1 else parts[0]
    step = parts[2] if len(parts) > 2 else 1
    if not is_staged(step) and step == 0:
        raise ValueRangeError("RANGE_STEP_ZERO", "range: the step is 0")
    if isinstance(start, int) and isinstance(stop, int) and isinstance(step, int):
        return range(start, stop, step)
    return StagedRange(start, stop, step)


def staged(found: range | StagedRange, factor: int | None = None) -> StagedRange:
    """A range that a loop goes over at run time, even if it is known."""
    return StagedRange(found.start, found.stop, found.step, factor)


def _range_part(builder: Builder, argument: object) -> Scalar | int:
    part = expect_scalar(builder, argument, "range: an argument")
    integral = part.dtype.is_integer if isinstance(part, Scalar) else not isinstance(part, float)
    if not integral or isinstance(part, float):
        raise TypeMismatchError(
            "RANGE_TYPE",
            f"range: expected an integer, received {describe(part)}",
            hint="convert it, such as weft.i32(x)",
        )
    return part


def _loop_dtype(start: Scalar | int, stop: Scalar | int, step: Scalar | int) -> DType:
    """The type that holds every argument, if any; only a u64 makes it unsigned."""
    found = [range_dtype(part) for part in (start, stop, step)]
    if types.u64 not in found:
        return types.i64 if types.i64 in found else types.i32
    for part in (start, stop, step):
        if isinstance(part, Scalar):
            common_dtype(types.u64, part)  # refuses a signed one
    for end in (start, stop):
        if isinstance(end, int) and end < 0:
            raise ValueRangeError(
                "CONSTANT_OUT_OF_RANGE",
                f"range: the constant {end} does not fit u64",
                hint="count in another type: convert the other arguments, for example weft.i64(n)",
            )
    return types.u64


def range_dtype(part: Scalar | int) -> DType:
    """The type in which an integer counts without changing its value: i32, else i64, and u64 for a u64."""
    if not isinstance(part, Scalar):
        if types.i64.maximum < part <= types.u64.maximum:
            return types.u64
        return types.i32 if types.i32.minimum <= part <= types.i32.maximum else types.i64
    return types.u64 if part.dtype is types.u64 else index_dtype(part.dtype) or types.i64


@operation(on_host=True)
def static_range(builder: Builder, *arguments: object) -> range:
    """A range known at compile time, which ``for`` unrolls: the body is repeated for each value.

    The loop's variable is a constant in each repetition, so it can index tuples and local arrays in
    registers.

    Args:
        *arguments: as in Python's range: stop; start, stop; or start, stop, step; all constants.

    Raises:
        TypeMismatchError: for an argument known only at run time; use ``range``.
        ValueRangeError: for a step of 0.

    Example:
        ``for k in weft.static_range(4): total += a[4 * i + k]``
    """
    found = make_range(builder, *arguments)
    if isinstance(found, StagedRange):
        raise TypeMismatchError(
            "STATIC_RANGE",
            f"static_range takes integers known at compile time, received static_{found!r}",
            hint="use range, or make the bound a weft.Constexpr[int] parameter",
        )
    return found


@operation(on_host=True)
def unroll(builder: Builder, values: range | StagedRange, factor: int) -> StagedRange:
    """A range whose loop does several iterations at once: the machine's loop has `factor` copies of the body.

    The result is the same; it is for speed, where the compiler's own choice is not the best. A factor of 1 keeps it
    from unrolling the loop, of the number of iterations or more unrolls the loop as a whole. The loop's variable is one
    of
    run time still: `static_range` makes it a constant. On GPUs a loop in which threads wait for each other is unrolled
    only if the number of iterations is known at compile time and a multiple of the factor.

    Args:
        values: what ``range(...)`` returns.
        factor: from 1 to 1024, known at compile time.

    Raises:
        TypeMismatchError: for something other than a range, and for a factor that is not an int known at compile time.
        ValueRangeError: for another factor.

    Example:
        ``for k in weft.unroll(range(a.shape[0]), 4): total += a[k]``
    """
    if not isinstance(values, range | StagedRange):
        raise TypeMismatchError(
            "UNROLL_RANGE",
            f"unroll: expected a range, received {describe(values)}",
            hint="weft.unroll(range(n), 4); a for loop over a tuple or list is always unrolled",
        )
    if not isinstance(factor, int) or isinstance(factor, bool):
        raise TypeMismatchError(
            "UNROLL_FACTOR",
            f"unroll: expected a factor known at compile time, an int, received {describe(factor)}",
            hint="write a number, or make it a weft.Constexpr[int] parameter",
        )
    if not 1 <= factor <= _MOST_COPIES:
        raise ValueRangeError(
            "UNROLL_FACTOR",
            f"unroll: expected a factor from 1 to {_MOST_COPIES}, received {factor}",
            hint="1 does not unroll the loop; weft.static_range unrolls it as a whole",
        )
    return staged(values, factor)


class StaticValue:
    """A kernel's argument that is compiled in: what `static` returns.

    Attributes:
        value: a hashable compile-time value.
    """

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value


@operation(on_host=True)
def static(builder: Builder, value: object) -> StaticValue:
    """A kernel's argument that is known when the kernel is compiled: each value makes a kernel of its own.

    Numbers given to a launch are passed at run time otherwise. A parameter annotated `weft.Constexpr` is always
    compiled in; this is for one launch, of a kernel whose other launches vary.

    Args:
        value: known at compile time, and hashable.

    Raises:
        TypeMismatchError: for a value known only at run time.

    Example:
        ``kernel(a, weft.static(4)).launch(grid=8, block=128)``
    """
    del builder
    if is_staged(value):
        raise TypeMismatchError(
            "NOT_CONSTANT",
            f"static takes a value known at compile time, received {describe(value)}",
            hint="pass it without weft.static",
        )
    return StaticValue(value)


@operation(on_host=True)
def static_assert(builder: Builder, condition: object, message: object = "") -> None:
    """Fails to compile, with the message, if the condition is false; adds no code.

    Args:
        condition: known at compile time.
        message: text of the error.

    Raises:
        CompileError: STATIC_ASSERT if the condition is false.
        TypeMismatchError: for a condition known only at run time; use ``assert``.

    Example:
        ``weft.static_assert(TILE % 32 == 0, "TILE is a multiple of 32")``
    """
    del builder
    if is_staged(condition):
        raise TypeMismatchError(
            "STATIC_ASSERT_DYNAMIC",
            f"static_assert takes a condition known at compile time, received {describe(condition)}",
            hint="use assert for run-time conditions",
        )
    if not condition:
        raise CompileError(
            "STATIC_ASSERT", f"static_assert failed{f': {message}' if message else ''}"
        )


@operation(on_host=True)
def ceil_div(builder: Builder, dividend: object, divisor: object) -> Scalar | int:
    """The quotient of two integers, rounded up.

    Exact for all signs and up to the type's limits, except for the smallest negative dividend, which wraps. Two
    constants give a constant. Python can call it with ints, for example for the grid of a bare launch.

    Args:
        dividend: an integer.
        divisor: an integer; their common type is the result's.

    Raises:
        TypeMismatchError: for floats.
        ValueRangeError: for the constant divisor 0.

    Example:
        ``kernel(a).launch(grid=weft.ceil_div(a.shape[0], 128), block=128)``
    """
    first = expect_scalar(builder, dividend, "ceil_div: the dividend")
    second = expect_scalar(builder, divisor, "ceil_div: the divisor")
    if not isinstance(first, Scalar) and not isinstance(second, Scalar):
        if isinstance(first, float) or isinstance(second, float):
            raise _no_integer(first if isinstance(first, float) else second)
        if second == 0:
            raise ValueRangeError("DIVISION_BY_ZERO", "ceil_div: the divisor is the constant 0")
        return -(-first // second)
    dtype = common_dtype(first, second)
    if dtype.is_float:
        raise _no_integer(
            first if not isinstance(first, Scalar) or first.dtype.is_float else second
        )
    if dtype.is_signed:
        # ceil(a / b) = −floor(−a / b); (a + b − 1) // b would overflow near the type's limit.
        return unary(builder, "-", binary(builder, "//", unary(builder, "-", first), second))
    quotient = binary(builder, "//", first, second)
    rest = compare(builder, "!=", binary(builder, "%", first, second), 0)
    return binary(builder, "+", quotient, to_common(builder, rest, dtype))


def _no_integer(value: object) -> TypeMismatchError:
    return TypeMismatchError(
        "TYPE_INTEGER",
        f"ceil_div takes integers, received {describe(value)}",
        hint="for floats write weft.math.ceil(a / b)",
    )


def choose(builder: Builder, condition: object, if_true: object, if_false: object) -> Scalar:
    """Either value in their common type, without a branch; two bools give a ``bool_``.

    Raises:
        TypeMismatchError: if an argument is not a number, or the types have no common type.
    """
    first = expect_scalar(builder, if_true, "select: the second argument")
    second = expect_scalar(builder, if_false, "select: the third argument")
    dtype = selected_dtype(first, second)
    yes, no = to_common(builder, first, dtype), to_common(builder, second, dtype)
    if not is_staged(condition):
        return yes if condition else no
    boolean = truth(builder, expect_scalar(builder, condition, "select: the condition"))
    if yes.ssa is no.ssa:
        return yes
    return Scalar(builder.emit(arith.SelectOp(boolean.ssa, yes.ssa, no.ssa)).result, dtype)


MOST_CHOICES: Final = 64
"""Numbers of a tuple that may be indexed at run time."""


def chosen_number(builder: Builder, numbers: Sequence[Any], index: Scalar) -> Scalar:
    """``numbers[index]`` of a tuple, without a branch; the index is checked like an `assert`.

    Raises:
        TypeMismatchError: for an index that is not an integer, or numbers without a common type.
    """
    if not index.dtype.is_integer or index.dtype.is_bool:
        raise TypeMismatchError("INDEX_TYPE", f"a tuple of numbers is indexed by {describe(index)}")
    values = [expect_scalar(builder, one, "an item of the tuple") for one in numbers]
    dtype = _common_of_all(values)
    text = f"an index of {len(values)} numbers is 0 to {len(values) - 1}"
    emit_assert(builder, compare(builder, ">=", index, 0), text)
    emit_assert(builder, compare(builder, "<", index, len(values)), text)
    chosen = to_common(builder, values[-1], dtype)
    for place, value in enumerate(values[:-1]):
        here = compare(builder, "==", index, place)
        chosen = choose(builder, here, to_common(builder, value, dtype), chosen)
    return chosen


def _common_of_all(values: Sequence[Scalar | int | float]) -> DType:
    """The common type of numbers, of which Python's have none of their own."""
    scalars = [value for value in values if isinstance(value, Scalar)]
    constants: list[int | float] = [value for value in values if not isinstance(value, Scalar)]
    if not scalars:
        if not all(isinstance(value, bool) for value in constants):
            constants = [float(value) for value in constants if isinstance(value, float)] or [
                max(map(int, constants), key=lambda number: max(number, ~number))
            ]
        return selected_dtype(constants[0], constants[0])
    common = scalars[0]
    for value in (*scalars[1:], *constants):
        common = Scalar(common.ssa, selected_dtype(common, value))
    return common.dtype


def selected_dtype(first: Scalar | int | float, second: Scalar | int | float) -> DType:
    """The type of a choice: the values' type if they share it, bools and f8 included; else the common type."""
    if isinstance(first, Scalar) and isinstance(second, Scalar) and first.dtype is second.dtype:
        return first.dtype
    for value, other in ((first, second), (second, first)):
        if isinstance(value, Scalar) and not isinstance(other, Scalar):
            weak_bool = isinstance(other, bool)
            if value.dtype.is_bool and weak_bool:
                return value.dtype
            if value.dtype.is_narrow_float and not weak_bool:
                return value.dtype
    if isinstance(first, bool) and isinstance(second, bool):
        return types.bool_
    if is_complex(first) or is_complex(second):
        return common_complex(first, second)
    return common_dtype(first, second)


@operation(on_host=True, takes_complex=True, elementwise=True)
def where(builder: Builder, condition: object, if_true: object, if_false: object) -> Scalar:
    """`if_true` if the condition holds, else `if_false`; both are computed, without a branch.

    ``a if c else b`` computes only one: use it if computing the other is expensive or invalid, such as an index out of
    range. Of fragments it is computed at each place: ``weft.where(acc > 0, acc, 0)``.

    Args:
        condition: a number; true if it is not 0.
        if_true: a number.
        if_false: a number; their common type is the result's.

    Raises:
        TypeMismatchError: if an argument is not a number, or the types have no common type.

    Example:
        ``b[i] = weft.where(a[i] > 0, a[i], 0)``
    """
    return choose(builder, condition, if_true, if_false)
