# SPDX-License-Identifier: Apache-2.0
"""Elements and attributes: ``a[i, j]``, ``a[i] = x``, ``a.shape``, ``thread_idx.x``.

In: a value and indices or an attribute's name. Out: scalars, `simt.load`, `simt.store`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from xdsl.dialects.builtin import IntegerType, i32, i64

from weft.dialects.simt.memory import (
    DimOp,
    LoadOp,
    ReinterpretOp,
    ReshapeOp,
    ScratchOp,
    StoreOp,
    StrideOp,
    ViewOp,
)
from weft.dialects.simt.types import DYNAMIC
from weft.errors import (
    NameResolutionError,
    TypeMismatchError,
    ValueRangeError,
)
from weft.language.numbers.complex import complex_attribute
from weft.language.numbers.convert import article, convert, index_dtype, operand, stored
from weft.language.numbers.operators import binary
from weft.language.numbers.promises import promised_dim
from weft.language.values import (
    Scalar,
    StagedNamespace,
    Tensor,
    TensorMap,
    describe,
    shape_text,
)
from weft.types import dtype as types

if TYPE_CHECKING:
    from xdsl.ir import SSAValue

    from weft.dialects.builder import Builder

TENSOR_ATTRIBUTES: Final = (
    "shape",
    "strides",
    "dtype",
    "ndim",
    "size",
    "nbytes",
    "T",
    "tile",
    "view",
    "reshape",
    "fill_",
    "zero_",
)
MAP_ATTRIBUTES: Final = ("dtype", "box", "ndim", "shape", "swizzle")


def load(
    builder: Builder,
    tensor: Tensor,
    indices: object,
    *,
    volatile: bool = False,
    cache: str | None = None,
) -> Scalar:
    """``tensor[indices]``: one element.

    Args:
        tensor: to read.
        indices: one integer, or a tuple with one per dimension; ``()`` for rank 0.
        volatile: whether it is never dropped, moved or combined.
        cache: a hint of `LOAD_CACHES`.

    Raises:
        TypeMismatchError: for a wrong number of indices, or one that is not an integer.
        ValueRangeError: for a constant that is negative or not below a static dimension.
    """
    places = index_values(builder, tensor, indices)
    loaded = builder.emit(LoadOp(tensor.ssa, places, volatile=volatile, cache=cache))
    return Scalar(loaded.result, tensor.dtype)


def store(
    builder: Builder,
    tensor: Tensor,
    indices: object,
    value: object,
    *,
    volatile: bool = False,
    cache: str | None = None,
) -> None:
    """``tensor[indices] = value``; the value must convert to the element type (`stored`).

    Raises:
        TypeMismatchError: as `load`; or if the value needs an explicit conversion.
        ValueRangeError: as `load`; or if a constant does not fit.
    """
    places = index_values(builder, tensor, indices)
    if tensor.dtype.is_packed:
        raise TypeMismatchError(
            "PACKED_STORE",
            f"an element of {tensor.name} is one of several in a byte, and threads that write adjacent ones would "
            "write the same byte at once",
            hint=f"write adjacent elements together: weft.store_vector({tensor.name}, index, (x, y))",
        )
    if isinstance(value, Tensor):
        raise TypeMismatchError(
            "STORE_TENSOR",
            f"an element of {tensor.name} is one number, but {value.name} is a tensor of rank {value.rank}",
            hint=f"read an element of it: {value.name}[{', '.join('ijklmnop'[: value.rank])}]",
        )
    try:
        element = stored(builder, value, tensor.dtype)
    except (TypeMismatchError, ValueRangeError) as error:
        text = f"{tensor.name} holds {tensor.dtype}: {error.message}"
        raise type(error)(error.code, text, hint=error.hint) from None
    builder.emit(StoreOp(element.ssa, tensor.ssa, places, volatile=volatile, cache=cache))


def index_values(builder: Builder, tensor: Tensor, indices: object) -> list[SSAValue]:
    """The indices for the IR, i32 or i64 each, checked against rank and static dims.

    Integers of up to 32 bits become i32, except u32; u32 and u64 become i64.

    Raises:
        TypeMismatchError, ValueRangeError: as `load`.
    """
    parts = cast("tuple[object, ...]", indices) if isinstance(indices, tuple) else (indices,)
    if any(part is Ellipsis or part is None or isinstance(part, slice) for part in parts):
        raise TypeMismatchError(
            "INDEX_SLICE",
            f"a slice of {tensor.name} is not an element, and only elements can be written",
            hint="give one integer per dimension; write a loop for several elements",
        )
    if len(parts) != tensor.rank:
        raise wrong_count(tensor, len(parts))
    return [index_value(builder, tensor, dimension, part) for dimension, part in enumerate(parts)]


def wrong_count(tensor: Tensor, given: int) -> TypeMismatchError:
    """The error for a wrong number of indices."""
    return TypeMismatchError(
        "INDEX_COUNT",
        f"{tensor.name} has rank {tensor.rank} and shape {shape_text(tensor)}, "
        f"received {given} {'index' if given == 1 else 'indices'}",
        hint=f"write {tensor.name}[{', '.join('ijklmnop'[: tensor.rank]) or '()'}]",
    )


def index_value(builder: Builder, tensor: Tensor, dimension: int, part: object) -> SSAValue:
    """An index of one dimension for the IR.

    Raises:
        TypeMismatchError, ValueRangeError: as `load`.
    """
    if builder.element_types is not None:
        builder.element_types[tensor.ssa] = tensor.dtype.name
    return placed_index(builder, tensor, dimension, index_part(builder, tensor, dimension, part))


def placed_index(
    builder: Builder, tensor: Tensor, dimension: int, number: int | Scalar
) -> SSAValue:
    """The result of `index_part` for the IR.

    Raises:
        ValueRangeError: as `load`.
    """
    if isinstance(number, Scalar):
        return number.ssa
    return _constant_index(builder, tensor, dimension, number, tensor.type.dims[dimension])


def index_part(builder: Builder, tensor: Tensor, dimension: int, part: object) -> int | Scalar:
    """An index, or a slice's bound or step: a Python int if known, else an i32 or i64.

    Raises:
        TypeMismatchError: if an argument is not an integer.
    """
    try:
        number = operand(builder, part)
    except TypeMismatchError:
        raise _no_index(tensor, dimension, describe(part)) from None
    if not isinstance(number, Scalar):
        if isinstance(number, bool | float):
            raise _no_index(tensor, dimension, describe(number))
        return number
    dtype = index_dtype(number.dtype)
    if dtype is None:
        raise _no_index(tensor, dimension, article(number.dtype))
    known = number.constant
    if known is not None:
        return int(known)
    return convert(builder, number, dtype)


def _constant_index(
    builder: Builder, tensor: Tensor, dimension: int, index: int, dim: int
) -> SSAValue:
    size = f"{tensor.name}.shape[{dimension}]"
    if index < 0 and not tensor.type.is_pointer:
        raise ValueRangeError(
            "INDEX_NEGATIVE",
            f"index {dimension} of {tensor.name} is {index}; expected 0 or more",
            hint=f"count from the end with {size} - {-index}",
        )
    if dim != DYNAMIC and index >= dim:
        raise ValueRangeError(
            "INDEX_OUT_OF_RANGE",
            f"index {dimension} of {tensor.name} is {index}, and {size} is {dim}",
            hint=f"the last element of that dimension is {dim - 1}"
            if dim
            else "it has no elements",
        )
    if not types.i64.minimum <= index <= types.i64.maximum:
        raise ValueRangeError(
            "INDEX_OUT_OF_RANGE", f"index {dimension} of {tensor.name} is {index}, beyond 64 bits"
        )
    fits = types.i32.minimum <= index <= types.i32.maximum
    return builder.constant(i32 if fits else i64, index)


def _no_index(tensor: Tensor, dimension: int, found: str) -> TypeMismatchError:
    return TypeMismatchError(
        "INDEX_TYPE",
        f"index {dimension} of {tensor.name} is {found}; expected an integer",
        hint="convert it, such as weft.i32(x)",
    )


def attribute(builder: Builder, value: object, name: str) -> object:
    """``value.name`` of a staged value.

    A tensor has ``shape`` and ``strides`` (in elements; tuples of Python ints if static, else of scalars), ``dtype``,
    ``ndim``, ``size`` (number of elements) and ``nbytes``. A scalar has ``dtype``.

    Raises:
        NameResolutionError: if there is no such attribute; the message lists all.
    """
    if isinstance(value, StagedNamespace):
        return value.attribute(builder, name)
    if isinstance(value, Tensor) and name in attribute_names(value):
        return _tensor_attribute(builder, value, name)
    if isinstance(value, Scalar) and value.dtype.is_complex:
        return complex_attribute(builder, value, name)
    if isinstance(value, Scalar) and name == "dtype":
        return value.dtype
    if isinstance(value, TensorMap):
        return _map_attribute(builder, value, name)
    names: tuple[str, ...] = ()
    if isinstance(value, Tensor | Scalar):
        names = attribute_names(value) if isinstance(value, Tensor) else ("dtype",)
    raise NameResolutionError(
        "UNKNOWN_ATTRIBUTE",
        f"{describe(value)} has no attribute {name!r}",
        hint=f"there are {', '.join(names)}" if names else "",
    )


def _map_attribute(builder: Builder, tensor_map: TensorMap, name: str) -> object:
    """An attribute of a map; all are known at compile time but the tensor's shape."""
    kind = tensor_map.type
    if name == "box":
        return kind.box
    if name == "ndim":
        return kind.rank
    if name == "swizzle":
        return kind.swizzle or None
    if name == "dtype":
        return tensor_map.dtype
    if name == "shape" and tensor_map.shape_of is not None:
        return tensor_map.shape_of(builder)
    hint = f"there are {', '.join(MAP_ATTRIBUTES)}"
    if name == "shape":
        hint += "; that of the tensor is known of a map of weft.tensor_map alone, not of one that a kernel has "
        hint += "chosen or written"
    elif name in ("strides", "size"):
        hint += "; only the copies' hardware reads the tensor's own: pass it to the kernel"
    raise NameResolutionError(
        "UNKNOWN_ATTRIBUTE", f"{describe(tensor_map)} has no attribute {name!r}", hint=hint
    )


