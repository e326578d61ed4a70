# SPDX-License-Identifier: Apache-2.0
"""From a module to a cubin and a host object: kernels to PTX first, then host code while they are assembled.

In: a job. Out: `ObjectCode`, with the assembler's figures for each kernel.
"""

from __future__ import annotations

import logging
import re
from math import prod
from typing import TYPE_CHECKING, Final

from weft.backends.base import Stage, run_stages
from weft.backends.cuda.diagnostics import (
    KernelResources,
    local_memory,
    read_diagnostics,
    read_resources,
)
from weft.backends.cuda.fast_math import FAST, units
from weft.backends.cuda.lowering.debug import RECORDERS
from weft.backends.cuda.lowering.kernel import entry_name, print_kernel, refuse_clusters
from weft.backends.cuda.lowering.tables import HOST_ROWS, KERNEL_ROWS
from weft.backends.cuda.peephole import (
    join_masks,
    keep_wide_counts,
    place_wide_products,
    raise_version,
    wrap_negations,
)
from weft.backends.cuda.target import CudaMachine, cuda_machine, take_register_limit
from weft.backends.cuda.toolchain import Assembly, begin_assembly
from weft.backends.host import entry_symbols, host_stages, kernel_info
from weft.codegen.gpu import check_shared_memory
from weft.codegen.llvm.debug_info import DIRECTIVES, DebugInfo
from weft.codegen.llvm.module_printer import ModulePrinter
from weft.codegen.llvm.optimize import emit_assembly, parse, run_pipeline
from weft.codegen.operations.launch import kernels_of
from weft.codegen.tables import LIBRARY
from weft.errors import ToolchainError
from weft.runtime.code_image import ObjectCode, Remark
from weft.types.capabilities import capabilities
from weft.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Callable

    from xdsl.dialects.builtin import ModuleOp

    from weft.backends.base import Backend, Job, Recorder
    from weft.dialects.simt.kernel import KernelOp
    from weft.runtime.code_image import KernelInfo

_log = logging.getLogger("weft")

# Errors that are not about the code: there is no assembler for it here.
_NO_ASSEMBLER: Final = ("TOOL_MISSING", "ASSEMBLER_ARCHITECTURE")


def kernel_printer(machine: CudaMachine, enable_assertions: bool) -> ModulePrinter:
    """Printer of kernels for an architecture."""
    library = LIBRARY | units(capabilities(machine.architecture)) | FAST | RECORDERS
    return ModulePrinter(
        machine.target, KERNEL_ROWS, {}, library, DebugInfo(DIRECTIVES), enable_assertions
    )


def print_kernels(
    module: ModuleOp,
    machine: CudaMachine,
    enable_assertions: bool = False,
    max_registers: int | None = None,
    math: str = "fast",
) -> str:
    """LLVM text of a module's kernels.

    Args:
        module: with the kernels.
        machine: the architecture.
        enable_assertions: whether ``assert`` stays.
        max_registers: per thread, for kernels without a limit of their own.
        math: ``"fast"`` or ``"portable"`` functions, for kernels that do not say.
    Raises:
        ValueRangeError: if a kernel has more shared memory than the architecture.
        UnavailableError: if it uses an operation that the architecture lacks.
    """
    printer = kernel_printer(machine, enable_assertions)
    for kernel in kernels_of(module):
        check_shared_memory(kernel, machine.shared_memory_bytes, machine.architecture)
        printer.fast_math = (kernel.math or math) == "fast"
        print_kernel(printer, kernel, max_registers)
    return printer.text()


def machine_of(job: Job) -> CudaMachine:
    """The architecture that a job compiles for."""
    return cuda_machine(job.architecture)


# Arithmetic that a GPU has for two at once.
_HALVES: Final = re.compile(
    r"= f(?:add|sub|mul) (?:\w+ )*(?:half|bfloat) |@llvm\.(?:fma|maxnum|minnum)\.b?f16\("
)


_WIDE: Final = re.compile(r"\b(?:load|store) .*\bptr addrspace\(1\).*, align 32\b")


def emit_ptx(text: str, machine: CudaMachine, level: int) -> str:
    """PTX of kernels in LLVM text; of f16 and bf16, two that stand side by side are computed at once."""
    module = parse(text, "kernels")
    pack = _HALVES.search(text) is not None
    run_pipeline(module, machine.machine, level, vectorize=False, pack=pack)
    optimized = str(module)
    kept = keep_wide_counts(optimized)
    if kept != optimized:
        module = parse(kept, "optimized kernels")
    target = machine.wide_machine if _WIDE.search(optimized) else machine.machine
    ptx = place_wide_products(emit_assembly(module, target))
    return raise_version(join_masks(wrap_negations(ptx)))


