# SPDX-License-Identifier: Apache-2.0
"""From a module to a cubin and a host object: the kernels as far as PTX, then the host code beside their assembler.

In: a job. Out: cubin with its log; host object.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from weft.backends.base import Stage, run_stages
from weft.backends.cuda.lowering.kernel import print_kernel
from weft.backends.cuda.lowering.shared import check_shared_memory
from weft.backends.cuda.lowering.tables import HOST_ROWS, KERNEL_ROWS
from weft.backends.cuda.register_limit import take_register_limit
from weft.backends.cuda.target import DEFAULT_ARCHITECTURE, CudaMachine, cuda_machine
from weft.backends.cuda.toolchain import Assembly, begin_assembly
from weft.backends.host import HOST_SYMBOLS, HostMachine, host_machine
from weft.codegen.llvm.debug_info import DIRECTIVES, DebugInfo
from weft.codegen.llvm.module_printer import ModulePrinter, symbols_of
from weft.codegen.llvm.optimize import emit_assembly, emit_object, parse, run_pipeline
from weft.codegen.math_library.library import LIBRARY
from weft.codegen.operations.launch import kernels_of
from weft.dialects.simt.kernel import KernelOp
from weft.errors import ToolchainError

if TYPE_CHECKING:
    from collections.abc import Callable

    from xdsl.dialects.builtin import ModuleOp

    from weft.backends.base import Job

# Errors that say nothing against the code: there is no assembler for it here.
_NO_ASSEMBLER: Final = ("TOOL_MISSING", "ASSEMBLER_ARCHITECTURE")

# LLVM's pipeline for each --opt-level; its level 3 costs time and gained nothing on any kernel measured.
PIPELINE_LEVELS: Final = (0, 1, 2, 2)


def print_kernels(
    module: ModuleOp,
    machine: CudaMachine,
    enable_assertions: bool = False,
    max_registers: int | None = None,
) -> str:
    """LLVM text of a module's kernels.

    Args:
        module: with the kernels.
        machine: the architecture.
        enable_assertions: whether ``assert`` stays.
        max_registers: per thread, for kernels without a limit of their own.
    Raises:
        ValueRangeError: if a kernel has more shared memory than the architecture.
        UnavailableError: if it uses what the architecture lacks.
    """
    printer = ModulePrinter(
        machine.target, KERNEL_ROWS, {}, LIBRARY, DebugInfo(DIRECTIVES), enable_assertions
    )
    for kernel in kernels_of(module):
        check_shared_memory(kernel, machine.shared_memory_bytes, machine.architecture)
        print_kernel(printer, kernel, max_registers)
    return printer.text()


def print_host(module: ModuleOp, host: HostMachine) -> str:
    """LLVM text of a module's host function and wrapper."""
    printer = ModulePrinter(host.target, HOST_ROWS, HOST_SYMBOLS, LIBRARY)
    printer.print_symbols(op for op in symbols_of(module) if not isinstance(op, KernelOp))
    return printer.text()


def machine_of(job: Job) -> CudaMachine:
    """The architecture that a job compiles for."""
    return cuda_machine(job.architecture or DEFAULT_ARCHITECTURE)


def emit_ptx(text: str, machine: CudaMachine, level: int) -> str:
    """PTX of kernels in LLVM text."""
    module = parse(text, "kernels")
    run_pipeline(module, machine.machine, PIPELINE_LEVELS[level], vectorize=False)
    return emit_assembly(module, machine.machine)


def _emit_ptx(job: Job, text: str) -> str:
    return emit_ptx(text, machine_of(job), job.options.opt_level)


def begin_cubin(job: Job) -> Callable[[], Assembly]:
    """Makes the PTX, which an assembler takes over; what is returned waits for that."""
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
    """The cubin; without an assembler for the architecture, why there is none: the PTX has to serve."""
    try:
        return finish()
    except ToolchainError as error:
        if error.code not in _NO_ASSEMBLER or take_register_limit(job.options.ptxas_options)[1]:
            raise
        return Assembly(b"", "", error)


def _emit_host(job: Job, text: str) -> bytes:
    return emit_object(parse(text, "host function and wrapper"), host_machine().machine)


def _print_kernels(job: Job, _value: None) -> str:
    limit, _ = take_register_limit(job.options.ptxas_options)
    return print_kernels(job.module, machine_of(job), job.options.enable_assertions, limit)


def _print_host(job: Job, _value: None) -> str:
    return print_host(job.module, host_machine())


_PTX_STAGES: Final = (
    Stage("LLVM text", _print_kernels, "llvm"),
    Stage("LLVM to PTX", _emit_ptx, "ptx"),
)
CUBIN_STAGES: Final = (Stage("assembling", _finish_assembly),)
HOST_STAGES: Final = (
    Stage("host: LLVM text", _print_host, "llvm-host"),
    Stage("host: LLVM to object", _emit_host),
)
