# SPDX-License-Identifier: Apache-2.0
"""Tensors of a wrapper: decoding, checks of kind, rank, dtype, device, alignment, dims and strides.

In: ffi operations on tensors. Out: loads from the DLTensor, compares, branches; the strides (i64, in elements), checked
against the signature: null means contiguous; strides that reach no element are ignored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from weft.codegen.llvm.function_printer import TensorValue
from weft.codegen.llvm.types import path_stem
from weft.codegen.wrapper.printer import LIKELY, UNLIKELY, TensorArgument, WrapperPrinter
from weft.ffi.abi import (
    ANY_VALUE,
    DLTENSOR_BYTE_OFFSET,
    DLTENSOR_DATA,
    DLTENSOR_DEVICE,
    DLTENSOR_DEVICE_INDEX,
    DLTENSOR_DTYPE,
    DLTENSOR_RANK,
    DLTENSOR_SHAPE,
    DLTENSOR_STRIDES,
    OBJECT_HEADER_BYTES,
    TypeIndex,
)
from weft.types.dims import CONTIGUOUS
from weft.types.dtype import dtype_named

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from weft.dialects.ffi.checks import (
        AsTensorOp,
        BindDeviceOp,
        BindDimOp,
        BindStrideOp,
        CheckDeviceOp,
        CheckDimOp,
        CheckLayoutOp,
        CheckOp,
        CheckStrideOp,
    )
    from weft.dialects.ffi.function import DecodeTensorOp


_LARGEST: Final = {32: (1 << 31) - 1, 64: (1 << 63) - 1}


def print_decode_tensor(printer: WrapperPrinter, op: DecodeTensorOp) -> None:
    """`ffi.decode_tensor`: an object of type 70 or a DLTensor* of type 7, not null."""
    argument = printer.argument(op)
    kind = printer.field(argument, 0, "i32", "kind")
    value = printer.field(argument, ANY_VALUE, "ptr", "value")
    site = printer.site("argument_kind", op.place, "a tensor")
    printer.require_of(printer.let(f"icmp ne ptr {value}, null"), site, argument)
    other, decoded = printer.new_label("other"), printer.new_label("decoded")
    pointer_origin = printer.label
    is_pointer = printer.let(f"icmp eq i32 {kind}, {TypeIndex.TENSOR_VIEW}")
    printer.branch_if(is_pointer, decoded, other, LIKELY)
    printer.start(other)
    printer.require_of(printer.let(f"icmp eq i32 {kind}, {TypeIndex.TENSOR}"), site, argument)
    inside = printer.address(value, OBJECT_HEADER_BYTES)
    object_origin = printer.label
    printer.branch(decoded)
    printer.start(decoded)
    views = [(value, pointer_origin), (inside, object_origin)]
    view = printer.phi("ptr", views, path_stem(op.argument.data))
    printer.arguments[op.result] = TensorArgument(view, argument, op.place)


def _check_data(printer: WrapperPrinter, op: CheckOp, tensor: TensorArgument) -> None:
    tensor.data = printer.field(tensor.view, DLTENSOR_DATA, "ptr", "data")
    is_null = printer.let(f"icmp eq ptr {tensor.data}, null")
    site = printer.site("null_data", tensor.place)
    _fail_unless_empty(printer, is_null, site, tensor, "0", "0")


def _fail_unless_empty(
    printer: WrapperPrinter,
    problem: str,
    site: str,
    tensor: TensorArgument,
    received: str,
    wanted: str,
) -> None:
    """On a problem, fails if the tensor has elements."""
    bad, good = printer.new_label("bad"), printer.new_label("good")
    printer.branch_if(problem, bad, good, UNLIKELY)
    printer.start(bad)
    code = printer.call(
        "fail_unless_empty",
        f"ptr {site}",
        f"ptr {tensor.view}",
        f"i64 {received}",
        f"i64 {wanted}",
    )
    printer.require_success(code)
    printer.branch(good)
    printer.start(good)


def _check_rank(printer: WrapperPrinter, op: CheckOp, tensor: TensorArgument) -> None:
    assert op.number is not None  # verified
    tensor.rank = op.number.value.data
    found = printer.field(tensor.view, DLTENSOR_RANK, "i32", "rank")
    condition = printer.let(f"icmp eq i32 {found}, {tensor.rank}")
    if tensor.rank > 0:
        tensor.shape = printer.field(tensor.view, DLTENSOR_SHAPE, "ptr", "shape")
        has_shape = printer.let(f"icmp ne ptr {tensor.shape}, null")
        condition = printer.let(f"and i1 {condition}, {has_shape}")
    site = printer.site("tensor_rank", tensor.place, index=tensor.rank)
    printer.require_of(condition, site, tensor.argument)


def _check_dtype(printer: WrapperPrinter, op: CheckOp, tensor: TensorArgument) -> None:
    assert op.text is not None  # verified
    dtype = dtype_named(op.text.data)
    found = printer.field(tensor.view, DLTENSOR_DTYPE, "i32", "dtype")
    wanted = dtype.dlpack_code | dtype.bits << 8 | 1 << 16
    condition = printer.let(f"icmp eq i32 {found}, {wanted}")
    received = printer.let(f"zext i32 {found} to i64")
    printer.require(condition, printer.site("tensor_dtype", tensor.place, dtype.name), received)


def _check_device_type(printer: WrapperPrinter, op: CheckOp, tensor: TensorArgument) -> None:
    assert op.number is not None  # verified
    device = printer.field(tensor.view, DLTENSOR_DEVICE, "i64", "device")
    found = printer.let(f"trunc i64 {device} to i32")
    condition = printer.let(f"icmp eq i32 {found}, {op.number.value.data}")
    site = printer.site("device_type", tensor.place)
    printer.require(condition, site, device, str(op.number.value.data))


def _first_element(printer: WrapperPrinter, tensor: TensorArgument) -> str:
    offset = printer.field(tensor.view, DLTENSOR_BYTE_OFFSET, "i64", "byte_offset")
    return printer.let(f"getelementptr i8, ptr {tensor.data}, i64 {offset}", "first")


def _check_alignment(printer: WrapperPrinter, op: CheckOp, tensor: TensorArgument) -> None:
    assert op.number is not None  # verified
    alignment = op.number.value.data
    address = printer.let(f"ptrtoint ptr {_first_element(printer, tensor)} to i64")
    low = printer.let(f"and i64 {address}, {alignment - 1}")
    problem = printer.let(f"icmp ne i64 {low}, 0")
    site = printer.site("alignment", tensor.place)
    _fail_unless_empty(printer, problem, site, tensor, address, str(alignment))


CHECKS: Final[dict[str, Callable[[WrapperPrinter, CheckOp, TensorArgument], None]]] = {
    "data": _check_data,
    "rank": _check_rank,
    "dtype": _check_dtype,
    "device_type": _check_device_type,
    "alignment": _check_alignment,
}
"""The printers of `dialects.ffi.TENSOR_CHECKS`."""


def print_check(printer: WrapperPrinter, op: CheckOp) -> None:
    """`ffi.check`."""
    CHECKS[op.what.data](printer, op, printer.arguments[op.tensor])


def print_bind_device(printer: WrapperPrinter, op: BindDeviceOp) -> None:
    """`ffi.bind_device`."""
    tensor = printer.arguments[op.tensor]
    printer.values[op.result] = printer.field(tensor.view, DLTENSOR_DEVICE_INDEX, "i32", "device")


def print_check_device(printer: WrapperPrinter, op: CheckDeviceOp) -> None:
    """`ffi.check_device`: the ordinal is that of the first tensor, or a constant."""
    tensor = printer.arguments[op.tensor]
    device = printer.field(tensor.view, DLTENSOR_DEVICE, "i64", "device")
    found = printer.field(tensor.view, DLTENSOR_DEVICE_INDEX, "i32", "ordinal")
    if op.device is not None:
        wanted = printer.values[op.device]
        first = op.device.owner.decoded.argument.data  # pyright: ignore  BindDeviceOp
        tail = f"to match '{first}'"
    else:
        assert op.ordinal is not None  # verified
        wanted, tail = str(op.ordinal.value.data), ""
    condition = printer.let(f"icmp eq i32 {found}, {wanted}")
    wide = printer.let(f"zext i32 {wanted} to i64") if wanted.startswith("%") else wanted
    printer.require(condition, printer.site("device_index", tensor.place, tail), device, wide)


def dim_of(printer: WrapperPrinter, tensor: TensorArgument, index: int) -> str:
    """A size (i64), loaded at its first mention on the straight path."""
    found = tensor.dims.get(index)
    if found is None:
        found = tensor.dims[index] = printer.field(tensor.shape, 8 * index, "i64", "dim")
    return found


def print_bind_dim(printer: WrapperPrinter, op: BindDimOp) -> None:
    """`ffi.bind_dim`: range, then divisibility."""
    tensor = printer.arguments[op.tensor]
    size = dim_of(printer, tensor, op.index)
    largest = _LARGEST[op.width.value.data]
    # Unsigned, so that negative sizes are out of range too.
    condition = printer.let(f"icmp ule i64 {size}, {largest}")
    tail = "(32 bits; weft.sym(..., width=64) allows more)" if op.width.value.data == 32 else ""
    site = printer.site("dim_range", tensor.place, tail, op.named_index)
    printer.require(condition, site, size, str(largest))
    divisor = op.divisibility.value.data
    if divisor > 1:
        rest = printer.let(f"urem i64 {size}, {divisor}")
        condition = printer.let(f"icmp eq i64 {rest}, 0")
        site = printer.site("dim_divisibility", tensor.place, index=op.named_index)
        printer.require(condition, site, size, str(divisor))
    printer.symbols[op.result] = (size, None)


def print_check_dim(printer: WrapperPrinter, op: CheckDimOp) -> None:
    """`ffi.check_dim`: a constant, or the value of a symbol."""
    tensor = printer.arguments[op.tensor]
    size = dim_of(printer, tensor, op.index)
    wanted, tail, is_bound = printer.expected_by(op)
    condition = printer.let(f"icmp eq i64 {size}, {wanted}")
    if is_bound is not None:
        condition = printer.any_of(condition, printer.let(f"xor i1 {is_bound}, true"))
    site = printer.site("dim_value", tensor.place, tail, op.named_index)
    printer.require(condition, site, size, wanted)
    if is_bound is not None and op.expected is not None:
        value = printer.let(f"select i1 {is_bound}, i64 {wanted}, i64 {size}")
        printer.symbols[op.expected] = (value, None)


def print_as_tensor(printer: WrapperPrinter, op: AsTensorOp) -> None:
    """`ffi.as_tensor`: pointer with byte_offset, dims in the type's width, strides."""
    tensor = printer.arguments[op.tensor]
    tensor_type = op.result.type
    dims = [dim_of(printer, tensor, index) for index in range(tensor.rank)]
    strides = strides_of(printer, tensor, dims)
    if tensor_type.dim_bits.data == 32:  # pyright: ignore
        dims = [printer.let(f"trunc i64 {dim} to i32") for dim in dims]
    pointer = _first_element(printer, tensor)
    printer.tensors[op.result] = TensorValue(tensor_type, pointer, dims, strides)  # pyright: ignore


