# SPDX-License-Identifier: Apache-2.0
"""The `ffi` dialect: a function with the TVM-FFI ABI, written as the contract it checks.

In: the families' operations, one per promise. Out: `FFI`, which a context loads. Every check that fails sets the
error and ends the function; codegen expands the operations when it prints LLVM text.
"""

from __future__ import annotations

from typing import Final

from xdsl.ir import Dialect

from weft.dialects.ffi.arguments import (
    DecodeArrayOp,
    DecodeNoneOp,
    DecodePointerOp,
    DecodeScalarOp,
    DecodeShapeOp,
    DecodeSizeOp,
    DecodeStreamOp,
    DecodeTensorOp,
)
from weft.dialects.ffi.call import DeviceGuardOp, EnvironmentStreamOp
from weft.dialects.ffi.checks import (
    AsDimOp,
    AsTensorOp,
    BindDeviceOp,
    BindDimOp,
    BindStrideOp,
    CheckDeviceOp,
    CheckDimOp,
    CheckLayoutOp,
    CheckOp,
    CheckStrideOp,
)
from weft.dialects.ffi.function import ArrayType, CheckCountOp, FuncOp, ReturnOp, TensorType

FFI: Final = Dialect(
    "ffi",
    [
        FuncOp,
        CheckCountOp,
        DecodeTensorOp,
        DecodeScalarOp,
        DecodeStreamOp,
        DecodeNoneOp,
        DecodePointerOp,
        DecodeShapeOp,
        DecodeSizeOp,
        DecodeArrayOp,
        CheckOp,
        BindDimOp,
        CheckDimOp,
        BindStrideOp,
        CheckStrideOp,
        CheckLayoutOp,
        BindDeviceOp,
        CheckDeviceOp,
        AsTensorOp,
        AsDimOp,
        EnvironmentStreamOp,
        DeviceGuardOp,
        ReturnOp,
    ],
    [TensorType, ArrayType],
)
