# SPDX-License-Identifier: Apache-2.0
"""add_one through numba-cuda: Python to cubin, the kernel alone."""

from __future__ import annotations

import importlib.metadata

from benchmarks.harness import serve
from cuda.core import Linker, LinkerOptions, ObjectCode
from numba import cuda, float32, void


def add_one(a, b):
    i = cuda.grid(1)
    if i < a.shape[0]:
        b[i] = a[i] + float32(1.0)


def compile_once() -> None:
    """Compile to a cubin for sm_90a."""
    signature = void(float32[::1], float32[::1])
    ptx, _ = cuda.compile(add_one, signature, cc=(9, 0), device=False, abi="numba", output="ptx")
    linker = Linker(ObjectCode.from_ptx(ptx.encode()), options=LinkerOptions(arch="sm_90"))
    assert bytes(linker.link("cubin").code)[:4] == b"\x7fELF"


if __name__ == "__main__":
    serve(f"numba-cuda {importlib.metadata.version('numba-cuda')}", compile_once)
