# SPDX-License-Identifier: Apache-2.0
"""The TVM-FFI ABI as numbers: type indices, and where the fields are that generated code reads.

Out: constants, which a test compares with apache-tvm-ffi's header; the extension includes that header itself.
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


# Bytes of structures, and where their fields are.
ANY_BYTES: Final = 16
ANY_VALUE: Final = 8
OBJECT_HEADER_BYTES: Final = 24  # the object's own part follows
SEQUENCE_ITEMS: Final = OBJECT_HEADER_BYTES
SEQUENCE_SIZE: Final = OBJECT_HEADER_BYTES + 8
DLTENSOR_DATA: Final = 0
DLTENSOR_DEVICE: Final = 8
DLTENSOR_DEVICE_INDEX: Final = 12
DLTENSOR_RANK: Final = 16
DLTENSOR_DTYPE: Final = 20
DLTENSOR_SHAPE: Final = 24
DLTENSOR_STRIDES: Final = 32
DLTENSOR_BYTE_OFFSET: Final = 40
