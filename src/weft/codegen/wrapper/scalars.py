# SPDX-License-Identifier: Apache-2.0
"""Numbers, addresses, streams and None of a wrapper.

In: the ffi operations that decode one of these. Out: the value, with kind and range checked. An int is accepted for a
float, a bool for an int; never the reverse.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.codegen.llvm.function_printer import TensorValue
from weft.codegen.llvm.types import f64_text, llvm_type, path_stem
from weft.codegen.wrapper.printer import LIKELY, TensorArgument, WrapperPrinter
from weft.ffi.abi import ANY_VALUE, TypeIndex
from weft.types.dtype import dlpack_bits, f32, f64, i64, u64

if TYPE_CHECKING:
    from weft.dialects.ffi.function import (
        DecodeNoneOp,
        DecodeOp,
        DecodePointerOp,
        DecodeScalarOp,
        DecodeSizeOp,
        DecodeStreamOp,
    )
    from weft.dialects.simt.types import TensorType
    from weft.types.dtype import DType


def _open(printer: WrapperPrinter, op: DecodeOp) -> tuple[str, str]:
    """Pointer to an argument, and its type index."""
    argument = printer.argument(op)
    return argument, printer.field(argument, 0, "i32", "kind")


def _is_int_or_bool(printer: WrapperPrinter, kind: str) -> str:
    # INT and BOOL are 1 and 2: one compare for both.
    from_int = printer.let(f"add i32 {kind}, -{TypeIndex.INT}")
    return printer.let(f"icmp ult i32 {from_int}, 2")


def print_decode_scalar(printer: WrapperPrinter, op: DecodeScalarOp) -> None:
    """`ffi.decode_scalar`."""
    dtype = op.element
    argument, kind = _open(printer, op)
    if dtype.is_float:
        value = _decode_float(printer, op, dtype, argument, kind)
    elif dtype is u64:
        value = _decode_u64(printer, op, argument, kind)
    else:
        value = _decode_integer(printer, op, dtype, argument, kind)
    printer.values[op.result] = value


def print_decode_size(printer: WrapperPrinter, op: DecodeSizeOp) -> None:
    """`ffi.decode_size`."""
    argument, kind = _open(printer, op)
    size = _decode_integer(printer, op, i64, argument, kind)
    printer.arguments[op.result] = TensorArgument("", argument, op.place, rank=1, dims={0: size})


def range_text(dtype: DType) -> str:
    """The range of an integer argument: `-128 to 127 (i8)`."""
    if dtype.is_bool:
        return "0 or 1 (bool_)"
    return f"{dtype.minimum} to {dtype.maximum} ({dtype.name})"


def _kind_site(printer: WrapperPrinter, op: DecodeScalarOp | DecodeSizeOp, dtype: DType) -> str:
    what = "a bool" if dtype.is_bool else "an int" if dtype.is_integer else "a float"
    return printer.site("argument_kind", op.place, f"{what} ({dtype.name})")


def _kind_or_range(printer: WrapperPrinter, kind: str, kind_site: str, range_site: str) -> str:
    """The failure site for values other than 64-bit ints; a larger int has the right kind, but is out of range."""
    is_big = printer.let(f"icmp eq i32 {kind}, {TypeIndex.BIG_INT}")
    return printer.let(f"select i1 {is_big}, ptr {range_site}, ptr {kind_site}")


def _decode_integer(
    printer: WrapperPrinter,
    op: DecodeScalarOp | DecodeSizeOp,
    dtype: DType,
    argument: str,
    kind: str,
) -> str:
    is_int = _is_int_or_bool(printer, kind)
    range_site = printer.site("integer_range", op.place, range_text(dtype))
    site = _kind_or_range(printer, kind, _kind_site(printer, op, dtype), range_site)
    printer.require_of(is_int, site, argument)
    value = printer.field(argument, ANY_VALUE, "i64", path_stem(op.argument.data))
    if dtype.bits == 64:
        return value
    result = llvm_type(op.result.type)
    if dtype.is_signed:
        narrow = printer.let(f"trunc i64 {value} to {result}")
        wide = printer.let(f"sext {result} {narrow} to i64")
        condition = printer.let(f"icmp eq i64 {wide}, {value}")
    else:
        condition = printer.let(f"icmp ule i64 {value}, {dtype.maximum}")
        narrow = printer.let(f"trunc i64 {value} to {result}")
    printer.require(condition, range_site, value)
    return narrow


def _decode_u64(printer: WrapperPrinter, op: DecodeScalarOp, argument: str, kind: str) -> str:
    """A small integer on the straight path; a BigInt through the runtime table."""
    small = printer.field(argument, ANY_VALUE, "i64", path_stem(op.argument.data))
    is_int = _is_int_or_bool(printer, kind)
    is_positive = printer.let(f"icmp sge i64 {small}, 0")
    is_small = printer.let(f"and i1 {is_int}, {is_positive}")
    slow, done = printer.new_label("big"), printer.new_label("done")
    before = printer.label
    slot = printer.alloca("i64", 8)
    printer.branch_if(is_small, done, slow, LIKELY)
    printer.start(slow)
    code = printer.call(
        "decode_u64",
        f"ptr {_kind_site(printer, op, u64)}",
        f"ptr {printer.site('integer_range', op.place, range_text(u64))}",
        f"ptr {argument}",
        f"ptr {slot}",
    )
    printer.require_success(code)
    big = printer.let(f"load i64, ptr {slot}, align 8")
    after = printer.label
    printer.branch(done)
    printer.start(done)
    return printer.phi("i64", [(small, before), (big, after)], path_stem(op.argument.data))


def _decode_float(
    printer: WrapperPrinter, op: DecodeScalarOp, dtype: DType, argument: str, kind: str
) -> str:
    is_float = printer.let(f"icmp eq i32 {kind}, {TypeIndex.FLOAT}")
    from_int, from_float, done = (printer.new_label(s) for s in ("integer", "float", "number"))
    printer.branch_if(is_float, from_float, from_int, LIKELY)
    printer.start(from_int)
    is_int = _is_int_or_bool(printer, kind)
    text = f"an int of at most 64 bits, or a float ({dtype.name})"
    range_site = printer.site("integer_range", op.place, text)
    site = _kind_or_range(printer, kind, _kind_site(printer, op, dtype), range_site)
    printer.require_of(is_int, site, argument)
    integer = printer.field(argument, ANY_VALUE, "i64")
    converted = printer.let(f"sitofp i64 {integer} to double")
    after_int = printer.label
    printer.branch(done)
    printer.start(from_float)
    given = printer.field(argument, ANY_VALUE, "double")
    printer.branch(done)
    printer.start(done)
    value = printer.phi(
        "double", [(converted, after_int), (given, from_float)], path_stem(op.argument.data)
    )
    if dtype is f64:
        return value
    site = printer.site("float_range", op.place, dtype.name)
    if dtype is f32:
        return _narrow_to_f32(printer, value, site)
    return _narrow(printer, value, site, dtype)


def _is_infinite(printer: WrapperPrinter, value: str, bits: int) -> str:
    """Whether a float given by its bits is infinite."""
    kind = "float" if bits == 32 else "double"
    infinity = 0x7F800000 if bits == 32 else 0x7FF << 52
    raw = printer.let(f"bitcast {kind} {value} to i{bits}")
    magnitude = printer.let(f"and i{bits} {raw}, {(1 << (bits - 1)) - 1}")
    return printer.let(f"icmp eq i{bits} {magnitude}, {infinity}")


def _narrow_to_f32(printer: WrapperPrinter, value: str, site: str) -> str:
    """Rounds to f32; refuses a finite value that becomes infinite, and one that becomes 0."""
    narrow = printer.let(f"fptrunc double {value} to float")
    is_infinite = _is_infinite(printer, narrow, 32)
    was_infinite = _is_infinite(printer, value, 64)
    differs = printer.let(f"xor i1 {is_infinite}, {was_infinite}")
    is_zero = printer.let(f"fcmp oeq float {narrow}, 0.0")
    was_not_zero = printer.let(f"fcmp une double {value}, 0.0")
    vanishes = printer.let(f"and i1 {is_zero}, {was_not_zero}")
    changes = printer.let(f"or i1 {differs}, {vanishes}")
    fits = printer.let(f"xor i1 {changes}, true")
    bits = printer.let(f"bitcast double {value} to i64")
    largest = int(f64_text(3.4028234663852886e38), 16)
    printer.require(fits, site, bits, str(largest))
    return narrow


def _narrow(printer: WrapperPrinter, value: str, site: str, dtype: DType) -> str:
    """The bits, computed by the runtime: LLVM would call functions that no C library has.

    The host function receives them as an integer (`codegen.host_function`).
    """
    bits = printer.call(
        "narrow_float", f"ptr {site}", f"i32 {dlpack_bits(dtype)}", f"double {value}"
    )
    failed = printer.let(f"icmp slt i64 {bits}, 0")
    code = printer.let(f"sext i1 {failed} to i32")
    printer.require_success(code)
    return printer.let(f"trunc i64 {bits} to i{dtype.bits}")


def print_decode_stream(printer: WrapperPrinter, op: DecodeStreamOp) -> None:
    """`ffi.decode_stream`: None is the legacy default stream, whose handle is null."""
    argument, kind = _open(printer, op)
    is_none = printer.let(f"icmp eq i32 {kind}, {TypeIndex.NONE}")
    is_int = printer.let(f"icmp eq i32 {kind}, {TypeIndex.INT}")
    is_pointer = printer.let(f"icmp eq i32 {kind}, {TypeIndex.OPAQUE_POINTER}")
    kind_site = printer.site("argument_kind", op.place, "a stream (a handle, an int or None)")
    range_site = printer.site("integer_range", op.place, "a stream's handle, of at most 64 bits")
    site = _kind_or_range(printer, kind, kind_site, range_site)
    printer.require_of(printer.any_of(is_none, is_int, is_pointer), site, argument)
    value = printer.field(argument, ANY_VALUE, "ptr")
    printer.values[op.result] = printer.let(
        f"select i1 {is_none}, ptr null, ptr {value}", path_stem(op.argument.data)
    )


def print_decode_pointer(printer: WrapperPrinter, op: DecodePointerOp) -> None:
    """`ffi.decode_pointer`: None is the null pointer."""
    argument, kind = _open(printer, op)
    is_none = printer.let(f"icmp eq i32 {kind}, {TypeIndex.NONE}")
    is_int = printer.let(f"icmp eq i32 {kind}, {TypeIndex.INT}")
    is_pointer = printer.let(f"icmp eq i32 {kind}, {TypeIndex.OPAQUE_POINTER}")
    kind_site = printer.site("argument_kind", op.place, f"an address ({op.text.data})")
    range_site = printer.site("integer_range", op.place, "an address, of at most 64 bits")
    site = _kind_or_range(printer, kind, kind_site, range_site)
    printer.require_of(printer.any_of(is_none, is_int, is_pointer), site, argument)
    given = printer.field(argument, ANY_VALUE, "i64")
    address = printer.let(f"select i1 {is_none}, i64 0, i64 {given}")
    # A pointer may have any bits; a Python int is signed.
    is_sign = printer.let(f"icmp slt i64 {address}, 0")
    is_negative = printer.let(f"and i1 {is_int}, {is_sign}")
    site = printer.site("integer_range", op.place, "an address, which is not negative")
    printer.require(printer.let(f"xor i1 {is_negative}, true"), site, address)
    pointer_type: TensorType = op.result.type  # pyright: ignore[reportAssignmentType]
    alignment = pointer_type.alignment_bytes.data
    if alignment > 1:
        low = printer.let(f"and i64 {address}, {alignment - 1}")
        site = printer.site("address_alignment", op.place)
        printer.require(printer.let(f"icmp eq i64 {low}, 0"), site, address, str(alignment))
    pointer = printer.let(f"inttoptr i64 {address} to ptr", path_stem(op.argument.data))
    printer.tensors[op.result] = TensorValue(pointer_type, pointer, strides=["1"])


def print_decode_none(printer: WrapperPrinter, op: DecodeNoneOp) -> None:
    """`ffi.decode_none`."""
    argument, kind = _open(printer, op)
    condition = printer.let(f"icmp eq i32 {kind}, {TypeIndex.NONE}")
    site = printer.site("argument_kind", op.place, "None, for which it was compiled")
    printer.require_of(condition, site, argument)
