# SPDX-License-Identifier: Apache-2.0
"""The host function: scalar code, scratch memory and launches, as an internal function of the host object.

In: func.func, simt.scratch. Out: `internal i32 @f(ptr %frame, flattened arguments..., result pointers...)`, 0 for
success. A tensor is its pointer, all its dims, all its strides (i64). The wrapper calls it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from xdsl.dialects import func

from weft import _native
from weft.codegen.llvm.function_printer import LIKELY, UNLIKELY, FunctionPrinter, TensorValue
from weft.codegen.llvm.types import global_name, llvm_type, memory_type, size_in_bytes, widened
from weft.codegen.operations.launch import (
    numbered_kernel,
    print_return_on_failure,
    stream_text,
)
from weft.codegen.operations.memory import byte_of_bool
from weft.codegen.runtime_abi import call_row, table_of_frame
from weft.dialects.builder import source_location
from weft.dialects.flow import walk
from weft.dialects.simt.debug import AssertOp, AssumeOp
from weft.dialects.simt.memory import ArgumentNumberOp, CheckDistinctOp, ScratchOp
from weft.dialects.simt.threads import MaxClustersOp, MultiprocessorsOp
from weft.dialects.simt.types import DYNAMIC, TensorType, array_bytes, packed_bits
from weft.location import UNKNOWN_LOCATION
from weft.runtime.code_image import ScratchInfo
from weft.types.dtype import dlpack_bits, dtype_named

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from xdsl.dialects.builtin import ModuleOp
    from xdsl.ir import Attribute, Operation

    from weft.codegen.llvm.function_printer import FunctionPrinter
    from weft.codegen.llvm.module_printer import ModulePrinter
    from weft.dialects.nvgpu.tensor_map import MakeTensorMapOp
    from weft.dialects.simt.types import TensorType


def print_scratch(printer: FunctionPrinter, op: ScratchOp) -> None:
    """`simt.scratch`: an address; leaves the host function where there is no memory."""
    kind: TensorType = op.result.type
    dims = [
        printer.values[op.size(number)] if dim == DYNAMIC else str(dim)
        for number, dim in enumerate(kind.dims)
    ]
    sizes = [widened(printer, dim, kind.dim_bits.data, 64) for dim in dims]
    element_bytes = array_bytes((), kind.element_type)
    if op.kept is not None:
        _print_kept(printer, op, dims, sizes)
        return
    stream = stream_text(printer, op.stream)
    pointer = print_take(printer, stream, place_text(op), element_bytes, sizes)
    printer.tensors[op.result] = TensorValue(kind, pointer, dims)


def print_take(
    printer: FunctionPrinter, stream: str, place: str, element_bytes: int, sizes: Sequence[str]
) -> str:
    """Takes an array until `release_scratch`, or leaves the host function; the name of its address.

    Args:
        printer: of the host function.
        stream: in whose order.
        place: what messages begin with.
        element_bytes: of each element.
        sizes: the shape, i64.
    """
    slots = _print_sizes(printer, sizes)
    memory = printer.alloca("ptr", 8, "memory")
    code = call_row(
        printer,
        table_of_frame(printer),
        "take_scratch",
        "ptr %frame",
        f"ptr {stream}",
        f"ptr {printer.module.string(place)}",
        f"i64 {element_bytes}",
        f"ptr {slots}",
        f"i64 {len(sizes)}",
        f"ptr {memory}",
    )
    print_return_on_failure(printer, code)
    return printer.let(f"load ptr, ptr {memory}, align 8", "scratch")


def _print_sizes(printer: FunctionPrinter, sizes: Sequence[str]) -> str:
    """The address of an array of numbers, i64."""
    slots = printer.alloca(f"[{max(len(sizes), 1)} x i64]", 8, "sizes")
    for number, size in enumerate(sizes):
        slot = printer.let(f"getelementptr i64, ptr {slots}, i64 {number}")
        printer.line(f"store i64 {size}, ptr {slot}, align 8")
    return slots


def _print_kept(
    printer: FunctionPrinter, op: ScratchOp, dims: list[str], sizes: Sequence[str]
) -> None:
    """A tensor that the call may return, and its number."""
    memory, number = printer.alloca("ptr", 8, "memory"), printer.alloca("i32", 4, "number")
    kind: TensorType = op.result.type
    assert op.kept is not None
    code = call_row(
        printer,
        table_of_frame(printer),
        "take_tensor",
        "ptr %frame",
        f"ptr {printer.module.string(place_text(op))}",
        f"i32 {dlpack_bits(dtype_named(op.kept.data))}",
        f"ptr {_print_sizes(printer, sizes)}",
        f"i64 {len(sizes)}",
        f"ptr {memory}",
        f"ptr {number}",
    )
    print_return_on_failure(printer, code)
    pointer = printer.let(f"load ptr, ptr {memory}, align 8", "tensor")
    tensor = printer.tensors[op.result] = TensorValue(kind, pointer, dims)
    tensor.number = printer.let(f"load i32, ptr {number}, align 4", "number")


def scratch_arrays(module: ModuleOp) -> tuple[ScratchInfo, ...]:
    """Each array of a module's host function that the call gives back, in the order of the source."""
    arrays = [op for op in walk(module) if isinstance(op, ScratchOp)]
    return tuple(_described(op) for op in arrays if op.kept is None)


