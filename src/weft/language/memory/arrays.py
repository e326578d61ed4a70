# SPDX-License-Identifier: Apache-2.0
"""Arrays of kernels: ``local``, ``shared``, ``dynamic_shared``, ``global_scratch``; ``scratch`` of host functions.

In: a shape, static but for scratch and ``dynamic_shared``, and an element type. Out: a `Tensor` in the thread's own
memory, in the block's shared memory, or in global memory: each block's own, allocated by each launch, or the launches'
of a host function, allocated by each call. All shared arrays of a kernel lie in one buffer, whose size weft adds to
each launch.
"""

from __future__ import annotations

from math import gcd, prod
from types import EllipsisType
from typing import TYPE_CHECKING, Any, Final, cast

from xdsl.dialects.builtin import i64

from weft.arguments.scalar import numpy_dtype
from weft.dialects.builder import constant_integer
from weft.dialects.simt.memory import (
    AllocaOp,
    DynamicSharedOp,
    GlobalScratchOp,
    ReinterpretOp,
    ScratchOp,
    SharedOp,
    TableOp,
)
from weft.dialects.simt.types import (
    DYNAMIC,
    SWIZZLED_ALIGNMENT,
    SWIZZLES,
    TILE_ALIGNMENT,
    Swizzle,
)
from weft.errors import NameResolutionError, TypeMismatchError, ValueRangeError
from weft.imports import imported
from weft.language.debug import emit_assert
from weft.language.ir_types import ir_tensor_type
from weft.language.memory.packed import reinterpreted
from weft.language.numbers.convert import convert, expect_scalar, index_dtype, named_dtype
from weft.language.numbers.operators import compare
from weft.language.operation import operation
from weft.language.values import Scalar, StagedSequence, Stream, Tensor, describe, item_text
from weft.types import dtype as types
from weft.types.dims import MAX_RANK
from weft.types.dtype import DType
from weft.types.launch_limits import MAX_THREADS, MOST_SHARED_BYTES, VECTOR_BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.ir import SSAValue

    from weft.dialects.builder import Builder


TABLE_BYTES: Final = 65536
"""Most bytes of a captured array in the code: every direct call compares its elements."""
LOCAL_BYTES: Final = 65536
"""A thread's largest array. Past a few hundred bytes it does not fit registers anyway."""


@operation
def local(builder: Builder, shape: object, dtype: object, *, at_most: object = None) -> Tensor:
    """An array of this thread's own, uninitialized, read and written like any tensor.

    Small arrays with constant indices (unroll with `static_range`) live in registers. In loops, iterations get the
    same memory, uninitialized again.

    Args:
        shape: an int, or a tuple of at most 8; constants of at least 1, or with `at_most` an integer known at run time.
        dtype: type of the elements, such as ``weft.f32``.
        at_most: a constant that no run-time size exceeds; the array takes that much memory. The size is checked as
            `assert` is: on the CPU always, on a GPU with ``--enable-assertions``.

    Raises:
        TypeMismatchError: for a shape that is not constant, or a missing element type.
        ValueRangeError: for a dim below 1, a rank above 8, more than 65536 bytes, or a constant above `at_most`.

    Example:
        ``window = weft.local((3, 3), weft.f32); row = weft.local(n, weft.f32, at_most=64)``
    """
    if at_most is not None:
        return _bounded(builder, shape, dtype, at_most)
    element = element_type(dtype, "local")
    dims = static_shape(shape, "local")
    total = element.itemsize
    for dim in dims:
        total *= dim
    if total > LOCAL_BYTES:
        raise ValueRangeError(
            "LOCAL_TOO_LARGE",
            f"local({dims}, {element}) takes {total} bytes per thread; at most {LOCAL_BYTES} are allowed",
            hint="every thread has its own; keep large arrays in a tensor argument",
        )
    alignment = VECTOR_BYTES if total >= VECTOR_BYTES else element.itemsize
    made = AllocaOp(
        ir_tensor_type(element, dims, space="local", offset_bits=32, alignment_bytes=alignment)
    )
    return Tensor(builder.entry_operation(made, "local").result, element, "local")


