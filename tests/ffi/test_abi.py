# SPDX-License-Identifier: Apache-2.0
"""The tables of weft.ffi.abi are what the header of the installed package says."""

from __future__ import annotations

import subprocess

from tests.ffi.building import compiler, headers
from weft.ffi import abi

PROGRAM = """
#include <cstdio>
#include <cstddef>
#include <type_traits>
#include <tvm/ffi/c_api.h>
#include <tvm/ffi/extra/c_env_api.h>
{signatures}
int main() {{
{prints}
}}
"""


def header_says(expressions: list[str], signatures: str = "") -> list[int]:
    prints = "\n".join(f'  std::printf("%lld\\n", (long long)({text}));' for text in expressions)
    source = PROGRAM.format(prints=prints, signatures=signatures)
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
    names = list(abi.TYPE_INDEX_NAMES)
    found = header_says([abi.TYPE_INDEX_NAMES[name] for name in names])
    assert found == [getattr(abi.TypeIndex, name) for name in names]


def test_every_type_index_has_a_name_in_the_header():
    ours = {name for name in vars(abi.TypeIndex) if not name.startswith("_")}
    assert ours == set(abi.TYPE_INDEX_NAMES)


def test_structures_have_the_sizes_and_offsets_of_the_header():
    expressions, expected = [], []
    for structure, (size, fields) in abi.STRUCTURES.items():
        expressions.append(f"sizeof({structure})")
        expected.append(size)
        for field, offset in fields.items():
            expressions.append(f"offsetof({structure}, {field})")
            expected.append(offset)
    assert header_says(expressions) == expected


def test_functions_have_the_signatures_of_the_header():
    checks = [
        f'static_assert(std::is_same_v<decltype({name}), {signature}>, "{name}");'
        for name, signature in abi.FUNCTIONS.items()
    ]
    pointer = abi.SAFE_CALL.replace("int (", "int (*)(", 1)
    checks.append(f'static_assert(std::is_same_v<TVMFFISafeCallType, {pointer}>, "safe call");')
    assert header_says(["1"], "\n".join(checks)) == [1]


def test_an_object_of_ours_has_the_header_that_the_table_describes():
    import ctypes

    from weft import ffi

    array = ffi.Array([1, 2, 3])
    _, fields = abi.STRUCTURES["TVMFFIObject"]
    assert ctypes.c_int32.from_address(array.address + fields["type_index"]).value == 71
    cell = array.address + abi.STRUCTURES["TVMFFIObject"][0]
    size = abi.STRUCTURES["TVMFFISeqCell"][1]["size"]
    assert ctypes.c_int64.from_address(cell + size).value == 3
