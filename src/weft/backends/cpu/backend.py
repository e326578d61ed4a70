# SPDX-License-Identifier: Apache-2.0
"""The CPU backend: one object with kernels, host function and wrapper.

In: a module. Out: `ObjectCode` without device code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from weft.backends.base import Job, run_stages
from weft.backends.cpu.remarks import engine_remark
from weft.backends.cpu.stages import HOST_STAGES, KERNEL_STAGES, link_and_emit
from weft.backends.host import entry_symbols
from weft.codegen.operations.kernel_parameters import kernel_parameters, parameter_bytes
from weft.codegen.operations.launch import kernels_of, scratch_bytes
from weft.errors import OptionError
from weft.runtime.object_code import KernelInfo, ObjectCode
from weft.types.launch_limits import MOST_THREADS

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from weft.backends.base import Options, Recorder
    from weft.dialects.simt.kernel import KernelOp

_DEVICE_CPU: Final = 1  # DLPack's kDLCPU


class CpuBackend:
    """Compiles for the CPU of this process."""

    name = "cpu"
    device_type = _DEVICE_CPU

    def compile(
        self, module: ModuleOp, architecture: str | None, options: Options, artifacts: Recorder
    ) -> ObjectCode:
        """Machine code for this CPU.

        Raises:
            OptionError: if a GPU architecture is asked for, or its assembler given options.
        """
        if architecture is not None:
            raise OptionError(
                "OPTION_CONFLICT",
                f"--gpu-arch {architecture} does not go with the target cpu",
                hint="leave out --gpu-arch, or compile with --target cuda",
            )
        if options.ptxas_options:
            raise OptionError(
                "OPTION_CONFLICT",
                "--ptxas-options are for the assembler of GPU code, which the target cpu does not have",
                hint="leave them out, or compile with --target cuda",
            )
        job = Job(module, None, options, artifacts)
        kernels = run_stages(KERNEL_STAGES, job)
        host_text = run_stages(HOST_STAGES, job)
        with artifacts.stage("LLVM to object"):
            data = link_and_emit(kernels, host_text)
        return ObjectCode(
            host_object=data,
            device_code=b"",
            kernels=tuple(_kernel_info(kernel) for kernel in kernels_of(module)),
            entry_symbols=entry_symbols(module),
            target=self.name,
            remarks=tuple(engine_remark(kernel) for kernel in kernels_of(module)),
        )

    def disassemble(self, artifacts: Recorder) -> str | None:
        """The CPU has no SASS."""
        return None


def _kernel_info(kernel: KernelOp) -> KernelInfo:
    parameters = kernel_parameters(kernel)
    return KernelInfo(
        name=kernel.sym_name.data,
        parameter_sizes=tuple(parameter.size_bytes for parameter in parameters),
        parameter_bytes=parameter_bytes(parameters),
        max_threads=kernel.max_threads or MOST_THREADS,
        shared_memory_bytes=kernel.shared_memory_bytes,
        global_scratch_bytes=sum(scratch_bytes(kernel)),
    )


def make_backend() -> CpuBackend:
    """The backend, for the registry."""
    return CpuBackend()
