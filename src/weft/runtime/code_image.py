# SPDX-License-Identifier: Apache-2.0
"""Object code as plain data, and callable: linked into this process, with its state and a load policy.

In: bytes of the host object and of the device code, facts about each kernel; options. Out: `ObjectCode`, independent of
the process that made it, which a cache can store; an executor, which says how kernels are loaded, and the reason for
the log; a `_native.CodeImage`, which owns code, state and libraries, and lives as long as any function made of it.
weft's own linker needs no LLVM; objects need only libc and libm.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from weft import _native
from weft.config import config
from weft.driver.library import DEVICE_TYPE, prepare_driver
from weft.errors import REPORT_HINT, InternalCompilerError
from weft.ffi.library import open_ffi_library
from weft.types.device import CPU
from weft.types.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


STATE_SYMBOL: Final = "weft_state"
"""The object's variable for its state; the new image fills it."""

ENTRY_PREFIX: Final = "__tvm_ffi_"


class LoadedCode(Protocol):
    """Code in memory, for the life of this object.

    Attributes:
        addresses: symbol → address.
    """

    addresses: Mapping[str, int]


def link(
    code: ObjectCode,
    load_object: Callable[[bytes, Sequence[str]], Any],
    load_policy: int,
) -> _native.CodeImage:
    """Loads the host object and makes the image over it; kernels are loaded on first use.

    Args:
        code: what was compiled.
        load_object: from an object's bytes and the wanted symbols to a `LoadedCode`.
        load_policy: of an `Executor`.

    Raises:
        ImportError: if libtvm_ffi, which generated code needs for its errors, cannot be opened.
    """
    open_ffi_library()
    _native.set_error_backtraces(config.backtrace)
    _native.set_cpu_threads(config.num_threads)
    _native.set_cpu_multiprocessors(config.cpu_multiprocessors)
    _native.set_cpu_max_clusters(config.cpu_max_clusters)
    loaded: LoadedCode = load_object(code.host_object, [*code.entry_symbols, STATE_SYMBOL])
    name = code.entry_symbols[0].removeprefix(ENTRY_PREFIX)
    program = None
    if code.device_code:
        missing = ""
        if code.device_type == DEVICE_TYPE:
            prepare_driver()
        else:
            missing = f"{name}: there is no driver for {code.target} here, and its kernels are for {code.architecture}"
        names = [kernel.name for kernel in code.kernels]
        program = _native.DeviceProgram(code.device_code, names, name, code.architecture, missing)
    return _native.CodeImage(
        name, dict(loaded.addresses), loaded, load_policy, code.kernels, program
    )


class KernelInfo(Frozen):
    """One kernel's parameters and resources; zero if the target does not report them.

    Attributes:
        name: in the object code.
        parameter_sizes: bytes of each parameter, in order.
        parameter_bytes: bytes of the parameter buffer, with padding.
        max_threads: per block.
        registers: per thread, 32 bits each, as the kernel starts; `setmaxnreg` gives and takes others.
        spill_store_bytes, spill_load_bytes: per thread, moved to and from local memory.
        stack_bytes: local memory per thread.
        shared_memory_bytes: of the kernel's own shared arrays, per block; launches add their request to it.
        constant_bytes: constant memory, parameters included.
        barriers: named barriers per block.
        global_scratch_bytes: of `weft.global_scratch`, per block; each launch allocates it for its grid.
    """

    name: str
    parameter_sizes: tuple[int, ...] = ()
    parameter_bytes: int = 0
    max_threads: int = 0
    registers: int = 0
    spill_store_bytes: int = 0
    spill_load_bytes: int = 0
    stack_bytes: int = 0
    shared_memory_bytes: int = 0
    constant_bytes: int = 0
    barriers: int = 0
    global_scratch_bytes: int = 0


class ScratchInfo(Frozen):
    """One `weft.scratch` of a host function, which each call takes and gives back.

    Attributes:
        text: as written, such as ``"weft.scratch((n, 4), weft.f32)"``.
        shape: None for a size known only at run time.
        bytes: of one array; None if known only at run time.
        file, line: where in the user's source, or an empty string and 0.
    """

    text: str
    shape: tuple[int | None, ...]
    bytes: int | None
    file: str = ""
    line: int = 0


