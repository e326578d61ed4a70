# SPDX-License-Identifier: Apache-2.0
"""The wrapper as a whole: its state, the printers of its operations, the call and its results.

In: ffi.func. Out: `i32 @__tvm_ffi_<name>(ptr %handle, ptr %args, i32 %count, ptr %result)`. The state is `handle`; for
callers that have only the symbol it is `@weft_state`, filled by the loader. A null `result` is not written; else it is
the caller's TVMFFIAny, owning its references, and a failing step leaks none. With `~count` in place of `count` only the
arguments are checked, as `prepare` asks; the ABI has no negative counts. The call is guarded by the device, with a
`weft_call_frame` on the stack.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from xdsl.dialects.builtin import DictionaryAttr

from weft.codegen import runtime_abi as abi
from weft.codegen.llvm.types import global_name, local_stem, memory_type, path_stem, size_in_bytes
from weft.codegen.operations.host_function import host_symbol
from weft.codegen.wrapper.printer import TensorArgument, WrapperPrinter
from weft.codegen.wrapper.scalars import (
    print_decode_none,
    print_decode_pointer,
    print_decode_scalar,
    print_decode_size,
    print_decode_stream,
)
from weft.codegen.wrapper.tensors import (
    dim_of,
    print_as_tensor,
    print_bind_device,
    print_bind_dim,
    print_bind_stride,
    print_check,
    print_check_device,
    print_check_dim,
    print_check_layout,
    print_check_stride,
    print_decode_tensor,
)
from weft.dialects.ffi import checks, function
from weft.dialects.ffi.function import argument_numbers, is_tensor, tuple_items
from weft.ffi.abi import ANY_BYTES, ANY_VALUE, SEQUENCE_ITEMS, SEQUENCE_SIZE, TypeIndex
from weft.types.device import CPU, DEVICE_TYPES
from weft.types.dtype import dlpack_bits, dtype_named, u64

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from xdsl.ir import Attribute, Operation, SSAValue

    from weft.codegen.llvm.module_printer import ModulePrinter
    from weft.dialects.ffi.checks import AsDimOp
    from weft.dialects.ffi.function import (
        DecodeArrayOp,
        DecodeShapeOp,
        DeviceGuardOp,
        EnvironmentStreamOp,
        ReturnOp,
    )
    from weft.types.dtype import DType


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


def _print_check_count(printer: WrapperPrinter, op: function.CheckCountOp) -> None:
    count = op.count.value.data
    sign = printer.let("ashr i32 %count, 31")
    passed = printer.let(f"xor i32 %count, {sign}")
    condition = printer.let(f"icmp eq i32 {passed}, {count}")
    received = printer.let("sext i32 %count to i64")
    printer.require(condition, printer.site("argument_count"), received, str(count))


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


# weft_call_frame, beyond what codegen.runtime_abi names.
_DEVICE_TYPE: Final = 16
_DEVICE: Final = 20
_DRIVER_KERNELS: Final = 24
_SAVED_CONTEXT: Final = 32
_MUST_RESTORE: Final = 40
_FRAME_BYTES: Final = 72
_CALLERS_DEVICE: Final = "-1"


def print_environment_stream(printer: WrapperPrinter, op: EnvironmentStreamOp) -> None:
    """`ffi.environment_stream`; the CPU has none."""
    if printer.device_type == CPU:
        printer.values[op.result] = "null"
        return
    device = _CALLERS_DEVICE if op.device is None else printer.values[op.device]
    printer.values[op.result] = printer.call(
        "environment_stream", f"i32 {printer.device_type}", f"i32 {device}"
    )


def print_device_guard(printer: WrapperPrinter, op: DeviceGuardOp) -> None:
    """`ffi.device_guard`: leaves the device on every path, then examines the return code.

    Without a stream it runs on the host, and enters nothing. All checks precede it: a wrapper that only
    checks ends here.
    """
    printer.return_if_only_checking()
    frame = _print_frame(printer, op)
    if op.tensors is not None:
        printer.frame_of_tensors = frame
    if op.stream is not None:
        printer.require_success(printer.call("device_enter", f"ptr {frame}"))
    arguments = [f"ptr {frame}"]
    for argument in op.args:
        arguments += printer.for_call(argument)
    for result in op.values:
        kind = memory_type(result.type)
        slot = printer.alloca(kind, size_in_bytes(kind), "result")
        printer.results[result] = slot
        arguments.append(f"ptr {slot}")
    callee = host_symbol(op.callee.string_value())
    code = printer.let(f"call i32 {callee}({', '.join(arguments)})", "code")
    if op.scratch is not None:
        code = printer.call("release_scratch", f"ptr {frame}", "ptr null", f"i32 {code}")
    if op.stream is not None:
        code = printer.call("device_leave", f"ptr {frame}", f"i32 {code}")
    printer.require_success(code)


def _print_frame(printer: WrapperPrinter, op: DeviceGuardOp) -> str:
    """A `weft_call_frame`; the driver's half is empty."""
    frame = printer.alloca(f"[{_FRAME_BYTES} x i8]", 8, "frame")
    device = "0" if op.stream is None else _CALLERS_DEVICE
    if op.device is not None:
        device = printer.values[op.device]
    stream = "null" if op.stream is None else printer.values[op.stream]
    printer.store("ptr", printer.state, frame, abi.FRAME_STATE)
    printer.store("ptr", stream, frame, abi.FRAME_STREAM)
    printer.store("i32", str(printer.device_type), frame, _DEVICE_TYPE)
    printer.line(f"store i32 {device}, ptr {printer.address(frame, _DEVICE)}, align 4")
    for offset in (_DRIVER_KERNELS, _SAVED_CONTEXT, _MUST_RESTORE):
        printer.store("i64", "0", frame, offset)
    if op.scratch is not None:
        printer.store("ptr", "null", frame, abi.FRAME_SCRATCH)
        printer.store("ptr", "null", frame, abi.FRAME_TENSORS)
    return frame


