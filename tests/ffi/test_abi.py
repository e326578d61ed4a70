# SPDX-License-Identifier: Apache-2.0
"""The tables of weft.ffi.abi are what the header of the installed package says."""

from __future__ import annotations

import subprocess

from tests.ffi.building import compiler, headers
from weft.ffi import abi

TYPE_INDEX_NAMES = {
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

OBJECT = "sizeof(TVMFFIObject)"
EXPRESSIONS = {
    "ANY_BYTES": "sizeof(TVMFFIAny)",
    "ANY_VALUE": "offsetof(TVMFFIAny, v_int64)",
    "OBJECT_HEADER_BYTES": OBJECT,
    "SEQUENCE_ITEMS": f"{OBJECT} + offsetof(TVMFFISeqCell, data)",
    "SEQUENCE_SIZE": f"{OBJECT} + offsetof(TVMFFISeqCell, size)",
    "DLTENSOR_DATA": "offsetof(DLTensor, data)",
    "DLTENSOR_DEVICE": "offsetof(DLTensor, device)",
    "DLTENSOR_DEVICE_INDEX": "offsetof(DLTensor, device.device_id)",
    "DLTENSOR_RANK": "offsetof(DLTensor, ndim)",
    "DLTENSOR_DTYPE": "offsetof(DLTensor, dtype)",
    "DLTENSOR_SHAPE": "offsetof(DLTensor, shape)",
    "DLTENSOR_STRIDES": "offsetof(DLTensor, strides)",
    "DLTENSOR_BYTE_OFFSET": "offsetof(DLTensor, byte_offset)",
}

PROGRAM = """
#include <cstdio>
#include <cstddef>
#include <tvm/ffi/c_api.h>
int main() {{
{prints}
}}
"""


def header_says(expressions: list[str]) -> list[int]:
    prints = "\n".join(f'  std::printf("%lld\\n", (long long)({text}));' for text in expressions)
    source = PROGRAM.format(prints=prints)
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "abi.cpp").write_text(source)
        flags = ["-std=c++17", "-Wno-invalid-offsetof", f"-I{headers()}"]
        command = [compiler(), *flags, f"{folder}/abi.cpp", "-o", f"{folder}/abi"]
        subprocess.run(command, check=True)
        printed = subprocess.run([f"{folder}/abi"], capture_output=True, text=True, check=True)
    return [int(line) for line in printed.stdout.split()]


def test_type_indices_are_those_of_the_header():
    names = list(TYPE_INDEX_NAMES)
    found = header_says([TYPE_INDEX_NAMES[name] for name in names])
    assert found == [getattr(abi.TypeIndex, name) for name in names]


def test_every_type_index_has_a_name_in_the_header():
    ours = {name for name in vars(abi.TypeIndex) if not name.startswith("_")}
    assert ours == set(TYPE_INDEX_NAMES)


def test_structures_have_the_sizes_and_offsets_of_the_header():
    constants = {name for name in vars(abi) if name.isupper()}
    assert constants - {"TYPE_CHECKING"} == set(EXPRESSIONS)
    found = header_says(list(EXPRESSIONS.values()))
    assert found == [getattr(abi, name) for name in EXPRESSIONS]


def test_an_object_of_ours_has_the_header_that_the_table_describes():
    import ctypes

    from weft import ffi

    array = ffi.Array([1, 2, 3])
    assert ctypes.c_int32.from_address(array.address + 8).value == 71
    assert ctypes.c_int64.from_address(array.address + abi.SEQUENCE_SIZE).value == 3
