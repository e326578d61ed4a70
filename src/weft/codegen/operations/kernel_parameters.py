# SPDX-License-Identifier: Apache-2.0
"""A kernel's parameters in order: scalars, tensor maps, and the passed parts of tensors: pointer, dims, strides.

In: a simt.kernel. Out: one list, shared by the kernel's printer, the launch's printer and the kernel's description.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from weft.codegen.llvm.function_printer import TensorValue
from weft.codegen.llvm.types import llvm_type, memory_type, size_in_bytes
from weft.dialects.nvgpu.tensor_map import TensorMapType
from weft.dialects.simt.kernel import DIM, POINTER, STRIDE
from weft.dialects.simt.types import TensorType

if TYPE_CHECKING:
    from collections.abc import Iterable

    from weft.codegen.llvm.function_printer import FunctionPrinter
    from weft.dialects.simt.kernel import KernelOp

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
