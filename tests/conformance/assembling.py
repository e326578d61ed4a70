# SPDX-License-Identifier: Apache-2.0
"""Assembles what the tests of this folder compile, whatever they compile it for, for GPUs of each kind.

In: modules as the front end leaves them. Out: which kernels LLVM or the assembler refuses, for which architecture, and
the tests that made them. Kernels are collected, each distinct one once, and emitted many to a module, on all CPUs, when
the tests are over. Each is emitted for the most capable kind and, in turn, for another one, or for every kind.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import re
from concurrent.futures import ProcessPoolExecutor
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import StringAttr

from weft.backends.cuda.lowering.kernel import print_kernel
from weft.backends.cuda.stages import emit_ptx, kernel_printer
from weft.backends.cuda.target import cuda_machine
from weft.backends.cuda.toolchain import assemble
from weft.codegen.gpu import check_shared_memory
from weft.codegen.llvm.module_printer import ModulePrinter
from weft.codegen.operations.launch import kernels_of
from weft.compiler import pipeline
from weft.errors import WeftError

if TYPE_CHECKING:
    import pytest
    from xdsl.dialects.builtin import ModuleOp

    from weft.dialects.simt.kernel import KernelOp

# Two kernels are distinguished by their text for this one, which has the most operations.
MOST_CAPABLE = "sm_90a"
OTHERS = ("sm_80", "sm_89", "sm_100a", "sm_120a")
ARCHITECTURES = (MOST_CAPABLE, *OTHERS)
KERNELS_OF_A_MODULE = 40
_PLACES = re.compile(r"!\d+ = .*|,? ?!dbg !\d+")


class Assembling:
    """The kernels of a run of tests.

    Args:
        every: whether each kernel is emitted for every kind of GPU.

    Attributes:
        origins: the test that made each kernel, by the name that the kernel has here.
        refused: ``(architecture, test, error)`` of what could not be printed, limits of an architecture aside.
    """

    def __init__(self, every: bool = False) -> None:
        self._every = every
        self.origins: dict[str, str] = {}
        self.refused: list[tuple[str, str, WeftError]] = []
        self._seen: set[bytes] = set()
        self._printers: dict[str, ModulePrinter] = {}
        self._texts: list[tuple[str, str]] = []

    def watch(self, patch: pytest.MonkeyPatch, test: str) -> None:
        """From now on takes what is compiled, once that has succeeded."""
        lower, compile_function = pipeline.lower, pipeline.compile_function
        lowered: list[ModuleOp] = []

        def watched_lower(*arguments: Any) -> Any:
            traced = lower(*arguments)
            lowered.append(traced.module)
            return traced

        def watched_compile(*arguments: Any) -> Any:
            begin = len(lowered)
            try:
                function = compile_function(*arguments)
                for module in lowered[begin:]:
                    self.take(module, test)
            finally:
                del lowered[begin:]
            return function

        patch.setattr(pipeline, "lower", watched_lower)
        patch.setattr(pipeline, "compile_function", watched_compile)

    def take(self, module: ModuleOp, test: str) -> None:
        """Prints the kernels of a module that are not known yet."""
        for kernel in kernels_of(module):
            alone = self._printer(MOST_CAPABLE)
            name = kernel.sym_name
            try:
                kernel.sym_name = StringAttr("kernel")
                print_kernel(alone, kernel)
            except WeftError:
                pass  # said again below, with its architecture
            else:
                text = _PLACES.sub("", alone.text())
                found = hashlib.sha256(text.encode()).digest()
                if found in self._seen:
                    kernel.sym_name = name
                    continue
                self._seen.add(found)
            turn = len(self.origins)
            self.origins[number := f"kernel_{turn}"] = test
            kernel.sym_name = StringAttr(number)
            other = OTHERS[turn % len(OTHERS)]
            self._print(kernel, test, ARCHITECTURES if self._every else (MOST_CAPABLE, other))
            kernel.sym_name = name
            if len(self.origins) % KERNELS_OF_A_MODULE == 0:
                self._close()

    def assembled(self) -> list[str]:
        """Assembles everything; a sentence for each module that is refused."""
        self._close()
        # Unlike multiprocessing's pool, this one fails when LLVM ends a process.
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(os.cpu_count(), context) as pool:
            complaints = [*pool.map(_assemble, *zip(*self._texts, strict=True))]
        return [self._with_test(complaint) for complaint in complaints if complaint]

    def _print(self, kernel: KernelOp, test: str, architectures: tuple[str, ...]) -> None:
        refused: list[tuple[str, str, WeftError]] = []
        for architecture in architectures:
            machine = cuda_machine(architecture)
            try:
                check_shared_memory(kernel, machine.shared_memory_bytes, architecture)
                if architecture not in self._printers:
                    self._printers[architecture] = self._printer(architecture)
                print_kernel(self._printers[architecture], kernel)
            except WeftError as error:
                refused.append((architecture, test, error))
        is_taken = len(refused) < len(architectures)
        self.refused += [one for one in refused if not (is_taken and _is_limit(one[2]))]

    def _printer(self, architecture: str) -> ModulePrinter:
        return kernel_printer(cuda_machine(architecture), enable_assertions=True)

    def _close(self) -> None:
        self._texts += [(name, printer.text()) for name, printer in self._printers.items()]
        self._printers = {}

    def _with_test(self, complaint: str) -> str:
        names = dict.fromkeys(re.findall(r"\bkernel_\d+", complaint))
        return f"{complaint}\n  made by {', '.join(self.origins.get(name, name) for name in names)}"


def _is_limit(error: WeftError) -> bool:
    """Whether an architecture merely has less shared memory than the kernel asks for, or lacks an operation."""
    return error.code in ("ARCHITECTURE", "SHARED_TOO_LARGE")


def _assemble(architecture: str, text: str) -> str:
    """What LLVM or the assembler says against a module; empty: nothing."""
    try:
        ptx = emit_ptx(text, cuda_machine(architecture), 3)
    except WeftError as error:
        return f"{architecture}: {error}"
    try:
        assembled = assemble(ptx, architecture)
    except WeftError as error:
        lines = ptx.splitlines()
        at = [int(number) for number in re.findall(r"\bline (\d+)", error.message)[:5]]
        around = "\n".join(_entry(lines, number) for number in at)
        return f"{architecture}: {error.message[:2000]}\n{around}"
    return "" if assembled.cubin.startswith(b"\x7fELF") else f"{architecture}: no cubin"


def _entry(lines: list[str], number: int) -> str:
    """A line of PTX with the kernel that it is in."""
    entry = next((line for line in reversed(lines[:number]) if ".entry" in line), "")
    return f"  in {entry.strip()} {lines[number - 1].strip()}"
