# SPDX-License-Identifier: Apache-2.0
"""From a module to one object for this CPU: kernels are optimized, the host function and wrapper are not.

In: a job. Out: `ObjectCode`, with remarks on how each kernel's threads run, and which line decided. Host code is
printed and parsed apart, linked to the optimized kernels, and emitted with them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from xdsl.dialects import scf

from weft.backends.base import Stage, run_stages
from weft.backends.cpu.lowering.affine import RowAnalysis
from weft.backends.cpu.lowering.fission import Waits, find_obstacle, interchange_loops
from weft.backends.cpu.lowering.loops import print_ask
from weft.backends.cpu.lowering.overlap import drop_dependencies
from weft.backends.cpu.lowering.rows import find_guard
from weft.backends.cpu.lowering.split_kernel import print_cooperative_kernel, print_split_kernel
from weft.backends.cpu.lowering.tables import HOST_ROWS, KERNEL_ROWS, UNSUPPORTED
from weft.backends.cpu.lowering.thread_loop import print_kernel
from weft.backends.host import (
    HostMachine,
    entry_symbols,
    host_machine,
    host_of,
    kernel_info,
    print_host,
    refuse_unsupported,
    with_glue,
)
from weft.codegen.llvm.debug_info import LINE_TABLES, DebugInfo
from weft.codegen.llvm.module_printer import ModulePrinter
from weft.codegen.llvm.optimize import emit_object, holding_llvm, link_text, parse, run_pipeline
from weft.codegen.operations.launch import kernels_of
from weft.codegen.tables import LIBRARY
from weft.dialects.access import CalledAs, trait_of
from weft.dialects.builder import source_location
from weft.dialects.ffi.function import ENTRY_PREFIX
from weft.dialects.simt.kernel import KernelOp
from weft.runtime.code_image import ObjectCode, Remark
from weft.types.launch_limits import MAX_THREADS

if TYPE_CHECKING:
    from llvmlite.binding import ModuleRef
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.ir import Operation

    from weft.backends.base import Backend, Job


_COROUTINES: Final = "@llvm.coro."
"""In the text of kernels whose threads are coroutines."""


def print_kernels(module: ModuleOp, machine: HostMachine) -> str:
    """LLVM text of a module's kernels."""
    refuse_unsupported(kernels_of(module), UNSUPPORTED, machine.target)
    drop_dependencies(module)
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
            kernel_info(kernel, max_threads=kernel.max_threads or MAX_THREADS)
            for kernel in kernels_of(job.module)
        ),
        entry_symbols=entry_symbols(job.module),
        target=backend.name,
        remarks=tuple(map(engine_remark, kernels_of(job.module))),
    )


# Operations that a program does not call, and that may wait.
_NAMES: Final[dict[type[Operation], str]] = {
    KernelOp: "--sanitize=orders",
    scf.WhileOp: "a loop that may wait for what other threads write",
}


def engine_remark(kernel: KernelOp) -> Remark:
    """Whether a kernel is loops over threads or one coroutine per thread, and why.

    Example:
        ``reduce.py:12: one coroutine per thread, because of sync_threads (kernel reduce_kernel)``
    """
    waits = Waits(kernel)
    if waits.first is not None:
        obstacle = find_obstacle(kernel, waits)
        if obstacle is None:
            return _remark(kernel, f"thread loops, split at {_name(waits.first)}", waits.first)
        reason = f"one coroutine per thread, because of {_name(obstacle.waiting)}"
        if obstacle.others:
            reason += f" and {obstacle.others} more places to wait at: the loops would be too many"
        if obstacle.around is None:
            return _remark(kernel, reason, obstacle.waiting)
        what = "branch" if isinstance(obstacle.around, scf.IfOp) else "loop"
        return _remark(
            kernel, f"{reason} in a {what} that threads may take differently", obstacle.around
        )
    guard = find_guard(kernel.body.block.ops, RowAnalysis())
    if guard is not None:
        return _remark(kernel, "thread loop; this condition is its bounds", guard.operation)
    return _remark(kernel, "thread loop", None)


def _name(waiting: Operation) -> str:
    called = trait_of(waiting, CalledAs)
    return _NAMES[type(waiting)] if called is None else called.of(waiting)


def _remark(kernel: KernelOp, message: str, cause: Operation | None) -> Remark:
    place = source_location(cause.location) if cause is not None else None
    return Remark(
        kernel.sym_name.data,
        message,
        file=place.file if place else "",
        line=place.line if place else 0,
    )
