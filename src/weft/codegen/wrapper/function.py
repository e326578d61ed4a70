# SPDX-License-Identifier: Apache-2.0
"""The wrapper as a whole: its state, and the printers of its operations.

In: ffi.func. Out: `i32 @__tvm_ffi_<name>(ptr %handle, ptr %args, i32 %count, ptr %result)`. The state is `handle`;
for callers that have only the symbol it is `@weft_state`, filled by the loader. A null `result` is not written. With
`~count` in place of `count` only the arguments are checked, as `prepare` asks; the ABI has no negative counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from weft.codegen.llvm.names import global_name, path_stem
from weft.codegen.wrapper.calls import print_device_guard, print_environment_stream
from weft.codegen.wrapper.printer import TensorArgument, WrapperPrinter
from weft.codegen.wrapper.results import print_return
from weft.codegen.wrapper.scalars import (
    print_decode_none,
    print_decode_pointer,
    print_decode_scalar,
    print_decode_size,
    print_decode_stream,
)
from weft.codegen.wrapper.strides import (
    print_bind_stride,
    print_check_layout,
    print_check_stride,
)
from weft.codegen.wrapper.tensors import (
    dim_of,
    print_as_tensor,
    print_bind_device,
    print_bind_dim,
    print_check,
    print_check_device,
    print_check_dim,
    print_decode_tensor,
)
from weft.dialects.ffi import checks, function
from weft.ffi.abi import ANY_VALUE, SEQUENCE_ITEMS, SEQUENCE_SIZE, TypeIndex
from weft.types.device import DEVICE_TYPES

if TYPE_CHECKING:
    from collections.abc import Callable

    from xdsl.ir import Operation

    from weft.codegen.llvm.module_printer import ModulePrinter
    from weft.dialects.ffi.checks import AsDimOp
    from weft.dialects.ffi.function import DecodeArrayOp, DecodeShapeOp


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


STATE_SYMBOL: Final = "weft_state"


def _print_check_count(printer: WrapperPrinter, op: function.CheckCountOp) -> None:
    count = op.count.value.data
    sign = printer.let("ashr i32 %count, 31")
    passed = printer.let(f"xor i32 %count, {sign}")
    condition = printer.let(f"icmp eq i32 {passed}, {count}")
    received = printer.let("sext i32 %count to i64")
    printer.require(condition, printer.site("argument_count"), received, str(count))


# Up to this many operations, about ten per tensor, LLVM may keep all host arguments in registers.
_MANY: Final = 500

WRAPPER: Final[dict[type[Operation], Callable[[WrapperPrinter, Any], None]]] = {
    function.CheckCountOp: _print_check_count,
    function.DecodeTensorOp: print_decode_tensor,
    function.DecodeScalarOp: print_decode_scalar,
    function.DecodeStreamOp: print_decode_stream,
    function.DecodeNoneOp: print_decode_none,
    function.DecodePointerOp: print_decode_pointer,
    function.DecodeShapeOp: print_decode_shape,
    function.DecodeSizeOp: print_decode_size,
    function.DecodeArrayOp: print_decode_array,
    checks.CheckOp: print_check,
    checks.BindDimOp: print_bind_dim,
    checks.CheckDimOp: print_check_dim,
    checks.BindStrideOp: print_bind_stride,
    checks.CheckStrideOp: print_check_stride,
    checks.CheckLayoutOp: print_check_layout,
    checks.BindDeviceOp: print_bind_device,
    checks.CheckDeviceOp: print_check_device,
    checks.AsTensorOp: print_as_tensor,
    checks.AsDimOp: print_as_dim,
    function.EnvironmentStreamOp: print_environment_stream,
    function.DeviceGuardOp: print_device_guard,
    function.ReturnOp: print_return,
}
"""The printer of each operation in a wrapper's body."""


def print_wrapper(module: ModulePrinter, op: function.FuncOp) -> None:
    """Prints an `ffi.func` and the state variable of its object."""
    printer = WrapperPrinter(module, op, DEVICE_TYPES[op.target.data])
    own = printer.let(f"load ptr, ptr @{STATE_SYMBOL}, align 8", "own")
    is_given = printer.let("icmp ne ptr %handle, null")
    printer.state = printer.let(f"select i1 {is_given}, ptr %handle, ptr {own}", "state")
    printer.table = printer.let(f"load ptr, ptr {printer.state}, align 8", "table")
    operations = list(op.body.block.ops)
    for operation in operations:
        WRAPPER[type(operation)](printer, operation)
        if len(operations) > _MANY:
            printer.keep_for_call(operation)
    printer.print_failures()
    # optnone halves the wrapper's compile time and costs at most a few ns per call.
    module.add_function(
        f"@{STATE_SYMBOL} = global ptr null, align 8\n\n"
        f"define i32 {global_name(op.sym_name.data)}(ptr %handle, ptr %args, i32 %count, ptr %result) "
        "noinline optnone nounwind {\n"
        f"{printer.body()}\n}}\n"
    )
