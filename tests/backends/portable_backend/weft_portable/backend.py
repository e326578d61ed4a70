# SPDX-License-Identifier: Apache-2.0
"""The target `portable`: code for every x86-64 CPU, not only for the one that compiles.

In: a module of kernels, host function and wrapper. Out: `ObjectCode` with one object that uses no extension of the
instruction set, which LLVM has not optimized: what a backend must do, and little more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft.backends.base import Job, Stage, run_stages
from weft.backends.cpu.stages import print_host, print_kernels
from weft.backends.host import entry_symbols, machine_of
from weft.codegen.llvm.optimize import emit_object, link_text, parse, run_pipeline
from weft.codegen.operations.kernel_parameters import kernel_parameters, parameter_bytes
from weft.codegen.operations.launch import kernels_of, scratch_bytes
from weft.errors import OptionError
from weft.runtime.object_code import KernelInfo, ObjectCode
from weft.types.device import CPU

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from weft.backends.base import Options, Recorder
    from weft.dialects.simt.kernel import KernelOp


def _machine() -> Any:
    return machine_of("x86-64", "")


def _kernel_text(job: Job, _value: None) -> str:
    return print_kernels(job.module, _machine())


def _host_text(job: Job, _value: None) -> str:
    return print_host(job.module, _machine())


def _lower_kernels(_job: Job, text: str) -> Any:
    module = parse(text, "kernels")
    # Level 0 does what has to be done: it splits coroutines.
    run_pipeline(module, _machine().machine, 0, vectorize=False)
    return module


KERNEL_STAGES = (Stage("LLVM text", _kernel_text, "llvm"), Stage("LLVM", _lower_kernels))
HOST_STAGES = (Stage("host: LLVM text", _host_text, "llvm-host"),)


class PortableBackend:
    """Compiles for any x86-64 CPU."""

    name = "portable"
    device_type = CPU

    def compile(
        self, module: ModuleOp, architecture: str | None, options: Options, artifacts: Recorder
    ) -> ObjectCode:
        """One object with kernels, host function and wrapper.

        Raises:
            OptionError: if a GPU architecture is asked for.
        """
        if architecture is not None:
            raise OptionError(
                "OPTION_CONFLICT",
                f"--gpu-arch {architecture} does not go with the target {self.name}",
                hint="leave out --gpu-arch, or compile with --target cuda",
            )
        job = Job(module, None, options, artifacts)
        kernels = run_stages(KERNEL_STAGES, job)
        host = run_stages(HOST_STAGES, job)
        with artifacts.stage("LLVM to object"):
            link_text(kernels, host, "host function and wrapper")
            data = emit_object(kernels, _machine().machine)
        return ObjectCode(
            host_object=data,
            device_code=b"",
            kernels=tuple(_kernel_info(kernel) for kernel in kernels_of(module)),
            entry_symbols=entry_symbols(module),
            target=self.name,
        )

    def disassemble(self, artifacts: Recorder) -> str | None:
        """There is no device code to take apart."""
        return None


def _kernel_info(kernel: KernelOp) -> KernelInfo:
    parameters = kernel_parameters(kernel)
    return KernelInfo(
        name=kernel.sym_name.data,
        parameter_sizes=tuple(parameter.size_bytes for parameter in parameters),
        parameter_bytes=parameter_bytes(parameters),
        shared_memory_bytes=kernel.shared_memory_bytes,
        global_scratch_bytes=sum(scratch_bytes(kernel)),
    )
