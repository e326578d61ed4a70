# SPDX-License-Identifier: Apache-2.0
"""Memory that the threads of a block share: `simt.shared`, `simt.dynamic_shared`.

In: a tensor type in the shared space. Out: a tensor at an offset of the block's one dynamic buffer: first the
kernel's own arrays, laid out by a pass, then the launch's bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects.builtin import IntegerAttr, i32, i64
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    operand_def,
    opt_prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from weft.dialects.access import OwnMemory
from weft.dialects.definition import operation_definition
from weft.dialects.simt.types import DYNAMIC, TensorType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.ir import SSAValue

_I64 = IntegerAttr.constr(i64)


def _check_shared(value: SSAValue) -> TensorType:
    tensor_type = value.type
    if not isinstance(tensor_type, TensorType) or tensor_type.space.data != "shared":
        raise VerifyException(
            f"expected a !simt.tensor in the shared space, received {tensor_type}"
        )
    return tensor_type


@operation_definition
class SharedOp(IRDLOperation):
    """An array of static shape that the block's threads share, uninitialized.

    `offset` counts bytes from the start of the block's buffer; the pass lay_out_shared_memory sets it. With
    `per_thread` only that many elements per thread of a block are used: the array's size is that of the largest
    block there is, and its memory that of the kernel's.
    """

    name = "simt.shared"

    traits = traits_def(OwnMemory())

    offset = opt_prop_def(_I64)
    per_thread = opt_prop_def(_I64)
    result = result_def(TensorType)

    assembly_format = "(`at` $offset^)? (`per_thread` $per_thread^)? attr-dict `:` type($result)"

    def __init__(self, tensor_type: TensorType, per_thread: int | None = None) -> None:
        count = None if per_thread is None else IntegerAttr(per_thread, i64)
        super().__init__(properties={"per_thread": count}, result_types=[tensor_type])

    def verify_(self) -> None:
        tensor_type = _check_shared(self.result)
        if DYNAMIC in tensor_type.dims:
            raise VerifyException("simt.shared makes an array of static shape")
        if tensor_type.layout.data not in ("contiguous", "swizzled"):
            raise VerifyException("shared arrays are contiguous or swizzled")


@operation_definition
class DynamicSharedOp(IRDLOperation):
    """A view of the bytes that the launch requested with `shared_memory_bytes`.

    `offset` counts bytes from their start; `dims` holds one i32 or i64 for each `?` of the type. Nothing
    checks that the bytes are there.
    """

    name = "simt.dynamic_shared"

    offset = operand_def(i64)
    dims = var_operand_def()
    result = result_def(TensorType)

    traits = traits_def(Pure(), OwnMemory())
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    assembly_format = "$offset (`dims` `(` $dims^ `:` type($dims) `)`)? attr-dict `:` type($result)"

    def __init__(self, offset: SSAValue, dims: Sequence[SSAValue], tensor_type: TensorType) -> None:
        super().__init__(operands=[offset, dims], result_types=[tensor_type])

    def verify_(self) -> None:
        tensor_type = _check_shared(self.result)
        if tensor_type.layout.data != "contiguous":
            raise VerifyException("dynamic shared arrays are contiguous")
        if tensor_type.dims.count(DYNAMIC) != len(self.dims):
            raise VerifyException(f"{len(self.dims)} dims for {tensor_type}")
        wanted = i32 if tensor_type.dim_bits.data == 32 else i64
        if any(dim.type != wanted for dim in self.dims):
            raise VerifyException(f"the dims of {tensor_type} are {wanted}")
