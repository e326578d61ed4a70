# SPDX-License-Identifier: Apache-2.0
"""The CUDA backend: kernels become PTX, then an assembler makes a cubin of it while the host object is built.

In: a module. Out: `ObjectCode`, with what the assembler says about each kernel.
"""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING, Final

from weft.backends.base import Job, run_stages
from weft.backends.cuda.diagnostics import KernelResources, read_diagnostics, read_resources
from weft.backends.cuda.lowering.kernel import entry_name
from weft.backends.cuda.lowering.launch import refuse_clusters
from weft.backends.cuda.stages import CUBIN_STAGES, HOST_STAGES, begin_cubin, machine_of
from weft.backends.cuda.toolchain import disassemble
from weft.backends.host import entry_symbols
from weft.backends.worker import Worker
from weft.codegen.operations.kernel_parameters import kernel_parameters, parameter_bytes
from weft.codegen.operations.launch import kernels_of, scratch_bytes
from weft.runtime.object_code import KernelInfo, ObjectCode, Remark

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from weft.backends.base import Options, Recorder
    from weft.backends.cuda.toolchain import Assembly
    from weft.dialects.simt.kernel import KernelOp

_DEVICE_CUDA: Final = 2  # DLPack's kDLCUDA
_log = logging.getLogger("weft")


class CudaBackend:
    """Compiles for NVIDIA GPUs."""

    name = "cuda"
    device_type = _DEVICE_CUDA

    def compile(
        self, module: ModuleOp, architecture: str | None, options: Options, artifacts: Recorder
    ) -> ObjectCode:
        """The kernels and the host object that launches them.

        The kernels are a cubin, or PTX, which the driver assembles when it loads it, where no assembler for the
        architecture is installed.

        Raises:
            OptionError: if the architecture is unknown.
            ToolchainError: if the assembler refuses the code, or is missing and an option needs it.
        """
        job = Job(module, architecture, options, artifacts)
        machine = machine_of(job)
        refuse_clusters(module, machine.number, machine.architecture)
        kernels = kernels_of(module)
        assembly: Assembly | None = None
        if kernels:
            finish = begin_cubin(job)
            worker: Worker[Assembly] = Worker(
                lambda: run_stages(CUBIN_STAGES, job, finish), "weft-assembler"
            )
            data = run_stages(HOST_STAGES, job)
            assembly = worker.result()
        else:
            data = run_stages(HOST_STAGES, job)
        device_code = record_device_code(assembly, artifacts)
        remarks = report_diagnostics(assembly, artifacts)
        resources = read_resources(assembly.log, assembly.cubin) if assembly else {}
        return ObjectCode(
            host_object=data,
            device_code=device_code,
            kernels=tuple(_kernel_info(kernel, resources) for kernel in kernels),
            entry_symbols=entry_symbols(module),
            target=self.name,
            architecture=machine.architecture,
            remarks=tuple(remarks),
        )

    def disassemble(self, artifacts: Recorder) -> str | None:
        """SASS of the cubin that was recorded.

        Raises:
            ToolchainError: if nvdisasm is not installed, or the kernels were not assembled.
        """
        cubin = artifacts.data("cubin")
        return None if cubin is None else disassemble(cubin)


def record_device_code(assembly: Assembly | None, artifacts: Recorder) -> bytes:
    """What the driver loads: the cubin, or the PTX where there is no assembler for it here."""
    if assembly is None:
        return b""
    if assembly.missing is None:
        artifacts.record("cubin", assembly.cubin)
        return assembly.cubin
    artifacts.refuse("cubin", assembly.missing)
    return (artifacts.data("ptx") or b"") + b"\0"  # the driver takes PTX as a C string


def report_diagnostics(assembly: Assembly | None, artifacts: Recorder) -> list[Remark]:
    """Logs what the assembler warned of, with source lines."""
    if assembly is None:
        return []
    if assembly.missing is not None:
        return [
            Remark("", f"the driver assembles the PTX when it loads it: {assembly.missing.message}")
        ]
    ptx = artifacts.data("ptx") or b""
    found = read_diagnostics(assembly.log, ptx.decode())
    for diagnostic in found:
        _log.warning("%s", diagnostic)
    return [*found, Remark("", assembly.remark)] if assembly.remark else found


def _kernel_info(kernel: KernelOp, resources: dict[str, KernelResources]) -> KernelInfo:
    name = entry_name(kernel.sym_name.data)
    found = resources.get(name, KernelResources())
    parameters = kernel_parameters(kernel)
    fixed = kernel.block_size
    limit = kernel.max_threads if fixed is None else math.prod(fixed)
    return KernelInfo(
        name=name,
        parameter_sizes=tuple(parameter.size_bytes for parameter in parameters),
        parameter_bytes=parameter_bytes(parameters),
        max_threads=found.max_threads(limit),
        registers=found.registers,
        spill_store_bytes=found.spill_store_bytes,
        spill_load_bytes=found.spill_load_bytes,
        stack_bytes=found.stack_bytes,
        shared_memory_bytes=kernel.shared_memory_bytes,
        global_scratch_bytes=sum(scratch_bytes(kernel)),
        constant_bytes=found.constant_bytes,
        barriers=found.barriers,
    )


def make_backend() -> CudaBackend:
    """The backend, for the registry."""
    return CudaBackend()