def contiguous_strides(printer: WrapperPrinter, dims: Sequence[str]) -> list[str]:
    """The strides of a row-major tensor without gaps."""
    strides: list[str] = []
    stride = "1"
    for dim in reversed(dims):
        strides.append(stride)
        if len(strides) < len(dims):
            stride = dim if stride == "1" else printer.let(f"mul i64 {stride}, {dim}")
    return strides[::-1]


def _dims(tensor: TensorArgument) -> list[str]:
    """All sizes; dims are checked before strides."""
    return [tensor.dims[index] for index in range(tensor.rank)]


def _load(printer: WrapperPrinter, pointer: str, rank: int) -> list[str]:
    return [printer.field(pointer, 8 * index, "i64", "stride") for index in range(rank)]


def strides_of(printer: WrapperPrinter, tensor: TensorArgument, dims: Sequence[str]) -> list[str]:
    """The given strides, or those of a contiguous tensor if the pointer is null."""
    if tensor.strides is None:
        if tensor.rank == 0:
            tensor.strides = []
            return tensor.strides
        derived = contiguous_strides(printer, dims)
        pointer = printer.field(tensor.view, DLTENSOR_STRIDES, "ptr", "strides")
        is_null = printer.let(f"icmp eq ptr {pointer}, null")
        before = printer.label
        given, known = printer.new_label("given"), printer.new_label("known")
        printer.branch_if(is_null, known, given, UNLIKELY)
        printer.start(given)
        loaded = _load(printer, pointer, tensor.rank)
        printer.branch(known)
        printer.start(known)
        tensor.strides = [
            printer.phi("i64", [(own, before), (stride, given)], "stride")
            for own, stride in zip(derived, loaded, strict=True)
        ]
    return tensor.strides


