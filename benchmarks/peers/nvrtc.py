# SPDX-License-Identifier: Apache-2.0
"""add_one through NVRTC: CUDA C++ to cubin, the kernel alone, without host code or wrapper."""

from __future__ import annotations

from benchmarks.harness import serve
from cuda.bindings import nvrtc

SOURCE = rb"""
extern "C" __global__ void add_one(const float* a, float* b, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) b[i] = a[i] + 1.0f;
}
"""


def check(answer: tuple[object, ...]) -> object:
    """The value of a binding's answer (error, value).

    Raises:
        RuntimeError: if the error is not success.
    """
    error, *values = answer
    if error != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise RuntimeError(str(error))
    return values[0] if values else None


def compile_once() -> None:
    """Compile the source to a cubin for sm_90a."""
    program = check(nvrtc.nvrtcCreateProgram(SOURCE, b"add_one.cu", 0, [], []))
    check(nvrtc.nvrtcCompileProgram(program, 1, [b"--gpu-architecture=sm_90a"]))
    size = check(nvrtc.nvrtcGetCUBINSize(program))
    image = bytearray(int(str(size)))
    check(nvrtc.nvrtcGetCUBIN(program, image))
    assert image[:4] == b"\x7fELF"
    check(nvrtc.nvrtcDestroyProgram(program))


if __name__ == "__main__":
    _, major, minor = nvrtc.nvrtcVersion()
    serve(f"NVRTC {major}.{minor}", compile_once)
