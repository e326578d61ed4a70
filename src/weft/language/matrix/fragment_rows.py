# SPDX-License-Identifier: Apache-2.0
"""One value for each row or column of a fragment: `f.row_max()`, `f.row_sum()`, `f.quad_sum()`, `f.col_sum()`.

In: a fragment. Out: a fragment of role `row` or `column`; first of what each thread holds, then of the four that share
a row, or the eight that share a column.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xdsl.ir import Block

from weft.dialects.simt.fragment import FragmentReduceOp, FragmentType, FragmentYieldOp
from weft.errors import TypeMismatchError
from weft.language.matrix.fragment import check_effects, expect_fragment, mapped, to
from weft.language.matrix.fragment_memory import store
from weft.language.memory.access import load
from weft.language.memory.views import subscript
from weft.language.numbers.convert import convert, wide_dtype
from weft.language.numbers.operators import binary
from weft.language.numbers.rounding import emit_extreme
from weft.language.operation import operation
from weft.language.threads.warp import shfl_xor, sync_warpgroup, warp_id
from weft.language.values import Fragment, Scalar, Tensor, describe, tensor_text

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from weft.dialects.builder import Builder
    from weft.types.dtype import DType

    _Both: TypeAlias = Callable[[Block, Scalar, Scalar], Any]


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
    return _reduced(builder, fragment, _extreme(builder, "max", nan), "row_max")


@operation(name="Fragment.row_min")
def row_min(builder: Builder, fragment: Fragment, *, nan: bool = False) -> Fragment:
    """A fragment with the smallest element of each row, as `row_max`.

    Args:
        fragment, nan: as there.

    Raises:
        TypeMismatchError: as `row_max`.

    Example:
        ``smallest = acc.row_min()``
    """
    return _reduced(builder, fragment, _extreme(builder, "min", nan), "row_min")


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
    wide = _widened(builder, fragment, "row_sum")
    return _reduced(builder, wide, _adding(builder), "row_sum", partial=partial)


@operation(name="Fragment.row_reduce")
def row_reduce(builder: Builder, fragment: Fragment, function: Callable[..., Any]) -> Fragment:
    """A fragment with ``function(function(a, b), c)`` and so on of each row, in an order of the machine's.

    Args:
        fragment: of numbers.
        function: of two elements, associative and commutative, which returns one of the same type. It neither writes
            nor waits for other threads.

    Raises:
        TypeMismatchError: as `row_max`; for another kind of function.

    Example:
        ``product = acc.row_reduce(lambda x, y: x * y)``
    """
    return _reduced(builder, fragment, _given(function, "row_reduce"), "row_reduce")


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
    return _of_threads(builder, fragment, _adding(builder))


@operation(name="Fragment.col_sum")
def col_sum(
    builder: Builder, fragment: Fragment, *, scratch: object = None, per_warp: bool = False
) -> Fragment:
    """A fragment with the sum of each column, narrow elements in their wide type.

    All threads that hold the fragment call it together. Of a warpgroup's fragment four warps hold parts of a column.
    They exchange them through an array, with two `sync_warpgroup`; or, with ``per_warp=True``, each has the sum of its
    own rows, to be added to memory with `red_add`.

    Args:
        fragment: of numbers.
        scratch: for a warpgroup's fragment, an array of shared memory, of at least (4, columns) elements of the sums'
            type, which no other warpgroup uses at the time.
        per_warp: whether the sum is of a warp's rows only.

    Raises:
        TypeMismatchError: for a fragment of a layout without columns, or of a warpgroup without `scratch` and
            ``per_warp=True``; another array.

    Example:
        ``bias = acc.col_sum()``
    """
    wide = _widened(builder, fragment, "col_sum")
    return _reduced(builder, wide, _adding(builder), "col_sum", per_warp=per_warp, scratch=scratch)


@operation(name="Fragment.col_max")
def col_max(
    builder: Builder,
    fragment: Fragment,
    *,
    nan: bool = False,
    scratch: object = None,
    per_warp: bool = False,
) -> Fragment:
    """A fragment with the largest element of each column.

    Args:
        fragment, nan: as for `row_max`.
        scratch, per_warp: as for `col_sum`.

    Raises:
        TypeMismatchError: as `col_sum`.

    Example:
        ``largest = acc.col_max()``
    """
    both = _extreme(builder, "max", nan)
    return _reduced(builder, fragment, both, "col_max", per_warp=per_warp, scratch=scratch)


@operation(name="Fragment.col_min")
def col_min(
    builder: Builder,
    fragment: Fragment,
    *,
    nan: bool = False,
    scratch: object = None,
    per_warp: bool = False,
) -> Fragment:
    """A fragment with the smallest element of each column.

    Args:
        fragment, nan: as for `row_max`.
        scratch, per_warp: as for `col_sum`.

    Raises:
        TypeMismatchError: as `col_sum`.

    Example:
        ``smallest = acc.col_min()``
    """
    both = _extreme(builder, "min", nan)
    return _reduced(builder, fragment, both, "col_min", per_warp=per_warp, scratch=scratch)


@operation(name="Fragment.col_reduce")
def col_reduce(
    builder: Builder,
    fragment: Fragment,
    function: Callable[..., Any],
    *,
    scratch: object = None,
    per_warp: bool = False,
) -> Fragment:
    """A fragment with a function of the elements of each column, as `row_reduce`.

    Args:
        fragment, function: as there.
        scratch, per_warp: as for `col_sum`.

    Raises:
        TypeMismatchError: as `row_reduce` and `col_sum`.

    Example:
        ``product = acc.col_reduce(lambda x, y: x * y)``
    """
    both = _given(function, "col_reduce")
    return _reduced(builder, fragment, both, "col_reduce", per_warp=per_warp, scratch=scratch)


def _adding(builder: Builder) -> _Both:
    return lambda _, one, other: binary(builder, "+", one, other)


def _extreme(builder: Builder, which: str, nan: bool) -> _Both:
    return lambda _, one, other: emit_extreme(builder, which, one, other, nan=nan)


def _given(function: object, name: str) -> _Both:
    if not callable(function):
        raise TypeMismatchError(
            "FRAGMENT_FUNCTION",
            f"{name}: received {describe(function)}; expected a function of two elements",
            hint=f"write f.{name}(lambda x, y: x * y)",
        )
    return function


def _widened(builder: Builder, fragment: Fragment, name: str) -> Fragment:
    expect_fragment(fragment, name)
    return to.emit(builder, fragment, wide_dtype(fragment.dtype))


def _reduced(
    builder: Builder,
    fragment: Fragment,
    both: _Both,
    name: str,
    *,
    partial: bool = False,
    per_warp: bool = False,
    scratch: object = None,
) -> Fragment:
    """Combines the elements of each row or column: in each thread, in those that share it, in a warpgroup's warps."""
    expect_fragment(fragment, name)
    kind, unit = fragment.type, fragment.type.unit.data
    role = "row" if name.startswith("row") else "column"
    if kind.role.data not in ("c", "a") or (role == "column" and kind.layout.pack != 2):
        raise TypeMismatchError("FRAGMENT_LAYOUT", f"{name}: {describe(fragment)} has no {role}s")
    array: Tensor | None = None
    if scratch is not None:
        if per_warp or unit != "wgmma":
            raise TypeMismatchError(
                "FRAGMENT_SCRATCH",
                f"{name}: scratch is for the four warps of a warpgroup, and one has the whole result here",
                hint=f"write f.{name}({'per_warp=True' if per_warp else ''})",
            )
        array = _checked_scratch(fragment, scratch, name)
    elif role == "column" and unit == "wgmma" and not per_warp:
        raise TypeMismatchError(
            "FRAGMENT_LAYOUT",
            f"{name}: four warps hold parts of each column of {describe(fragment)}",
            hint=f"write f.{name}(scratch=weft.shared((4, {kind.dims[1]}), weft.{fragment.dtype})); "
            "or per_warp=True, and combine the warps in memory, as with red_add(totals)",
        )
    if role == "column":
        unit = "mma"  # each warp's
    dims = [kind.dims[0 if role == "row" else 1]]
    result = FragmentType.get(dims, kind.element_type, unit, role)
    block = Block(arg_types=[kind.element_type] * 2)
    with builder.at(block):
        one, other = (Scalar(argument, fragment.dtype) for argument in block.args)
        value = both(block, one, other)
        check_effects(block)
        builder.emit(FragmentYieldOp([_same(builder, value, fragment.dtype, name).ssa]))
    made = Fragment(
        builder.emit(FragmentReduceOp(fragment.ssa, result, block)).result, fragment.dtype
    )
    if partial:
        return made
    found = _of_threads(builder, made, both)
    return found if array is None else _of_warps(builder, found, both, array)