class _Return:
    """One `ffi.return` being printed.

    Attributes:
        open_arrays: arrays being filled, with the number of values they own, which a failure drops.
    """

    def __init__(self, printer: WrapperPrinter, op: ReturnOp) -> None:
        self.printer = printer
        self.op = op
        self.open_arrays: list[tuple[str, int]] = []

    def store(self, tree: Attribute | None, result: str) -> None:
        """Makes the value described by `tree` in the TVMFFIAny at `result`."""
        items = tuple_items(tree)
        if items is not None:
            self._store_tuple(items, result)
        elif not isinstance(tree, DictionaryAttr):
            self._set(result, TypeIndex.NONE, "i64", "0")
        elif is_tensor(tree):
            self._store_tensor(tree, result)
        else:
            ssa = self._value(tree)
            assert ssa is not None
            self._store_scalar(ssa, dtype_named(_text(tree.data["dtype"])), result)

    def _value(self, tree: DictionaryAttr) -> SSAValue | None:
        """The host function's result that a description names, if any."""
        number: Any = tree.data.get("value")  # an IntegerAttr
        return None if number is None else self.op.values[number.value.data]  # pyright: ignore[reportUnknownVariableType]

    def _set(self, result: str, type_index: int, kind: str, value: str) -> None:
        # Type index and padding in one word.
        self.printer.store("i64", str(type_index), result)
        self.printer.store(kind, value, result, ANY_VALUE)

    def _store_tuple(self, items: tuple[Any, ...], result: str) -> None:
        printer = self.printer
        values = printer.alloca(f"[{max(len(items), 1) * ANY_BYTES} x i8]", 8, "items")
        for index, item in enumerate(items):
            self.open_arrays.append((values, index))
            self.store(item, printer.address(values, ANY_BYTES * index))
            self.open_arrays.pop()
        code = printer.call("make_array", f"ptr {values}", f"i64 {len(items)}", f"ptr {result}")
        self._require_success(code)

    def _store_tensor(self, tree: DictionaryAttr, result: str) -> None:
        """An argument, or a tensor that the call has made, whose number is negative."""
        printer = self.printer
        numbers, chosen = argument_numbers(tree), self._value(tree)
        if "new" not in tree.data:
            self._store_argument(numbers, chosen, result)
            return
        number = printer.let(f"load i32, ptr {printer.results[chosen]}", "made")  # pyright: ignore[reportArgumentType]
        rest = printer.new_label("returned")
        if numbers:
            new, passed = printer.new_label("new"), printer.new_label("passed")
            printer.branch_if(printer.let(f"icmp slt i32 {number}, 0"), new, passed)
            printer.start(passed)
            self._store_argument(numbers, chosen, result)
            printer.branch(rest)
            printer.start(new)
        frame = printer.frame_of_tensors
        printer.call_void("return_tensor", f"ptr {frame}", f"i32 {number}", f"ptr {result}")
        if numbers:
            printer.branch(rest)
            printer.start(rest)

    def _store_argument(
        self, numbers: Mapping[str, int], chosen: SSAValue | None, result: str
    ) -> None:
        """An argument; of several, the one of the number `chosen`."""
        printer = self.printer
        site = argument = ""
        number = chosen and printer.let(f"load i32, ptr {printer.results[chosen]}", "chosen")
        for name, own in numbers.items():
            tensor = next(
                passed
                for ssa in self.op.tensors
                if (passed := printer.arguments[ssa]).place.endswith(f"'{name}'")
            )
            own_site = printer.site("returned_view", tensor.place)
            if not site:
                site, argument = own_site, tensor.argument
                continue
            is_own = printer.let(f"icmp eq i32 {number}, {own}")
            site = printer.let(f"select i1 {is_own}, ptr {own_site}, ptr {site}")
            argument = printer.let(f"select i1 {is_own}, ptr {tensor.argument}, ptr {argument}")
        code = printer.call("return_argument", f"ptr {site}", f"ptr {argument}", f"ptr {result}")
        self._require_success(code)

    def _store_scalar(self, ssa: SSAValue, dtype: DType, result: str) -> None:
        printer = self.printer
        slot, kind = printer.results[ssa], memory_type(ssa.type)
        if dtype.is_float and dtype.bits < 32:
            kind = f"i{dtype.bits}"  # bits for the runtime to widen
        value = printer.let(f"load {kind}, ptr {slot}", local_stem(ssa, "result"))
        if dtype.is_float:
            self._set(result, TypeIndex.FLOAT, "double", self._widened(value, dtype))
        elif dtype is u64:
            code = printer.call("make_u64", f"i64 {value}", f"ptr {result}")
            self._require_success(code)
        else:
            if dtype.bits < 64:
                extend = "sext" if dtype.is_signed else "zext"
                value = printer.let(f"{extend} {kind} {value} to i64")
            self._set(result, TypeIndex.BOOL if dtype.is_bool else TypeIndex.INT, "i64", value)

    def _widened(self, value: str, dtype: DType) -> str:
        printer = self.printer
        if dtype.bits == 64:
            return value
        if dtype.bits == 32:
            return printer.let(f"fpext float {value} to double")
        wide = printer.let(f"zext i{dtype.bits} {value} to i64")
        return printer.call("widen_float", f"i32 {dlpack_bits(dtype)}", f"i64 {wide}")

    def _require_success(self, code: str) -> None:
        """Continues at 0; else drops everything made so far and fails."""
        printer = self.printer
        owned = [(values, count) for values, count in self.open_arrays if count > 0]
        if not owned:
            printer.require_success(code)
            return
        condition = printer.let(f"icmp eq i32 {code}, 0")
        good, bad = printer.new_label("good"), printer.new_label("bad")
        printer.branch_if(condition, good, bad)
        printer.start(bad)
        for values, count in owned:
            printer.call_void("release_values", f"ptr {values}", f"i64 {count}")
        printer.release_tensors()
        printer.line("ret i32 -1")
        printer.start(good)


def _text(attribute: Any) -> str:
    return attribute.data


def print_return(printer: WrapperPrinter, op: ReturnOp) -> None:
    """`ffi.return`; nothing is made for a caller that passed no place for it."""
    printer.return_if_no_result_is_wanted()
    _Return(printer, op).store(op.result, "%result")
    printer.release_tensors()
    printer.line("ret i32 0")


STATE_SYMBOL: Final = "weft_state"

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