def _described(op: ScratchOp) -> ScratchInfo:
    kind: TensorType = op.result.type
    dims = kind.dims
    size = None if DYNAMIC in dims else array_bytes(dims, kind.element_type)
    where = source_location(op.location) or UNKNOWN_LOCATION
    shape = tuple(None if dim == DYNAMIC else dim for dim in dims)
    return ScratchInfo(op.text.data, shape, size, where.file, where.line)


def place_text(op: ScratchOp | MakeTensorMapOp) -> str:
    """Beginning of messages: ``sum_all (sums.py:12), weft.scratch(n, weft.f32)``."""
    where = source_location(op.location)
    return op.text.data if where is None else f"{where.function} ({where}), {op.text.data}"


def flattened_types(argument_type: Attribute) -> list[str]:
    """LLVM types of the parameters for one argument of a host function, in order.

    Example:
        a tensor of rank 2 with 32-bit dims gives `ptr, i32, i32, i64, i64`; a bool gives `i1`.
    """
    if isinstance(argument_type, TensorType):
        dims = [f"i{argument_type.dim_bits.data}"] * argument_type.rank
        return ["ptr", *dims, *["i64"] * argument_type.rank]
    return [llvm_type(argument_type)]


def host_symbol(name: str) -> str:
    """The LLVM name of a host function; a prefix distinguishes it from a kernel of that name."""
    return global_name(f"weft.host.{name}")


def print_host_function(module: ModulePrinter, op: Any) -> None:
    """Prints a `func.func` with its body."""
    name = op.sym_name.data
    scope = module.debug.subprogram(name, op.location) if module.debug else None
    printer = FunctionPrinter(module, scope)
    printer.numbers_arguments = any(isinstance(one, ArgumentNumberOp) for one in walk(op))
    parameters = ["ptr %frame"]
    for index, argument in enumerate(op.body.block.args):
        types = flattened_types(argument.type)
        names = [f"%a{index}_{part}" for part in range(len(types))]
        parameters += [f"{text} {part}" for text, part in zip(types, names, strict=True)]
        if isinstance(argument.type, TensorType):
            rank = argument.type.rank
            tensor = TensorValue(argument.type, names[0], names[1 : 1 + rank], names[1 + rank :])
            tensor.number = str(index)
            printer.tensors[argument] = tensor
        else:
            printer.values[argument] = names[0]
    results = op.function_type.outputs.data
    parameters += [f"ptr %result_{index}" for index in range(len(results))]
    printer.print_block(op.body.block)
    module.add_function(
        f"define internal i32 {host_symbol(name)}({', '.join(parameters)}) nounwind"
        f"{printer.scope_suffix()} {{\n{printer.body()}\n}}\n"
    )


def _print_argument_number(printer: FunctionPrinter, op: ArgumentNumberOp) -> None:
    printer.values[op.result] = printer.tensors[op.tensor].number


def _print_check_distinct(printer: FunctionPrinter, op: CheckDistinctOp) -> None:
    """Leaves the host function if the bytes from the first to the last of one tensor meet those of the other.

    Not where these interleave, such as the left and the right half of a matrix.
    """
    (low, end, filled), (other_low, other_end, other_filled) = (
        _print_extent(printer, printer.tensors[tensor]) for tensor in op.operands
    )
    meets = filled
    for condition in (
        other_filled,
        printer.let(f"icmp ult i64 {low}, {other_end}"),
        printer.let(f"icmp ult i64 {other_low}, {end}"),
    ):
        meets = printer.let(f"and i1 {meets}, {condition}")
    bad, good = printer.new_label("overlaps"), printer.new_label("distinct")
    printer.branch_if(meets, bad, good, UNLIKELY)
    printer.start(bad)
    if apart := _print_interleaved(printer, op):
        bad = printer.new_label("shared")
        printer.branch_if(apart, good, bad)
        printer.start(bad)
    where = source_location(op.location)
    launch = f"{where.function} ({where}), " if where is not None else ""
    place = f"{launch}kernel '{op.kernel.data}': argument '{op.argument.data}'"
    print_failure(
        printer, "overlap", place, f"'{op.other.data}', and one of them is written", low, other_low
    )
    printer.start(good)


