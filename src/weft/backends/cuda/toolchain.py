# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's tools: ptxas as a process, or nvJitLink in this one, for cubins; nvdisasm for SASS.

In: PTX, an architecture. Out: a cubin and the verbose log. Tools are searched in the environment variables of
`weft.config`, in NVIDIA's installed wheels, in PATH and in CUDA's usual place. Processes read and write files without
names: no file is left over, and none needs a folder for temporary files. nvJitLink is called through ctypes; the GIL is
free meanwhile.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import re
import select
import signal
import subprocess
import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from weft.backends.cuda.assemblers import find_nvdisasm, find_ptxas, nvjitlink_path
from weft.backends.cuda.diagnostics import refused_line
from weft.blame import limit_reached
from weft.codegen.llvm.optimize import holding_llvm
from weft.config import config, environment
from weft.errors import ToolchainError
from weft.imports import guard_forks
from weft.location import SourceLocation
from weft.memo import kept

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


INSTALL_HINT: Final = "pip install 'weft-lang[cuda]' installs it; it needs no GPU"
# Errors that are not about the code: another assembler may work.
_TRIES_ANOTHER: Final = {"TOOL_MISSING", "TOOL_FAILED", "ASSEMBLER_ARCHITECTURE"}
_TOO_NEW: Final = re.compile(r"'gpu-name'|Unsupported \.version")


@dataclass(frozen=True)
class Assembly:
    """An assembler's result.

    Attributes:
        cubin: the machine code; empty if there is no assembler.
        log: its verbose output.
        missing: why there is no machine code, or None.
        remark: why the assembler was not ptxas, and what that costs.
    """

    cubin: bytes
    log: str
    missing: ToolchainError | None = None
    remark: str = ""


def assemble(
    ptx: str, architecture: str, options: Sequence[str] = (), line_info: bool = False
) -> Assembly:
    """PTX as a cubin: `begin_assembly` with existing PTX."""
    return begin_assembly(lambda: ptx, architecture, options, line_info)()


def begin_assembly(
    make_ptx: Callable[[], str],
    architecture: str,
    options: Sequence[str] = (),
    line_info: bool = False,
) -> Callable[[], Assembly]:
    """Starts to assemble PTX, all its kernels at once; the result waits for the cubin.

    ptxas does it, loading while the PTX is made. If it does not run, or is too old for the architecture,
    nvJitLink does, unless WEFT_PTXAS is set; WEFT_NVJITLINK selects nvJitLink.

    Args:
        make_ptx: called once, before this returns.
        architecture: such as ``"sm_90a"``.
        options: more options for ptxas.
        line_info: whether the cubin holds source lines.
    Raises:
        ToolchainError: later, if there is no assembler, or if it refuses the text; the message holds its log.
    """
    words = [f"-arch={architecture}", "-v", *options, *(["-lineinfo"] if line_info else [])]
    with holding_llvm():  # so that no thread forks, see `Ptxas`, or delays the PTX
        run = _start_ptxas(words)
        try:
            ptx = make_ptx()
            if isinstance(run, Ptxas):
                run.feed(ptx)
        except BaseException:
            if isinstance(run, Ptxas):
                run.stop()
            raise

    def finish() -> Assembly:
        try:
            if isinstance(run, ToolchainError):
                raise run
            return _with_ptxas(run, ptx, architecture)
        except ToolchainError as error:
            library = find_nvjitlink() if error.code in _TRIES_ANOTHER else None
            if library is None or config.ptxas is not None:
                raise
            if "wgmma." in ptx:
                raise _without_nvjitlink(error) from None
            try:
                return _with_nvjitlink(library, ptx, architecture, options, line_info, error)
            except ToolchainError as another:
                raise error if error.code == another.code else another from None

    return finish


def _start_ptxas(words: list[str]) -> Ptxas | ToolchainError:
    """A run of ptxas, or the reason for none."""
    if config.nvjitlink is not None and config.ptxas is None:
        return ToolchainError("TOOL_MISSING", "WEFT_NVJITLINK is set, and WEFT_PTXAS is not")
    path = find_ptxas()
    if path is None:
        return ToolchainError(
            "TOOL_MISSING",
            "ptxas, which makes a cubin from PTX, is not installed",
            hint=INSTALL_HINT,
        )
    try:
        return Ptxas(path, words)
    except ToolchainError as error:
        return error