def _bounded(builder: Builder, shape: object, dtype: object, at_most: object) -> Tensor:
    """A thread's array of a size known at run time: the first elements of one of the largest size.

    Raises:
        TypeMismatchError: for a bound that is not constant, or a size that is not an integer.
        ValueRangeError: for a constant size below 1 or above the bound.
    """
    if type(at_most) is not int:
        raise TypeMismatchError(
            "LOCAL_BOUND",
            f"local: at_most is {describe(at_most)}; expected an integer known at compile time",
            hint="write weft.local(n, weft.f32, at_most=64)",
        )
    size: Any = shape
    if not isinstance(shape, tuple):
        size = expect_scalar(builder, shape, "local: the size")
    known: Any = size.constant if isinstance(size, Scalar) else size
    whole = local.emit(builder, at_most, dtype)
    if isinstance(known, int) and not isinstance(known, bool):
        if not 1 <= known <= at_most:
            raise ValueRangeError(
                "LOCAL_BOUND", f"local: the size is {known}, expected 1 to at_most={at_most}"
            )
    elif not isinstance(size, Scalar) or index_dtype(size.dtype) is None:
        raise TypeMismatchError(
            "LOCAL_BOUND",
            f"local: with at_most= the shape is one integer, received {describe(size)}",
            hint="make an array of constant shape: weft.local((4, 64), weft.f32)",
        )
    else:
        text = f"the size of weft.local is 0 to at_most={at_most}"
        if size.dtype.is_signed:
            emit_assert(builder, compare(builder, ">=", size, 0), text)
        if at_most < size.dtype.maximum:
            emit_assert(builder, compare(builder, "<=", size, at_most), text)
    # This module makes what views are parts of.
    views = imported("weft.language.memory.views")
    return views.view(builder, whole, slice(0, known if isinstance(known, int) else size))


def table(builder: Builder, data: Any) -> Tensor:
    """A captured NumPy array as a constant of the compiled code.

    Raises:
        TypeMismatchError: for elements that weft does not have.
        ValueRangeError: for an array that is too large, of rank 0 or above 8, or without elements.
    """
    element = numpy_dtype(data.dtype)
    if element is None or element.is_packed:
        raise TypeMismatchError(
            "TABLE_DTYPE",
            f"an array of {data.dtype} is indexed by a run-time value; weft has no such elements",
            hint="convert it outside the kernel, such as table.astype(np.float32)",
        )
    if not 0 < data.nbytes <= TABLE_BYTES or not 1 <= data.ndim <= MAX_RANK:
        raise ValueRangeError(
            "TABLE_SIZE",
            f"an array of shape {data.shape} and {data.nbytes} bytes is indexed by a run-time value; a constant of the "
            f"code has rank 1 to {MAX_RANK} and 1 to {TABLE_BYTES} bytes",
            hint="pass it to the kernel as a tensor",
        )
    key = TableOp, element, data.shape, data.tobytes()
    kind = ir_tensor_type(element, data.shape, offset_bits=32, alignment_bytes=VECTOR_BYTES)
    made = builder.entry_operation(TableOp(data.tobytes().hex(), kind), "table", key=key)
    return Tensor(made.results[0], element, "table")


