# SPDX-License-Identifier: Apache-2.0
"""The machine of this process, and the parts common to all host objects.

In: LLVM's view of the CPU; func.func and ffi.func. Out: a `Target` for printing, LLVM's machine for emission; the host
object; the kernels' metadata in object code; an error with the place in the user's source for operations that a
backend lacks, before anything is printed.

LLVM runs on a worker: Python runs signal handlers only on the main thread, and llvmlite's objects dispose of what they
own line by line, so that an exception between two lines would dispose of it twice. Elsewhere a handler's exception ends
the wait for it.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final, TypeVar

import llvmlite.binding as llvm
from xdsl.dialects import func

from weft.backends.base import Stage
from weft.codegen.llvm.module_printer import COMMON_INTRINSICS, ModulePrinter, Target
from weft.codegen.llvm.optimize import emit_object, holds_llvm, initialize, parse
from weft.codegen.operations.host_function import print_host_function
from weft.codegen.operations.launch import kernel_parameters, parameter_bytes, scratch_bytes
from weft.codegen.tables import LIBRARY
from weft.codegen.wrapper.function import print_wrapper
from weft.dialects.builder import source_location
from weft.dialects.definition import DependsOnWarps
from weft.dialects.ffi import function
from weft.dialects.flow import walk
from weft.dialects.simt.kernel import KernelOp
from weft.errors import UnavailableError
from weft.memo import kept
from weft.runtime.code_image import STATE_SYMBOL, KernelInfo
from weft.types.launch_limits import WARP_SIZE
from weft.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from llvmlite.binding import TargetMachine
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.ir import Operation

    from weft.backends.base import Job
    from weft.codegen.llvm.debug_info import DebugInfo
    from weft.codegen.llvm.function_printer import OperationPrinter
    from weft.codegen.llvm.module_printer import SymbolPrinter


# Some of them are calls of libm.
INTRINSICS: Final = COMMON_INTRINSICS | {
    *("llvm.lifetime.end", "llvm.lifetime.start"),
    *("llvm.sadd.with.overflow", "llvm.ssub.sat"),
}


class HostMachine:
    """One CPU to compile for.

    Attributes:
        target: for printing.
        machine: LLVM's target machine, position-independent, small code model.
        masks_stores: the CPU has fast masked stores (AVX-512).
    """

    def __init__(self, cpu: str, features: str, triple: str = "") -> None:
        triple = triple or llvm.get_process_triple()
        # Level 1: for weft's code the same speed as 3, in half the time.
        self.machine: TargetMachine = llvm.Target.from_triple(triple).create_target_machine(
            cpu=cpu, features=features, opt=1, reloc="pic", codemodel="small"
        )
        enabled = set(features.split(","))
        self.masks_stores = "+avx512f" in enabled
        self.target = Target(
            name="cpu",
            triple=triple,
            data_layout=str(self.machine.target_data),
            intrinsics=INTRINSICS,
            native_small_floats=False,
            half_conversions="+f16c" in enabled or triple.startswith("aarch64"),
        )


@kept
def host_machine() -> HostMachine:
    """The CPU of this process, with all its features."""
    initialize("native")
    return HostMachine(llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten())


@kept
def machine_of(cpu: str, features: str, triple: str = "") -> HostMachine:
    """Another CPU, whose code may not run here; by default of this machine's architecture and system."""
    initialize("all" if triple else "native")
    return HostMachine(cpu, features, triple)


def host_of(job: Job) -> HostMachine:
    """The CPU that a job's host code is for."""
    return host_machine() if job.host is None else job.host


def emit_host(text: str, machine: HostMachine) -> bytes:
    """The object of a host function and its wrapper, whose kernels are elsewhere."""
    return emit_object(parse(text, "host function and wrapper"), machine.machine)


def with_glue(job: Job, glue: str) -> str:
    """The recorded text of the host function and its wrapper, with more beside it that sees its state."""
    text = (job.artifacts.data("llvm-host") or b"").decode()
    state = f"@{STATE_SYMBOL} = "
    return text.replace(f"{state}global", f"{state}internal global") + glue


HOST_SYMBOLS: Final[dict[type[Operation], SymbolPrinter]] = {
    func.FuncOp: print_host_function,
    function.FuncOp: print_wrapper,
}


def print_host(
    module: ModuleOp,
    machine: HostMachine,
    rows: Mapping[type[Operation], OperationPrinter],
    debug: DebugInfo | None = None,
) -> str:
    """LLVM text of a module's host function and wrapper; `rows` print the host function."""
    printer = ModulePrinter(machine.target, rows, HOST_SYMBOLS, LIBRARY, debug)
    printer.print_symbols(op for op in module.body.block.ops if not isinstance(op, KernelOp))
    return printer.text()


def host_stages(rows: Mapping[type[Operation], OperationPrinter]) -> tuple[Stage, ...]:
    """From a module to the object with its host function and wrapper, whose kernels are elsewhere."""

    def text(job: Job, _value: None) -> str:
        return print_host(job.module, host_of(job), rows)

    def data(job: Job, text: str) -> bytes:
        return emit_host(text, host_of(job))

    return Stage("host: LLVM text", text, "llvm-host"), Stage("host: LLVM to object", data)


def kernel_info(kernel: KernelOp, name: str = "", **found: int) -> KernelInfo:
    """A kernel's metadata: its parameters and memory, and the assembler's figures.

    Args:
        kernel: after its layout.
        name: its symbol in the machine code, if that is another.
        found: other fields of `KernelInfo`.
    """
    parameters = kernel_parameters(kernel)
    return KernelInfo(
        name=name or kernel.sym_name.data,
        parameter_sizes=tuple(parameter.size_bytes for parameter in parameters),
        parameter_bytes=parameter_bytes(parameters),
        shared_memory_bytes=kernel.shared_memory_bytes,
        global_scratch_bytes=sum(scratch_bytes(kernel)),
        **found,
    )


def entry_symbols(module: ModuleOp) -> tuple[str, ...]:
    """The functions that a host object exports: the wrappers, by name."""
    return tuple(
        operation.sym_name.data
        for operation in module.body.block.ops
        if isinstance(operation, function.FuncOp)
    )


def refuse_unsupported(
    kernels: Iterable[Operation], unsupported: Mapping[type[Operation], str], target: Target
) -> None:
    """Checks that the kernels hold none of these operations, nor any that depends on warps, if these have another size.

    Args:
        kernels: to be printed.
        unsupported: operation class → the message for users.
        target: printed for.

    Raises:
        UnavailableError: for the first one found, with its place.
    """
    of_warps = None
    if target.warp_size != WARP_SIZE:
        of_warps = f"a warp of {target.name} has {target.warp_size} threads, and the language's have {WARP_SIZE}"
    for kernel in kernels if unsupported or of_warps else ():
        for operation in walk(kernel):
            sentence = unsupported.get(type(operation))
            if of_warps and operation.has_trait(DependsOnWarps):
                sentence = of_warps
            if sentence is not None:
                raise UnavailableError(
                    "TARGET_OPERATION",
                    f"{operation.name}: {sentence}",
                    location=source_location(operation.location),
                )


_Result = TypeVar("_Result")


def away_from_signals(call: Callable[[], _Result]) -> _Result:
    """Calls it on a thread without signal handlers: this one, or a worker if this is the main thread.

    Also on this thread if it holds LLVM's lock, as at interpreter shutdown: a worker would wait forever.
    """
    if threading.get_ident() != threading.main_thread().ident or holds_llvm():
        return call()
    return Worker(call).result()
