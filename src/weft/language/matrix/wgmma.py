# SPDX-License-Identifier: Apache-2.0
"""`weft.wgmma`: asynchronous MMA of a warpgroup on Hopper's tensor cores.

In: tiles in swizzled shared memory, fragments. Out: fragments, to be read after a wait.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from weft.dialects.nvgpu.mma import (
    KINDS,
    MOST_PENDING,
    ROWS,
    WgmmaAccumulatorOp,
    WgmmaMmaOp,
    WgmmaWaitOp,
)
from weft.dialects.simt.fragment import FragmentType
from weft.errors import TypeMismatchError, ValueRangeError
from weft.language.ir_types import ir_type
from weft.language.matrix.fragment import filled, of_values
from weft.language.matrix.mma import checked_values, layout_of
from weft.language.memory.views import tile_facts
from weft.language.numbers.convert import truth
from weft.language.operation import operation
from weft.language.values import Fragment, Tensor, describe, tensor_text
from weft.types import dtype as types

if TYPE_CHECKING:
    from weft.dialects.builder import Builder
    from weft.types.dtype import DType
    from weft.types.fragment_layout import FragmentLayout

_SUMS: Final = {"f32": types.f32, "f16": types.f16, "i32": types.i32}
_MOST_COLUMNS: Final = 256
_MOST_REGISTERS: Final = 255  # of a thread
_STEP_BYTES: Final = 32
_THREADS: Final = 128


@operation(name="wgmma.zeros")
def zeros(builder: Builder, shape: tuple[int, int], dtype: DType = types.f32) -> Fragment:
    """An accumulator of a warpgroup that begins with 0, for MMAs that always accumulate.

    An `accumulator` saves the zeros where the first MMA takes ``accumulate=False``.

    Args:
        shape, dtype: as there.

    Raises:
        TypeMismatchError, ValueRangeError: as `wgmma.accumulator`.

    Example:
        ``acc = weft.wgmma.zeros((64, 256), weft.f32)``
    """
    return filled(builder, _checked_sums("wgmma.zeros", shape, dtype), 0, dtype, "wgmma", "c")


@operation(name="wgmma.full")
def full(
    builder: Builder, shape: tuple[int, int], value: object, dtype: DType = types.f32
) -> Fragment:
    """An accumulator of a warpgroup that begins with a number.

    Args:
        shape, dtype: as for `accumulator`.
        value: of every element.

    Raises:
        TypeMismatchError, ValueRangeError: as `wgmma.accumulator`.

    Example:
        ``acc = weft.wgmma.full((64, 256), 1.0)``
    """
    return filled(builder, _checked_sums("wgmma.full", shape, dtype), value, dtype, "wgmma", "c")


@operation(name="wgmma.from_values")
def from_values(
    builder: Builder,
    shape: tuple[int, int],
    values: object,
    dtype: DType,
    role: str = "c",
) -> Fragment:
    """A fragment from values that each thread of a warpgroup computes, as `mma.from_values`.

    Args:
        shape, values, dtype: as there; rows are a multiple of 64.
        role: ``"a"``, the left operand, or ``"c"``, sums.

    Raises:
        TypeMismatchError, ValueRangeError: as there.

    Example:
        ``left = weft.wgmma.from_values((64, 16), lambda row, column: row == column, weft.bf16, "a")``
    """
    checked = checked_values("wgmma.from_values", shape, dtype, role, "wgmma")
    return of_values(builder, "wgmma.from_values", values, checked, dtype, "wgmma", role)


@operation(name="wgmma.layout", on_host=True)
def layout(
    builder: Builder, shape: tuple[int, int], dtype: DType, role: str = "c"
) -> FragmentLayout:
    """The layout of a warpgroup's fragment, as `mma.layout`: ``layout.coordinates(lane, warp)``.

    Args:
        shape, dtype, role: as for `from_values`.

    Raises:
        TypeMismatchError, ValueRangeError: as there.

    Example:
        ``first = weft.wgmma.layout((64, 16), weft.bf16, "a").coordinates(0, 3)[0]``
    """
    del builder
    return layout_of("wgmma", shape, dtype, role)


@operation(name="wgmma.accumulator")
def accumulator(builder: Builder, shape: tuple[int, int], dtype: DType = types.f32) -> Fragment:
    """An uninitialized accumulator of a warpgroup.

    The first MMA takes ``accumulate=False``, or a condition that is false then, and so needs no zeros. Reading
    an accumulator before is an error where that is known at compile time. Elsewhere, as after a loop without
    iterations, it is NaN on the CPU, of integers -2147483648, and anything on a GPU; ``weft.sanitize("uninit")`` finds
    it. `zeros` need no such care.

    Args:
        shape: rows, a multiple of 64, and columns, a multiple of 8 up to 256; constants.
        dtype: of the sums: f32; f16 for f16 and 8-bit float operands, in half the registers; i32 for integers.

    Raises:
        TypeMismatchError: for another type, or a shape that is not constant.
        ValueRangeError: for other numbers, or more sums than a thread has registers.

    Example:
        ``acc = weft.wgmma.accumulator((64, 256), weft.f32)``
    """
    parts = _checked_sums("wgmma.accumulator", shape, dtype)
    made = WgmmaAccumulatorOp(FragmentType.get(parts, ir_type(dtype), "wgmma", "c"))
    return Fragment(builder.emit(made).result, dtype)


@operation(name="wgmma.mma")
def mma(
    builder: Builder,
    a: object,
    b: object,
    acc: object = None,
    *,
    accumulate: object = True,
) -> Fragment:
    """Starts an MMA of two tiles and returns its accumulator, which is complete after a `wait`.

    All 128 threads of a warpgroup call it with the same tiles. Until it is complete, the tiles must not change, and the
    accumulator cannot be read; `acc` is consumed. The MMAs of one call are a group, which `wait` counts.

    The operands are bf16, f16, f32 (the tensor cores read the 19 highest bits, tf32), f8e4m3, f8e5m2, i8 or
    u8, both of one kind; 8-bit types mix. Sums are f32, of integers i32; of f16 and 8-bit floats f16 where `acc` is:
    they are rounded after each instruction, 32 bytes of K.

    Args:
        a: the left tile, (rows, K): rows a multiple of 64. In shared memory made with ``swizzle=``, or a fragment
            from `as_operand_a`.
        b: the right tile, (K, columns), in such memory: columns a multiple of 8 up to 256. Of 8-bit types and of
            f32, the elements along K are adjacent: a tile stored (columns, K) is ``tile.T`` here. K takes a multiple
            of 32 bytes.
        acc: the accumulator to add to: an `accumulator`, or the result of another MMA.
        accumulate: whether it is added, or the sums begin anew; may be known only at run time.

    Raises:
        TypeMismatchError: for operands or types that cannot be multiplied, or another accumulator.
        ValueRangeError: for tiles of other sizes.
        UnavailableError: for an architecture other than sm_90a.

    Example:
        ``sums = weft.wgmma.mma(left_tile, right_tile.T)``
    """
    if isinstance(b, Fragment):
        raise TypeMismatchError(
            "WGMMA_OPERAND",
            f"wgmma.mma: the right operand is {describe(b)}; only the left one can be a fragment",
            hint="store it to shared memory first",
        )
    left = _left_fragment(a) if isinstance(a, Fragment) else _tile(a, "the left operand")
    right = _tile(b, "the right operand")
    names = _names(left, right)
    elements = KINDS[names]
    rows, columns = _checked_shape(left, right, elements.step)
    if isinstance(left, Tensor):
        _check_storage(left, "the left operand", is_b=False)
    _check_storage(right, "the right operand", is_b=True)
    sum_types = [_SUMS[name] for name in elements.sums]
    adds_to = acc.dtype if isinstance(acc, Fragment) else None
    dtype = next((one for one in sum_types if one is adds_to), sum_types[0])
    _check_sums(rows, columns, "wgmma.mma", dtype)
    kind = FragmentType.get((rows, columns), ir_type(dtype), "wgmma", "c")
    if acc is not None and not (isinstance(acc, Fragment) and acc.type == kind):
        raise TypeMismatchError(
            "WGMMA_ACCUMULATOR",
            f"wgmma.mma: the result is of shape ({rows}, {columns}) and type {dtype}; "
            f"it is added to {describe(acc)}",
            hint=f"begin with weft.wgmma.accumulator(({rows}, {columns}), weft.{dtype})",
        )
    adds = None if acc is None or accumulate is True else truth(builder, accumulate).ssa
    sums = acc.ssa if isinstance(acc, Fragment) else None
    made = WgmmaMmaOp(names, left.ssa, right.ssa, sums, adds, kind)
    return Fragment(builder.emit(made).result, dtype)


@operation(name="wgmma.wait")
def wait(builder: Builder, *fragments: object, pending: object = 0) -> object:
    """Waits until all but the warpgroup's newest MMAs are complete, and returns its fragments.

    All 128 threads of the warpgroup call it. The returned fragments can be read, if their MMAs are among the
    complete ones. A wait without fragments is for the tiles, which may then change.

    Args:
        *fragments: accumulators, which the call returns: one as it is, several as a tuple.
        pending: how many of the newest MMAs, counted in calls of `mma`, may stay in flight: a constant, 0 to 7.

    Raises:
        TypeMismatchError: for anything but accumulators.
        ValueRangeError: for another number.

    Example:
        ``sums = weft.wgmma.wait(weft.wgmma.mma(left_tile, right_tile.T))``
    """
    if type(pending) is not int or not 0 <= pending <= MOST_PENDING:
        raise ValueRangeError(
            "WGMMA_PENDING",
            f"wgmma.wait: pending is {describe(pending)}; expected a constant from 0 to {MOST_PENDING}",
        )
    found: list[Fragment] = []
    for one in fragments:
        if not isinstance(one, Fragment) or one.type.unit.data != "wgmma":
            raise TypeMismatchError(
                "WGMMA_WAIT",
                f"wgmma.wait takes sums of wgmma.mma, received {describe(one)}",
                hint="write acc = weft.wgmma.wait(acc, pending=0)",
            )
        found.append(one)
    made = builder.emit(WgmmaWaitOp([one.ssa for one in found], pending))
    returned = [Fragment(ssa, one.dtype) for ssa, one in zip(made.outputs, found, strict=True)]
    return returned[0] if len(returned) == 1 else tuple(returned) or None


def _checked_sums(name: str, shape: object, dtype: DType) -> tuple[int, int]:
    """The shape of the sums of a warpgroup."""
    if dtype not in _SUMS.values():
        raise TypeMismatchError(
            "WGMMA_TYPE",
            f"{name}: sums are f32, f16 or i32, received {describe(dtype)}",
            hint="convert a complete fragment, with acc.to(weft.bf16)",
        )
    parts = cast("tuple[Any, ...]", shape) if isinstance(shape, tuple) else ()
    if len(parts) != 2 or any(type(part) is not int for part in parts):
        raise TypeMismatchError(
            "WGMMA_SHAPE",
            f"{name}: the shape is two constants, rows and columns, received {describe(cast('object', shape))}",
            hint=f"write {name}((64, 256), weft.f32)",
        )
    _check_sums(parts[0], parts[1], name, dtype)
    return parts[0], parts[1]


def _left_fragment(fragment: Fragment) -> Fragment:
    kind = fragment.type
    if (kind.unit.data, kind.role.data) != ("wgmma", "a"):
        raise TypeMismatchError(
            "WGMMA_OPERAND",
            f"wgmma.mma: the left operand is {describe(fragment)}, which is not laid out as one",
            hint="write p.to(weft.bf16).as_operand_a()",
        )
    return fragment


def _tile(value: object, what: str) -> Tensor:
    """A tile that a descriptor can express."""
    if not isinstance(value, Tensor):
        raise TypeMismatchError(
            "WGMMA_OPERAND",
            f"wgmma.mma: {what} is {describe(value)}; expected a tile in shared memory, or a fragment",
        )
    kind = value.type
    if kind.space.data != "shared" or kind.layout.data != "swizzled":
        raise TypeMismatchError(
            "WGMMA_OPERAND",
            f"wgmma.mma: {what} is {tensor_text(value, value.name)}; no descriptor of the tensor cores expresses it",
            hint="make it with weft.shared(shape, dtype, swizzle=128), and cut it with .tile(shape, index)",
        )
    if kind.rank != 2:
        raise TypeMismatchError(
            "WGMMA_OPERAND",
            f"wgmma.mma: {what} has rank {kind.rank}; expected a tile of rank 2",
            hint="choose one of the leading dims, as in ring[stage]",
        )
    return value


def _names(left: Tensor | Fragment, right: Tensor) -> str:
    """The types of both operands, as in the IR."""
    names = f"{left.dtype} {right.dtype}"
    if names not in KINDS:
        pairs = "bf16, f16 or f32 with the same, f8e4m3 or f8e5m2 with each other, i8 or u8 with each other"
        raise TypeMismatchError(
            "WGMMA_TYPE",
            f"wgmma.mma: the tensor cores do not multiply {left.dtype} by {right.dtype}; they do {pairs}",
            hint="convert one operand before it is stored to shared memory",
        )
    return names


def _checked_shape(left: Tensor | Fragment, right: Tensor, step: int) -> tuple[int, int]:
    """Rows and columns of the result."""
    (rows, terms), (others, columns) = left.type.dims, right.type.dims
    if terms != others:
        raise ValueRangeError(
            "WGMMA_SHAPE",
            f"wgmma.mma: the left tile is ({rows}, {terms}) and the right one ({others}, {columns}); "
            f"{terms} and {others} must be equal",
            hint="a right tile stored (columns, K) is written tile.T" if terms == columns else "",
        )
    _check_columns(rows, columns, "wgmma.mma")
    if terms % step:
        raise ValueRangeError(
            "WGMMA_SHAPE",
            f"wgmma.mma: K is {terms}; of {left.dtype} it comes in multiples of {step}",
        )
    return rows, columns


def _check_sums(rows: int, columns: int, name: str, dtype: DType) -> None:
    _check_columns(rows, columns, name)
    count = rows * columns // _THREADS
    registers = count * dtype.itemsize // 4
    if registers > _MOST_REGISTERS:
        held = "" if registers == count else f" in {registers} registers"
        raise ValueRangeError(
            "WGMMA_SHAPE",
            f"{name}: ({rows}, {columns}) is {count} sums{held} in each thread, which has {_MOST_REGISTERS} registers",
            hint="use a smaller tile, or more warpgroups",
        )


def _check_columns(rows: int, columns: int, name: str) -> None:
    if rows < ROWS or rows % ROWS or columns < 8 or columns % 8 or columns > _MOST_COLUMNS:
        raise ValueRangeError(
            "WGMMA_SHAPE",
            f"{name}: the shape is ({rows}, {columns}); rows come in multiples of {ROWS}, columns of 8 up to "
            f"{_MOST_COLUMNS}",
        )


def _check_storage(tile: Tensor, what: str, *, is_b: bool) -> None:
    """Checks that the tile begins where descriptors can, and that its elements have an order that the type allows."""
    facts = tile_facts(tile)
    assert facts is not None
    along_k = facts.is_transposed == is_b
    if not along_k and tile.dtype.bits != 16:
        raise TypeMismatchError(
            "WGMMA_ORDER",
            f"wgmma.mma: {what} is stored with {'columns' if is_b else 'rows'} adjacent; of {tile.dtype}, elements "
            "along K must be",
            hint=f"store it {'(columns, K) and write tile.T' if is_b else '(rows, K)'}",
        )
    rows, columns = facts.rows, facts.columns
    if rows % 8 or (columns * tile.dtype.itemsize) % _STEP_BYTES:
        raise ValueRangeError(
            "WGMMA_SHAPE",
            f"wgmma.mma: {what} is a tile stored as {rows} rows of {columns * tile.dtype.itemsize} bytes; descriptors "
            f"take rows in multiples of 8, and of {_STEP_BYTES} bytes",
        )
