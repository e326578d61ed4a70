# SPDX-License-Identifier: Apache-2.0
"""Offsets and numbers in generated code are those of the C headers, as a C compiler sees them."""

from __future__ import annotations

import re
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest

from weft import _native
from weft.backends.cpu.lowering import (
    async_copies,
    barriers,
    check,
    coroutine_printer,
    launch,
    overlap,
    split_kernel,
    tensor_cores,
)
from weft.codegen import gpu
from weft.codegen import runtime_abi as abi
from weft.codegen.operations.launch import MAP_BYTES
from weft.codegen.wrapper import function
from weft.compiler import call_plan
from weft.dialects.nvgpu.async_copy import REDUCTIONS
from weft.dialects.nvgpu.tensor_map import MOST_RANK
from weft.dialects.simt.debug import ACCESS_FLAGS, WATCH_EVENTS
from weft.frontend.state import captured
from weft.passes.instrument_memory import SCRATCH
from weft.runtime.code_image import EXECUTORS

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
    "weft_launch.coresidency": abi.LAUNCH_CORESIDENCY,
    "weft_launch.most_threads": abi.LAUNCH_MOST_THREADS,
    "weft_launch.cluster": abi.LAUNCH_CLUSTER,
    "weft_cpu_launch.table": abi.CPU_LAUNCH_TABLE,
    "weft_cpu_launch.grid": abi.CPU_LAUNCH_GRID,
    "weft_cpu_launch.block": abi.CPU_LAUNCH_BLOCK,
    "weft_cpu_launch.shared_memory_bytes": abi.CPU_LAUNCH_SHARED_MEMORY,
    **{f"weft_runtime_table.{row}": offset for row, (offset, _) in abi.ROWS.items()},
    "weft_call_frame.device_type": function._DEVICE_TYPE,
    "weft_call_frame.device": function._DEVICE,
    "weft_call_frame.driver_kernels": function._DRIVER_KERNELS,
    "weft_call_frame.saved_context": function._SAVED_CONTEXT,
    "weft_call_frame.must_restore": function._MUST_RESTORE,
    "weft_thread_slot.site": coroutine_printer._SITE,
    "weft_thread_slot.mask": coroutine_printer._MASK,
    "weft_thread_slot.lane": coroutine_printer._LANE,
    "weft_thread_slot.value": coroutine_printer._VALUE,
    "weft_thread_slot.result": coroutine_printer._RESULT,
    "weft_cpu_block.budget": split_kernel._BLOCK_BUDGET,
    "weft_cpu_block.linear": split_kernel._BLOCK_LINEAR,
    "weft_cpu_block.shared": split_kernel._BLOCK_SHARED,
    "weft_cpu_block.cluster_bytes": split_kernel._BLOCK_CLUSTER,
    "weft_cpu_tensor_map.sizes": async_copies._SIZES,
    "weft_cpu_tensor_map.pitches": async_copies._PITCHES,
    "weft_cpu_tensor_map.elements_found": async_copies._ELEMENTS_FOUND,
    "weft_wgmma_start.handle": 8 * tensor_cores._WGMMA_HANDLE,  # four pointers precede it
}


def _bytes(text: str) -> int:
    """The size of a structure in LLVM text."""
    widths = {"ptr": 8, "i64": 8, "i32": 4}
    return sum(widths[word] for word in re.findall(r"ptr|i64|i32", text))


# What generated code and Python's tables say → the same in C.
NUMBERS = {
    "sizeof(weft_launch)": abi.LAUNCH_BYTES,
    "sizeof(weft_call_frame)": function._FRAME_BYTES,
    "sizeof(weft_thread_slot)": split_kernel._SLOT_BYTES,
    "sizeof(weft_cooperative_site)": _bytes(coroutine_printer.SITE),
    "sizeof(weft_mma_operands)": _bytes(tensor_cores._OPERANDS),
    "sizeof(weft_wgmma_shape)": _bytes(tensor_cores._SHAPE),
    "sizeof(weft_wgmma_start)": _bytes(tensor_cores._WGMMA),
    "sizeof(weft_cpu_tensor_map)": MAP_BYTES,
    "WEFT_TENSOR_MAP_RANK": MOST_RANK,
    **{
        f"WEFT_THREAD_{name}": getattr(coroutine_printer, name)
        for name in (
            *("READY", "BARRIER", "COLLECTIVE", "GRID", "EXITED", "FAILED"),
            *("WARPGROUP", "MBARRIER", "NAMED", "CLUSTER", "DEPENDENCY"),
        )
    },
    **{f"WEFT_VALUE_{name.upper()}": code for name, code in coroutine_printer._VALUE_TYPES.items()},
    "WEFT_MBARRIER_WAIT": int(barriers._WAIT),
    "WEFT_MBARRIER_TRY": int(barriers._TRY),
    **{f"WEFT_MMA_{name}": code for name, code in tensor_cores._TYPES.items()},
    "WEFT_LAUNCH_INSTRUMENTED": check._LAUNCH_WATCHED,
    "WEFT_LAUNCH_ORDERED": check._LAUNCH_ORDERED,
    "WEFT_LAUNCH_BLOCKS": check._LAUNCH_BLOCKS,
    "WEFT_LAUNCH_CONTINUES": check._LAUNCH_WORDS["continue"],
    "WEFT_LAUNCH_BARRIERS": check._LAUNCH_WORDS["barriers"],
    "WEFT_LAUNCH_SAME_VALUES": check._LAUNCH_WORDS["benign"],
    "WEFT_LAUNCH_TRACED": check._LAUNCH_WORDS["trace"],
    "WEFT_LAUNCH_SCRATCH": check._LAUNCH_WORDS[SCRATCH],
    "WEFT_LAUNCH_HELD": overlap._HELD,
    "WEFT_LAUNCH_FOLLOWS": overlap._FOLLOWS,
    "WEFT_LAUNCH_WAITS": overlap._WAITS,
    "WEFT_CORESIDENT_BLOCK": launch._BLOCK,
    "WEFT_CORESIDENT_CLUSTER": launch._CLUSTER,
    "WEFT_CORESIDENT_GRID": launch._GRID,
    "WEFT_CORESIDENT_FEW": launch._FEW,
    "WEFT_SCRATCH_GLOBAL": gpu._GLOBAL_SCRATCH,
    **{
        f"WEFT_LOAD_{name.upper().replace('-', '_')}": executor.load_policy
        for name, executor in EXECUTORS.items()
    },
    **{f"WEFT_ACCESS_{word.upper()}": bit for word, bit in ACCESS_FLAGS.items()},
    **{f"WEFT_EVENT_{word.upper()}": number for number, word in enumerate(WATCH_EVENTS)},
    **{f"WEFT_TMA_{word.upper()}": number for number, word in enumerate(REDUCTIONS, 1)},
}


