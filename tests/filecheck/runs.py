# SPDX-License-Identifier: Apache-2.0
"""What a text test can ask a backend to print; one row per run, see test_texts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from weft.backends.cpu import stages as cpu
from weft.backends.cuda import stages as cuda
from weft.backends.cuda.target import cuda_machine
from weft.backends.host import machine_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from xdsl.dialects.builtin import ModuleOp


def llvm_cpu(module: ModuleOp) -> str:
    """LLVM text of the kernels for a CPU with AVX2, whatever this machine is."""
    return cpu.print_kernels(module, machine_of("x86-64-v3", "+avx2"))


def llvm_cuda(module: ModuleOp) -> str:
    """LLVM text of the kernels for sm_90a."""
    return cuda.print_kernels(module, cuda_machine("sm_90a"))


def ptx(module: ModuleOp) -> str:
    """PTX of the kernels for sm_90a."""
    machine = cuda_machine("sm_90a")
    return cuda.emit_ptx(cuda.print_kernels(module, machine), machine, level=3)


RUNS: Final[dict[str, Callable[[ModuleOp], str]]] = {
    "llvm-cpu": llvm_cpu,
    "llvm-cuda": llvm_cuda,
    "ptx": ptx,
}
