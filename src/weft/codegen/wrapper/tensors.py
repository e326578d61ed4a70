# SPDX-License-Identifier: Apache-2.0
"""Tensors of a wrapper: decoding, checks of kind, rank, dtype, device, alignment and dims.

In: ffi operations on tensors. Out: loads from the DLTensor, compares, branches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from weft.codegen.llvm.function_printer import TensorValue
from weft.codegen.llvm.names import path_stem
from weft.codegen.wrapper.printer import LIKELY, UNLIKELY, TensorArgument, WrapperPrinter
from weft.codegen.wrapper.strides import strides_of
from weft.ffi.abi import (
    ANY_VALUE,
    DLTENSOR_BYTE_OFFSET,
    DLTENSOR_DATA,
    DLTENSOR_DEVICE,
    DLTENSOR_DEVICE_INDEX,
    DLTENSOR_DTYPE,
    DLTENSOR_RANK,
    DLTENSOR_SHAPE,
    OBJECT_HEADER_BYTES,
    TypeIndex,
)
from weft.types.dtype import dtype_named

if TYPE_CHECKING:
    from collections.abc import Callable

    from weft.dialects.ffi.checks import (
        AsTensorOp,
        BindDeviceOp,
        BindDimOp,
        CheckDeviceOp,
        CheckDimOp,
        CheckOp,
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
