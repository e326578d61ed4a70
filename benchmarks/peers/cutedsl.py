# SPDX-License-Identifier: Apache-2.0
"""add_one through CuTe DSL: Python to cubin, with its TVM-FFI wrapper."""

from __future__ import annotations

import importlib.metadata
import os

os.environ.setdefault("CUTE_DSL_ARCH", "sm_90a")  # read while it is imported

import cutlass
from benchmarks.harness import serve
from cutlass import cute


@cute.kernel
def add_one_kernel(a: cute.Tensor, b: cute.Tensor):
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    threads, _, _ = cute.arch.block_dim()
    i = block * threads + thread
    if i < a.shape[0]:
        b[i] = a[i] + 1.0


@cute.jit
def add_one(a: cute.Tensor, b: cute.Tensor):
    add_one_kernel(a, b).launch(grid=(cute.ceil_div(a.shape[0], 128), 1, 1), block=(128, 1, 1))


def compile_once() -> None:
    """Compile to a cubin for sm_90a and a wrapper."""
    n = cute.sym_int()
    a = cute.runtime.make_fake_compact_tensor(cutlass.Float32, (n,))
    b = cute.runtime.make_fake_compact_tensor(cutlass.Float32, (n,))
    cute.compile(add_one, a, b, options="--enable-tvm-ffi")


if __name__ == "__main__":
    serve(f"CuTe DSL {importlib.metadata.version('nvidia-cutlass-dsl')}", compile_once)
