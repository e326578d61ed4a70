# SPDX-License-Identifier: Apache-2.0
"""Short programs with one or more kernels in weft and its peers, for cold_start: each ends with checked results.

In: whose program, how many kernels, the array library. Out: its text. Every kernel has a constant of
its own, so that none is found by another's entry.
"""

from __future__ import annotations

from typing import Final

SIZE: Final = 1000

_ARRAYS: Final = {
    "": "",
    "array": f"""
from array import array
a, b = array("f", range({SIZE})), array("f", [0.0] * {SIZE})
""",
    "NumPy": f"""
import numpy
a, b = numpy.arange({SIZE}, dtype=numpy.float32), numpy.zeros({SIZE}, numpy.float32)
""",
}

_WEFT: Final = (
    "import weft",
    """
@weft.kernel
def scale_$_kernel(a: weft.Tensor, b: weft.Tensor):
    i = weft.block_idx.x * weft.block_dim.x + weft.thread_idx.x
    if i < a.shape[0]:
        b[i] = a[i] * $.0 + 1.0

@weft.jit
def scale_$(a: weft.Tensor[weft.f32, ("n",)], b: weft.Tensor[weft.f32, ("n",)]):
    scale_$_kernel(a, b).launch(grid=weft.ceil_div(a.shape[0], 128), block=128)
""",
    "scale_$(a, b)",
)
_NUMBA: Final = (
    "import numba",
    """
@numba.njit(cache=True)
def scale_$(a, b):
    for i in range(a.shape[0]):
        b[i] = a[i] * numpy.float32($) + numpy.float32(1)
""",
    "scale_$(a, b)",
)
# A module for each kernel: one module is compiled as a whole.
_WARP: Final = (
    "import warp\nwarp.config.quiet = True",
    """
@warp.kernel(module="unique")
def scale_$(a: warp.array(dtype=warp.float32), b: warp.array(dtype=warp.float32)):
    i = warp.tid()
    b[i] = a[i] * float($) + 1.0
""",
    f"""
x, y = warp.from_numpy(a, device="cpu"), warp.from_numpy(b, device="cpu")
warp.launch(scale_$, dim={SIZE}, inputs=[x, y], device="cpu")
b = y.numpy()
""",
)
# It has no CPU target: a cubin is its result.
_TRITON: Final = (
    """
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
""",
    """
@triton.jit
def scale_$(a, b, n, block: tl.constexpr):
    i = tl.program_id(0) * block + tl.arange(0, block)
    tl.store(b + i, tl.load(a + i, mask=i < n) * float($) + 1.0, mask=i < n)
""",
    """
types = {"a": "*fp32", "b": "*fp32", "n": "i32", "block": "constexpr"}
made = triton.compile(ASTSource(scale_$, types, {"block": 128}), target=GPUTarget("cuda", 90, 32))
assert made.asm["cubin"][:4] == b"\\x7fELF"
""",
)

PROGRAMS: Final = {"weft": _WEFT, "numba": _NUMBA, "Warp": _WARP, "Triton": _TRITON}
# Where each keeps what it compiled.
CACHE_VARIABLES: Final = {
    "weft": "WEFT_CACHE_DIR",
    "numba": "NUMBA_CACHE_DIR",
    "Warp": "WARP_CACHE_PATH",
    "Triton": "TRITON_CACHE_DIR",
}


def library(arrays: str) -> str:
    """The part of a program that no framework adds: the import of the array library, and its arrays."""
    return _ARRAYS[arrays]


def program(framework: str, kernels: int, arrays: str) -> str:
    """A program that compiles or finds each of its kernels, runs it, and checks the result.

    Args:
        framework: of `PROGRAMS`; Triton's kernels are not run.
        kernels: how many.
        arrays: ``"array"``, ``"NumPy"``, or none for Triton.
    """
    head, kernel, call = PROGRAMS[framework]
    parts = [library(arrays), head]
    parts += [kernel.replace("$", str(number)) for number in range(2, 2 + kernels)]
    parts.append("import time\ntimes = [time.perf_counter()]\n")
    for number in range(2, 2 + kernels):
        parts.append(call.replace("$", str(number)))
        if arrays:
            parts.append(f"assert list(b) == [x * {number} + 1 for x in a]")
        parts.append("times.append(time.perf_counter())")
    parts.append('print("times", *times)\n')
    return "\n".join(parts)
