# SPDX-License-Identifier: Apache-2.0
"""What a kernel receives, in order: per tensor the pointer, the dims and the strides that are used.

In: a simt.kernel. Out: one list, shared by the kernel's printer, the launch's printer and the kernel's
description. Unused parts are dropped.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from weft.codegen.llvm.types import memory_type, size_in_bytes
from weft.dialects.nvgpu.inline_ptx import InlinePtxOp
from weft.dialects.simt.memory import (
    AtomicCasOp,
    AtomicLoadOp,
    AtomicRmwOp,
    AtomicStoreOp,
    DimOp,
    LoadOp,
    StoreOp,
    StrideOp,
)
from weft.dialects.simt.timing import RecordOp
from weft.dialects.simt.types import DYNAMIC, TensorType
from weft.dialects.simt.views import LoadVectorOp, StoreVectorOp, ViewOp
from weft.errors import REPORT_HINT, InternalCompilerError

if TYPE_CHECKING:
    from xdsl.ir import BlockArgument, Operation

    from weft.dialects.simt.kernel import KernelOp

POINTER: Final = "pointer"
DIM: Final = "dim"
STRIDE: Final = "stride"
SCALAR: Final = "scalar"

_ACCESSES: Final = (
    LoadOp,
    StoreOp,
    LoadVectorOp,
    StoreVectorOp,
    AtomicLoadOp,
    AtomicStoreOp,
    AtomicRmwOp,
    AtomicCasOp,
    RecordOp,
    ViewOp,
)


@dataclass(frozen=True, slots=True)
class KernelParameter:
    """One parameter of a kernel's machine code.

    Attributes:
        argument: index of the kernel's argument that it comes from.
        part: POINTER, DIM, STRIDE or SCALAR.
        dimension: of a DIM or STRIDE.
        llvm_type: as it lies in the parameter buffer: a bool is `i8`, a pointer `ptr`.
        offset_bytes: where it lies in the parameter buffer.
    """

    argument: int
    part: str
    dimension: int
    llvm_type: str
    offset_bytes: int

    @property
    def size_bytes(self) -> int:
        return size_in_bytes(self.llvm_type)


def kernel_parameters(kernel: KernelOp) -> tuple[KernelParameter, ...]:
    """The parameters that a kernel uses, with natural alignment in their buffer.

    Example:
        for `add_one(a: tensor<?xf32>, b: tensor<?xf32>)` that reads `a.shape[0]`: a's pointer, a's dim 0,
        b's pointer.
    """
    parameters: list[KernelParameter] = []
    offset = 0
    for index, argument in enumerate(kernel.body.block.args):
        for part, dimension, text in _parts(argument):
            size = size_in_bytes(text)
            offset = (offset + size - 1) // size * size
            parameters.append(KernelParameter(index, part, dimension, text, offset))
            offset += size
    return tuple(parameters)


def parameter_bytes(parameters: tuple[KernelParameter, ...]) -> int:
    """Size of the buffer that holds the parameters."""
    return parameters[-1].offset_bytes + parameters[-1].size_bytes if parameters else 0


def _parts(argument: BlockArgument) -> list[tuple[str, int, str]]:
    """(part, dimension, LLVM type) of what an argument's uses need."""
    tensor_type = argument.type
    if not isinstance(tensor_type, TensorType):
        used = argument.first_use is not None
        return [(SCALAR, 0, memory_type(tensor_type))] if used else []
    needs = _Needs(tensor_type)
    for use in argument.uses:
        needs.add(use.operation)
    dim_text = f"i{tensor_type.dim_bits.data}"
    parts = [(POINTER, 0, "ptr")] if needs.pointer else []
    parts += [
        (DIM, dimension, dim_text)
        for dimension in sorted(needs.dims)
        if tensor_type.dims[dimension] == DYNAMIC
    ]
    return parts + [(STRIDE, dimension, "i64") for dimension in sorted(needs.strides)]


class _Needs:
    """What the uses of one tensor ask for."""

    __slots__ = ("dims", "pointer", "strides", "tensor_type")

    def __init__(self, tensor_type: TensorType) -> None:
        self.tensor_type = tensor_type
        self.pointer = False
        self.dims: set[int] = set()
        self.strides: set[int] = set()

    def add(self, operation: Operation) -> None:
        rank = self.tensor_type.rank
        if isinstance(operation, _ACCESSES):
            self.pointer = True
            if self.tensor_type.layout.data == "contiguous":
                self.dims.update(range(1, rank))
            else:
                for dimension in range(rank):
                    self._add_stride(dimension)
            if isinstance(operation, ViewOp):
                for dimension, _ in operation.dimensions:
                    self._add_stride(dimension)
        elif isinstance(operation, InlinePtxOp):
            self.pointer = True
        elif isinstance(operation, DimOp):
            self.dims.add(operation.dimension.value.data)
        elif isinstance(operation, StrideOp):
            self._add_stride(operation.dimension.value.data)
        else:
            raise InternalCompilerError(
                "CODEGEN_TENSOR_USE",
                f"a kernel's tensor argument is used by {operation.name}",
                hint=REPORT_HINT,
            )

    def _add_stride(self, dimension: int) -> None:
        layout, rank = self.tensor_type.layout.data, self.tensor_type.rank
        if layout == "contiguous":
            self.dims.update(range(dimension + 1, rank))
        elif layout == "strided" or dimension < rank - 1:
            self.strides.add(dimension)
