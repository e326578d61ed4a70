# SPDX-License-Identifier: Apache-2.0
"""Launches on any target: the `weft_launch` structure and the parameter buffer.

In: simt.launch_ex in a host function, the kernel it names. Out: both in stack memory; backends add the call itself. A
kernel's parameters are one list, in order: scalars, tensor maps, and the passed parts of tensors: pointer, dims,
strides. The kernel's printer, the launch's printer and the kernel's description share it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from weft.codegen import runtime_abi as abi
from weft.codegen.llvm.function_printer import TensorValue
from weft.codegen.llvm.types import llvm_type, memory_type, size_in_bytes, widened
from weft.codegen.operations.memory import byte_of_bool
from weft.codegen.runtime_abi import call_row, table_of_frame
from weft.dialects.nvgpu.tensor_map import TensorMapType
from weft.dialects.simt.kernel import DIM, POINTER, STRIDE, KernelOp, LaunchExOp
from weft.dialects.simt.types import TensorType, array_bytes
from weft.errors import REPORT_HINT, InternalCompilerError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from xdsl.ir import BlockArgument, Operation, SSAValue

    from weft.codegen.llvm.function_printer import FunctionPrinter


def kernels_of(module: ModuleOp) -> list[KernelOp]:
    """The kernels of a module in order; a kernel's place is its number in `launch_device`."""
    return [op for op in module.body.block.ops if isinstance(op, KernelOp)]


def launched_kernel(op: LaunchExOp) -> tuple[int, KernelOp]:
    """The kernel of a launch, with its number."""
    return numbered_kernel(op, op.kernel.string_value())


def numbered_kernel(op: Operation, name: str) -> tuple[int, KernelOp]:
    """The kernel of a name in an operation's module, with its number."""
    top: Operation | None = op
    while top is not None and not isinstance(top, ModuleOp):
        top = top.parent_op()
    for index, kernel in enumerate(kernels_of(top) if top is not None else []):
        if kernel.sym_name.data == name:
            return index, kernel
    raise InternalCompilerError(
        "CODEGEN_LAUNCH", f"the module has no kernel {name}", hint=REPORT_HINT
    )


def print_launch_structure(
    printer: FunctionPrinter, op: LaunchExOp, attributes: str, attribute_count: int
) -> str:
    """Fills a `weft_launch` on the stack and returns its name.

    Its shared memory is the launch's request plus the kernel's own arrays.

    Args:
        printer: of the host function.
        op: the launch.
        attributes: a constant with the launch attributes, or ``"null"``.
        attribute_count: how many.
    """
    launch = printer.alloca(f"[{abi.LAUNCH_BYTES} x i8]", 8, "launch")
    for index, value in enumerate([*op.grid, *op.block]):
        _store(printer, "i64", printer.values[value], launch, abi.LAUNCH_GRID + 8 * index)
    shared = _shared_memory_bytes(printer, op)
    _store(printer, "i64", shared, launch, abi.LAUNCH_SHARED_MEMORY)
    _store(printer, "ptr", attributes, launch, abi.LAUNCH_ATTRIBUTES)
    _store(printer, "i64", str(attribute_count), launch, abi.LAUNCH_ATTRIBUTE_COUNT)
    name = printer.module.string(op.kernel.string_value())
    _store(printer, "ptr", name, launch, abi.LAUNCH_KERNEL_NAME)
    return launch


def _shared_memory_bytes(printer: FunctionPrinter, op: LaunchExOp) -> str:
    _, kernel = launched_kernel(op)
    own, extra = kernel.shared_memory_bytes, op.shared_memory_bytes
    if extra is None:
        return str(own)
    asked = printer.values[extra]
    if not own:
        return asked
    # Negative sizes stay negative, so that the launch refuses them; a sum that wraps is negative too.
    total = printer.let(f"add i64 {asked}, {own}")
    negative = printer.let(f"icmp slt i64 {asked}, 0")
    return printer.let(f"select i1 {negative}, i64 {asked}, i64 {total}", "shared")


