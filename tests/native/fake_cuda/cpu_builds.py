# SPDX-License-Identifier: Apache-2.0
"""Compiles a function for CUDA, and its kernels for the CPU, so that launches on the fake compute."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import weft
from weft.backends.base import Job
from weft.backends.cpu.backend import CpuBackend
from weft.backends.cpu.lowering.split_kernel import scratch_symbol
from weft.backends.cpu.lowering.thread_loop import kernel_symbol
from weft.codegen.llvm.optimize import load_object
from weft.compiler.artifacts import Artifacts
from weft.compiler.options import CompileOptions

if TYPE_CHECKING:
    from tests.native.fake_cuda.fake import FakeCuda


def _in_object(symbol: str) -> str:
    """The name in the object of what LLVM text calls `@...`, quoted or not."""
    return symbol.removeprefix("@").strip('"')


class Compiled:
    """A function for CUDA, with CPU builds of its kernels.

    Attributes:
        function: what `weft.compile` gave.
    """

    def __init__(self, function: Any, *arguments: Any, options: str = "") -> None:
        self._builds: Any = None
        self._names: list[str] = []
        self.function = weft.compile(
            function,
            *arguments,
            options=f"--target cuda --gpu-arch sm_90 {options}",
            post_compile_hooks=[self._build],
        )

    def _build(self, module: Any) -> None:
        artifacts = Artifacts("cpu build", CompileOptions())
        code = CpuBackend().compile(Job(module.clone(), "", CompileOptions(), artifacts))
        self._names = [kernel.name for kernel in code.kernels]
        run = [_in_object(kernel_symbol(name)) for name in self._names]
        # Only kernels whose threads wait for each other have the second one.
        scratch = [_in_object(scratch_symbol(name)) for name in self._names]
        present = [name for name in scratch if name.encode() + b"\0" in code.host_object]
        self._builds = load_object(code.host_object, run + present)

    def register(self, fake: FakeCuda) -> Any:
        """Let launches of its kernels run on this fake, which keeps the builds; the function."""
        fake.kept.append(self)
        table = ctypes.c_void_p.from_address(self.function.details.image.state).value
        assert table
        addresses = self._builds.addresses
        for name in self._names:
            run = addresses[_in_object(kernel_symbol(name))]
            scratch = addresses.get(_in_object(scratch_symbol(name)), 0)
            fake.register_kernel(name, run, scratch, table)
        return self.function
