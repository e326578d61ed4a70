# SPDX-License-Identifier: Apache-2.0
"""The fake driver from Python: builds it, arranges it, and reads what was recorded.

`on_fake` runs a test in a forked child with a fresh fake, so that no test sees another's driver and the
process of the test run never opens one.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import inspect
import os
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
ROOT = FOLDER.parent.parent.parent
CHILD_SECONDS = 60


def build() -> Path:
    """The library, compiled once per state of its sources."""
    spec = find_spec("tvm_ffi")
    assert spec is not None and spec.submodule_search_locations
    tvm_ffi = Path(spec.submodule_search_locations[0])
    sources = sorted(FOLDER.glob("*.cpp"))
    headers = [FOLDER / "fake_state.h", *(ROOT / "native/driver").rglob("*.h")]
    headers.append(ROOT / "native/include/weft/runtime_table.h")
    flags = ["-std=c++17", "-O1", "-g", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror"]
    flags += [f"-I{ROOT}/native", f"-I{ROOT}/native/include", f"-isystem{tvm_ffi}/include"]
    flags += os.environ.get("WEFT_TEST_FAKE_FLAGS", "").split()
    digest = hashlib.sha256(" ".join(flags).encode())
    for path in sorted(sources + headers):
        digest.update(path.read_bytes())
    target = ROOT / "build" / f"fake-cuda-{digest.hexdigest()[:16]}.so"
    if not target.exists():
        target.parent.mkdir(exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=target.parent, suffix=".so", delete=False) as file:
            subprocess.run(
                [os.environ.get("CXX", "c++"), *flags, "-x", "c++", "-", "-o", file.name],
                input="".join(f'#include "{source}"\n' for source in sources),  # headers once
                text=True,
                check=True,
                env={**os.environ, "LD_PRELOAD": ""},  # the compiler itself needs no sanitizer
            )
            Path(file.name).replace(target)
    return target


class FakeCuda:
    """Handle on the fake driver of this process.

    Attributes:
        kept: what must live as long as kernels may be launched.
    """

    def __init__(self, devices: int = 1, version: int = 13000) -> None:
        self.kept: list[object] = []
        self.path = build()
        self.library = ctypes.CDLL(str(self.path))
        self.library.fake_cuda_configure(devices, version)
        self.library.fake_cuda_last_allocation.restype = ctypes.c_ulonglong
        self.library.fake_cuda_last_global.restype = ctypes.c_ulonglong

    def set_architecture(self, device: int, major: int, minor: int) -> None:
        self.library.fake_cuda_set_architecture(device, major, minor)

    def lack(self, *functions: str) -> None:
        """Be an old driver: without these functions."""
        for function in functions:
            self.library.fake_cuda_lack(function.encode())

    def fail(self, function: str, result: int, nth: int = 1) -> None:
        """The nth call from now returns `result` and does nothing."""
        self.library.fake_cuda_fail(function.encode(), nth, result)

    def forget_failures(self) -> None:
        self.library.fake_cuda_forget_failures()

    def poison(self, result: int) -> None:
        """A kernel crashed: everything returns `result` from now on."""
        self.library.fake_cuda_poison(result)

    def log(self, text: str) -> None:
        """Text that the next failing call writes into the driver's log."""
        self.library.fake_cuda_log(text.encode())

    def delay(self, function: str, microseconds: int) -> None:
        self.library.fake_cuda_delay(function.encode(), microseconds)

    def limit_queue(self, limit: int) -> None:
        """Queueing work waits once there is so much of it, until the next call of this; 0: never."""
        self.library.fake_cuda_limit_queue(limit)

    def queued(self) -> int:
        """How much work is in a queue with a limit."""
        return self.library.fake_cuda_queued()

    def count(self, function: str) -> int:
        return self.library.fake_cuda_count(function.encode())

    def calls(self, *functions: str) -> list[str]:
        """The recorded calls, oldest first; only of these functions, where some are named."""
        texts = []
        for index in range(self.library.fake_cuda_count(None)):
            size = self.library.fake_cuda_call(index, None, 0) + 1
            buffer = ctypes.create_string_buffer(size)
            self.library.fake_cuda_call(index, buffer, size)
            texts.append(buffer.value.decode())
        return [text for text in texts if not functions or text.split("(")[0] in functions]

    def launches(self) -> list[str]:
        """The launches that succeeded, each as `kernel grid=... parameters=[...]`."""
        prefix = "cuLaunchKernelEx("
        calls = self.calls("cuLaunchKernelEx")
        return [text[len(prefix) : -6] for text in calls if text.endswith(") -> 0")]

    def forget_calls(self) -> None:
        self.library.fake_cuda_forget_calls()

    def live(self, kind: str) -> int:
        """How many of a kind exist: library, module, function, stream, context, allocation, retain, graph..."""
        return self.library.fake_cuda_live(kind.encode())

    def pin(self, array: Any) -> None:
        """The program has pinned the memory of a NumPy array."""
        address, size = ctypes.c_ulonglong(array.ctypes.data), ctypes.c_ulonglong(array.nbytes)
        self.library.fake_cuda_pin(address, size)

    def last_allocation(self) -> int:
        """The address of the device memory that was allocated last."""
        return self.library.fake_cuda_last_allocation()

    def last_global(self) -> int:
        """The address of the variable of a program that was asked for last."""
        return self.library.fake_cuda_last_global()

    def register_kernel(self, name: str, address: int, scratch_bytes: int, table: int) -> None:
        """Launches of this kernel run its CPU build.

        Args:
            name: the kernel's.
            address: of the function that runs blocks.
            scratch_bytes: address of the function that tells a launch's scratch, or 0.
            table: address of the runtime table.
        """
        self.library.fake_cuda_register_kernel(
            name.encode(),
            ctypes.c_void_p(address),
            ctypes.c_void_p(scratch_bytes),
            ctypes.c_void_p(table),
        )

    # ---- what a program around weft would do, through the driver's own functions

    def call(self, function: str, *arguments: Any) -> None:
        result = getattr(self.library, function)(*arguments)
        assert result == 0, f"{function} returned {result}"

    def retain_primary(self, device: int) -> int:
        self.call("cuInit", 0)
        context = ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        assert context.value
        return context.value

    def create_context(self, device: int) -> int:
        """A context of its own, current from now on."""
        self.call("cuInit", 0)
        context = ctypes.c_void_p()
        self.call("cuCtxCreate_v2", ctypes.byref(context), 0, device)
        assert context.value
        return context.value

    def destroy_context(self, context: int) -> None:
        self.call("cuCtxDestroy_v2", ctypes.c_void_p(context))

    def set_current(self, context: int | None) -> None:
        self.call("cuCtxSetCurrent", ctypes.c_void_p(context))

    def current(self) -> int | None:
        context = ctypes.c_void_p()
        self.call("cuCtxGetCurrent", ctypes.byref(context))
        return context.value

    def create_stream(self, context: int, blocking: bool = False) -> int:
        """A stream; a blocking one is ordered with the legacy default stream."""
        before = self.current()
        self.set_current(context)
        stream = ctypes.c_void_p()
        self.call("cuStreamCreate", ctypes.byref(stream), 0 if blocking else 1)
        self.set_current(before)
        assert stream.value
        return stream.value

    def destroy_stream(self, stream: int) -> None:
        self.call("cuStreamDestroy_v2", ctypes.c_void_p(stream))

    def begin_capture(self, stream: int) -> None:
        self.call("cuStreamBeginCapture_v2", ctypes.c_void_p(stream), 0)

    def end_capture(self, stream: int) -> int:
        graph = ctypes.c_void_p()
        self.call("cuStreamEndCapture", ctypes.c_void_p(stream), ctypes.byref(graph))
        assert graph.value
        return graph.value

    def instantiate(self, graph: int) -> int:
        executable = ctypes.c_void_p()
        self.call(
            "cuGraphInstantiateWithFlags",
            ctypes.byref(executable),
            ctypes.c_void_p(graph),
            ctypes.c_ulonglong(0),
        )
        assert executable.value
        return executable.value

    def update(self, executable: int, graph: int) -> int:
        """The result of running another capture's arguments with this executable."""
        info = ctypes.c_int32()
        return self.library.cuGraphExecUpdate_v2(
            ctypes.c_void_p(executable), ctypes.c_void_p(graph), ctypes.byref(info)
        )

    def launch_graph(self, executable: int, stream: int) -> None:
        self.call("cuGraphLaunch", ctypes.c_void_p(executable), ctypes.c_void_p(stream))

    def destroy_graph(self, graph: int) -> None:
        self.call("cuGraphDestroy", ctypes.c_void_p(graph))

    def destroy_executable(self, executable: int) -> None:
        self.call("cuGraphExecDestroy", ctypes.c_void_p(executable))

    def replay(self, graph: int, stream: int) -> None:
        """Instantiate, run once, and destroy the executable."""
        executable = self.instantiate(graph)
        self.launch_graph(executable, stream)
        self.destroy_executable(executable)


