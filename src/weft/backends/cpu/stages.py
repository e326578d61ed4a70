# SPDX-License-Identifier: Apache-2.0
"""From a module to one object for this CPU: kernels are optimized, the host function and wrapper are not.

In: a job. Out: `ObjectCode`. Host code is printed and parsed apart, linked to the optimized kernels, and emitted
with them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from weft.backends.base import Stage, run_stages
from weft.backends.cpu.lowering.budget import print_ask
from weft.backends.cpu.lowering.coroutine import print_cooperative_kernel
from weft.backends.cpu.lowering.fission import Waits, find_obstacle
from weft.backends.cpu.lowering.interchange import interchange_loops
from weft.backends.cpu.lowering.split_kernel import print_split_kernel
from weft.backends.cpu.lowering.tables import HOST_ROWS, KERNEL_ROWS, UNSUPPORTED
from weft.backends.cpu.lowering.thread_loop import print_kernel
from weft.backends.cpu.remarks import engine_remark
from weft.backends.host import (
    HostMachine,
    entry_symbols,
    host_machine,
    host_of,
    kernel_info,
    print_host,
    with_glue,
)
from weft.backends.refusal import refuse_unsupported
from weft.codegen.llvm.debug_info import LINE_TABLES, DebugInfo
from weft.codegen.llvm.lock import holding_llvm
from weft.codegen.llvm.module_printer import ModulePrinter
from weft.codegen.llvm.optimize import emit_object, link_text, parse, run_pipeline
from weft.codegen.operations.launch import kernels_of
from weft.codegen.tables import LIBRARY
from weft.dialects.ffi.function import ENTRY_PREFIX
from weft.runtime.object_code import ObjectCode
from weft.types.launch_limits import MOST_THREADS

if TYPE_CHECKING:
    from llvmlite.binding import ModuleRef
    from xdsl.dialects.builtin import ModuleOp

    from weft.backends.base import Backend, Job


_COROUTINES: Final = "@llvm.coro."
"""In the text of kernels whose threads are coroutines."""


def print_kernels(module: ModuleOp, machine: HostMachine) -> str:
    """LLVM text of a module's kernels."""
    refuse_unsupported(kernels_of(module), UNSUPPORTED, machine.target)
    printer = ModulePrinter(machine.target, KERNEL_ROWS, {}, LIBRARY, DebugInfo(LINE_TABLES))
    for kernel in kernels_of(module):
        waits = Waits(kernel)
        if waits.first is None:
            print_kernel(printer, kernel, machine.masks_stores)
        elif find_obstacle(kernel, waits) is None:
            interchange_loops(kernel, waits)
            print_split_kernel(printer, kernel, waits, machine.masks_stores)
        else:
            print_cooperative_kernel(printer, kernel)
    print_ask(printer)
    return printer.text()


def optimize_kernels(job: Job, text: str) -> ModuleRef:
    """The kernels as an optimized LLVM module."""
    return _optimized(text, job.options.opt_level, host_of(job))


def _optimized(text: str, opt_level: int, host: HostMachine) -> ModuleRef:
    module = parse(text, "kernels")
    if _COROUTINES in text:
        # Coroutines are split first: values that optimization moves across a suspension enlarge every frame.
        run_pipeline(module, host.machine, 0, vectorize=False)
    run_pipeline(module, host.machine, opt_level, vectorize=True)
    return module


def assembly_text(text: str, opt_level: int) -> str:
    """The assembly that the kernels' LLVM text becomes on this CPU; made for reading, by running LLVM again."""
    with holding_llvm():
        module = _optimized(text, opt_level, host_machine())
        return host_machine().machine.emit_assembly(module)


def _print_kernels(job: Job, _value: None) -> str:
    return print_kernels(job.module, host_of(job))


def _print_host(job: Job, _value: None) -> str:
    return print_host(job.module, host_of(job), HOST_ROWS, DebugInfo(LINE_TABLES))


def link_and_emit(kernels: ModuleRef, host_text: str, host: HostMachine) -> bytes:
    """One object of both."""
    link_text(kernels, host_text, "host function and wrapper")
    return emit_object(kernels, host.machine)


def emit_exported(job: Job, glue: str) -> bytes:
    """See `CpuBackend.emit_exported`."""
    text, host = (job.artifacts.data("llvm") or b"").decode(), host_of(job)
    module = _optimized(text, job.options.opt_level, host)
    link_text(module, with_glue(job, glue), "host function and wrapper")
    for function in module.functions:
        # Another function's object may have a kernel of this name.
        if not function.is_declaration and not function.name.startswith(ENTRY_PREFIX):
            function.linkage = "internal"
    return emit_object(module, host.machine)


KERNEL_STAGES: Final = (
    Stage("LLVM text", _print_kernels, "llvm"),
    Stage("LLVM", optimize_kernels),
)
HOST_STAGES: Final = (Stage("host: LLVM text", _print_host, "llvm-host"),)


def compile_job(backend: Backend, job: Job) -> ObjectCode:
    """See `CpuBackend.compile`."""
    kernels = run_stages(KERNEL_STAGES, job)
    host_text = run_stages(HOST_STAGES, job)
    with job.artifacts.stage("LLVM to object"):
        data = link_and_emit(kernels, host_text, host_of(job))
    return ObjectCode(
        host_object=data,
        device_code=b"",
        kernels=tuple(
            kernel_info(kernel, max_threads=kernel.max_threads or MOST_THREADS)
            for kernel in kernels_of(job.module)
        ),
        entry_symbols=entry_symbols(job.module),
        target=backend.name,
        remarks=tuple(map(engine_remark, kernels_of(job.module))),
    )