def print_parameter_buffer(
    printer: FunctionPrinter, op: LaunchExOp, kernel: KernelOp, scratch: Sequence[str] = ()
) -> tuple[str, tuple[KernelParameter, ...]]:
    """Stores a launch's arguments as the kernel's parameters; returns the buffer's name and its layout.

    Args:
        printer: of the host function.
        op: the launch.
        kernel: to launch.
        scratch: pointers for the kernel's `scratch_arguments`, if any.
    """
    parameters = kernel_parameters(kernel)
    size = max(parameter_bytes(parameters), 1)
    alignment = max([8, *map(_alignment, parameters)])
    buffer = printer.alloca(f"[{size} x i8]", alignment, "parameters")
    own: dict[SSAValue, str | TensorValue] = dict(
        zip(kernel.scratch_arguments, scratch, strict=True)
    )
    if kernel.profile_argument is not None:
        own[kernel.profile_argument] = _print_profile_memory(printer, op, kernel.profile_argument)
    given = iter(op.args)
    arguments = [own.get(one) or next(given) for one in kernel.body.block.args]
    for parameter in parameters:
        operand = arguments[parameter.argument]
        text = operand if isinstance(operand, str) else _argument_text(printer, parameter, operand)
        at_map = f", align {MAP_ALIGNMENT}" if parameter.part == MAP else ""
        _store(printer, parameter.llvm_type, text, buffer, parameter.offset_bytes, at_map)
    return buffer, parameters


def _alignment(parameter: KernelParameter) -> int:
    """The alignment that a parameter's loads and stores presume, such as 16 bytes of a c128."""
    return MAP_ALIGNMENT if parameter.part == MAP else size_in_bytes(parameter.llvm_type)


def _argument_text(
    printer: FunctionPrinter, parameter: KernelParameter, operand: SSAValue | TensorValue
) -> str:
    """The value of one parameter of a launch."""
    if parameter.part == MAP:
        assert not isinstance(operand, TensorValue)
        return printer.let(
            f"load {parameter.llvm_type}, ptr {printer.values[operand]}, align {MAP_ALIGNMENT}"
        )
    if parameter.part == SCALAR:
        assert not isinstance(operand, TensorValue)
        text = printer.values[operand]
        return byte_of_bool(printer, text) if llvm_type(operand.type) == "i1" else text
    tensor = operand if isinstance(operand, TensorValue) else printer.tensors[operand]
    if parameter.part == POINTER:
        return tensor.pointer
    if parameter.part == DIM:
        return tensor.dim(parameter.dimension)
    return tensor.stride(printer, parameter.dimension)


def _print_profile_memory(
    printer: FunctionPrinter, op: LaunchExOp, argument: BlockArgument
) -> TensorValue:
    """Requests from the runtime, at every launch, memory for its records."""
    needed = "0" if op.record_words is None else printer.values[op.record_words]
    kind = argument.type
    assert isinstance(kind, TensorType)
    slots = printer.alloca("[2 x i64]", 8, "profile")
    words_slot = printer.let(f"getelementptr i8, ptr {slots}, i64 8")
    printer.line(f"store i64 {needed}, ptr {words_slot}")
    code = call_row(
        printer,
        table_of_frame(printer),
        "launch_memory",
        "ptr %frame",
        f"ptr {stream_text(printer, op.stream)}",
        f"ptr {printer.module.string(_host_name(op))}",
        f"ptr {printer.module.string(op.kernel.string_value())}",
        f"ptr {slots}",
        f"ptr {words_slot}",
    )
    print_return_on_failure(printer, code)
    pointer = printer.let(f"load ptr, ptr {slots}, align 8", "records")
    words = printer.let(f"load i64, ptr {words_slot}, align 8", "words")
    return TensorValue(kind, pointer, [widened(printer, words, 64, kind.dim_bits.data)])


def _host_name(op: LaunchExOp) -> str:
    """The host function of a launch."""
    parent = op.parent_op()
    while parent is not None and not isinstance(parent, FuncOp):
        parent = parent.parent_op()
    return "" if parent is None else parent.sym_name.data


def stream_text(printer: FunctionPrinter, own: SSAValue | None) -> str:
    """A launch's or an array's own stream, else the call's."""
    if own is not None:
        return printer.values[own]
    slot = printer.let(f"getelementptr i8, ptr %frame, i64 {abi.FRAME_STREAM}")
    return printer.let(f"load ptr, ptr {slot}, align 8", "stream")


def scratch_bytes(kernel: KernelOp) -> list[int]:
    """Bytes per block of each of a kernel's scratch arrays."""
    return [
        array_bytes(argument.type.dims[1:], argument.type.element_type)  # pyright: ignore
        for argument in kernel.scratch_arguments
    ]