class TableRow(StagedSequence):
    """A part of a table: what ``TABLE[i]`` is of a captured array of two dimensions."""

    __slots__ = ("_prefix", "_table")

    on_host: Final = False

    def __init__(self, whole: Tensor, prefix: tuple[object, ...]) -> None:
        self._table = whole
        self._prefix = prefix

    def __repr__(self) -> str:
        return f"a row of shape {self.shape} of a constant array"

    def __len__(self) -> int:
        return self.shape[0]

    def __eq__(self, other: object) -> bool:
        """Refused: the elements are known only at run time."""
        raise self.no_number()

    __hash__ = StagedSequence.__hash__

    @property
    def shape(self) -> tuple[int, ...]:
        """The dimensions that are left."""
        return self._table.type.dims[len(self._prefix) :]

    def no_number(self) -> TypeMismatchError:
        """The error of a comparison or a test."""
        return TypeMismatchError(
            "TYPE_NOT_A_NUMBER",
            f"{self!r} is neither a number nor true or false",
            hint="compare or test its elements",
        )

    def attribute(self, builder: Builder, name: str) -> object:
        """``row.shape``, ``row.dtype``, ``row.ndim``."""
        del builder
        known = {"shape": self.shape, "dtype": self._table.dtype, "ndim": len(self.shape)}
        if name in known:
            return known[name]
        raise NameResolutionError(
            "UNKNOWN_ATTRIBUTE",
            f"{self!r} has no attribute {name!r}",
            hint=f"there are {', '.join(known)}",
        )

    def item(self, builder: Builder, index: object) -> object:
        """``row[index]``: an element, or a row of a row.

        Raises:
            TypeMismatchError: for a slice, or too many indices.
            ValueRangeError: for a constant outside of the row.
        """
        given = cast("tuple[object, ...]", index) if isinstance(index, tuple) else (index,)
        for size, part in zip(self.shape, given, strict=False):
            if isinstance(part, int) and not isinstance(part, bool) and not 0 <= part < size:
                raise ValueRangeError(
                    "INDEX_OUT_OF_RANGE", f"{self!r} is indexed by {part}; expected 0 to {size - 1}"
                )
        return table_item(builder, self._table, (*self._prefix, *given))

    def items(self, builder: Builder) -> list[object]:
        """All items, for ``x, y = row`` and loops."""
        return [self.item(builder, number) for number in range(self.shape[0])]


def table_item(builder: Builder, whole: Tensor, index: object) -> object:
    """``whole[index]`` of a table: an element, or a row.

    Raises:
        TypeMismatchError: for a slice, or too many indices.
    """
    views = imported("weft.language.memory.views")
    given = cast("tuple[object, ...]", index) if isinstance(index, tuple) else (index,)
    if any(isinstance(part, slice | EllipsisType | None) for part in given):
        raise TypeMismatchError(
            "INDEX_STAGED",
            f"a constant array of shape {whole.type.dims} is read by rows and elements, received "
            f"{describe(cast('object', index))}",
            hint="give integers, or pass the array to the kernel as a tensor",
        )
    if len(given) < whole.rank:
        return TableRow(whole, given)
    return views.subscript(builder, whole, index)


def element_type(dtype: object, what: str) -> DType:
    """An array's element type.

    Args:
        dtype: the user's argument.
        what: name of the operation, for messages.

    Raises:
        TypeMismatchError: for anything else.

    Example:
        >>> element_type(weft.f32, "local")
        weft.f32
    """
    dtype = named_dtype(dtype)
    if isinstance(dtype, DType) and not dtype.is_packed:
        return dtype
    if isinstance(dtype, DType):
        raise TypeMismatchError(
            "PACKED_ELEMENTS",
            f"{what} makes no array of {dtype} (packed: several lie in a byte)",
            hint=f"make one of bytes, and take it as packed elements: weft.packed({what}(..., weft.u8), weft.{dtype})",
        )
    raise TypeMismatchError(
        "ARRAY_DTYPE",
        f"{what}: the second argument must be an element type, received {describe(dtype)}",
        hint=f"write {what}((32, 32), weft.f32)",
    )


def static_shape(shape: object, what: str) -> tuple[int, ...]:
    """A shape of constants, as a tuple.

    Args:
        shape: an int or a tuple of ints.
        what: name of the operation, for messages.

    Raises:
        TypeMismatchError, ValueRangeError: as `local`.

    Example:
        >>> static_shape(4, "local"), static_shape((2, 3), "local")
        ((4,), (2, 3))
    """
    parts = cast("tuple[object, ...]", shape) if isinstance(shape, tuple) else (shape,)
    dims: list[int] = []
    for part in parts:
        if not isinstance(part, int) or isinstance(part, bool):
            raise TypeMismatchError(
                "SHAPE_NOT_CONSTANT",
                f"{what}: a shape holds integers known at compile time, received {describe(part)}",
                hint="use a literal, a global or a weft.Constexpr[int] parameter"
                + (
                    "; weft.dynamic_shared uses memory reserved by the launch"
                    if what == "shared"
                    else ""
                ),
            )
        if part < 1:
            raise ValueRangeError("SHAPE_EMPTY", f"{what}: shape {shape} has the dimension {part}")
        dims.append(part)
    if len(dims) > MAX_RANK:
        raise ValueRangeError(
            "SHAPE_RANK",
            f"{what}: shape {shape} has rank {len(dims)}; at most {MAX_RANK} is allowed",
        )
    return tuple(dims)


