# SPDX-License-Identifier: Apache-2.0
"""LLVM, through llvmlite: parse, optimize, emit.

In: LLVM text printed by weft. Out: object bytes or assembly text. Text that LLVM refuses is reported as a defect of
weft; LLVM ends the process on unsupported intrinsics, so printers have allow-lists.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import llvmlite.binding as llvm
from llvmlite.binding import ContextRef, ModulePassManager, ModuleRef, ffi
from llvmlite.binding.newpassmanagers import NewPassManager

from weft.codegen.llvm.lock import guard_llvm
from weft.errors import REPORT_HINT, InternalCompilerError

if TYPE_CHECKING:
    from llvmlite.binding import ModuleRef, TargetMachine


class OwnedModule(ModuleRef):
    """A module that keeps its context alive and is freed with it.

    Raises:
        RuntimeError: with LLVM's message, if the text is not a module.
    """

    _owned = True  # llvmlite's flag: another object disposes of it

    def __init__(self, text: str, context: ContextRef) -> None:
        # The message is freed with its last reference; `with` would free it too, but may be interrupted in between.
        words = ffi.OutputString()
        super().__init__(ffi.lib.LLVMPY_ParseAssembly(context, text.encode(), words), context)
        if words:
            raise RuntimeError(f"LLVM IR parsing error\n{words}")

    def verify(self) -> None:
        """Checks the module.

        Raises:
            RuntimeError: with LLVM's message, if it is invalid.
        """
        words = ffi.OutputString()
        if ffi.lib.LLVMPY_VerifyModule(self, words):
            raise RuntimeError(str(words))


def parse_module(text: str, beside: ModuleRef | None = None) -> ModuleRef:
    """An LLVM module from its text, not verified.

    Args:
        text: the module.
        beside: a module of this function whose context it shares, for linking.
    Raises:
        RuntimeError: with LLVM's message, if it is not a module.
    """
    # llvmlite exposes a module's context in no other way.
    context = llvm.create_context() if beside is None else beside._context  # pyright: ignore[reportPrivateUsage]
    return OwnedModule(text, context)


class _PassManager(ModulePassManager):
    """A pass manager that disposes of itself: llvmlite's `_dispose` does nothing, which leaks 80 kB per run."""

    _dispose = NewPassManager._dispose  # pyright: ignore[reportPrivateUsage]


@functools.cache
def _guard_once() -> None:
    guard_llvm()


@functools.cache
def initialize(architecture: str) -> None:
    """Initializes an architecture in LLVM: ``"native"`` or another's name; done once per process."""
    _guard_once()
    if architecture == "native":
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        llvm.initialize_native_asmparser()
    else:
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()


def parse(text: str, stage: str, beside: ModuleRef | None = None) -> ModuleRef:
    """An LLVM module from its text.

    Args:
        text: the module.
        stage: its name in errors.
        beside: a module whose context it shares, for linking. By default it has its own context, freed with it: LLVM's
            global one would keep types, constants and locations for the life of the process.
    Raises:
        InternalCompilerError: with LLVM's message and the line it refers to.
    """
    try:
        module = parse_module(text, beside)
        module.verify()
        return module
    except RuntimeError as error:
        raise InternalCompilerError(
            "INVALID_LLVM", f"LLVM refuses the {stage}: {error}", hint=REPORT_HINT
        ) from error


def link_text(module: ModuleRef, text: str, stage: str) -> None:
    """Parses text and moves its definitions into a module of the same context.

    Raises:
        InternalCompilerError: with LLVM's message and the line it refers to.
    """
    module.link_in(parse(text, stage, beside=module))


def run_pipeline(module: ModuleRef, machine: TargetMachine, level: int, vectorize: bool) -> None:
    """LLVM's own pipeline of that level, with loop vectorization on request.

    Level 0 still inlines weft's library functions. Level 3 is LLVM's 2: its own costs half as much again and gained
    nothing on any kernel measured.
    """
    options = llvm.create_pipeline_tuning_options(speed_level=min(level, 2))
    options.loop_vectorization = vectorize
    options.loop_interleaving = vectorize
    options.slp_vectorization = False
    builder = llvm.create_pass_builder(machine, options)
    manager = builder.getModulePassManager()
    manager.__class__ = _PassManager
    manager.run(module, builder)


def emit_object(module: ModuleRef, machine: TargetMachine) -> bytes:
    """Machine code as a relocatable object."""
    return machine.emit_object(module)


def emit_assembly(module: ModuleRef, machine: TargetMachine) -> str:
    """Machine code as text; PTX, for NVIDIA's targets."""
    return machine.emit_assembly(module)