def print_return_on_failure(printer: FunctionPrinter, code: str) -> None:
    """Leaves the host function with -1 if a launch failed; its error is already set."""
    failed = printer.let(f"icmp ne i32 {code}, 0")
    failed_label, next_label = printer.new_label("failed"), printer.new_label("launched")
    printer.branch_if(failed, failed_label, next_label)
    printer.start(failed_label)
    printer.line("ret i32 -1")
    printer.start(next_label)


def _store(
    printer: FunctionPrinter, kind: str, text: str, base: str, offset: int, aligned: str = ""
) -> None:
    pointer = base if offset == 0 else printer.let(f"getelementptr i8, ptr {base}, i64 {offset}")
    printer.line(f"store {kind} {text}, ptr {pointer}{aligned}")


SCALAR: Final = "scalar"
MAP: Final = "map"
MAP_BYTES: Final = 128
MAP_ALIGNMENT: Final = 64
_MAP_TYPE: Final = "<16 x i64>"


@dataclass(frozen=True, slots=True)
class KernelParameter:
    """One parameter of a kernel's machine code.

    Attributes:
        argument: index of the kernel's argument.
        part: POINTER, DIM, STRIDE, SCALAR or MAP.
        dimension: of a DIM or STRIDE.
        llvm_type: in the parameter buffer: a bool is `i8`, a pointer `ptr`, a map a vector of its bytes.
        offset_bytes: in the parameter buffer.
    """

    argument: int
    part: str
    dimension: int
    llvm_type: str
    offset_bytes: int

    @property
    def size_bytes(self) -> int:
        return MAP_BYTES if self.part == MAP else size_in_bytes(self.llvm_type)


def kernel_parameters(kernel: KernelOp) -> tuple[KernelParameter, ...]:
    """The parameters of a kernel, with natural alignment in their buffer; a map's is MAP_ALIGNMENT.

    Example:
        for `add_one(a: tensor<?xf32>, b: tensor<?xf32>)` that reads `a.shape[0]`: a's pointer, a's dim 0,
        b's pointer.
    """
    parameters: list[KernelParameter] = []
    offset = 0
    for argument in kernel.body.block.args:
        kind = argument.type
        is_tensor = isinstance(kind, TensorType)
        texts = {POINTER: "ptr", DIM: f"i{kind.dim_bits.data}"} if is_tensor else {}
        for part, dimension in kernel.parts(argument) if is_tensor else ((SCALAR, 0),):
            if isinstance(kind, TensorMapType):
                part, text, size, alignment = MAP, _MAP_TYPE, MAP_BYTES, MAP_ALIGNMENT
            else:
                text = texts.get(part, "i64") if is_tensor else memory_type(kind)
                size = alignment = size_in_bytes(text)
            offset = (offset + alignment - 1) // alignment * alignment
            parameters.append(KernelParameter(argument.index, part, dimension, text, offset))
            offset += size
    return tuple(parameters)


def parameter_bytes(parameters: tuple[KernelParameter, ...]) -> int:
    """Size of the parameter buffer."""
    return parameters[-1].offset_bytes + parameters[-1].size_bytes if parameters else 0


def take_parameters(printer: FunctionPrinter, kernel: KernelOp, names: Iterable[str]) -> None:
    """Assigns the parameters' names, in order, to the kernel's arguments."""
    found: dict[tuple[int, str, int], str] = {}
    for parameter, name in zip(kernel_parameters(kernel), names, strict=True):
        found[parameter.argument, parameter.part, parameter.dimension] = name
    for index, argument in enumerate(kernel.body.block.args):
        if isinstance(argument.type, TensorType):
            pointer = found.get((index, POINTER, 0))
            dims, strides = (
                [found.get((index, part, dimension)) for dimension in range(argument.type.rank)]
                for part in (DIM, STRIDE)
            )
            printer.tensors[argument] = TensorValue(argument.type, pointer, dims, strides)
        elif isinstance(argument.type, TensorMapType):
            printer.values[argument] = found[index, MAP, 0]
        else:
            name = found[index, SCALAR, 0]
            is_bool = llvm_type(argument.type) == "i1"
            printer.values[argument] = printer.let(f"icmp ne i8 {name}, 0") if is_bool else name