@operation
def shared(
    builder: Builder,
    shape: object,
    dtype: object,
    swizzle: object = None,
    *,
    reuse: object = None,
) -> Tensor:
    """An uninitialized array shared by the threads of a block, read and written like any tensor.

    Each call makes an array: a helper that is called twice makes two, and so do unrolled iterations. All iterations of
    a loop at run time get the same one. After a barrier, such as `sync_threads`, threads see what others wrote. All
    arrays of a kernel together may take 227 kB (less on GPUs before sm_90 and on sm_120); their size is added to each
    launch.

    Args:
        shape: an int, or a tuple of at most 8; constants of at least 1.
        dtype: type of the elements, such as ``weft.f32``.
        swizzle: None, or 32, 64 or 128: the last two dims lie in swizzle atoms of 8 rows of that many bytes, in which
            adjacent rows exchange their 16-byte chunks, as the tensor cores and `tma` read and write them. Everything
            that accesses the array knows of it. Rows are as wide as one atom or several, and a multiple of 8 in number.
        reuse: an array of ``weft.shared`` that is needed no more, or a tuple of arrays made one after the other, whose
            memory the new one takes. A barrier, such as `sync_threads`, stands between the last access of the old ones
            and the first one of the new. A write to one leaves the others' elements in the same memory undefined, and
            ``--sanitize=uninit`` reports reads of them.

    Raises:
        TypeMismatchError: for a shape that is not constant, no element type, a swizzle of another type, or `reuse` of
            an object other than a whole array of ``weft.shared``.
        ValueRangeError: for a dim below 1, a rank above 8, more than a block's shared memory, another swizzle, or rows
            that it does not suit; for more bytes than `reuse` has, or arrays with others between them.

    Example:
        ``tile = weft.shared((32, 33), weft.f32); ring = weft.shared((4, 128, 64), weft.bf16, swizzle=128)``

        ``out_tile = weft.shared((128, 64), weft.bf16, reuse=ring)``
    """
    if isinstance(dtype, DType) and dtype.is_packed:
        return _shared_packed(builder, static_shape(shape, "shared"), dtype, swizzle, reuse)
    element = element_type(dtype, "shared")
    dims = static_shape(shape, "shared")
    total = element.itemsize
    for dim in dims:
        total *= dim
    if total > MOST_SHARED_BYTES:
        raise ValueRangeError(
            "SHARED_TOO_LARGE",
            f"shared({dims}, {element}) takes {total} bytes; a block has at most {MOST_SHARED_BYTES}",
            hint="use a smaller tile, or keep large arrays in a tensor argument",
        )
    atoms = _atoms(dims, element, swizzle)
    alignment = next((n for n in (TILE_ALIGNMENT, VECTOR_BYTES) if total >= n), element.itemsize)
    made = SharedOp(
        ir_tensor_type(
            element,
            dims,
            space="shared",
            offset_bits=32,
            alignment_bytes=alignment if atoms is None else SWIZZLED_ALIGNMENT,
            swizzle=atoms,
        ),
        reused=_reused(reuse),
    )
    return Tensor(builder.entry_operation(made, "shared").result, element, "shared")


def _reused(reuse: object) -> list[SSAValue]:
    """The arrays whose memory another one takes."""
    if reuse is None:
        return []
    parts = cast("tuple[object, ...]", reuse) if isinstance(reuse, tuple) else (reuse,)
    if not parts:
        raise ValueRangeError(
            "SHARED_REUSE", "shared: reuse=() names no array", hint="leave it out"
        )
    return [_whole_array(part) for part in parts]


