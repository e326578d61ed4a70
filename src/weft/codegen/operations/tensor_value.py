# SPDX-License-Identifier: Apache-2.0
"""A tensor as generated code holds it: a pointer, and those dims and strides that are used.

In: LLVM texts of parameters or memory. Out: the element's address for given indices. Next: memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.codegen.llvm.types import memory_type
from weft.dialects.simt.types import DYNAMIC
from weft.errors import REPORT_HINT, InternalCompilerError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.ir import SSAValue

    from weft.codegen.llvm.function_printer import FunctionPrinter
    from weft.dialects.simt.types import TensorType


class TensorValue:
    """Pointer, dims and strides of one tensor in LLVM text.

    Attributes:
        type: the tensor's type.
        pointer: name of the data pointer; its type is the target's pointer into the tensor's space.
        dims: per dimension a constant or a name, as wide as the type's `dims`; None if not passed.
        strides: per dimension a name (i64, in elements); None if not passed or derived from dims.
    """

    __slots__ = ("dims", "pointer", "strides", "type")

    def __init__(
        self,
        tensor_type: TensorType,
        pointer: str,
        dims: Sequence[str | None] = (),
        strides: Sequence[str | None] = (),
    ) -> None:
        rank = tensor_type.rank
        self.type = tensor_type
        self.pointer = pointer
        known = [str(dim) if dim != DYNAMIC else None for dim in tensor_type.dims]
        self.dims = [text or given for text, given in zip(known, dims or known, strict=True)]
        self.strides = list(strides) or [None] * rank

    def dim(self, dimension: int) -> str:
        """A dimension as an integer of the type's `dims` width."""
        text = self.dims[dimension]
        if text is None:
            raise _not_passed("dimension", dimension)
        return text

    def stride(self, printer: FunctionPrinter, dimension: int) -> str:
        """A stride in elements, i64: what was passed, or the product of the dims that follow."""
        text = self.strides[dimension]
        if text is not None:
            return text
        layout, rank = self.type.layout.data, self.type.rank
        if layout != "strided" and dimension == rank - 1:
            return "1"
        if layout != "contiguous":
            raise _not_passed("stride", dimension)
        product = 1
        result = ""
        for following in range(dimension + 1, rank):
            constant = self.type.dims[following]
            if constant != DYNAMIC:
                product *= constant
                continue
            dim = widened(printer, self.dim(following), self.type.dim_bits.data, 64)
            result = printer.let(f"mul nsw i64 {result}, {dim}") if result else dim
        if not result:
            return str(product)
        return result if product == 1 else printer.let(f"mul nsw i64 {result}, {product}")

    def address(self, printer: FunctionPrinter, indices: Sequence[SSAValue]) -> str:
        """The name of a pointer to an element.

        Offsets are computed in the type's `offsets` width. They cannot overflow for an element that
        exists, so the arithmetic carries `nsw`; indices themselves wrap where the program lets them.
        """
        if not indices:
            return self.pointer
        bits = self.type.offset_bits.data
        texts = [
            widened(printer, printer.values[index], index.type.width.data, bits)  # pyright: ignore
            for index in indices
        ]
        offset = (
            self._contiguous_offset(printer, texts, bits)
            if self.type.layout.data == "contiguous"
            else self._strided_offset(printer, texts, bits)
        )
        if offset == "0":
            return self.pointer
        element = memory_type(self.type.element_type)
        pointer = printer.module.target.pointer(self.type.space.data)
        return printer.let(
            f"getelementptr inbounds {element}, {pointer} {self.pointer}, i{bits} {offset}", "at"
        )

    def _contiguous_offset(self, printer: FunctionPrinter, indices: list[str], bits: int) -> str:
        offset = indices[0]
        for dimension in range(1, len(indices)):
            dim = widened(printer, self.dim(dimension), self.type.dim_bits.data, bits)
            scaled = _times(printer, offset, dim, bits)
            offset = _plus(printer, scaled, indices[dimension], bits)
        return offset

    def _strided_offset(self, printer: FunctionPrinter, indices: list[str], bits: int) -> str:
        offset = "0"
        for dimension, index in enumerate(indices):
            stride = widened(printer, self.stride(printer, dimension), 64, bits)
            offset = _plus(printer, offset, _times(printer, index, stride, bits), bits)
        return offset


def widened(printer: FunctionPrinter, text: str, from_bits: int, to_bits: int) -> str:
    """A signed integer in another width; constants stay constants."""
    if from_bits == to_bits or not text.startswith("%"):
        return text
    instruction = "sext" if from_bits < to_bits else "trunc"
    return printer.let(f"{instruction} i{from_bits} {text} to i{to_bits}")


def _times(printer: FunctionPrinter, lhs: str, rhs: str, bits: int) -> str:
    if lhs == "0" or rhs == "0":
        return "0"
    if lhs == "1":
        return rhs
    return lhs if rhs == "1" else printer.let(f"mul nsw i{bits} {lhs}, {rhs}")


def _plus(printer: FunctionPrinter, lhs: str, rhs: str, bits: int) -> str:
    if lhs == "0":
        return rhs
    return lhs if rhs == "0" else printer.let(f"add nsw i{bits} {lhs}, {rhs}")


def _not_passed(what: str, dimension: int) -> InternalCompilerError:
    return InternalCompilerError(
        "CODEGEN_PARAMETER", f"{what} {dimension} of a tensor was not passed", hint=REPORT_HINT
    )