def _no_elements(printer: WrapperPrinter, dims: Sequence[str]) -> str:
    return printer.any_of(*(printer.let(f"icmp eq i64 {dim}, 0") for dim in dims))


def print_check_layout(printer: WrapperPrinter, op: CheckLayoutOp) -> None:
    """`ffi.check_layout`."""
    tensor = printer.arguments[op.tensor]
    layout = op.layout.data
    if tensor.rank == 0:
        return
    tail = (
        f"for layout {layout} of {op.text.data}; compile with such a tensor, or annotate "
        "the layout 'strided'"
    )
    if layout == CONTIGUOUS:
        _check_contiguous(printer, tensor, tail)
        return
    last = tensor.rank - 1
    dims = _dims(tensor)
    stride = strides_of(printer, tensor, dims)[last]
    is_one = printer.let(f"icmp eq i64 {stride}, 1")
    slow, done = printer.new_label("slow"), printer.new_label("done")
    printer.branch_if(is_one, done, slow, LIKELY)
    printer.start(slow)
    _require_stride(printer, tensor, last, is_one, stride, "1", tail)
    printer.branch(done)
    printer.start(done)


def _require_stride(
    printer: WrapperPrinter,
    tensor: TensorArgument,
    index: int,
    is_equal: str,
    stride: str,
    wanted: str,
    tail: str,
) -> None:
    """Fails if a stride differs and reaches elements. Off the straight path."""
    dims = _dims(tensor)
    is_single = printer.let(f"icmp eq i64 {dims[index]}, 1")
    condition = printer.any_of(is_equal, is_single, _no_elements(printer, dims))
    site = printer.site("stride_value", tensor.place, tail, index)
    printer.require(condition, site, stride, wanted)