def _print_interleaved(printer: FunctionPrinter, op: CheckDistinctOp) -> str:
    """Whether two tensors take different bytes of each period, one of the first tensor's strides; i1, or empty.

    Dims whose strides are multiples of the period stay at one place in it; the others span a window from there on.
    """
    tensors = [printer.tensors[tensor] for tensor in op.operands]
    if any(packed_bits(tensor.type.element_type) for tensor in tensors):
        return ""
    sizes = [array_bytes((), tensor.type.element_type) for tensor in tensors]
    starts = [printer.let(f"ptrtoint ptr {tensor.pointer} to i64") for tensor in tensors]
    distance = printer.let(f"sub i64 {starts[1]}, {starts[0]}")
    found = ""
    for number in range(tensors[0].type.rank):
        stride = printer.let(f"mul i64 {tensors[0].stride(printer, number)}, {sizes[0]}")
        is_positive = printer.let(f"icmp sgt i64 {stride}, 0")
        period = printer.let(f"select i1 {is_positive}, i64 {stride}, i64 1")
        remainder = printer.let(f"srem i64 {distance}, {period}")
        shifted = printer.let(f"add i64 {remainder}, {period}")
        place = printer.let(f"srem i64 {shifted}, {period}")
        left = printer.let(f"sub i64 {period}, {place}")
        windows = [
            _print_window(printer, tensor, size, period)
            for tensor, size in zip(tensors, sizes, strict=True)
        ]
        apart = printer.let(f"icmp uge i64 {place}, {windows[0]}")
        fits = printer.let(f"icmp uge i64 {left}, {windows[1]}")
        both = printer.let(f"and i1 {apart}, {fits}")
        found = printer.let(f"or i1 {found}, {both}") if found else both
    return found


def _print_window(printer: FunctionPrinter, tensor: TensorValue, size: int, period: str) -> str:
    """The bytes that a tensor spans in a period from its first element on; more than any where one goes backwards."""
    window = str(size)
    for number in range(tensor.type.rank):
        stride = printer.let(f"mul i64 {tensor.stride(printer, number)}, {size}")
        rest = printer.let(f"srem i64 {stride}, {period}")
        is_fixed = printer.let(f"icmp eq i64 {rest}, 0")
        dim = widened(printer, tensor.dim(number), tensor.type.dim_bits.data, 64)
        last = printer.let(f"sub i64 {dim}, 1")
        reach = printer.let(f"mul i64 {last}, {stride}")
        reach = printer.let(f"select i1 {is_fixed}, i64 0, i64 {reach}")
        is_backwards = printer.let(f"icmp slt i64 {reach}, 0")
        wider = printer.let(f"add i64 {window}, {reach}")
        window = printer.let(f"select i1 {is_backwards}, i64 {1 << 62}, i64 {wider}")
    return window


def _print_assert(printer: FunctionPrinter, op: AssertOp) -> None:
    """Leaves the host function with an error where the condition does not hold."""
    _print_promise(printer, op, op.text.data)


def _print_assume(printer: FunctionPrinter, op: AssumeOp) -> None:
    """Leaves the host function with an error where the condition does not hold."""
    _print_promise(printer, op, op.message)


def _print_promise(printer: FunctionPrinter, op: AssertOp | AssumeOp, sentence: str) -> None:
    good, bad = printer.new_label("assumed"), printer.new_label("wrong")
    printer.branch_if(printer.values[op.condition], good, bad, LIKELY)
    printer.start(bad)
    where = source_location(op.location)
    place = _name_of_host(op) if where is None else f"{where.function} ({where})"
    print_failure(printer, "assumption", place, sentence)
    printer.start(good)


def _name_of_host(op: Operation) -> str:
    """The host function's name, of an operation without a place in its source, as in a file's second compilation."""
    above = op.parent_op()
    while above is not None and not isinstance(above, func.FuncOp):
        above = above.parent_op()
    return "" if above is None else above.sym_name.data


def print_failure(
    printer: FunctionPrinter, kind: str, place: str, expected: str, *values: str
) -> None:
    """Leaves the host function with an error of a kind of `_native.FAILURE_KINDS`."""
    texts = [printer.module.string(text) for text in (place, expected)]
    number = _native.FAILURE_KINDS.index(kind)
    site = printer.module.add_global(
        "private unnamed_addr constant { ptr, ptr, ptr, i32, i32 } "
        f"{{ ptr null, ptr {texts[0]}, ptr {texts[1]}, i32 {number}, i32 0 }}, align 8",
        "site",
    )
    numbers = [f"i64 {value}" for value in values or ("0", "0")]
    code = call_row(printer, table_of_frame(printer), "fail", f"ptr {site}", *numbers)
    printer.line(f"ret i32 {code}")


