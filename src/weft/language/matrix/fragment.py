# SPDX-License-Identifier: Apache-2.0
"""Fragments: `f.values`, `f.map(...)`, `f.rows(...)`, `f.to(...)`.

In: fragments, functions of elements. Out: other fragments; an operation has a region that is traced once, however many
elements a thread holds.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final, cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import i1, i32
from xdsl.ir import Block
from xdsl.rewriter import Rewriter
from xdsl.traits import MemoryWriteEffect, Pure

from weft.dialects.builder import source_location
from weft.dialects.definition import DependsOnWarps
from weft.dialects.flow import walk
from weft.dialects.simt.debug import AssertOp, AssumeOp, PrintfOp
from weft.dialects.simt.fragment import (
    FragmentBitcastOp,
    FragmentFillOp,
    FragmentMapOp,
    FragmentOfOp,
    FragmentPartOp,
    FragmentType,
    FragmentValuesOp,
    FragmentYieldOp,
    yielded,
)
from weft.dialects.simt.kernel import ExitOp
from weft.errors import NameResolutionError, TypeMismatchError, ValueRangeError
from weft.language import LANGUAGE, resolve
from weft.language.ir_types import ir_type
from weft.language.numbers.convert import computed as as_computed
from weft.language.numbers.convert import constant, convert, named_dtype, narrowed, operand
from weft.language.numbers.operators import COMPARISONS, binary, compare, mark_product, unary
from weft.language.numbers.words import prmt
from weft.language.operation import operation
from weft.language.threads.warp import lane_id, shfl_idx, warp_id
from weft.language.values import Fragment, Scalar, Tensor, describe
from weft.types import dtype as types
from weft.types.dtype import DType

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from xdsl.ir import Operation, SSAValue

    from weft.dialects.builder import Builder

_FACTS: Final = ("shape", "dtype", "layout", "values", "registers")
_METHODS: Final = "Fragment."


def attribute(builder: Builder, fragment: Fragment, name: str) -> object:
    """``fragment.name``: a fact, or a method, which is called with the fragment first.

    ``shape`` is a tuple of ints; ``layout`` says which elements a thread holds (``layout.coordinates(lane, warp)``);
    ``values`` is the tuple of this thread's elements, in that order; ``registers`` that of its registers as u32, small
    elements packed, the first one lowest.

    Raises:
        NameResolutionError: if there is no such attribute; the message lists all.
    """
    method = f"{_METHODS}{name}"
    if method in LANGUAGE:
        return functools.partial(resolve(method), fragment)  # pyright: ignore[reportCallIssue, reportArgumentType, reportUnknownVariableType]
    kind = fragment.type
    match name:
        case "shape":
            return kind.dims
        case "dtype":
            return fragment.dtype
        case "layout":
            return kind.layout
        case "values":
            found = builder.emit(FragmentValuesOp(fragment.ssa)).results
            return tuple(Scalar(element, fragment.dtype) for element in found)
        case "registers":
            if kind.layout.elements * kind.layout.itemsize % 4:
                raise TypeMismatchError(
                    "FRAGMENT_LAYOUT",
                    f"a thread's elements of {describe(fragment)} do not fill its registers",
                    hint="read f.values",
                )
            found = builder.emit(FragmentValuesOp(fragment.ssa, registers=True)).results
            return tuple(Scalar(register, types.u32) for register in found)
        case _:
            methods = [row.removeprefix(_METHODS) for row in LANGUAGE if row.startswith(_METHODS)]
            raise NameResolutionError(
                "UNKNOWN_ATTRIBUTE",
                f"{describe(fragment)} has no attribute {name!r}",
                hint=f"there are {', '.join((*_FACTS, *methods))}",
            )


def filled(
    builder: Builder, shape: Sequence[int], value: object, dtype: DType, unit: str, role: str
) -> Fragment:
    """A fragment whose elements all are `value`, converted to `dtype`."""
    kind = FragmentType.get(shape, ir_type(dtype), unit, role)
    element = convert(builder, value, dtype)
    return Fragment(builder.emit(FragmentFillOp(element.ssa, kind)).result, dtype)


@operation(name="Fragment.map")
def map(
    builder: Builder,
    fragment: Fragment,
    function: Callable[..., Any],
    *others: object,
    coordinates: bool = False,
    pairs: bool = False,
) -> Fragment:
    """The fragment of ``function(element, *elements of others)`` at each place.

    The function is traced once and runs for each element. It may read memory, and neither writes, nor waits for other
    threads, nor changes Python's objects. The result's elements have the function's type; a constant becomes one of the
    fragment's own type.

    Args:
        fragment: any; ``fragment.map(...)`` passes it.
        function: of one element, and one more value for each of `others`.
        *others: fragments of the same shape and layout, or with one value per row or column of it, or numbers.
        coordinates: whether the function also takes the element's row and column in the fragment, as i32, at the end.
        pairs: whether the function takes two adjacent elements of each fragment, and returns a tuple of two: columns
            2j and 2j + 1 of a row, of an operand `b` two rows of a column. The coordinates are the first one's.
            Operands of f32 and f64, and values of rows, have no pairs.

    Raises:
        TypeMismatchError: for another layout, an object other than a function, or one with effects or a result that is
        not a
            number.

    Example:
        ``acc = acc.map(lambda x, row, column: weft.where(column <= row, x, -1.0), coordinates=True)``
    """
    expect_fragment(fragment, "map")
    if not callable(function):
        raise TypeMismatchError(
            "FRAGMENT_FUNCTION",
            f"map: received {describe(function)}; expected a function of an element",
            hint="write f.map(lambda x: 2 * x)",
        )
    if pairs and fragment.type.layout.blocks[3] % 2:
        raise TypeMismatchError(
            "FRAGMENT_LAYOUT",
            f"map: a thread holds no two adjacent elements of {describe(fragment)}",
            hint="map pairs of sums, or of elements of 16 bits",
        )
    shape, dtype, given = fragment.type, fragment.dtype, (fragment, *others)
    return mapped(builder, shape, dtype, function, given, coordinates=coordinates, pairs=pairs)


@operation(name="Fragment.rows")
def rows(builder: Builder, fragment: Fragment, function: object) -> Fragment:
    """A fragment with one value for each row: `function` of the row's number, an i32, or the same value for all.

    It goes into `map` of fragments of this layout. Each thread computes the values of the rows that it holds.

    Args:
        fragment: a result of an MMA, or an operand of rows.
        function: of a row in the fragment, which may read memory; or a number.

    Raises:
        TypeMismatchError: as `map`; for a fragment of a layout without rows.

    Example:
        ``scales = acc.rows(lambda row: a[row])``
    """
    return _along(builder, fragment, function, "row")


@operation(name="Fragment.cols")
def cols(builder: Builder, fragment: Fragment, function: object) -> Fragment:
    """A fragment with one value for each column: `function` of the column's number, or the same value for all.

    Args:
        fragment: as in `rows`.
        function: of a column in the fragment, an i32; or a number.

    Raises:
        TypeMismatchError: as `rows`.

    Example:
        ``acc = acc.map(lambda x, bias: x + bias, acc.cols(lambda column: a[column]))``
    """
    return _along(builder, fragment, function, "column")


@operation(name="Fragment.to")
def to(builder: Builder, fragment: Fragment, dtype: DType) -> Fragment:
    """The fragment with each element converted, as ``weft.bf16(x)`` converts a number.

    Args:
        fragment: any.
        dtype: of the result's elements.

    Raises:
        TypeMismatchError: if `dtype` is not a type.

    Example:
        ``half = acc.to(weft.bf16)``
    """
    expect_fragment(fragment, "to")
    dtype = named_dtype(dtype)
    if not isinstance(dtype, DType):
        raise TypeMismatchError(
            "FRAGMENT_TYPE",
            f"to takes an element type, received {describe(dtype)}",
            hint="write f.to(weft.bf16)",
        )
    if dtype.is_packed:
        raise TypeMismatchError(
            "FRAGMENT_TYPE",
            f"to: a fragment has no elements of {dtype} (packed: several lie in a byte)",
            hint="convert to i8, or store pairs of weft.i4(x) with weft.store_vector",
        )
    if dtype is fragment.dtype:
        return fragment

    def converted(_: Block, element: Scalar) -> Scalar:
        return convert(builder, element, dtype)

    return mapped(builder, fragment.type, fragment.dtype, converted, (fragment,))


@operation(name="Fragment.as_operand_a")
def as_operand_a(builder: Builder, fragment: Fragment) -> Fragment:
    """An MMA's result as operand A of another one.

    No element of 16 bits moves. Of 8 bits the four threads that share a row exchange them: one shuffle for each
    register, and all threads that hold the fragment call it together.

    Args:
        fragment: its columns are the operand's K: a multiple of 16 for 16-bit elements, of 32 for 8-bit ones.

    Raises:
        TypeMismatchError: for elements of another size, whose operands are laid out in another way.

    Example:
        ``left = weft.mma.zeros((16, 16)).to(weft.bf16).as_operand_a()``
    """
    expect_fragment(fragment, "as_operand_a")
    kind, bits = fragment.type, fragment.dtype.bits
    if kind.role.data != "c" or bits not in (8, 16) or kind.dims[1] % (256 // bits):
        raise TypeMismatchError(
            "FRAGMENT_LAYOUT",
            "as_operand_a takes an MMA's result of 16-bit elements and a multiple of 16 columns, or of 8-bit ones "
            f"and a multiple of 32, received {describe(fragment)}",
            hint="write f.to(weft.bf16).as_operand_a()",
        )
    result = FragmentType.get(kind.dims, kind.element_type, kind.unit.data, "a")
    if bits == 16:
        return Fragment(builder.emit(FragmentPartOp(fragment.ssa, result)).result, fragment.dtype)
    words = cast("tuple[Scalar, ...]", attribute(builder, fragment, "registers"))
    held = [word.ssa for word in _words_of_rows(builder, words)]
    return Fragment(builder.emit(FragmentOfOp(held, result)).result, fragment.dtype)


def _words_of_rows(builder: Builder, words: Sequence[Scalar]) -> list[Scalar]:
    """Registers of four columns of a row, of sums of 8 bits, by one shuffle for each.

    A register has two columns of a row and of the row 8 below; two of adjacent blocks of 8 columns become one of each
    row with four columns.
    """
    lane = lane_id.emit(builder)
    is_odd = compare(builder, "!=", binary(builder, "&", lane, 1), 0)
    is_upper = compare(builder, "!=", binary(builder, "&", lane, 2), 0)
    within = binary(builder, "<<", binary(builder, "&", lane, 1), 1)
    within = binary(builder, "|", within, binary(builder, "&", binary(builder, ">>", lane, 1), 1))
    source = binary(builder, "|", binary(builder, "&", lane, 28), within)
    other = binary(builder, "^", source, 1)

    def chosen(condition: Scalar, one: Scalar, two: Scalar) -> Scalar:
        select = arith.SelectOp(condition.ssa, one.ssa, two.ssa)
        return Scalar(builder.emit(select).result, types.u32)

    held: list[Scalar] = []
    for one, two in zip(words[::2], words[1::2], strict=True):
        first = shfl_idx.emit(builder, chosen(is_odd, two, one), source)
        second = shfl_idx.emit(builder, chosen(is_odd, one, two), other)
        low, high = chosen(is_upper, second, first), chosen(is_upper, first, second)
        upper, lower = binary(builder, "<<", high, 16), binary(builder, ">>", low, 16)
        held.append(binary(builder, "|", binary(builder, "&", low, 0xFFFF), upper))
        held.append(binary(builder, "|", lower, binary(builder, "&", high, 0xFFFF0000)))
    return held


@operation(name="Fragment.as_operand_b")
def as_operand_b(builder: Builder, fragment: Fragment, *, transposed: bool = False) -> Fragment:
    """The result of an MMA as the right operand of another one, K x N, of a warp.

    All lanes of the warp call it together: they exchange elements by two shuffles for each register of 16-bit elements,
    by four of 8-bit ones. The transpose takes none, or one.

    Args:
        fragment: of 16-bit or 8-bit elements; its rows are the operand's K, a multiple of 16, of 8-bit elements of 32.
        transposed: whether its columns are K, and its rows N.

    Raises:
        TypeMismatchError: for elements of another size; for a warpgroup's fragment, whose right operands are tiles.

    Example:
        ``right = weft.mma.zeros((16, 16)).to(weft.bf16).as_operand_b()``
    """
    expect_fragment(fragment, "as_operand_b")
    kind = fragment.type
    bits = fragment.dtype.bits
    if (kind.unit.data, kind.role.data) != ("mma", "c") or bits not in (8, 16):
        raise TypeMismatchError(
            "FRAGMENT_LAYOUT",
            "as_operand_b takes the result of a warp's MMA, with elements of 16 or 8 bits, received "
            f"{describe(fragment)}",
            hint="store it to a tile in shared memory, and load that",
        )
    rows, columns = kind.dims
    depth, step = columns if transposed else rows, 256 // bits
    if depth % step:
        raise TypeMismatchError(
            "FRAGMENT_LAYOUT",
            f"as_operand_b: K is a multiple of {step}, and {describe(fragment)} has {depth} "
            f"{'columns' if transposed else 'rows'}",
        )
    dims = (columns, rows) if transposed else (rows, columns)
    result = FragmentType.get(dims, kind.element_type, "mma", "b")
    words = cast("tuple[Scalar, ...]", attribute(builder, fragment, "registers"))
    down, across = rows // 8, columns // 8

    def word(row: int, column: int) -> Scalar:
        """The register of a block of 8 x 8."""
        return words[2 * (row // 2 * across + column) + row % 2]

    if bits == 8 and transposed:
        of_rows, across = _words_of_rows(builder, words), columns // 16
        found = [
            of_rows[2 * (row // 2 * across + column) + row % 2]
            for row in range(down)
            for column in range(across)
        ]
    elif bits == 8:
        tiles = [
            words[row * across + column] for column in range(across) for row in range(rows // 16)
        ]
        found = _transposed_bytes(builder, tiles)
    elif transposed:
        found = [word(row, column) for row in range(down) for column in range(across)]
    else:
        blocks = [word(row, column) for column in range(across) for row in range(down)]
        found = _transposed_blocks(builder, blocks)
    made = FragmentOfOp([one.ssa for one in found], result)
    return Fragment(builder.emit(made).result, fragment.dtype)


def _transposed_bytes(builder: Builder, words: Sequence[Scalar]) -> list[Scalar]:
    """The registers of transposed tiles of 16 rows and 8 columns of bytes.

    A lane holds columns 2t and 2t + 1 of rows g and g + 8, and gets rows 4t to 4t + 3 of column g, a byte of what each
    of four lanes holds.
    """
    lane = lane_id.emit(builder)
    group, rank = binary(builder, ">>", lane, 2), binary(builder, "&", lane, 3)
    first = binary(builder, "<<", binary(builder, "&", rank, 1), 4)
    first = binary(builder, "|", first, binary(builder, ">>", group, 1))
    place = binary(builder, "|", binary(builder, "&", rank, 2), binary(builder, "&", group, 1))
    selector = binary(builder, "|", place, binary(builder, "<<", binary(builder, "|", place, 4), 4))
    sources = [binary(builder, "|", first, 4 * row) for row in range(4)]
    found: list[Scalar] = []
    for one in words:
        held = [shfl_idx.emit(builder, one, source) for source in sources]
        low, high = (prmt.emit(builder, *held[two : two + 2], selector) for two in (0, 2))
        found.append(prmt.emit(builder, low, high, 0x5410))
    return found


def _transposed_blocks(builder: Builder, words: Sequence[Scalar]) -> list[Scalar]:
    """The registers of transposed blocks of 8 x 8 elements of 16 bits.

    A lane holds columns 2t and 2t + 1 of row g, and gets rows 2t and 2t + 1 of column g, halves of what two lanes hold.
    """
    lane = lane_id.emit(builder)
    group = binary(builder, ">>", lane, 2)
    source = binary(builder, "<<", binary(builder, "&", lane, 3), 3)
    source = binary(builder, "|", source, binary(builder, ">>", group, 1))
    other = binary(builder, "|", source, 4)
    shift = binary(builder, "<<", binary(builder, "&", group, 1), 4)
    found: list[Scalar] = []
    for one in words:
        low, high = (
            binary(builder, ">>", shfl_idx.emit(builder, one, place), shift)
            for place in (source, other)
        )
        high = binary(builder, "<<", high, 16)
        found.append(binary(builder, "|", binary(builder, "&", low, 0xFFFF), high))
    return found


@operation(name="Fragment.bitcast")
def bitcast(builder: Builder, fragment: Fragment, dtype: DType) -> Fragment:
    """The fragment's registers as elements of another type, like `weft.bitcast` of each register.

    An operand's elements along K share registers: pairs of bf16 become u32, and half as many of them lie along K. So a
    function of whole registers is ``f.bitcast(weft.u32).map(function).bitcast(weft.bf16)``.

    Args:
        fragment: any to a type of the same width; an operand `a` or `b` to one of another width, up to 32 bits.
        dtype: of the result's elements.

    Raises:
        TypeMismatchError: for any other fragment or type.

    Example:
        ``pairs = weft.mma.load_a(weft.shared((16, 16), weft.bf16)).bitcast(weft.u32)``
    """
    expect_fragment(fragment, "bitcast")
    if not isinstance(dtype, DType) or dtype.is_bool or dtype.is_packed or fragment.dtype.is_bool:
        raise TypeMismatchError(
            "FRAGMENT_TYPE",
            f"bitcast: expected an element type of whole bytes for {describe(fragment)}, received {describe(dtype)}",
            hint="write f.bitcast(weft.u32)",
        )
    kind = fragment.type
    dims, role, old, new = list(kind.dims), kind.role.data, fragment.dtype.bits, dtype.bits
    if old != new:
        along = {"a": 1, "b": 0}.get(role)
        if along is None or max(old, new) > 32:
            is_result = role == "c" and old == 16
            raise TypeMismatchError(
                "FRAGMENT_LAYOUT",
                f"bitcast: elements of {old} and of {new} bits of {describe(fragment)} do not share registers",
                hint="write f.as_operand_a().bitcast(weft.u32)"
                if is_result
                else "take a type of the same width; operands a and b also one of 8, 16 or 32 bits",
            )
        dims[along] = dims[along] * old // new
    result = FragmentType.get(dims, ir_type(dtype), kind.unit.data, role)
    if result == kind:
        return Fragment(fragment.ssa, dtype)
    return Fragment(builder.emit(FragmentBitcastOp(fragment.ssa, result)).result, dtype)


def of_values(
    builder: Builder,
    name: str,
    values: object,
    shape: tuple[int, int],
    dtype: DType,
    unit: str,
    role: str,
) -> Fragment:
    """A fragment of this thread's values, of its registers, or of a function of row and column.

    Raises:
        TypeMismatchError: for another number of values, or another type.
    """
    kind = FragmentType.get(shape, ir_type(dtype), unit, role)
    if callable(values):
        function: Any = values

        def of_place(block: Block, row: Scalar, column: Scalar) -> Any:
            return narrowed(builder, _element(builder, function(block, row, column), dtype), dtype)

        return mapped(builder, kind, dtype, of_place, (), coordinates=True)
    if not isinstance(values, tuple | list):
        return filled(builder, shape, values, dtype, unit, role)
    given = cast("Sequence[object]", values)
    layout = kind.layout
    if len(given) == layout.elements:
        held = [narrowed(builder, one, dtype).ssa for one in given]
    elif len(given) == layout.registers:
        held = [_register(builder, name, one) for one in given]
    else:
        counts = f"{layout.elements} elements"
        if layout.registers < layout.elements:
            counts += f", or {layout.registers} registers"
        raise TypeMismatchError(
            "FRAGMENT_VALUES",
            f"{name}: a thread holds {counts} of a fragment of shape {shape}, and received {len(given)} values",
            hint="f.layout.coordinates(lane, warp) lists their rows and columns",
        )
    return Fragment(builder.emit(FragmentOfOp(held, kind)).result, dtype)


def _register(builder: Builder, name: str, value: object) -> SSAValue:
    """A register as i32."""
    number = operand(builder, value)
    if not isinstance(number, Scalar):
        return constant(builder, number, types.u32).ssa
    if number.dtype not in (types.u32, types.i32):
        raise TypeMismatchError(
            "FRAGMENT_VALUES",
            f"{name}: a register is a u32 of packed elements, received {describe(number)}",
            hint="write weft.bitcast((x, y), weft.u32)",
        )
    return number.ssa


def columns(builder: Builder, fragment: Fragment, index: object) -> Fragment:
    """``f[:, a:b]``: some columns, whole blocks of those that threads share.

    Raises:
        TypeMismatchError: for another index, or bounds that are not constant.
        ValueRangeError: for bounds inside of a block or outside of the fragment.
    """
    kind = fragment.type
    parts = cast("tuple[Any, ...]", index) if isinstance(index, tuple) else ()
    hint = "write f[:, 0:64], with constants"
    if len(parts) != 2 or parts[0] != slice(None) or not isinstance(parts[1], slice):
        raise TypeMismatchError(
            "FRAGMENT_PART", f"only columns of {describe(fragment)} can be taken", hint=hint
        )
    if kind.role.data not in ("c", "a"):
        raise TypeMismatchError("FRAGMENT_LAYOUT", f"{describe(fragment)} has no columns to take")
    bounds = cast("Any", parts[1])
    if bounds.step is not None or any(
        type(bound) not in (int, type(None)) for bound in (bounds.start, bounds.stop)
    ):
        raise TypeMismatchError(
            "FRAGMENT_PART",
            f"columns of {describe(fragment)} are taken by constants, without a step",
            hint=hint,
        )
    rows_, width = kind.dims
    first, last = bounds.start or 0, width if bounds.stop is None else bounds.stop
    block = 8 if kind.role.data == "c" else 8 * kind.layout.pack
    if not 0 <= first < last <= width or first % block or last % block:
        raise ValueRangeError(
            "FRAGMENT_PART",
            f"columns {first} to {last} of {describe(fragment)}; they are multiples of {block} up to {width}",
        )
    result = FragmentType.get(
        (rows_, last - first), kind.element_type, kind.unit.data, kind.role.data
    )
    made = builder.emit(FragmentPartOp(fragment.ssa, result, first))
    return Fragment(made.result, fragment.dtype)


def mapped(
    builder: Builder,
    shape: FragmentType,
    dtype: DType,
    function: Callable[..., Any],
    given: Sequence[object],
    *,
    coordinates: bool = False,
    meets: bool = False,
    pairs: bool = False,
) -> Fragment:
    """A fragment of a function of elements.

    Args:
        builder: where it goes.
        shape: the result's type, but for its elements.
        dtype: of the result if the function's value is a constant.
        function: takes the block that receives its operations, and the elements.
        given: its arguments, fragments or numbers.
        coordinates: whether it takes row and column, too.
        meets: whether threads meet in it.
        pairs: whether it takes two adjacent elements of each fragment, and returns two.
    """
    for other in given:
        if isinstance(other, Fragment):
            _check_layout(other, shape)
    start = origin(builder, shape) if coordinates else []
    region = _Region(builder, 2 if pairs else 1)
    block = region.block
    elements = [element for one in given for element in region.elements(one)]
    elements += [Scalar(block.insert_arg(i32, len(block.args)), types.i32) for _ in start]
    with builder.at(block):
        value = function(block, *elements)
        results = [_element(builder, one, dtype) for one in (_two(value) if pairs else (value,))]
        result = results[0]
        if results[-1].dtype is not result.dtype:
            raise TypeMismatchError(
                "FRAGMENT_FUNCTION",
                f"the function of two elements returns {result.dtype} and {results[-1].dtype}; expected one type",
                hint="convert one of them, as in weft.f32(x)",
            )
        builder.emit(FragmentYieldOp([one.ssa for one in results]))
    if not meets:
        check_effects(block)
    _check_packing(shape, result.dtype)
    kind = shape.of(ir_type(result.dtype))
    made = FragmentMapOp(region.inputs, start, kind, block)
    return Fragment(builder.emit(made).result, result.dtype)


class _Region:
    """The region of a map while it is made.

    Attributes:
        block: what computes an element.
        inputs: the fragments of which it takes elements.
    """

    def __init__(self, builder: Builder, step: int = 1) -> None:
        self._builder, self._step = builder, step
        self.block = Block()
        self.inputs: list[SSAValue] = []

    def elements(self, value: object) -> list[object]:
        """The one or two elements of a fragment that the region takes, any other value as it is."""
        if self._step == 1 or not isinstance(value, Fragment):
            return [self.element(value)]
        return [Scalar(one, value.dtype) for one in self._arguments(value.ssa)]

    def element(self, value: object, *, computed: bool = False) -> object:
        """The element of a fragment, any other value as it is.

        Args:
            value: an argument of the map.
            computed: whether to compute it in the region, if a map makes it; comparisons always are, as a register
                for four truths is packed, and unpacked where they are used.
        """
        if not isinstance(value, Fragment):
            return value
        made = value.ssa.owner
        if not isinstance(made, FragmentMapOp) or not (
            computed or _is_comparison(self._builder, made)
        ):
            return Scalar(self._arguments(value.ssa)[0], value.dtype)
        given = [self._arguments(one)[0] for one in made.inputs]
        mapping: dict[SSAValue, SSAValue] = dict(zip(made.body.block.args, given, strict=True))
        for op in made.body.block.ops:
            if not isinstance(op, FragmentYieldOp):
                self.block.add_op(op.clone(mapping))
        last = yielded(made.body.block)
        return Scalar(mapping.get(last, last), value.dtype)

    def _arguments(self, ssa: SSAValue) -> Sequence[SSAValue]:
        step = self._step
        if ssa not in self.inputs:
            self.inputs.append(ssa)
            kind: Any = ssa.type
            for place in range(step):
                self.block.insert_arg(kind.element_type, step * (len(self.inputs) - 1) + place)
        first = step * self.inputs.index(ssa)
        return self.block.args[first : first + step]


def _is_comparison(builder: Builder, made: FragmentMapOp) -> bool:
    """Whether a map makes truths of fragments that still have their values, and can be computed once more here."""
    if (
        made.origin
        or made.step != 1
        or yielded(made.body.block).type != i1
        or made.parent is not builder.block
    ):
        return False
    if not all(op.has_trait(Pure) for op in made.body.block.ops):
        return False
    later: Operation | None = made.next_op
    while later is not None and not later.has_trait(DependsOnWarps):
        later = later.next_op
    return later is None


def combined(
    builder: Builder, sign: str, left: object, right: object, parts: Sequence[SSAValue] = ()
) -> Fragment:
    """``left sign right`` at each place, of fragments of one layout, values of its rows or columns, and numbers.

    Args:
        builder: where it goes.
        sign: of an arithmetic operator, or of a comparison.
        left: a fragment or a number.
        right: likewise.
        parts: those of them that only this operation uses, which are computed in the same region.

    Raises:
        TypeMismatchError: for fragments of other layouts, or an object other than a number.
    """
    for one in (left, right):
        if not isinstance(one, Fragment | Scalar | int | float):
            raise TypeMismatchError(
                "TYPE_NOT_A_NUMBER",
                f"{describe(left)} {sign} {describe(right)}: expected a fragment or a number, received {describe(one)}",
                hint="write f.load(tensor, (row, column))" if isinstance(one, Tensor) else "",
            )
    shape, dtype = _covering([left, right])
    region = _Region(builder)
    operands: list[object] = []
    for one in (left, right):
        computed = False
        if isinstance(one, Fragment):
            _check_layout(one, shape)
            made = one.ssa.owner
            can_move = isinstance(made, FragmentMapOp) and not made.origin and made.step == 1
            computed = one.ssa in parts and can_move
        found = region.element(one, computed=computed)
        if computed and sign in ("+", "-") and isinstance(found, Scalar):
            mark_product(found)
        operands.append(found)
    function = compare if sign in COMPARISONS else binary
    with builder.at(region.block):
        value = _element(builder, function(builder, sign, *operands), dtype)
        builder.emit(FragmentYieldOp([value.ssa]))
    _check_packing(shape, value.dtype)
    made = FragmentMapOp(region.inputs, (), shape.of(ir_type(value.dtype)), region.block)
    result = builder.emit(made).result
    for part in dict.fromkeys(parts):
        if isinstance(part.owner, FragmentMapOp) and part.first_use is None:
            Rewriter.erase_op(part.owner)
    return Fragment(result, value.dtype)


def apply(
    builder: Builder,
    function: Callable[..., Any],
    arguments: Sequence[Any],
    keywords: dict[str, Any],
) -> Fragment:
    """A function of numbers at each place of fragments, as `combined`.

    Args:
        builder: where it goes.
        function: takes the builder, and the arguments with an element for each fragment.
        arguments: of the function, of which one or more are fragments.
        keywords: its keywords, likewise.

    Raises:
        TypeMismatchError: for fragments of other layouts.
    """
    given = [*arguments, *keywords.values()]
    shape, dtype = _covering(given)

    def value(_: Block, *elements: Any) -> Any:
        named = dict(zip(keywords, elements[len(arguments) :], strict=True))
        return function(builder, *elements[: len(arguments)], **named)

    return mapped(builder, shape, dtype, value, given)


def _covering(given: Sequence[object]) -> tuple[FragmentType, DType]:
    """The type of a fragment with a place for the elements of all of these, and the type of the largest one's elements.

    Of values of rows with values of columns it is that of the sums that have these rows and columns.
    """
    fragments = [one for one in given if isinstance(one, Fragment)]
    whole = max(fragments, key=lambda one: len(one.type.dims))
    kinds = {one.type.role.data: one.type for one in reversed(fragments)}
    kind, row, column = whole.type, kinds.get("row"), kinds.get("column")
    if len(kind.dims) == 1 and row is not None and column is not None and row.unit == column.unit:
        unit = row.unit.data
        kind = FragmentType.get((*row.dims, *column.dims), row.element_type, unit, "c")
    return kind, whole.dtype


def negated(builder: Builder, sign: str, fragment: Fragment) -> Fragment:
    """``-f``, ``~f`` or ``+f`` at each place.

    Raises:
        TypeMismatchError: for ``~`` of floats, and of truths.
    """
    if fragment.dtype.is_bool and sign == "~":
        raise TypeMismatchError(
            "TYPE_INVERT_BOOL",
            "~ of a bool_ would be −1 or −2, as in Python; both are true",
            hint="write f == False, or f.to(weft.i32) to invert the bits of numbers",
        )

    def result(_: Block, element: Scalar) -> Scalar:
        return unary(builder, sign, element)

    return mapped(builder, fragment.type, fragment.dtype, result, (fragment,))


def _two(value: object) -> tuple[object, object]:
    """The two values that a function of pairs returns."""
    if isinstance(value, tuple | list):
        parts = cast("Sequence[object]", value)
        if len(parts) == 2:
            return parts[0], parts[1]
    raise TypeMismatchError(
        "FRAGMENT_FUNCTION",
        f"the function of two elements returns {describe(cast('object', value))}; expected a tuple of two numbers",
        hint="write f.map(lambda x, y: (y, x), pairs=True)",
    )


def _element(builder: Builder, value: object, dtype: DType) -> Scalar:
    try:
        found = operand(builder, value)
    except TypeMismatchError:
        raise TypeMismatchError(
            "FRAGMENT_FUNCTION",
            f"the function of a fragment's elements returns {describe(value)}; expected a number",
        ) from None
    if isinstance(found, Scalar):
        return as_computed(builder, found)
    return convert(builder, found, dtype)


def _along(builder: Builder, fragment: Fragment, function: object, role: str) -> Fragment:
    """One value for each row or column."""
    name = "rows" if role == "row" else "cols"
    expect_fragment(fragment, name)
    kind = fragment.type
    if kind.role.data not in ("c", "a") or (role == "column" and kind.layout.pack != 2):
        raise TypeMismatchError(
            "FRAGMENT_LAYOUT",
            f"{name} is of an MMA's result, and {describe(fragment)} is not laid out as one",
        )
    shape = FragmentType.get(
        [kind.dims[0 if role == "row" else 1]], kind.element_type, kind.unit.data, role
    )
    if not callable(function):
        return filled(builder, shape.dims, function, fragment.dtype, kind.unit.data, role)

    def of_place(block: Block, row: Scalar, column: Scalar) -> Any:
        return function(block, row if role == "row" else column)

    return mapped(builder, shape, fragment.dtype, of_place, (), coordinates=True)


def origin(builder: Builder, shape: FragmentType) -> list[SSAValue]:
    """Row and column of the thread's first element, as `FragmentLayout.origin`."""
    layout = shape.layout
    lane = lane_id.emit(builder)
    group, rank = binary(builder, "//", lane, 4), binary(builder, "%", lane, 4)
    along = binary(builder, "*", rank, layout.pack)
    if layout.role == "b":
        return [along.ssa, group.ssa]
    if layout.warps > 1:
        warp = binary(builder, "%", warp_id.emit(builder), layout.warps)
        group = binary(builder, "+", group, binary(builder, "*", warp, 16))
    return [group.ssa, along.ssa]