@pytest.fixture(scope="module")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    compiler = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
    assert compiler is not None, "building weft needs a C++ compiler"
    folder = tmp_path_factory.mktemp("abi")
    asked = {field: "offsetof({}, {})".format(*field.split(".")) for field in FIELDS}
    asked |= {expression: expression for expression in NUMBERS}
    lines = [f'std::printf("{name} %lld\\n", (long long)({c}));' for name, c in asked.items()]
    headers = ("cpu_cooperative", "cpu_mma", "cpu_wgmma", "runtime_table", "tensor_map")
    includes = "".join(f"#include <weft/{name}.h>\n" for name in headers)
    body = "\n".join(lines)
    source = folder / "numbers.cpp"
    source.write_text(f"#include <cstddef>\n#include <cstdio>\n{includes}int main() {{ {body} }}\n")
    spec = find_spec("tvm_ffi")
    assert spec is not None
    assert spec.submodule_search_locations
    include = Path(spec.submodule_search_locations[0]) / "include"
    program = folder / "numbers"
    folders = (f"-I{ROOT / 'native/include'}", f"-I{include}")
    subprocess.run([compiler, "-std=c++17", *folders, source, "-o", program], check=True)
    printed = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    lines = [line.rpartition(" ") for line in printed.splitlines()]
    return {name: int(value) for name, _, value in lines}


def test_every_offset_is_the_headers(numbers: dict[str, int]):
    assert {name: numbers[name] for name in FIELDS} == FIELDS


def test_every_number_is_the_headers(numbers: dict[str, int]):
    assert {name: numbers[name] for name in NUMBERS} == NUMBERS


def test_no_value_of_the_headers_enums_is_left_out():
    text = "".join(path.read_text() for path in sorted((ROOT / "native/include/weft").glob("*.h")))
    named = set(re.findall(r"\b(WEFT_[A-Z_0-9]+) = \d+", text))
    # What generated code never says: the runtime's own requests, and its limits.
    own = {
        *("WEFT_MBARRIER_MANY_ARRIVALS", "WEFT_MBARRIER_MANY_BYTES", "WEFT_MOST_CORESIDENT"),
        *("WEFT_SCRATCH_PROFILE", "WEFT_TENSOR_MAP_BYTES", "WEFT_TENSOR_MAP_SPATIAL"),
        "WEFT_TMA_REPLACE",
    }
    assert named - NUMBERS.keys() == own


def test_numbers_of_sources_without_a_header_are_pythons():
    """Enums of the extension's own sources, which C++ programs cannot include."""
    plan = (ROOT / "native/python/call/call_plan.h").read_text()
    assert f"kArgumentWritten = {call_plan._WRITTEN}," in plan
    assert f"kArgumentStream = {call_plan._STREAM}," in plan
    places = (ROOT / "native/python/call/unchanged.h").read_text()
    kinds = ("Item", "Cell", "Function", "Attribute", "Member")
    found = dict(re.findall(rf"k({'|'.join(kinds)}) = (\d+)", places))
    assert found == {name: str(getattr(captured, f"_{name.upper()}")) for name in kinds}


def test_rows_are_those_of_the_extension_in_order():
    assert list(abi.ROWS) == [name for name, _ in _native.RUNTIME_TABLE]
    assert all(
        re.fullmatch(r"(i\d+|ptr|void|double) \(.*\)", text) for _, text in abi.ROWS.values()
    )
