# SPDX-License-Identifier: Apache-2.0
"""The target `portable`: code for every x86-64 CPU, not only for the one that compiles.

In: a module of kernels, host function and wrapper. Out: `ObjectCode` with one object that uses no extension of the
instruction set, which LLVM has not optimized: what a backend must do, and little more.
"""

from __future__ import annotations

from typing import Any

from weft.backends.base import Backend, Job, Stage, run_stages
from weft.backends.cpu.lowering.tables import HOST_ROWS
from weft.backends.cpu.stages import print_kernels
from weft.backends.host import entry_symbols, kernel_info, machine_of, print_host
from weft.codegen.llvm.optimize import emit_object, link_text, parse, run_pipeline
from weft.codegen.operations.launch import kernels_of
from weft.runtime.code_image import ObjectCode
from weft.types.device import CPU


def _machine() -> Any:
    return machine_of("x86-64", "")


def _kernel_text(job: Job, _value: None) -> str:
    return print_kernels(job.module, _machine())


def _host_text(job: Job, _value: None) -> str:
    return print_host(job.module, _machine(), HOST_ROWS)


def _lower_kernels(_job: Job, text: str) -> Any:
    module = parse(text, "kernels")
    # Level 0 does what has to be done: it splits coroutines.
    run_pipeline(module, _machine().machine, 0, vectorize=False)
    return module


KERNEL_STAGES = (Stage("LLVM text", _kernel_text, "llvm"), Stage("LLVM", _lower_kernels))
HOST_STAGES = (Stage("host: LLVM text", _host_text, "llvm-host"),)


class PortableBackend(Backend):
    """Compiles for any x86-64 CPU."""

    name = "portable"
    device_type = CPU

    def compile(self, job: Job) -> ObjectCode:
        """One object with kernels, host function and wrapper."""
        kernels = run_stages(KERNEL_STAGES, job)
        host = run_stages(HOST_STAGES, job)
        with job.artifacts.stage("LLVM to object"):
            link_text(kernels, host, "host function and wrapper")
            data = emit_object(kernels, _machine().machine)
        return ObjectCode(
            host_object=data,
            device_code=b"",
            kernels=tuple(map(kernel_info, kernels_of(job.module))),
            entry_symbols=entry_symbols(job.module),
            target=self.name,
        )
