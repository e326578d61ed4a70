# SPDX-License-Identifier: Apache-2.0
"""nvJitLink through ctypes: PTX to cubin inside this process; the GIL is free meanwhile.

In: the library's path, PTX, options. Out: a cubin or an error text, and the log.
"""

from __future__ import annotations

import atexit
import ctypes
import re
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from weft.errors import ToolchainError
from weft.imports import guard_forks

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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