def _whole_array(part: object) -> SSAValue:
    """The array that a tensor is all of, with the same or other elements."""
    value = part.ssa if isinstance(part, Tensor) else None
    while value is not None and isinstance(value.owner, ReinterpretOp):
        value = value.owner.source
    if value is not None and isinstance(value.owner, SharedOp) and value.owner.per_thread is None:
        return value
    raise TypeMismatchError(
        "SHARED_REUSE",
        f"shared: reuse= takes arrays made by weft.shared, received {describe(part)}",
        hint="name the whole array, not a part of it; arrays of weft.dynamic_shared share memory by their offsets"
        if isinstance(part, Tensor)
        else "write reuse=array, or reuse=(array, array)",
    )


def _shared_packed(
    builder: Builder, dims: tuple[int, ...], dtype: DType, swizzle: object, reuse: object
) -> Tensor:
    """An array of packed elements: one of bytes."""
    each = dtype.info.in_whole_bytes
    if dims[-1] % each:
        raise ValueRangeError(
            "PACKED_ROWS",
            f"shared({dims}, {dtype}): rows of {dims[-1]} do not take whole bytes, of {each} {dtype} each",
            hint=f"use rows of {dims[-1] + each - dims[-1] % each}",
        )
    shape = (*dims[:-1], dtype.storage_bytes(dims[-1]))
    if swizzle is not None:
        raise ValueRangeError(
            "SWIZZLE",
            f"shared({dims}, {dtype}): an array of packed elements is not swizzled",
            hint="make one of bytes for copies that swizzle: weft.shared(shape, weft.u8, swizzle=128)",
        )
    return reinterpreted(builder, shared.emit(builder, shape, types.u8, reuse=reuse), dtype)


def shared_per_thread(builder: Builder, element: DType, count: int) -> Tensor:
    """A shared array with that many elements for each thread of a block, whatever block that is.

    Its size is that for the largest block; its memory, that for the kernel's own.
    """
    made = SharedOp(
        ir_tensor_type(
            element,
            (count * MAX_THREADS,),
            space="shared",
            offset_bits=32,
            alignment_bytes=VECTOR_BYTES,
        ),
        count,
    )
    return Tensor(builder.entry_operation(made, "shared").result, element, "shared")


