# SPDX-License-Identifier: Apache-2.0
"""LLVM, through llvmlite: parse, optimize, emit, and load where weft's own linker does not know the machine (LLJIT).

In: LLVM text printed by weft. Out: object bytes or assembly text; addresses of an object's symbols, valid while the
handle lives. Text that LLVM refuses is reported as a defect of weft; LLVM ends the process on unsupported intrinsics,
so printers have allow-lists.

llvmlite's lock around every LLVM call is made safe for signals, forks and interpreter shutdown: llvmlite takes it in
Python code, and disposes of its objects wherever the last reference is dropped, even on the main thread. In between a
signal handler may run: if it compiles, it would wait for a lock that its own thread holds; if it raises, the lock would
stay held forever. So the lock is taken and released in C.
"""

from __future__ import annotations

import atexit
import functools
import itertools
from contextlib import contextmanager
from typing import TYPE_CHECKING

import llvmlite.binding as llvm
from llvmlite.binding import ContextRef, ModulePassManager, ModuleRef, ffi
from llvmlite.binding.newpassmanagers import NewPassManager

from weft import _native
from weft.errors import REPORT_HINT, InternalCompilerError
from weft.imports import guard_forks
from weft.memo import kept
from weft.runtime.code_image import KNOWS_THIS_MACHINE, link_object

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from llvmlite.binding import LLJIT, ResourceTracker, TargetMachine

    from weft._native import LinkedObject


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


def run_pipeline(
    module: ModuleRef, machine: TargetMachine, level: int, vectorize: bool, pack: bool = False
) -> None:
    """LLVM's own pipeline of that level, on request with vectorization of loops, or of adjacent operations (`pack`).

    Level 0 still inlines weft's library functions. Level 3 is LLVM's 2: its own costs half as much again and gained
    nothing on any kernel measured.
    """
    options = llvm.create_pipeline_tuning_options(speed_level=min(level, 2))
    options.loop_vectorization = vectorize
    options.loop_interleaving = vectorize
    options.slp_vectorization = pack
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


def guard_llvm() -> None:
    """Makes llvmlite's lock safe for signals, forks and shutdown; done once per process.

    A fork waits for other threads' LLVM calls: the child would otherwise inherit LLVM's data half changed, and a lock
    held by a thread it does not have. Shutdown waits likewise, since the process then destroys what daemon threads
    still use; their next call waits forever.
    """
    ffi._lib_fn_wrapper.__call__ = _native.call_locked  # pyright: ignore[reportPrivateUsage]
    held = ffi.lib._lock._lock  # pyright: ignore[reportPrivateUsage]
    guard_forks(held.acquire, held.release)
    atexit.register(held.acquire)


@contextmanager
def holding_llvm() -> Generator[None]:
    """Keeps other threads from using LLVM, and from forking."""
    held = ffi.lib._lock._lock  # pyright: ignore[reportPrivateUsage]
    held.acquire()
    try:
        yield
    finally:
        held.release()


def holds_llvm() -> bool:
    """Whether this thread has the lock, so that no other can use LLVM meanwhile.

    It has it around a fork, at shutdown, and in callbacks registered with llvmlite's lock.
    """
    return ffi.lib._lock._lock._is_owned()  # pyright: ignore[reportPrivateUsage]


class LoadedObject:
    """Code in memory, unloaded with its last reference.

    Attributes:
        addresses: symbol → address.
    """

    __slots__ = ("_tracker", "addresses")

    def __init__(self, tracker: ResourceTracker, symbols: Sequence[str]) -> None:
        self._tracker: ResourceTracker | None = tracker
        self.addresses = {symbol: int(tracker[symbol]) for symbol in symbols}

    def close(self) -> None:
        """Unloads the code now. No call may be running or follow."""
        self.addresses = {}
        self._tracker = None


@kept
def _compiler(debuggable: bool) -> LLJIT:
    """The process's LLJIT, made once.

    JITLink places an object's sections side by side. RuntimeDyld places them anywhere, and ends the process if they lie
    more than 2 GB apart, as happens with much mapped memory (a GPU's, say); but only RuntimeDyld reports loaded code to
    gdb.
    """
    initialize("native")
    machine = llvm.Target.from_default_triple().create_target_machine(
        reloc="pic", codemodel="small"
    )
    return llvm.create_lljit_compiler(machine, use_jit_link=not debuggable)


@kept
def _numbers() -> itertools.count[int]:
    """Numbers for the libraries of an LLJIT, whose names must be unique."""
    return itertools.count()


def load_object(
    data: bytes, symbols: Sequence[str], debuggable: bool = False
) -> LoadedObject | LinkedObject:
    """`link_object` where the linker knows the machine, else `load_with_lljit`."""
    load = link_object if KNOWS_THIS_MACHINE else load_with_lljit
    return load(data, symbols, debuggable)


def load_with_lljit(data: bytes, symbols: Sequence[str], debuggable: bool = False) -> LoadedObject:
    """Loads an object and looks up symbols in it.

    Args:
        data: a relocatable object for this machine.
        symbols: names of functions or data in it.
        debuggable: report the code to debuggers; not for processes that use a GPU.
    Raises:
        InternalCompilerError: if a symbol is missing in the object or among its references.
    """
    library = llvm.JITLibraryBuilder().add_object_img(data).add_current_process()
    for symbol in symbols:
        library.export_symbol(symbol)
    try:
        return LoadedObject(
            library.link(_compiler(debuggable), f"weft.{next(_numbers())}"), symbols
        )
    except RuntimeError as error:
        raise InternalCompilerError(
            "OBJECT_LOADING", f"the object cannot be loaded: {error}", hint=REPORT_HINT
        ) from error
