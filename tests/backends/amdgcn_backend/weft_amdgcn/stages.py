# SPDX-License-Identifier: Apache-2.0
"""From a module to assembly, a relocatable object, and a host object.

In: a job. Out: `ObjectCode`. LLVM changes a module while it emits it, so that each form begins with the text.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from weft.backends.base import Stage, run_stages
from weft.backends.host import entry_symbols, host_stages, kernel_info, refuse_unsupported
from weft.codegen.gpu import check_shared_memory
from weft.codegen.llvm.debug_info import LINE_TABLES, DebugInfo
from weft.codegen.llvm.module_printer import ModulePrinter
from weft.codegen.llvm.optimize import emit_assembly, emit_object, parse, run_pipeline
from weft.codegen.llvm.types import ascii_name
from weft.codegen.operations.launch import kernels_of
from weft.codegen.tables import LIBRARY
from weft.runtime.code_image import ObjectCode
from weft_amdgcn.lowering import HOST_ROWS, KERNEL_ROWS, UNSUPPORTED, print_kernel
from weft_amdgcn.target import SHARED_MEMORY_BYTES, AmdMachine, amd_machine

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from weft.backends.base import Backend, Job
    from weft.dialects.simt.kernel import KernelOp
    from weft.runtime.code_image import KernelInfo

# Fields of KernelInfo, by their names in the assembly's description of each kernel.
_RESOURCES: Final = {".vgpr_count": "registers", ".private_segment_fixed_size": "stack_bytes"}


def print_kernels(module: ModuleOp, machine: AmdMachine, enable_assertions: bool = False) -> str:
    """LLVM text of a module's kernels."""
    refuse_unsupported(kernels_of(module), UNSUPPORTED, machine.target)
    printer = ModulePrinter(
        machine.target, KERNEL_ROWS, {}, LIBRARY, DebugInfo(LINE_TABLES), enable_assertions
    )
    for kernel in kernels_of(module):
        check_shared_memory(kernel, SHARED_MEMORY_BYTES, machine.target.name)
        print_kernel(printer, kernel)
    return printer.text()


def optimized(text: str, machine: AmdMachine, level: int) -> Any:
    """The kernels as LLVM's module, to be emitted once."""
    module = parse(text, "kernels")
    run_pipeline(module, machine.machine, level, vectorize=False)
    return module


def _print(job: Job, _value: None) -> str:
    machine = amd_machine(job.architecture)
    return print_kernels(job.module, machine, job.options.enable_assertions)


def _emit_assembly(job: Job, text: str) -> str:
    machine = amd_machine(job.architecture)
    return emit_assembly(optimized(text, machine, job.options.opt_level), machine.machine)


def _emit_object(job: Job, text: str) -> bytes:
    machine = amd_machine(job.architecture)
    return emit_object(optimized(text, machine, job.options.opt_level), machine.machine)


PRINT_STAGES: Final = (Stage("LLVM text", _print, "llvm"),)
ASSEMBLY_STAGES: Final = (Stage("LLVM to assembly", _emit_assembly, "assembly"),)
OBJECT_STAGES: Final = (Stage("LLVM to object", _emit_object, "elf"),)
HOST_STAGES: Final = host_stages(HOST_ROWS)


def compile_job(backend: Backend, job: Job) -> ObjectCode:
    """See `AmdgcnBackend.compile`."""
    kernels = kernels_of(job.module)
    data, assembly = b"", ""
    if kernels:
        text = run_stages(PRINT_STAGES, job)
        assembly = run_stages(ASSEMBLY_STAGES, job, text)
        data = run_stages(OBJECT_STAGES, job, text)
    return ObjectCode(
        host_object=run_stages(HOST_STAGES, job),
        device_code=data,
        kernels=tuple(_kernel_info(kernel, assembly) for kernel in kernels),
        entry_symbols=entry_symbols(job.module),
        target=backend.name,
        architecture=job.architecture,
        device_type=backend.device_type,
    )


def _kernel_info(kernel: KernelOp, assembly: str) -> KernelInfo:
    name = ascii_name(kernel.sym_name.data)
    for described in assembly.partition("amdhsa.kernels:")[2].split("\n  - "):
        if re.search(rf"^ *\.name: +{re.escape(name)}$", described, re.MULTILINE):
            found = dict(re.findall(r"^ *(\.\w+): +(\d+)$", described, re.MULTILINE))
            used = {_RESOURCES[key]: int(found[key]) for key in _RESOURCES}
            return kernel_info(kernel, name, **used)
    return kernel_info(kernel, name)