def _with_ptxas(run: Ptxas, ptx: str, architecture: str) -> Assembly:
    status, log, cubin = run.result()
    # If the program waits for all children, or ignores them, every status is 0.
    if status == 0 and cubin.startswith(b"\x7fELF"):
        return Assembly(cubin, log)
    raise _refused("ptxas", run.path, architecture, log, ptx)


def _without_nvjitlink(reason: ToolchainError) -> ToolchainError:
    """Linked code ignores `setmaxnreg` and waits after each MMA, so that it is slow or has too few registers."""
    return ToolchainError(
        reason.code,
        f"{reason.message}; kernels with wgmma need ptxas, since nvJitLink serializes each MMA",
        hint=reason.hint or INSTALL_HINT,
    )


def _with_nvjitlink(
    library: NvJitLink,
    ptx: str,
    architecture: str,
    options: Sequence[str],
    line_info: bool,
    reason: ToolchainError,
) -> Assembly:
    flags = [f"-arch={architecture}", "-verbose", *(f"-Xptxas={option}" for option in options)]
    if line_info:
        flags.append("-lineinfo")
    result = library.link_ptx(ptx, flags)
    if result.lacks_architecture:
        raise _architecture_missing("nvJitLink", library.path, architecture)
    if result.error:
        log = f"{result.error}\n{result.log}"
        raise _refused("nvJitLink", library.path, architecture, log, ptx)
    cost = "nvJitLink assembled the kernels, which takes more registers, so fewer warps run at once"
    return Assembly(result.cubin, result.log, remark=f"{reason.message}; {cost}")


def disassemble(cubin: bytes) -> str:
    """A cubin as SASS, with source lines if it has them.

    Raises:
        ToolchainError: if nvdisasm is not installed or fails.
    """
    tool = find_nvdisasm()
    if tool is None:
        raise ToolchainError(
            "TOOL_MISSING", "nvdisasm, which shows SASS, is not installed", hint=INSTALL_HINT
        )
    status, text = run_tool([tool, "-g", "-c"], cubin)
    if status != 0:
        raise _refused("nvdisasm", tool, "", text, "")
    return text


def _architecture_missing(tool: str, path: str, architecture: str) -> ToolchainError:
    return ToolchainError(
        "ASSEMBLER_ARCHITECTURE",
        f"{tool} ({path}) makes no code for {architecture}: each release of CUDA knows some architectures",
        hint="WEFT_PTXAS names the ptxas of another release; the PTX (fn.ptx, --keep-ptx) needs none",
    )


def _refused(tool: str, path: str, architecture: str, log: str, ptx: str) -> ToolchainError:
    """The error, at the user's line of the first complaint, if there is one."""
    if architecture and _TOO_NEW.search(log):
        return _architecture_missing(tool, path, architecture)
    target = f" for {architecture}" if architecture else ""
    file, line = refused_line(log, ptx)
    return ToolchainError(
        "ASSEMBLY_FAILED",
        f"{tool} refused the code{target}:\n{log.strip()}",
        hint="the text of an inline_ptx is assembled as it stands" if "inline asm" in ptx else "",
        location=SourceLocation(file, line, 0, line + 1) if file else None,
    )


@kept
def _open_nvjitlink(path: str) -> NvJitLink:
    return NvJitLink(path)


def find_nvjitlink() -> NvJitLink | None:
    """nvJitLink from `WEFT_NVJITLINK` or NVIDIA's wheel, or None."""
    path = nvjitlink_path()
    return None if path is None else _open_nvjitlink(path)


_TIMEOUT_SECONDS: Final = 600
# ptxas spends most of its time on page faults: with memory in large pages it takes 14 ms for add_one and not 20.
_LARGE_PAGES: Final = "glibc.malloc.hugetlb=1:glibc.malloc.top_pad=33554432"
_CANNOT_BE_RUN: Final = (126, 127)  # exit codes of a shell, or of the loader of shared libraries


def memory_file(content: bytes = b"") -> BinaryIO:
    """A file without a name."""
    file = os.fdopen(os.memfd_create("weft"), "w+b", buffering=0)
    file.write(content)
    return file


def path_of(descriptor: int) -> str:
    """Path of the file for a tool that inherits the descriptor."""
    return f"/proc/self/fd/{descriptor}"


