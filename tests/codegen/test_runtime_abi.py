# SPDX-License-Identifier: Apache-2.0
"""Offsets in generated code are those of the C header, as a C compiler sees them."""

from __future__ import annotations

import re
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest

from weft import _native
from weft.codegen import runtime_abi as abi

ROOT = Path(__file__).resolve().parents[2]
FIELDS = {
    "weft_state.table": abi.STATE_TABLE,
    "weft_call_frame.state": abi.FRAME_STATE,
    "weft_call_frame.stream": abi.FRAME_STREAM,
    "weft_call_frame.scratch": abi.FRAME_SCRATCH,
    "weft_launch.grid": abi.LAUNCH_GRID,
    "weft_launch.block": abi.LAUNCH_BLOCK,
    "weft_launch.shared_memory_bytes": abi.LAUNCH_SHARED_MEMORY,
    "weft_launch.attributes": abi.LAUNCH_ATTRIBUTES,
    "weft_launch.attribute_count": abi.LAUNCH_ATTRIBUTE_COUNT,
    "weft_launch.kernel_name": abi.LAUNCH_KERNEL_NAME,
    "weft_launch.together": abi.LAUNCH_TOGETHER,
    "weft_launch.most_threads": abi.LAUNCH_MOST_THREADS,
    "weft_launch.cluster": abi.LAUNCH_CLUSTER,
    "weft_cpu_launch.table": abi.CPU_LAUNCH_TABLE,
    "weft_cpu_launch.grid": abi.CPU_LAUNCH_GRID,
    "weft_cpu_launch.block": abi.CPU_LAUNCH_BLOCK,
    "weft_cpu_launch.shared_memory_bytes": abi.CPU_LAUNCH_SHARED_MEMORY,
    **{f"weft_runtime_table.{row}": offset for row, (offset, _) in abi.ROWS.items()},
}


@pytest.fixture(scope="module")
def offsets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    compiler = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
    assert compiler is not None, "building weft needs a C++ compiler"
    folder = tmp_path_factory.mktemp("abi")
    lines = [
        f'std::printf("{f} %zu\\n", offsetof({f.split(".")[0]}, {f.split(".")[1]}));'
        for f in FIELDS
    ]
    lines.append('std::printf("weft_launch %zu\\n", sizeof(weft_launch));')
    source = folder / "offsets.cpp"
    body = "\n".join(lines)
    source.write_text(
        f"#include <cstddef>\n#include <cstdio>\n#include <weft/runtime_table.h>\nint main() {{ {body} }}\n"
    )
    spec = find_spec("tvm_ffi")
    assert spec is not None
    assert spec.submodule_search_locations
    include = Path(spec.submodule_search_locations[0]) / "include"
    program = folder / "offsets"
    subprocess.run(
        [
            compiler,
            "-std=c++17",
            f"-I{ROOT / 'native/include'}",
            f"-I{include}",
            source,
            "-o",
            program,
        ],
        check=True,
    )
    printed = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    return {name: int(value) for name, value in (line.split() for line in printed.splitlines())}


def test_every_offset_is_the_headers(offsets: dict[str, int]):
    assert {name: offsets[name] for name in FIELDS} == FIELDS
    assert offsets["weft_launch"] == abi.LAUNCH_BYTES


def test_rows_are_those_of_the_extension_in_order():
    assert list(abi.ROWS) == [name for name, _ in _native.RUNTIME_TABLE]
    assert all(
        re.fullmatch(r"(i\d+|ptr|void|double) \(.*\)", text) for _, text in abi.ROWS.values()
    )