def _atoms(dims: Sequence[int], element: DType, swizzle: object) -> Swizzle | None:
    """Swizzle atoms of the last two dims."""
    if swizzle is None:
        return None
    if not isinstance(swizzle, int) or isinstance(swizzle, bool):
        raise TypeMismatchError(
            "SWIZZLE", f"shared: the swizzle is {describe(swizzle)}; expected None, 32, 64 or 128"
        )
    if swizzle not in SWIZZLES:
        raise ValueRangeError(
            "SWIZZLE", f"shared: the swizzle is {swizzle}; expected 32, 64 or 128"
        )
    if len(dims) < 2:
        raise ValueRangeError(
            "SWIZZLE",
            f"shared: an array of rank {len(dims)} has no rows to swizzle",
            hint="a swizzled array has rank 2 or more",
        )
    rows, columns = dims[-2:]
    row_bytes = columns * element.itemsize
    if row_bytes % swizzle:
        fitting = [other for other in SWIZZLES if row_bytes % other == 0]
        raise ValueRangeError(
            "SWIZZLE",
            f"shared({tuple(dims)}, {element}, swizzle={swizzle}): a row takes {row_bytes} bytes, which is not a "
            f"multiple of {swizzle}",
            hint=f"use swizzle={fitting[-1]}, or other rows" if fitting else "use other rows",
        )
    if rows % 8:
        raise ValueRangeError(
            "SWIZZLE",
            f"shared({tuple(dims)}, {element}, swizzle={swizzle}): {rows} rows; a swizzle repeats every 8",
            hint=f"use {-(-rows // 8) * 8} rows",
        )
    return Swizzle.get(swizzle, rows * swizzle // element.itemsize)


@operation
def dynamic_shared(
    builder: Builder, shape: object, dtype: object, offset: object = 0, swizzle: object = None
) -> Tensor:
    """A view of the shared memory requested by the launch with ``shared_memory_bytes``.

    Views may overlap. The launch must request enough bytes for all views: if shape, offset and ``shared_memory_bytes``
    are constants, too few are refused at compile time, otherwise on the CPU at run time, like an `assert`. A GPU does
    not check the rest.

    Args:
        shape: an integer, or a tuple of at most 8; its entries may be known only at run time.
        dtype: type of the elements.
        offset: start of the view, in bytes from the start of the launch's bytes, which is aligned to 16; a multiple of
            the element's size.
        swizzle: as of `shared`; the last two dims are constants then, and so is the offset, a multiple of 1024. The
            launch's bytes are aligned to 1024, too.

    Raises:
        TypeMismatchError: for a dim or offset that is not an integer; or for a missing element type.
        ValueRangeError: for a constant dim below 1, a rank above 8, a constant offset that is negative or not a
            multiple of the element's size, or of 1024 with a swizzle; for a swizzle that the rows do not suit.

    Example:
        ``keys = weft.dynamic_shared(n, weft.f32); ranks = weft.dynamic_shared(n, weft.i32, 4 * n)``
    """
    element = element_type(dtype, "dynamic_shared")
    parts = cast("tuple[object, ...]", shape) if isinstance(shape, tuple) else (shape,)
    dims: list[int] = []
    operands: list[SSAValue] = []
    for part in parts:
        found = _dim(builder, part)
        dims.append(found if isinstance(found, int) else DYNAMIC)
        if isinstance(found, Scalar):
            operands.append(found.ssa)
    if len(dims) > MAX_RANK:
        raise ValueRangeError(
            "SHAPE_RANK",
            f"dynamic_shared: the shape has rank {len(dims)}; at most {MAX_RANK} is allowed",
        )
    start = _offset(builder, offset, element)
    atoms = None
    if swizzle is not None:
        _check_swizzled(dims, constant_integer(start))
        atoms = _atoms(dims, element, swizzle)
    made = DynamicSharedOp(
        start,
        operands,
        ir_tensor_type(
            element,
            dims,
            space="shared",
            offset_bits=32,
            alignment_bytes=None if atoms is None else SWIZZLED_ALIGNMENT,
            swizzle=atoms,
        ),
    )
    return Tensor(builder.emit(made, "dynamic").result, element, "dynamic_shared")


def _check_swizzled(dims: Sequence[int], offset: int | None) -> None:
    """The dims that lie in swizzle atoms, and the offset, are constants."""
    if DYNAMIC in dims[-2:]:
        raise TypeMismatchError(
            "SHAPE_NOT_CONSTANT",
            "dynamic_shared: the last two dims of a swizzled array are known at compile time",
            hint="use literals, globals or weft.Constexpr[int] parameters there",
        )
    if offset is None or offset % SWIZZLED_ALIGNMENT:
        raise ValueRangeError(
            "SHARED_OFFSET",
            f"dynamic_shared: the offset of a swizzled array is {offset if offset is not None else 'no constant'}; "
            f"expected a multiple of {SWIZZLED_ALIGNMENT} bytes",
            hint="place swizzled arrays first",
        )


def _dim(builder: Builder, part: object) -> int | Scalar:
    """A dimension as an int, or as an i32."""
    found = expect_scalar(builder, part, "dynamic_shared: a dimension")
    known = found.constant if isinstance(found, Scalar) else found
    if known is None and isinstance(found, Scalar) and found.dtype.is_integer:
        return convert(builder, found, types.i32)
    if not isinstance(known, int) or isinstance(known, bool):
        raise TypeMismatchError(
            "SHAPE_NOT_AN_INTEGER",
            f"dynamic_shared: a shape holds integers, received {describe(found)}",
        )
    if known < 1:
        raise ValueRangeError("SHAPE_EMPTY", f"dynamic_shared: the shape has the dimension {known}")
    return known


def _offset(builder: Builder, offset: object, element: DType) -> SSAValue:
    """The offset as an i64."""
    found = expect_scalar(builder, offset, "dynamic_shared: the offset")
    known = found.constant if isinstance(found, Scalar) else found
    if known is None and isinstance(found, Scalar) and found.dtype.is_integer:
        return convert(builder, found, types.i64).ssa
    if not isinstance(known, int) or isinstance(known, bool):
        raise TypeMismatchError(
            "SHARED_OFFSET",
            f"dynamic_shared: the offset is {describe(found)}; expected an integer, in bytes",
        )
    if known < 0 or known % element.itemsize:
        raise ValueRangeError(
            "SHARED_OFFSET",
            f"dynamic_shared: the offset is {known} bytes; expected a multiple of {element.itemsize}, "
            f"the size of {element}, from 0 up",
        )
    return builder.constant(i64, known)


SCRATCH_BYTES = 1 << 30
"""Most bytes of one array, per block."""
_MOST_BYTES: Final = 1 << 62  # of constant sizes; the call checks the others
SCRATCH_ALIGNMENT: Final = 256
"""Alignment of a host function's arrays, in bytes; native/runtime/launch/call_scratch.cpp keeps it."""


@operation
def global_scratch(builder: Builder, shape: object, dtype: object) -> Tensor:
    """An uninitialized array in global memory, one per block, shared by its threads.

    Use it like `shared`, with the same barriers, for arrays that do not fit there. Each call in the source makes one
    array; in a loop, every iteration gets the same one. Each launch allocates and frees it for all blocks of its grid;
    `KernelInfo.global_scratch_bytes` is the size per block. On a GPU this happens in stream order, even under graph
    capture; the memory comes from torch's allocator, the driver's pool or that of `weft.set_allocator`.

    Args:
        shape: an int, or a tuple of at most 7; constants of at least 1.
        dtype: type of the elements, such as ``weft.f32``.

    Raises:
        TypeMismatchError: for a shape that is not constant, or no element type.
        ValueRangeError: for a dim below 1, a rank above 7, or more than 2^30 bytes per block.

    Example:
        ``histogram = weft.global_scratch(1 << 16, weft.u32)``
    """
    element = element_type(dtype, "global_scratch")
    dims = static_shape(shape, "global_scratch")
    total = element.itemsize
    for dim in dims:
        total *= dim
    if total > SCRATCH_BYTES or len(dims) > 7:
        raise ValueRangeError(
            "SCRATCH_TOO_LARGE",
            f"global_scratch({dims}, {element}) takes {total} bytes per block in {len(dims)} dimensions; "
            f"at most {SCRATCH_BYTES} and 7 are allowed",
            hint="pass a tensor as an argument",
        )
    kind = ir_tensor_type(element, dims, dim_bits=64, alignment_bytes=gcd(total, SCRATCH_ALIGNMENT))
    made = builder.entry_operation(GlobalScratchOp(kind), "scratch")
    return Tensor(made.result, element, "global_scratch")


@operation(on_host=True, in_kernels=False)
def scratch(
    builder: Builder,
    shape: object,
    dtype: object,
    *,
    stream: object = None,
    zeroed: object = False,
) -> Tensor:
    """An uninitialized or zeroed, contiguous array in a host function, for what its launches leave to each other.

    Each evaluation makes an array, also in a loop: make what every iteration can use before the loop.
    The call gives all of them back when the host function ends, whatever happened. On a GPU both are in stream order,
    even under graph capture; the memory comes from torch's allocator, the driver's pool or `weft.set_allocator`'s.
    On the CPU each thread keeps up to 64 MiB for its next calls. ``fn.scratch`` lists a compiled function's arrays.

    It can be sliced and passed to kernels and helpers like an argument, and not be returned. Its address is a multiple
    of 256. A size that is negative at run time, or an array of more bytes than there are, is an error of the call.

    Args:
        shape: an integer, or a tuple of at most 8; from 0 up, known at compile time or not.
        dtype: type of the elements, such as ``weft.f32``.
        stream: a `weft.Stream` parameter, that of the launches which use the array; by default the call's.
        zeroed: whether every evaluation writes 0 to all elements, by a launch; known at compile time.

    Raises:
        TypeMismatchError: for a size that is not an integer, no element type, or no stream.
        ValueRangeError: for a negative constant, a rank above 8, or more than 2^62 bytes.

    Example:
        ``partial = weft.scratch((2, len(a)), weft.f32); kernel(partial[0]).launch(grid=1, block=32)``
    """
    element = element_type(dtype, "scratch")
    if not isinstance(zeroed, bool):  # the front end adds the launch
        raise TypeMismatchError(
            "SCRATCH_ZEROED",
            f"scratch: zeroed is {describe(zeroed)}; expected True or False, known at compile time",
        )
    if stream is not None and not isinstance(stream, Stream):
        raise TypeMismatchError(
            "SCRATCH_STREAM",
            f"scratch: stream must be a weft.Stream parameter of the host function, received {describe(stream)}",
            hint="annotate a parameter with weft.Stream and pass it on",
        )
    return _made(builder, "scratch", shape, element, None if stream is None else stream.ssa)


@operation(on_host=True, in_kernels=False, takes_complex=True)
def host_empty(builder: Builder, name: str, shape: object, dtype: object) -> Tensor:
    """A tensor of the caller's allocator: `weft.empty` in a host function, or what messages call `name`.

    Raises:
        TypeMismatchError: for a size that is not an integer, or no element type.
        ValueRangeError: for a negative constant, a rank above 8, or more than 2^62 bytes.
    """
    return _made(builder, name, shape, element_type(dtype, name), None, kept=True)


def _made(
    builder: Builder,
    name: str,
    shape: object,
    element: DType,
    stream: SSAValue | None,
    *,
    kept: bool = False,
) -> Tensor:
    """An array of a host function; `name` is how the user calls it."""
    parts = cast("tuple[object, ...]", shape) if isinstance(shape, tuple) else (shape,)
    sizes = [_size(builder, part, name) for part in parts]
    constants = [size for size in sizes if isinstance(size, int)]
    total = element.itemsize * prod(constants)
    if len(sizes) > MAX_RANK or max(total, *constants, 0) > _MOST_BYTES:
        raise ValueRangeError(
            "SCRATCH_TOO_LARGE",
            f"{name}({item_text(cast('object', shape))}, {element}) takes {total} bytes in {len(sizes)} dimensions; "
            f"at most 2^62 and {MAX_RANK} are allowed",
        )
    found = [size for size in sizes if isinstance(size, Scalar)]
    is_wide = (
        any(size.dtype is types.i64 for size in found)
        or max(constants, default=0) > types.i32.maximum
    )
    dim = types.i64 if is_wide else types.i32
    fits = not found and prod(constants) <= types.i32.maximum
    kind = ir_tensor_type(
        element,
        [size if isinstance(size, int) else DYNAMIC for size in sizes],
        dim_bits=dim.bits,
        offset_bits=32 if fits or (not is_wide and len(sizes) == 1) else 64,
        alignment_bytes=VECTOR_BYTES if kept else SCRATCH_ALIGNMENT,
    )
    operands = [convert(builder, size, dim).ssa for size in found]
    text = builder.location.span() or f"weft.{name}"
    made = ScratchOp(text, operands, stream, kind, element.name if kept else None)
    return Tensor(builder.emit(made, name).result, element, name)


def _size(builder: Builder, part: object, name: str) -> int | Scalar:
    """A size as an int, or as an i32 or i64."""
    size = expect_scalar(builder, part, f"{name}: a dimension")
    known = size.constant if isinstance(size, Scalar) else size
    if known is None and isinstance(size, Scalar):
        dtype = index_dtype(size.dtype)
        if dtype is not None:
            return convert(builder, size, dtype)
    if not isinstance(known, int) or isinstance(known, bool):
        raise TypeMismatchError(
            "SHAPE_NOT_AN_INTEGER",
            f"{name}: a shape holds integers, received {describe(size)}",
            hint="use // instead of /, or convert it, such as weft.i32(x)",
        )
    if known < 0:
        raise ValueRangeError("SHAPE_NEGATIVE", f"{name}: the shape has the dimension {known}")
    return known
