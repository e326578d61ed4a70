# SPDX-License-Identifier: Apache-2.0
"""One value for each row of a fragment: `f.row_max()`, `f.row_sum()`, `f.quad_sum()`.

In: a fragment. Out: a fragment of role `row`; first of what each thread holds, then of the four that share a row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xdsl.ir import Block

from weft.dialects.simt.fragment import FragmentReduceOp, FragmentType, FragmentYieldOp
from weft.errors import TypeMismatchError
from weft.language.matrix.fragment import expect_fragment, mapped, to
from weft.language.numbers.convert import wide_dtype
from weft.language.numbers.operators import binary
from weft.language.numbers.rounding import emit_extreme
from weft.language.operation import operation
from weft.language.threads.warp import shfl_xor
from weft.language.values import Fragment, Scalar, describe

if TYPE_CHECKING:
    from collections.abc import Callable

    from weft.dialects.builder import Builder


@operation(name="Fragment.row_max")
def row_max(builder: Builder, fragment: Fragment, *, nan: bool = False) -> Fragment:
    """A fragment with the largest element of each row; a number wins over NaN, or NaN with ``nan=True``.

    All threads that hold the fragment call it together, and have the same values of a row afterwards.

    Args:
        fragment: of numbers.
        nan: whether NaN is the largest of a row that has one.

    Raises:
        TypeMismatchError: for a fragment of a layout without rows.

    Example:
        ``largest = acc.row_max()``
    """

    def larger(one: Scalar, other: Scalar) -> Any:
        return emit_extreme(builder, "max", one, other, nan=nan)

    return _of_threads(builder, _reduced(builder, fragment, larger, "row_max"), larger)


@operation(name="Fragment.row_sum")
def row_sum(builder: Builder, fragment: Fragment, partial: bool = False) -> Fragment:
    """A fragment with the sum of each row, narrow elements in their wide type.

    Args:
        fragment: of numbers.
        partial: whether each thread only adds the elements that it holds; `quad_sum` adds these sums, once for many.

    Raises:
        TypeMismatchError: as `row_max`.

    Example:
        ``total = acc.row_sum(partial=True).quad_sum()``
    """
    expect_fragment(fragment, "row_sum")
    wide = wide_dtype(fragment.dtype)
    if wide is not fragment.dtype:
        fragment = to.emit(builder, fragment, wide)
    found = _reduced(
        builder, fragment, lambda one, other: binary(builder, "+", one, other), "row_sum"
    )
    return found if partial else quad_sum.emit(builder, found)


@operation(name="Fragment.quad_sum")
def quad_sum(builder: Builder, fragment: Fragment) -> Fragment:
    """The sums of each row that the four threads with parts of it hold, in all of them.

    Args:
        fragment: with one value for each row, such as ``f.row_sum(partial=True)``.

    Raises:
        TypeMismatchError: for another fragment.

    Example:
        ``total = acc.row_sum(partial=True).quad_sum()``
    """
    expect_fragment(fragment, "quad_sum")
    if fragment.type.role.data != "row":
        raise TypeMismatchError(
            "FRAGMENT_LAYOUT",
            f"quad_sum adds values of rows, received {describe(fragment)}",
            hint="write f.row_sum(partial=True).quad_sum()",
        )
    return _of_threads(builder, fragment, lambda one, other: binary(builder, "+", one, other))


def _reduced(
    builder: Builder, fragment: Fragment, both: Callable[[Scalar, Scalar], Any], name: str
) -> Fragment:
    """Combines the elements of a row in each thread."""
    expect_fragment(fragment, name)
    kind = fragment.type
    if kind.role.data not in ("c", "a"):
        raise TypeMismatchError("FRAGMENT_LAYOUT", f"{name}: {describe(fragment)} has no rows")
    result = FragmentType.get(kind.dims[:1], kind.element_type, kind.unit.data, "row")
    block = Block(arg_types=[kind.element_type] * 2)
    with builder.at(block):
        one, other = (Scalar(argument, fragment.dtype) for argument in block.args)
        builder.emit(FragmentYieldOp(both(one, other).ssa))
    made = builder.emit(FragmentReduceOp(fragment.ssa, result, block))
    return Fragment(made.result, fragment.dtype)


def _of_threads(
    builder: Builder, fragment: Fragment, both: Callable[[Scalar, Scalar], Any]
) -> Fragment:
    """Combines the values of a quad, the four threads with parts of a row; all of them get the result."""

    def combined(_: Block, value: Scalar) -> Scalar:
        for lanes in (1, 2):
            value = both(value, shfl_xor.emit(builder, value, lanes))
        return value

    given = (fragment,)
    return mapped(builder, fragment.type, fragment.dtype, combined, given, meets=True)