def _emit_ptx(job: Job, text: str) -> str:
    return emit_ptx(text, machine_of(job), job.options.opt_level)


def begin_cubin(job: Job) -> Callable[[], Assembly]:
    """Makes the PTX and starts assembling it; the result waits for the assembler."""
    _, options = take_register_limit(job.options.ptxas_options)
    if job.options.opt_level < 3 and not any(option.startswith("-O") for option in options):
        options = (*options, f"-O{job.options.opt_level}")
    return begin_assembly(
        lambda: run_stages(_PTX_STAGES, job),
        machine_of(job).architecture,
        options,
        job.options.generate_line_info,
    )


def _finish_assembly(job: Job, finish: Callable[[], Assembly]) -> Assembly:
    """The cubin; without an assembler for the architecture, the reason, so that the PTX is used."""
    try:
        return finish()
    except ToolchainError as error:
        if error.code not in _NO_ASSEMBLER or take_register_limit(job.options.ptxas_options)[1]:
            raise
        return Assembly(b"", "", error)


def _print_kernels(job: Job, _value: None) -> str:
    limit, _ = take_register_limit(job.options.ptxas_options)
    options = job.options
    return print_kernels(
        job.module, machine_of(job), options.enable_assertions, limit, options.math
    )


_PTX_STAGES: Final = (
    Stage("LLVM text", _print_kernels, "llvm"),
    Stage("LLVM to PTX", _emit_ptx, "ptx"),
)
CUBIN_STAGES: Final = (Stage("assembling", _finish_assembly),)
HOST_STAGES: Final = host_stages(HOST_ROWS)


def compile_job(backend: Backend, job: Job) -> ObjectCode:
    """See `CudaBackend.compile`."""
    machine = machine_of(job)
    refuse_clusters(job.module, machine.architecture)
    kernels = kernels_of(job.module)
    assembly: Assembly | None = None
    if kernels:
        finish = begin_cubin(job)
        worker: Worker[Assembly] = Worker(lambda: run_stages(CUBIN_STAGES, job, finish))
        data = run_stages(HOST_STAGES, job)
        assembly = worker.result()
    else:
        data = run_stages(HOST_STAGES, job)
    resources = read_resources(assembly.log, assembly.cubin) if assembly else {}
    return ObjectCode(
        host_object=data,
        device_code=_record_device_code(assembly, job.artifacts),
        kernels=tuple(_kernel_info(kernel, resources) for kernel in kernels),
        entry_symbols=entry_symbols(job.module),
        target=backend.name,
        architecture=machine.architecture,
        device_type=backend.device_type,
        remarks=tuple(_report_diagnostics(assembly, job.artifacts, resources)),
    )


def _record_device_code(assembly: Assembly | None, artifacts: Recorder) -> bytes:
    """The code to load: the cubin, or the PTX if there is no assembler for it here."""
    if assembly is None:
        return b""
    if assembly.missing is None:
        artifacts.record("cubin", assembly.cubin)
        return assembly.cubin
    artifacts.refuse("cubin", assembly.missing)
    return (artifacts.data("ptx") or b"") + b"\0"  # the driver takes PTX as a C string


def _report_diagnostics(
    assembly: Assembly | None, artifacts: Recorder, resources: dict[str, KernelResources]
) -> list[Remark]:
    """Logs the assembler's warnings, with source lines; what lies in local memory is remarked on alone."""
    if assembly is None:
        return []
    if assembly.missing is not None:
        return [
            Remark("", f"the driver assembles the PTX when it loads it: {assembly.missing.message}")
        ]
    ptx = (artifacts.data("ptx") or b"").decode()
    found = read_diagnostics(assembly.log, ptx)
    for diagnostic in found:
        _log.warning("%s", diagnostic)
    found += local_memory(ptx, assembly.cubin, resources)
    return [*found, Remark("", assembly.remark)] if assembly.remark else found


def _kernel_info(kernel: KernelOp, resources: dict[str, KernelResources]) -> KernelInfo:
    name = entry_name(kernel.sym_name.data)
    found = resources.get(name, KernelResources())
    fixed = kernel.block_size
    limit = kernel.max_threads if fixed is None else prod(fixed)
    return kernel_info(
        kernel,
        name=name,
        max_threads=found.max_threads(limit),
        registers=found.registers,
        spill_store_bytes=found.spill_store_bytes,
        spill_load_bytes=found.spill_load_bytes,
        stack_bytes=found.stack_bytes,
        constant_bytes=found.constant_bytes,
        barriers=found.barriers,
    )
