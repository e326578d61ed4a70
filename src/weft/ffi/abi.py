# SPDX-License-Identifier: Apache-2.0
"""The TVM-FFI ABI as numbers: type indices, field offsets of its structures, the C functions used.

Out: plain tables for Python code that reads ABI memory; a test compares them with apache-tvm-ffi's header, which the
extension includes.
"""

from __future__ import annotations

from typing import Final


class TypeIndex:
    """The `type_index` of a value or object (enum TVMFFITypeIndex).

    Example:
        >>> from weft.ffi import Any
        >>> Any(1.5).type_index == TypeIndex.FLOAT, Any((1, 2)).type_index == TypeIndex.ARRAY
        (True, True)
    """

    ANY: Final = -1
    NONE: Final = 0
    INT: Final = 1
    BOOL: Final = 2
    FLOAT: Final = 3
    OPAQUE_POINTER: Final = 4
    DATA_TYPE: Final = 5
    DEVICE: Final = 6
    TENSOR_VIEW: Final = 7  # DLTensor*
    RAW_STRING: Final = 8  # const char*
    BYTE_ARRAY_POINTER: Final = 9
    RVALUE_REFERENCE: Final = 10
    SMALL_STRING: Final = 11  # of at most seven bytes
    SMALL_BYTES: Final = 12
    UNCHANGED: Final = 13
    FIRST_OBJECT: Final = 64  # from here on, values are counted references
    OBJECT: Final = 64
    STRING: Final = 65
    BYTES: Final = 66
    ERROR: Final = 67
    FUNCTION: Final = 68
    SHAPE: Final = 69
    TENSOR: Final = 70
    ARRAY: Final = 71
    MAP: Final = 72
    MODULE: Final = 73
    OPAQUE_PYTHON_OBJECT: Final = 74
    LIST: Final = 75
    DICT: Final = 76
    VISIT_INTERRUPT: Final = 77
    BIG_INT: Final = 78
    FIRST_DYNAMIC: Final = 128  # from here on, indices are assigned at run time


TYPE_INDEX_NAMES: Final = {
    "ANY": "kTVMFFIAny",
    "NONE": "kTVMFFINone",
    "INT": "kTVMFFIInt",
    "BOOL": "kTVMFFIBool",
    "FLOAT": "kTVMFFIFloat",
    "OPAQUE_POINTER": "kTVMFFIOpaquePtr",
    "DATA_TYPE": "kTVMFFIDataType",
    "DEVICE": "kTVMFFIDevice",
    "TENSOR_VIEW": "kTVMFFIDLTensorPtr",
    "RAW_STRING": "kTVMFFIRawStr",
    "BYTE_ARRAY_POINTER": "kTVMFFIByteArrayPtr",
    "RVALUE_REFERENCE": "kTVMFFIObjectRValueRef",
    "SMALL_STRING": "kTVMFFISmallStr",
    "SMALL_BYTES": "kTVMFFISmallBytes",
    "UNCHANGED": "kTVMFFIUnchanged",
    "FIRST_OBJECT": "kTVMFFIStaticObjectBegin",
    "OBJECT": "kTVMFFIObject",
    "STRING": "kTVMFFIStr",
    "BYTES": "kTVMFFIBytes",
    "ERROR": "kTVMFFIError",
    "FUNCTION": "kTVMFFIFunction",
    "SHAPE": "kTVMFFIShape",
    "TENSOR": "kTVMFFITensor",
    "ARRAY": "kTVMFFIArray",
    "MAP": "kTVMFFIMap",
    "MODULE": "kTVMFFIModule",
    "OPAQUE_PYTHON_OBJECT": "kTVMFFIOpaquePyObject",
    "LIST": "kTVMFFIList",
    "DICT": "kTVMFFIDict",
    "VISIT_INTERRUPT": "kTVMFFIVisitInterrupt",
    "BIG_INT": "kTVMFFIBigInt",
    "FIRST_DYNAMIC": "kTVMFFIDynObjectBegin",
}
"""weft's name of each type index → the header's."""

STRUCTURES: Final = {
    "TVMFFIAny": (16, {"type_index": 0, "zero_padding": 4, "small_str_len": 4, "v_int64": 8}),
    "TVMFFIObject": (24, {"combined_ref_count": 0, "type_index": 8, "deleter": 16}),
    "TVMFFIByteArray": (16, {"data": 0, "size": 8}),
    "TVMFFIShapeCell": (16, {"data": 0, "size": 8}),
    "TVMFFISeqCell": (32, {"data": 0, "size": 8, "capacity": 16, "data_deleter": 24}),
    "TVMFFIFunctionCell": (16, {"safe_call": 0, "cpp_call": 8}),
    "TVMFFIOpaqueObjectCell": (8, {"handle": 0}),
    "TVMFFIErrorCell": (
        72,
        {
            "kind": 0,
            "message": 16,
            "backtrace": 32,
            "update_backtrace": 48,
            "cause_chain": 56,
            "extra_context": 64,
        },
    ),
    "DLDataType": (4, {"code": 0, "bits": 1, "lanes": 2}),
    "DLDevice": (8, {"device_type": 0, "device_id": 4}),
    "DLTensor": (
        48,
        {
            "data": 0,
            "device": 8,
            "ndim": 16,
            "dtype": 20,
            "shape": 24,
            "strides": 32,
            "byte_offset": 40,
        },
    ),
    "DLManagedTensor": (64, {"dl_tensor": 0, "manager_ctx": 48, "deleter": 56}),
    "DLManagedTensorVersioned": (
        80,
        {"version": 0, "manager_ctx": 8, "deleter": 16, "flags": 24, "dl_tensor": 32},
    ),
}
"""Structure → (bytes, field → offset). An object's cell follows its header of 24 bytes."""

SAFE_CALL: Final = "int (void*, const TVMFFIAny*, int32_t, TVMFFIAny*)"
"""The signature of every function: handle, arguments, their number, result. Returns 0, or -1 with an error set."""

FUNCTIONS: Final = {
    "TVMFFIObjectIncRef": "int (void*)",
    "TVMFFIObjectDecRef": "int (void*)",
    "TVMFFIObjectCreateOpaque": "int (void*, int32_t, void (*)(void*), void**)",
    "TVMFFIFunctionCall": "int (void*, TVMFFIAny*, int32_t, TVMFFIAny*)",
    "TVMFFIFunctionGetGlobal": "int (const TVMFFIByteArray*, void**)",
    "TVMFFIFunctionSetGlobal": "int (const TVMFFIByteArray*, void*, int)",
    "TVMFFIAnyViewToOwnedAny": "int (const TVMFFIAny*, TVMFFIAny*)",
    "TVMFFIErrorMoveFromRaised": "void (void**)",
    "TVMFFIErrorSetRaised": "void (void*)",
    "TVMFFIErrorCreate": (
        "int (const TVMFFIByteArray*, const TVMFFIByteArray*, const TVMFFIByteArray*, void**)"
    ),
    "TVMFFITensorFromDLPack": "int (DLManagedTensor*, int32_t, int32_t, void**)",
    "TVMFFITensorFromDLPackVersioned": "int (DLManagedTensorVersioned*, int32_t, int32_t, void**)",
    "TVMFFITensorToDLPack": "int (void*, DLManagedTensor**)",
    "TVMFFITensorToDLPackVersioned": "int (void*, DLManagedTensorVersioned**)",
    "TVMFFIEnvSetStream": "int (int32_t, int32_t, void*, void**)",
    "TVMFFIEnvGetStream": "void* (int32_t, int32_t)",
}
"""Functions of libtvm_ffi that ownership depends on, with their C types."""
