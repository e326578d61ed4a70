# SPDX-License-Identifier: Apache-2.0
"""Runs of a text test: a module after a pass, or what a backend prints; one row per run, see test_texts."""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Final

from weft.backends.cpu import stages as cpu
from weft.backends.cpu.lowering.tables import HOST_ROWS
from weft.backends.cuda import stages as cuda
from weft.backends.cuda.target import cuda_machine
from weft.backends.cuda.toolchain import assemble, disassemble
from weft.backends.host import machine_of, print_host
from weft.codegen.llvm.debug_info import LINE_TABLES, DebugInfo
from weft.compiler.module_text import module_text
from weft.compiler.pipeline import passes_for
from weft.config import SANITIZER_CHECKS
from weft.passes.map_each import map_each

if TYPE_CHECKING:
    from collections.abc import Callable

    from xdsl.dialects.builtin import ModuleOp


# A kernel's label, or an instruction after its address.
_SASS: Final = re.compile(r"^(\.text\.\w+:|\s+/\*\w{4}\*/[^/]*;)", re.MULTILINE)


def llvm_cpu(module: ModuleOp) -> str:
    """LLVM text of the kernels for a CPU with AVX2, whatever this machine is."""
    return cpu.print_kernels(module, machine_of("x86-64-v3", "+avx2"))


def llvm_host(module: ModuleOp) -> str:
    """LLVM text of the host function for a CPU with AVX2."""
    return print_host(module, machine_of("x86-64-v3", "+avx2"), HOST_ROWS, DebugInfo(LINE_TABLES))


def llvm_cuda(module: ModuleOp) -> str:
    """LLVM text of the kernels for sm_90a."""
    return cuda.print_kernels(module, cuda_machine("sm_90a"))


def ptx(module: ModuleOp, architecture: str = "sm_90a") -> str:
    """PTX of the kernels, for sm_90a unless it is said otherwise."""
    machine = cuda_machine(architecture)
    return cuda.emit_ptx(cuda.print_kernels(module, machine), machine, level=3)


def ptx_without_redux(module: ModuleOp) -> str:
    """PTX of the kernels for sm_75, the last architecture whose warps reduce by shuffles alone."""
    return ptx(module, "sm_75")


def sass(module: ModuleOp) -> str:
    """Machine code of the kernels for sm_90a: the kernels' names and the bare instructions."""
    text = disassemble(assemble(ptx(module), "sm_90a").cubin)
    return "\n".join(found[1].strip() for found in _SASS.finditer(text))


def ptx_after_passes(module: ModuleOp) -> str:
    """PTX of the kernels for sm_90a, after all passes."""
    for name, change in passes_for(None).items():
        if name != "attach_ffi_wrapper":  # needs a signature
            change(module)
    return ptx(module)


def after(change: Callable[[ModuleOp], object], module: ModuleOp) -> str:
    """The module's text after a pass, which leaves it valid."""
    change(module)
    module.verify()
    return module_text(module)


ALL_PASSES: Final = passes_for(None, sanitize=",".join((*SANITIZER_CHECKS, "trace")))
RUNS: Final[dict[str, Callable[[ModuleOp], str]]] = {
    "llvm-cpu": llvm_cpu,
    "llvm-host": llvm_host,
    "llvm-cuda": llvm_cuda,
    "ptx": ptx,
    "ptx-sm75": ptx_without_redux,
    "ptx-sm60": functools.partial(ptx, architecture="sm_60"),
    "sass": sass,
    "ptx-after-passes": ptx_after_passes,
    "map_each_on_cpu": functools.partial(after, functools.partial(map_each, on_host=True)),
    **{name: functools.partial(after, each) for name, each in ALL_PASSES.items()},
}
del RUNS["attach_ffi_wrapper"]  # needs a signature, and has texts of its own in tests/ffi_wrapper
