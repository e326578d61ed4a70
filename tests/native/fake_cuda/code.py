# SPDX-License-Identifier: Apache-2.0
"""Cubins for tests, assembled from PTX by the ptxas of the `cuda` extra."""

from __future__ import annotations

import functools
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path

HEADER = ".version 8.3\n.target {target}\n.address_size 64\n"

# (a pointer, a pointer, a length, a flag): the parameters have different sizes, so packing shows.
ADD_ONE = """
.visible .entry add_one_kernel(.param .u64 a, .param .u64 b, .param .u32 n, .param .u8 flag)
.maxntid 256, 1, 1
{ .reg .b64 %rd<3>; .reg .b32 %r<3>; .reg .pred %p;
  mov.u32 %r1, %tid.x; ld.param.u32 %r2, [n]; setp.ge.s32 %p, %r1, %r2; @%p ret;
  ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b]; ld.global.u32 %r1, [%rd1]; st.global.u32 [%rd2], %r1; ret; }
"""
SHARED = """
.visible .entry shared_kernel(.param .u64 a)
{ .shared .align 4 .b8 buffer[1024]; .reg .b32 %r<2>; .reg .b64 %rd<2>;
  mov.u32 %r1, %tid.x; st.shared.u32 [buffer], %r1; ret; }
"""
EMPTY = ".visible .entry empty_kernel() { ret; }\n"


def find_ptxas() -> Path:
    """The assembler of the `cuda` extra."""
    spec = find_spec("nvidia")
    for folder in (
        spec.submodule_search_locations if spec and spec.submodule_search_locations else []
    ):
        for path in Path(folder).glob("*/bin/ptxas"):
            return path
    raise AssertionError("the tests need ptxas: pip install weft-lang[cuda]")


@functools.cache
def assemble(body: str, target: str = "sm_90") -> bytes:
    """The cubin of kernels written in PTX, for one architecture."""
    with tempfile.TemporaryDirectory() as folder:
        source, cubin = Path(folder) / "kernel.ptx", Path(folder) / "kernel.cubin"
        source.write_text(HEADER.format(target=target) + body)
        command = [str(find_ptxas()), f"-arch={target}", str(source), "-o", str(cubin)]
        subprocess.run(command, check=True, capture_output=True)
        return cubin.read_bytes()


def parameter_kernel(name: str, types: list[str]) -> str:
    """An entry with parameters of the given PTX types (`.u64`, `.align 4 .b8 x[12]`), and no body."""
    parameters = ", ".join(
        f".param {kind}" if "[" in kind else f".param {kind} p{index}"
        for index, kind in enumerate(types)
    )
    return f".visible .entry {name}({parameters}) {{ ret; }}\n"
