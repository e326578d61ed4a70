# SPDX-License-Identifier: Apache-2.0
"""add_one through Triton: Python to cubin, the kernel alone; its cache is switched off."""

from __future__ import annotations

import tempfile

import triton
import triton.language as tl
from benchmarks.harness import serve
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def add_one(a, b, n, block: tl.constexpr):
    i = tl.program_id(0) * block + tl.arange(0, block)
    tl.store(b + i, tl.load(a + i, mask=i < n) + 1.0, mask=i < n)


def compile_once() -> None:
    """Compile to a cubin for sm_90a."""
    source = ASTSource(
        add_one, signature={"a": "*fp32", "b": "*fp32", "n": "i32"}, constexprs={"block": 128}
    )
    compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32))
    assert compiled.asm["cubin"][:4] == b"\x7fELF"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        triton.knobs.cache.dir = folder
        triton.knobs.compilation.always_compile = True
        serve(f"Triton {triton.__version__}", compile_once)
