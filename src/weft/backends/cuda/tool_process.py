# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's tools as processes, which read and write files without names.

In: a command. Out: its exit status and output; of ptxas, a cubin. No file is left over, and none needs a folder
for temporary files.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
from contextlib import suppress
from typing import TYPE_CHECKING, BinaryIO, Final

from weft.blame import limit_reached
from weft.config import environment
from weft.errors import ToolchainError

if TYPE_CHECKING:
    from collections.abc import Sequence

_TIMEOUT_SECONDS: Final = 600
# ptxas spends most of its time on page faults: with memory in large pages it takes 14 ms for add_one and not 20.
_LARGE_PAGES: Final = "glibc.malloc.hugetlb=1:glibc.malloc.top_pad=33554432"
_CANNOT_BE_RUN: Final = (126, 127)  # what a shell, or the loader of shared libraries, returns


def memory_file(content: bytes = b"") -> BinaryIO:
    """A file without a name."""
    file = os.fdopen(os.memfd_create("weft"), "w+b", buffering=0)
    file.write(content)
    return file


def path_of(descriptor: int) -> str:
    """Where a tool that inherits the descriptor finds the file."""
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