class ToolProcess:
    """A tool that is running.

    Signals from the terminal do not reach it, since the program may handle them and continue. Its output goes to a
    file: a process forked in the meantime would hold a pipe open.

    Args:
        command: a path and words.
        inherited: descriptors that it inherits.

    Raises:
        ToolchainError: if it cannot be started.
    """

    __slots__ = ("_log", "_path", "_process")

    def __init__(self, command: list[str], inherited: Sequence[int]) -> None:
        self._path = command[0]
        self._log = memory_file()
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=self._log,
                pass_fds=inherited,
                env=environment(GLIBC_TUNABLES=_LARGE_PAGES),
                process_group=0,
            )
        except OSError as error:
            self._log.close()
            raise self._cannot_be_run(limit_reached(error) or str(error)) from error

    def wait(self) -> tuple[int, str]:
        """Its exit status and output, once it has ended; to be called once.

        Raises:
            ToolchainError: if it did not start after all, crashed, or took too long.
        """
        in_time = self._ended_in_time()
        if not in_time:
            self._process.kill()
        status = self._process.wait()
        with self._log as file:
            file.seek(0)
            log = file.read().decode(errors="replace")
        if status in _CANNOT_BE_RUN:
            raise self._cannot_be_run(log.strip() or f"exit status {status}")
        if not in_time:
            raise ToolchainError(
                "ASSEMBLY_FAILED", f"{self._path} took more than {_TIMEOUT_SECONDS} seconds\n{log}"
            )
        if status < 0:
            killed_by = signal.Signals(-status).name
            raise ToolchainError("ASSEMBLY_FAILED", f"{self._path} was ended by {killed_by}\n{log}")
        return status, log

    def stop(self) -> None:
        """Ends it, before `wait`."""
        with self._log:
            self._process.kill()
            self._process.wait()

    def _ended_in_time(self) -> bool:
        try:
            number = os.pidfd_open(self._process.pid)
        except OSError:  # before Linux 5.3, or other code has waited for all children
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_TIMEOUT_SECONDS)
            return self._process.returncode is not None
        try:  # `Popen.wait` with a time-out polls, up to 50 ms apart
            poll = select.poll()
            poll.register(number, select.POLLIN)
            return bool(poll.poll(_TIMEOUT_SECONDS * 1000))
        finally:
            os.close(number)

    def _cannot_be_run(self, reason: str) -> ToolchainError:
        return ToolchainError("TOOL_FAILED", f"{self._path} cannot be run: {reason}")


def run_tool(command: list[str], content: bytes) -> tuple[int, str]:
    """Runs a tool on a file with that content, whose path is its last word; returns its exit status and output.

    Raises:
        ToolchainError: if it cannot be started, crashed, or took too long.
    """
    with memory_file(content) as file:
        process = ToolProcess([*command, path_of(file.fileno())], [file.fileno()])
        return process.wait()


class Ptxas:
    """A run of ptxas that begins before the PTX exists: loading takes longer than assembling a small kernel.

    The name of its input is in an options file that it waits for, a pipe. The caller keeps other threads
    from forking until `feed` or `stop`, since a child would hold the pipe open.

    Args:
        path: of ptxas.
        words: its options.

    Raises:
        ToolchainError: if it cannot be started.
    """

    __slots__ = ("_cubin", "_options", "_process", "_source", "path")

    def __init__(self, path: str, words: Sequence[str]) -> None:
        self.path = path
        self._source, self._cubin = memory_file(), memory_file()
        read, self._options = os.pipe()
        inherited = [self._source.fileno(), self._cubin.fileno(), read]
        command = [path, *words, "-o", path_of(inherited[1]), "--options-file", path_of(read)]
        try:
            self._process = ToolProcess(command, inherited)
        except BaseException:
            os.close(self._options)
            self._source.close()
            self._cubin.close()
            raise
        finally:
            os.close(read)

    def feed(self, ptx: str) -> None:
        """Passes it its input."""
        self._source.write(ptx.encode())
        with suppress(BrokenPipeError):  # it has ended, and says why
            os.write(self._options, path_of(self._source.fileno()).encode())
        os.close(self._options)

    def stop(self) -> None:
        """Ends it without an input."""
        os.close(self._options)
        with self._source, self._cubin:
            self._process.stop()

    def result(self) -> tuple[int, str, bytes]:
        """Its exit status, its output on `kernels.ptx`, and the cubin, once it has ended; to be called once.

        Raises:
            ToolchainError: as `ToolProcess.wait`.
        """
        with self._source, self._cubin:
            status, log = self._process.wait()
            self._cubin.seek(0)
            return (
                status,
                log.replace(path_of(self._source.fileno()), "kernels.ptx"),
                self._cubin.read(),
            )