def attribute_names(tensor: Tensor) -> tuple[str, ...]:
    """Names of a tensor's attributes; a pointer has no number of elements."""
    return ("dtype",) if tensor.type.is_pointer else TENSOR_ATTRIBUTES


def _tensor_attribute(builder: Builder, tensor: Tensor, name: str) -> object:
    match name:
        case "shape":
            return tuple(dim(builder, tensor, number) for number in range(tensor.rank))
        case "strides":
            return tuple(stride(builder, tensor, number) for number in range(tensor.rank))
        case "dtype":
            return tensor.dtype
        case "ndim":
            return tensor.rank
        case "nbytes":
            elements, dtype = size(builder, tensor), tensor.dtype
            if isinstance(elements, int):
                return dtype.storage_bytes(elements)
            if dtype.is_packed:  # rows take whole bytes
                each = dtype.info.in_whole_bytes
                wholes = binary(builder, "//", elements, each)
                return binary(builder, "*", wholes, dtype.storage_bytes(each))
            return binary(builder, "*", elements, dtype.itemsize)
        case _:
            return size(builder, tensor)


def dim(builder: Builder, tensor: Tensor, dimension: int) -> int | Scalar:
    """``tensor.shape[dimension]``; emits nothing for the other dimensions.

    A Python int if static, else an i32, or an i64 if the signature says so.

    Raises:
        ValueRangeError: if the tensor has no such dimension.
    """
    dims = tensor.type.dims
    dimension = _dimension(tensor, "shape", dimension)
    if dims[dimension] != DYNAMIC:
        return dims[dimension]
    owner = tensor.ssa.owner
    ssa = (
        owner.size(dimension)
        if isinstance(owner, ViewOp | ReinterpretOp | ReshapeOp | ScratchOp)
        else _fact(builder, DimOp, tensor, dimension, f"{tensor.name}_dim{dimension}")
    )
    return Scalar(ssa, types.i32 if tensor.type.dim_bits.data == 32 else types.i64)