class Remark(Frozen):
    """A backend's remark on a kernel: how it was compiled, an assembler's warning, or what lies in local memory.

    Attributes:
        kernel: its name, or an empty string.
        message: one sentence.
        code: the assembler's, such as ``"C7510"``, or an empty string.
        file, line: where in the user's source, or an empty string and 0.
    """

    kernel: str
    message: str
    code: str = ""
    file: str = ""
    line: int = 0

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}: " if self.file else ""
        kernel = f" (kernel {self.kernel})" if self.kernel else ""
        return f"{place}{self.message}{kernel}"

    def __repr__(self) -> str:
        return f"<Remark {self}>"


class ObjectCode(Frozen):
    """The machine code of one host function and its kernels.

    Attributes:
        host_object: a relocatable object that defines the entry symbols and `weft_state`.
        device_code: a cubin, PTX that ends with a zero byte, what another backend makes, or empty on the CPU.
        kernels: in the host code's numbering.
        entry_symbols: the object's exports, `__tvm_ffi_<name>` first.
        target: the backend's name.
        architecture: of the device code, such as ``"sm_90a"``; empty on the CPU.
        remarks: the backend's, on the kernels.
        device_type: DLPack's, of the devices that run the device code; the CPU where there is none.
    """

    host_object: bytes
    device_code: bytes
    kernels: tuple[KernelInfo, ...]
    entry_symbols: tuple[str, ...]
    target: str
    architecture: str = ""
    remarks: tuple[Remark, ...] = ()
    device_type: int = CPU

    def __repr__(self) -> str:
        return (
            f"<ObjectCode {self.entry_symbols[0] if self.entry_symbols else ''} for {self.target}: "
            f"{len(self.host_object)} + {len(self.device_code)} bytes>"
        )


class Executor(NamedTuple):
    """A load policy over a code image.

    Attributes:
        name: shown by ``fn.executor.name`` and the log.
        load_policy: enum weft_load_policy of runtime_table.h.
    """

    name: str
    load_policy: int

    def __repr__(self) -> str:
        return f"<weft executor {self.name}>"


_CONTEXT: Final = Executor("context", 0)
"""Loads kernels into each device's primary context on first use, for tools that know modules and no libraries."""
_LIBRARY: Final = Executor("library", 1)
"""Loads kernels once, for every device, without a context. The default."""
_TVM_FFI: Final = Executor("tvm-ffi", 2)
"""As the library executor; the result is a TVM-FFI function for any language."""

EXECUTORS: Final = {executor.name: executor for executor in (_CONTEXT, _LIBRARY, _TVM_FFI)}


def choose_executor(wanted: str | None, enable_tvm_ffi: bool) -> tuple[Executor, str]:
    """The executor for these options, and the reason.

    Args:
        wanted: a name of `EXECUTORS`, or None.
        enable_tvm_ffi: whether ``--enable-tvm-ffi`` was given.
    """
    if wanted is not None:
        return EXECUTORS[wanted], f"--executor {wanted}"
    if enable_tvm_ffi:
        return _TVM_FFI, "--enable-tvm-ffi"
    return _LIBRARY, "the default"


KNOWS_THIS_MACHINE: Final = _native.HOST_MACHINE != 0
"""Whether the linker knows this machine's relocations: those of x86-64 and aarch64, on Linux."""


def link_object(
    data: bytes, symbols: Sequence[str], debuggable: bool = False
) -> _native.LinkedObject:
    """Loads an object and looks up symbols in it.

    Args:
        data: a relocatable object for this machine.
        symbols: names of functions or data in it.
        debuggable: tell gdb, which then knows its functions and lines.
    Raises:
        InternalCompilerError: if the object is damaged or for another machine, or a symbol is missing in it or among
            its references.
    """
    try:
        return _native.LinkedObject(data, symbols, debuggable)
    except ValueError as error:
        raise InternalCompilerError("OBJECT_LOADING", str(error), hint=REPORT_HINT) from error