def _print_extent(printer: FunctionPrinter, tensor: TensorValue) -> tuple[str, str, str]:
    """The addresses of a tensor's first byte and after its last, i64, and whether it has elements, i1."""
    kind = tensor.type
    dims = [widened(printer, tensor.dim(n), kind.dim_bits.data, 64) for n in range(kind.rank)]
    start = printer.let(f"ptrtoint ptr {tensor.pointer} to i64")
    filled, before, after = "true", "0", "0"
    for number, dim in enumerate(dims):
        some = printer.let(f"icmp ne i64 {dim}, 0")
        filled = printer.let(f"and i1 {filled}, {some}")
        last = printer.let(f"sub i64 {dim}, 1")
        reach = printer.let(f"mul i64 {last}, {tensor.stride(printer, number)}")
        if kind.layout.data == "strided" or (
            kind.layout.data == "inner" and number < kind.rank - 1
        ):
            low = printer.let(f"call i64 @llvm.smin.i64(i64 {reach}, i64 0)")
            before = printer.let(f"add i64 {before}, {low}")
            reach = printer.let(f"call i64 @llvm.smax.i64(i64 {reach}, i64 0)")
        after = printer.let(f"add i64 {after}, {reach}")
    count = printer.let(f"add i64 {after}, 1")
    packed = packed_bits(kind.element_type)
    if packed:
        before = printer.let(f"sdiv i64 {printer.let(f'mul i64 {before}, {packed}')}, 8")
        last = printer.let(f"mul i64 {after}, {packed}")
        last = printer.let(f"add i64 {last}, {packed - 1}")
        count = printer.let(f"add i64 {printer.let(f'udiv i64 {last}, 8')}, 1")
        each = 1
    else:
        each = array_bytes((), kind.element_type)
    low = printer.let(f"add i64 {start}, {printer.let(f'mul i64 {before}, {each}')}")
    end = printer.let(f"add i64 {start}, {printer.let(f'mul i64 {count}, {each}')}")
    return low, end, filled


def _print_multiprocessors(printer: FunctionPrinter, op: MultiprocessorsOp) -> None:
    printer.values[op.result] = call_row(
        printer, table_of_frame(printer), "multiprocessors", "ptr %frame"
    )


def _print_max_clusters(printer: FunctionPrinter, op: MaxClustersOp) -> None:
    """The smallest count of all kernels; the runtime queries and keeps each."""
    count = printer.alloca("i32", 4, "clusters")
    least = ""
    for symbol in op.symbols:
        number, kernel = numbered_kernel(op, symbol)
        sizes = *(kernel.block_size or (1, 1, 1)), *(kernel.cluster or (1, 1, 1))
        fields = [*(f"i32 {size}" for size in sizes), f"i64 {kernel.shared_memory_bytes}"]
        types = ", ".join(field.partition(" ")[0] for field in fields)
        shape = f"private unnamed_addr constant {{ {types} }} {{ {', '.join(fields)} }}, align 8"
        place = printer.module.add_global(shape, "shape")
        operands = "ptr %frame", f"i32 {number}", f"ptr {place}", f"ptr {count}"
        code = call_row(printer, table_of_frame(printer), "max_clusters", *operands)
        print_return_on_failure(printer, code)
        found = printer.let(f"load i32, ptr {count}, align 4")
        least = (
            printer.let(f"call i32 @llvm.smin.i32(i32 {least}, i32 {found})") if least else found
        )
    printer.values[op.result] = least


def _print_return(printer: FunctionPrinter, op: Operation) -> None:
    for index, operand in enumerate(op.operands):
        kind, text = memory_type(operand.type), printer.values[operand]
        if llvm_type(operand.type) == "i1":
            text = byte_of_bool(printer, text)
        printer.line(f"store {kind} {text}, ptr %result_{index}, align {size_in_bytes(kind)}")
    printer.line("ret i32 0")


HOST: Final[dict[type[Operation], Callable[[FunctionPrinter, Any], None]]] = {
    ArgumentNumberOp: _print_argument_number,
    AssertOp: _print_assert,
    AssumeOp: _print_assume,
    CheckDistinctOp: _print_check_distinct,
    func.ReturnOp: _print_return,
    MaxClustersOp: _print_max_clusters,
    MultiprocessorsOp: _print_multiprocessors,
    ScratchOp: print_scratch,
}