def _checked_scratch(fragment: Fragment, scratch: object, name: str) -> Tensor:
    """The array through which a warpgroup's warps exchange values of columns."""
    columns = fragment.type.dims[1]
    if isinstance(scratch, Tensor):
        kind = scratch.type
        fits = kind.rank == 2 and kind.dims[0] >= 4 and kind.dims[1] >= columns
        if fits and kind.space.data == "shared" and scratch.dtype is fragment.dtype:
            return scratch
    what = tensor_text(scratch, scratch.name) if isinstance(scratch, Tensor) else describe(scratch)
    raise TypeMismatchError(
        "FRAGMENT_SCRATCH",
        f"{name}: scratch is {what}; expected an array of shared memory of {fragment.dtype}, (4, {columns}) or larger",
        hint=f"write scratch=weft.shared((4, {columns}), weft.{fragment.dtype})",
    )


def _of_warps(builder: Builder, fragment: Fragment, both: _Both, array: Tensor) -> Fragment:
    """Combines the values of columns of a warpgroup's four warps; all of its threads get the result."""
    warp = binary(builder, "%", warp_id.emit(builder), 4)
    store.emit(builder, fragment, subscript(builder, array, warp))
    sync_warpgroup.emit(builder)

    def value(block: Block, _: Scalar, column: Scalar) -> Scalar:
        one, two, three, four = (load(builder, array, (row, column)) for row in range(4))
        return both(block, both(block, one, two), both(block, three, four))

    kind = fragment.type
    result = FragmentType.get(kind.dims, kind.element_type, "wgmma", "column")
    found = mapped(builder, result, fragment.dtype, value, (), coordinates=True)
    sync_warpgroup.emit(builder)
    return found


def _same(builder: Builder, value: object, dtype: DType, name: str) -> Scalar:
    """The result of a function of two elements, which is one."""
    if isinstance(value, Scalar) and value.dtype is dtype:
        return value
    if type(value) in (int, float, bool):
        return convert(builder, value, dtype)
    raise TypeMismatchError(
        "FRAGMENT_FUNCTION",
        f"{name}: the function of two elements of {dtype} returns {describe(value)}; expected {dtype}",
        hint=f"convert in the function, or before: f.to(weft.f32).{name}(...)",
    )


def _of_threads(builder: Builder, fragment: Fragment, both: _Both) -> Fragment:
    """Combines the values of the threads that share a row, or a column; all of them get the result."""
    distances = (1, 2) if fragment.type.role.data == "row" else (4, 8, 16)

    def combined(block: Block, value: Scalar) -> Scalar:
        for lanes in distances:
            value = both(block, value, shfl_xor.emit(builder, value, lanes))
        return value

    given = (fragment,)
    return mapped(builder, fragment.type, fragment.dtype, combined, given, meets=True)