_INPUT_PTX: Final = 2
_UNKNOWN_ARCHITECTURE: Final = (16, 17)  # NVJITLINK_ERROR_UNRECOGNIZED_ARCH, _UNSUPPORTED_ARCH


@dataclass(frozen=True)
class LinkResult:
    """A cubin, or an error that is not empty; and the library's log."""

    cubin: bytes
    error: str
    log: str
    lacks_architecture: bool = False


class Calls:
    """Calls of a library, any number at once; a fork waits until none is running.

    The child would otherwise wait forever for a lock of the library, held by a thread that the child does not have. The
    interpreter's end waits too: the process then destroys what daemon threads would still use.
    """

    def __init__(self) -> None:
        self._entry = threading.RLock()  # the thread that ends the interpreter may fork afterwards
        self._running: set[threading.Lock] = set()
        self._held: list[threading.Lock] = []
        guard_forks(self._stop, self._go_on)
        atexit.register(self._stop)

    def run(self, call: Callable[[], LinkResult]) -> LinkResult:
        """Calls it."""
        running = threading.Lock()
        with running:
            with self._entry:
                self._running.add(running)
            try:
                return call()
            finally:
                self._running.discard(running)

    def _stop(self) -> None:
        self._entry.acquire()
        self._held = list(self._running)
        for running in self._held:
            running.acquire()

    def _go_on(self) -> None:
        for running in self._held:
            running.release()
        self._held = []
        self._entry.release()


class NvJitLink:
    """One loaded nvJitLink.

    Args:
        path: of the shared library; its name ends in its major version, which its symbols carry too.

    Raises:
        ToolchainError: if it cannot be loaded or is not nvJitLink.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._calls = Calls()
        try:
            self._library = ctypes.CDLL(path)
        except OSError as error:
            raise ToolchainError("TOOL_FAILED", f"nvJitLink cannot be loaded: {error}") from error
        named = re.search(r"\.so\.(\d+)", path)
        candidates = [named[1]] if named else ["13", "12"]
        for major in candidates:
            if hasattr(self._library, f"__nvJitLinkCreate_{major}_0"):
                self._major = major
                return
        raise ToolchainError("TOOL_FAILED", f"{path} does not export nvJitLink's functions")

    def link_ptx(self, ptx: str, options: Sequence[str]) -> LinkResult:
        """Assembles one PTX text."""
        return self._calls.run(lambda: self._link(ptx, options))

    def _link(self, ptx: str, options: Sequence[str]) -> LinkResult:
        data = ptx.encode()
        texts = [option.encode() for option in options]
        handle = ctypes.c_void_p()
        code = self._call(
            "Create",
            ctypes.byref(handle),
            ctypes.c_uint32(len(texts)),
            (ctypes.c_char_p * len(texts))(*texts),
        )
        if code != 0:
            lacks = code in _UNKNOWN_ARCHITECTURE
            error = f"nvJitLinkCreate returned {code} for {' '.join(options)}"
            return LinkResult(b"", error, "", lacks)
        try:
            code = self._call(
                "AddData", handle, _INPUT_PTX, data, ctypes.c_size_t(len(data)), b"kernels.ptx"
            )
            code = code or self._call("Complete", handle)
            log = self._text("InfoLog", handle)
            if code != 0:
                error = self._text("ErrorLog", handle) or f"nvJitLink returned {code}"
                return LinkResult(b"", error, log)
            # Warnings go to the error log of a link that succeeds.
            return LinkResult(
                self._bytes("LinkedCubin", handle), "", self._text("ErrorLog", handle) + log
            )
        finally:
            self._call("Destroy", ctypes.byref(handle))

    def _call(self, name: str, *arguments: Any) -> int:
        return getattr(self._library, f"__nvJitLink{name}_{self._major}_0")(*arguments)

    def _bytes(self, name: str, handle: ctypes.c_void_p) -> bytes:
        size = ctypes.c_size_t()
        self._call(f"Get{name}Size", handle, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value + 1)
        self._call(f"Get{name}", handle, buffer)
        return buffer.raw[: size.value]

    def _text(self, name: str, handle: ctypes.c_void_p) -> str:
        return self._bytes(name, handle).rstrip(b"\0").decode(errors="replace")
