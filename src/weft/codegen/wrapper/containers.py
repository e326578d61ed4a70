# SPDX-License-Identifier: Apache-2.0
"""Containers and shapes of a wrapper.

In: ffi.decode_array, ffi.decode_shape, ffi.as_dim. Out: pointers to items, sizes on the stack.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.codegen.llvm.names import path_stem
from weft.codegen.wrapper.printer import TensorArgument, WrapperPrinter
from weft.codegen.wrapper.tensors import dim_of
from weft.ffi.abi import ANY_VALUE, SEQUENCE_ITEMS, SEQUENCE_SIZE, TypeIndex

if TYPE_CHECKING:
    from weft.dialects.ffi.arguments import DecodeArrayOp, DecodeShapeOp
    from weft.dialects.ffi.checks import AsDimOp


def print_decode_array(printer: WrapperPrinter, op: DecodeArrayOp) -> None:
    """`ffi.decode_array`: an array or a list, not null, of the right size."""
    argument = printer.argument(op)
    kind = printer.field(argument, 0, "i32", "kind")
    object_pointer = printer.field(argument, ANY_VALUE, "ptr", path_stem(op.argument.data))
    is_array = printer.let(f"icmp eq i32 {kind}, {TypeIndex.ARRAY}")
    is_list = printer.let(f"icmp eq i32 {kind}, {TypeIndex.LIST}")
    is_there = printer.let(f"icmp ne ptr {object_pointer}, null")
    is_sequence = printer.let(f"and i1 {printer.any_of(is_array, is_list)}, {is_there}")
    size = op.size.value.data
    text = "" if op.text is None else f" ({op.text.data})"
    expected = f"a tuple of {size}{text}"
    printer.require_of(is_sequence, printer.site("argument_kind", op.place, expected), argument)
    found = printer.field(object_pointer, SEQUENCE_SIZE, "i64", "size")
    condition = printer.let(f"icmp eq i64 {found}, {size}")
    printer.require(condition, printer.site("item_count", op.place, text.strip()), found, str(size))
    printer.arrays[op.result] = printer.field(object_pointer, SEQUENCE_ITEMS, "ptr", "items")


def print_decode_shape(printer: WrapperPrinter, op: DecodeShapeOp) -> None:
    """`ffi.decode_shape`: the runtime copies the sizes from any container."""
    argument = printer.argument(op)
    rank = op.rank.value.data
    sizes = printer.alloca(f"[{max(rank, 1)} x i64]", 8, "sizes")
    code = printer.call(
        "decode_shape",
        f"ptr {printer.site('argument_kind', op.place, f'a shape of {rank}')}",
        f"ptr {printer.site('item_count', op.place)}",
        f"ptr {printer.site('shape_item', op.place)}",
        f"ptr {argument}",
        f"i64 {rank}",
        f"ptr {sizes}",
    )
    printer.require_success(code)
    printer.arguments[op.result] = TensorArgument("", argument, op.place, shape=sizes, rank=rank)


def print_as_dim(printer: WrapperPrinter, op: AsDimOp) -> None:
    """`ffi.as_dim`: the size in its symbol's width."""
    size = dim_of(printer, printer.arguments[op.tensor], op.index)
    bits = op.result.type.width.data
    printer.values[op.result] = size if bits == 64 else printer.let(f"trunc i64 {size} to i{bits}")