def expect_fragment(value: object, name: str) -> None:
    """Refuses any other value as a method's first argument."""
    if not isinstance(value, Fragment):
        raise TypeMismatchError(
            "FRAGMENT_EXPECTED", f"{name} is of a fragment, received {describe(value)}"
        )


def _check_layout(other: Fragment, shape: FragmentType) -> None:
    """Checks that another fragment has an element, or a value of its row or column, at each place."""
    kind, layout = other.type, shape.layout
    role = kind.role.data
    same_unit = kind.unit == shape.unit
    if same_unit and (kind.dims, role) == (shape.dims, layout.role):
        if kind.layout.pack == layout.pack:
            return
    elif same_unit and layout.role in ("c", "a"):
        if role == "row" and kind.dims == shape.dims[:1]:
            return
        if role == "column" and kind.dims == shape.dims[1:] and layout.pack == 2:
            return
    unit = "an mma" if shape.unit.data == "mma" else "a wgmma"
    raise TypeMismatchError(
        "FRAGMENT_LAYOUT",
        f"{describe(other)} does not lie as {unit} {layout.role} fragment of shape {shape.dims} does",
        hint="fragments of one shape and layout go together, with values of their rows and columns",
    )


def _check_packing(shape: FragmentType, dtype: DType) -> None:
    """Checks that elements of another size would not lie elsewhere."""
    if shape.of(ir_type(dtype)).layout.pack != shape.layout.pack:
        raise TypeMismatchError(
            "FRAGMENT_LAYOUT",
            f"elements of type {dtype} lie elsewhere in an operand of an MMA of shape {shape.dims}",
            hint="compare in a function of elements: f.map(lambda x: weft.where(x > 0, x, 0))"
            if dtype.is_bool
            else "convert before as_operand_a, or before the tile is loaded",
        )


def loaded_type(fragment: Fragment, dtype: DType) -> FragmentType:
    """The type of a fragment laid out as another, of elements of this type.

    Raises:
        TypeMismatchError: if these would lie elsewhere.
    """
    _check_packing(fragment.type, dtype)
    return fragment.type.of(ir_type(dtype))


def check_effects(block: Block) -> None:
    """Refuses what must not happen an unknown number of times, in an unknown order."""
    for op in walk(block):
        if isinstance(op, PrintfOp | AssertOp | AssumeOp):
            continue
        if op.has_trait(MemoryWriteEffect) or isinstance(op, ExitOp):
            raise TypeMismatchError(
                "FRAGMENT_FUNCTION",
                "the function of a fragment's elements writes memory or waits for other threads; it may only read",
                hint="use the fragment after it, such as f.store(tile)",
                location=source_location(op.location),
            )