def _check_contiguous(printer: WrapperPrinter, tensor: TensorArgument, tail: str) -> None:
    """One branch if all strides match; checked one by one only if they do not."""
    derived = contiguous_strides(printer, _dims(tensor))
    pointer = printer.field(tensor.view, DLTENSOR_STRIDES, "ptr", "strides")
    is_null = printer.let(f"icmp eq ptr {pointer}, null")
    given, slow, done = (printer.new_label(stem) for stem in ("given", "slow", "done"))
    printer.branch_if(is_null, done, given, UNLIKELY)
    printer.start(given)
    strides = _load(printer, pointer, tensor.rank)
    equal = [
        printer.let(f"icmp eq i64 {stride}, {wanted}")
        for stride, wanted in zip(strides, derived, strict=True)
    ]
    all_equal = equal[0]
    for one in equal[1:]:
        all_equal = printer.let(f"and i1 {all_equal}, {one}")
    printer.branch_if(all_equal, done, slow, LIKELY)
    printer.start(slow)
    for index, stride in enumerate(strides):
        _require_stride(printer, tensor, index, equal[index], stride, derived[index], tail)
    printer.branch(done)
    printer.start(done)
    tensor.strides = derived


def _counts(printer: WrapperPrinter, tensor: TensorArgument, index: int) -> str:
    """Whether a stride reaches elements (i1)."""
    dims = _dims(tensor)
    is_single = printer.let(f"icmp eq i64 {dims[index]}, 1")
    unused = printer.any_of(is_single, _no_elements(printer, dims))
    return printer.let(f"xor i1 {unused}, true")


def print_bind_stride(printer: WrapperPrinter, op: BindStrideOp) -> None:
    """`ffi.bind_stride`: range and divisibility, if the stride reaches elements."""
    tensor = printer.arguments[op.tensor]
    stride = strides_of(printer, tensor, _dims(tensor))[op.index]
    counts = _counts(printer, tensor, op.index)
    ignored = printer.let(f"xor i1 {counts}, true")
    if op.width.value.data == 32:
        narrow = printer.let(f"trunc i64 {stride} to i32")
        wide = printer.let(f"sext i32 {narrow} to i64")
        fits = printer.any_of(printer.let(f"icmp eq i64 {wide}, {stride}"), ignored)
        tail = "(32 bits; weft.sym(..., width=64) allows more)"
        site = printer.site("stride_range", tensor.place, tail, op.index)
        printer.require(fits, site, stride)
    divisor = op.divisibility.value.data
    if divisor > 1:
        rest = printer.let(f"srem i64 {stride}, {divisor}")
        divides = printer.any_of(printer.let(f"icmp eq i64 {rest}, 0"), ignored)
        site = printer.site("stride_divisibility", tensor.place, index=op.index)
        printer.require(divides, site, stride, str(divisor))
    printer.symbols[op.result] = (stride, counts)


def print_check_stride(printer: WrapperPrinter, op: CheckStrideOp) -> None:
    """`ffi.check_stride`: a constant, or the value of a symbol, if the stride reaches elements."""
    tensor = printer.arguments[op.tensor]
    stride = strides_of(printer, tensor, _dims(tensor))[op.index]
    counts = _counts(printer, tensor, op.index)
    wanted, tail, is_bound = printer.expected_by(op)
    condition = printer.any_of(
        printer.let(f"icmp eq i64 {stride}, {wanted}"), printer.let(f"xor i1 {counts}, true")
    )
    if is_bound is not None:
        condition = printer.any_of(condition, printer.let(f"xor i1 {is_bound}, true"))
    site = printer.site("stride_value", tensor.place, tail, op.index)
    printer.require(condition, site, stride, wanted)
    if is_bound is not None and op.expected is not None:
        # If the first mention was ignored, this one gives the value.
        value = printer.let(f"select i1 {is_bound}, i64 {wanted}, i64 {stride}")
        printer.symbols[op.expected] = (value, printer.any_of(is_bound, counts))
