# SPDX-License-Identifier: Apache-2.0
"""The host function: scalar code and launches, as an internal function of the host object.

In: func.func. Out: `internal i32 @f(ptr %frame, flattened arguments..., result pointers...)`, 0 for success.
A tensor is its pointer, all its dims, all its strides (i64). The wrapper calls it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from xdsl.dialects import func

from weft.codegen.llvm.function_printer import FunctionPrinter, TensorValue
from weft.codegen.llvm.names import global_name
from weft.codegen.llvm.types import llvm_type, memory_type, size_in_bytes
from weft.codegen.operations.memory import byte_of_bool
from weft.dialects.simt.memory import ArgumentNumberOp
from weft.dialects.simt.types import TensorType
from weft.dialects.walk import walk

if TYPE_CHECKING:
    from collections.abc import Callable

    from xdsl.ir import Attribute, Operation

    from weft.codegen.llvm.module_printer import ModulePrinter


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
        names = [f"%a{index}.{part}" for part in range(len(types))]
        parameters += [f"{text} {part}" for text, part in zip(types, names, strict=True)]
        if isinstance(argument.type, TensorType):
            rank = argument.type.rank
            tensor = TensorValue(argument.type, names[0], names[1 : 1 + rank], names[1 + rank :])
            tensor.number = str(index)
            printer.tensors[argument] = tensor
        else:
            printer.values[argument] = names[0]
    results = op.function_type.outputs.data
    parameters += [f"ptr %result.{index}" for index in range(len(results))]
    printer.print_block(op.body.block)
    module.add_function(
        f"define internal i32 {host_symbol(name)}({', '.join(parameters)}) nounwind"
        f"{printer.scope_suffix()} {{\n{printer.body()}\n}}\n"
    )


def _print_argument_number(printer: FunctionPrinter, op: ArgumentNumberOp) -> None:
    printer.values[op.result] = printer.tensors[op.tensor].number


def _print_return(printer: FunctionPrinter, op: Operation) -> None:
    for index, operand in enumerate(op.operands):
        kind, text = memory_type(operand.type), printer.values[operand]
        if llvm_type(operand.type) == "i1":
            text = byte_of_bool(printer, text)
        printer.line(f"store {kind} {text}, ptr %result.{index}, align {size_in_bytes(kind)}")
    printer.line("ret i32 0")


HOST: Final[dict[type[Operation], Callable[[FunctionPrinter, Any], None]]] = {
    ArgumentNumberOp: _print_argument_number,
    func.ReturnOp: _print_return,
}