def in_child(action: Callable[[], None]) -> None:
    """Run the action in a forked child; an exception there is an AssertionError with its text here."""
    reader, writer = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            signal.alarm(CHILD_SECONDS)  # a hang ends the child, and the parent says so
            os.close(reader)
            action()
            code = 0
        except BaseException:
            os.write(writer, traceback.format_exc().encode()[-60000:])
        finally:
            os._exit(code)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        text = pipe.read().decode(errors="replace")
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        raise AssertionError(f"the child ended by signal {os.WTERMSIG(status)}\n{text}")
    if os.WEXITSTATUS(status) != 0:
        raise AssertionError(text or f"the child ended with status {os.WEXITSTATUS(status)}")


def start(devices: int = 1, version: int = 13000, prepare: bool = True) -> FakeCuda:
    """A fresh fake for this process, which must not have opened a driver; for use inside `in_child`."""
    fake = FakeCuda(devices, version)
    if prepare:
        os.environ["WEFT_LIBCUDA"] = str(fake.path)
        from weft.driver.library import prepare_driver

        prepare_driver()
    return fake


def on_fake(devices: int = 1, version: int = 13000, prepare: bool = True) -> Callable[..., Any]:
    """Run a test with a fresh fake driver as its first argument, in a child of its own.

    Args:
        devices: how many GPUs the fake has, all sm_90.
        version: the driver's version, 13000 for 13.0.
        prepare: whether weft is set to use the fake.
    """

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def run(*arguments: Any, **keywords: Any) -> None:
            build()  # before the fork, so that it is done once

            def action() -> None:
                test(start(devices, version, prepare), *arguments, **keywords)

            in_child(action)

        parameters = list(inspect.signature(test).parameters.values())[1:]
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        del run.__wrapped__  # type: ignore[attr-defined]
        return run

    return decorate
