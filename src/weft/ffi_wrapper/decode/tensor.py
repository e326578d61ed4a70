# SPDX-License-Identifier: Apache-2.0
"""Decodes a tensor: kind, data, rank, dtype, device, alignment, each dim, each stride, in that order.

In: a `TensorKind`. Out: one operation per promise, and the tensor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.arguments.tensor import TensorKind
from weft.dialects.ffi.arguments import DecodeTensorOp
from weft.dialects.ffi.checks import AsTensorOp, BindDeviceOp, CheckDeviceOp, CheckLayoutOp, CheckOp
from weft.language.ir_types import ir_type_of
from weft.types.device import CUDA
from weft.types.layout import CONTIGUOUS, INNER

if TYPE_CHECKING:
    from xdsl.ir import SSAValue

    from weft.ffi_wrapper.body import Argument, WrapperBody


def decode_tensor(body: WrapperBody, argument: Argument) -> list[SSAValue]:
    """Emits the checks of one tensor argument and returns the tensor."""
    kind = argument.kind
    assert isinstance(kind, TensorKind)  # the table's row
    tensor_type = ir_type_of(kind)
    assert tensor_type is not None  # tensors are staged
    tensor = body.emit(DecodeTensorOp(argument.position), argument.name).result
    body.emit(CheckOp(tensor, "data"))
    body.emit(CheckOp(tensor, "rank", kind.rank))
    body.emit(CheckOp(tensor, "dtype", kind.dtype.name))
    _check_device(body, tensor, kind)
    if kind.alignment_bytes > 1:
        body.emit(CheckOp(tensor, "alignment", kind.alignment_bytes))
    for index, size in enumerate(kind.dims):
        body.emit(body.bindings.dim(tensor, index, size))
    _check_strides(body, tensor, kind)
    return [body.emit(AsTensorOp(tensor, tensor_type), f"{argument.name}_tensor").result]


def _check_device(body: WrapperBody, tensor: SSAValue, kind: TensorKind) -> None:
    assert kind.device_type is not None  # Signature.for_device was called
    body.emit(CheckOp(tensor, "device_type", kind.device_type))
    if kind.device_type != CUDA:
        return
    if kind.device_index is not None:
        body.emit(CheckDeviceOp(tensor, kind.device_index))
    if body.device is None:
        body.device = body.emit(BindDeviceOp(tensor), "device").result
    else:
        body.emit(CheckDeviceOp(tensor, body.device))


def _check_strides(body: WrapperBody, tensor: SSAValue, kind: TensorKind) -> None:
    strides = kind.strides
    if strides is None:
        if kind.layout != "strided":
            body.emit(CheckLayoutOp(tensor, kind.layout, kind.text))
        return
    for index, stride in enumerate(strides):
        if stride is not None:
            body.emit(body.bindings.stride(tensor, index, stride))
    # What the strides themselves do not say, the layout class still promises.
    if kind.layout == CONTIGUOUS or (kind.layout == INNER and strides[-1] is None):
        body.emit(CheckLayoutOp(tensor, kind.layout, kind.text))
