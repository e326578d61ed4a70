# SPDX-License-Identifier: Apache-2.0
"""CUDA C++ to cubin through NVRTC: add_one, the kernel alone, or a file, with the cubin and its log.

In: `add_one`, or the path of a file. Out: see `harness.serve`.
"""

from __future__ import annotations

import base64
import sys
from pathlib import Path

from benchmarks.harness import serve
from cuda.bindings import nvrtc

ADD_ONE = rb"""
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


def output(program: object, what: str) -> bytes:
    """The `CUBIN` or `ProgramLog` of a program."""
    size = check(getattr(nvrtc, f"nvrtcGet{what}Size")(program))
    content = bytearray(int(str(size)))
    check(getattr(nvrtc, f"nvrtcGet{what}")(program, content))
    return bytes(content)


def compile_once(source: bytes, options: list[bytes]) -> tuple[bytes, str]:
    """A source as a cubin for sm_90a, and the compiler's log."""
    program = check(nvrtc.nvrtcCreateProgram(source, b"kernels.cu", 0, [], []))
    options = [b"--gpu-architecture=sm_90a", *options]
    (error,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
    log = output(program, "ProgramLog").rstrip(b"\0").decode()
    if error != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise RuntimeError(log)
    image = output(program, "CUBIN")
    assert image[:4] == b"\x7fELF"
    check(nvrtc.nvrtcDestroyProgram(program))
    return image, log


def main(case: str) -> None:
    """Serve compilations of a case."""

    def compile_file() -> dict[str, object]:
        image, log = compile_once(Path(case).read_bytes(), [b"--ptxas-options=-v"])
        return {"cubin": base64.b64encode(image).decode(), "log": log}

    def compile_add_one() -> None:
        compile_once(ADD_ONE, [])

    _, major, minor = nvrtc.nvrtcVersion()
    serve(f"NVRTC {major}.{minor}", compile_add_one if case == "add_one" else compile_file)


if __name__ == "__main__":
    main(sys.argv[1])