def stride(builder: Builder, tensor: Tensor, dimension: int) -> int | Scalar:
    """``tensor.strides[dimension]`` in elements: a Python int if the layout class fixes it, else an i64.

    Raises:
        ValueRangeError: if the tensor has no such dimension.
    """
    dimension = _dimension(tensor, "strides", dimension)
    fixed = tensor.type.static_stride(dimension)
    if fixed is not None:
        return fixed
    ssa = _fact(builder, StrideOp, tensor, dimension, f"{tensor.name}_stride{dimension}")
    return Scalar(ssa, types.i64)


def size(builder: Builder, tensor: Tensor) -> int | Scalar:
    """``tensor.size``: number of elements; an i64 if a dimension is known only at run time."""
    static = 1
    dynamic: Scalar | None = None
    for dimension in range(tensor.rank):
        length = dim(builder, tensor, dimension)
        if isinstance(length, int):
            static *= length
            continue
        wide = convert(builder, length, types.i64)
        dynamic = wide if dynamic is None else binary(builder, "*", dynamic, wide)
    return static if dynamic is None else binary(builder, "*", dynamic, static)


def _dimension(tensor: Tensor, name: str, dimension: int) -> int:
    if not -tensor.rank <= dimension < tensor.rank:
        raise ValueRangeError(
            "INDEX_OUT_OF_RANGE",
            f"{tensor.name}.{name}[{dimension}]: {tensor.name} has rank {tensor.rank}",
        )
    return dimension % tensor.rank


def _fact(
    builder: Builder, kind: type[DimOp | StrideOp], tensor: Tensor, dimension: int, name: str
) -> SSAValue:
    """The dimension or stride, emitted once per function if the tensor is an argument."""
    if tensor.ssa.owner is not builder.entry:
        return builder.emit(kind(tensor.ssa, dimension), name).result
    key = (kind, tensor.ssa, dimension)
    found = builder.shared_operation(key)
    if found is None:
        made = (
            StrideOp(tensor.ssa, dimension)
            if kind is StrideOp
            else DimOp(tensor.ssa, dimension, promised_dim(builder, tensor.ssa, dimension))
        )
        found = builder.entry_operation(made, name, key=key)
    result: SSAValue[IntegerType] = found.results[0]  # pyright: ignore[reportAssignmentType]
    return result
