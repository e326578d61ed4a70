# SPDX-License-Identifier: Apache-2.0
"""Exceptions of the user's own code come out of a compilation as they are; a limit of the process is named."""

from __future__ import annotations

import errno
import os
import resource
import signal
import subprocess
import threading

import numpy as np
import pytest

import weft
from weft.backends.cuda import toolchain
from weft.blame import limit_reached
from weft.compiler import pipeline

pytestmark = pytest.mark.joined

NAMESPACE = {"__name__": "weft.slow", "os": os, "signal": signal}
exec(
    "def slow(*_arguments, **_keywords):\n    signal.raise_signal(signal.SIGALRM)\n"
    "def full(*_arguments, **_keywords):\n    raise OSError(24, 'Too many open files')\n",
    NAMESPACE,
)

# A function of each stage, which the main thread runs.
STAGES = [
    f"{pipeline.__name__}.choose_target",
    "weft.frontend.trace.host_parameters",
    f"{pipeline.__name__}.lay_out_shared_memory",
    f"{pipeline.__name__}.attach_ffi_wrapper",
    f"{pipeline.__name__}.away_from_signals",
]


@weft.kernel
def kernel(a: weft.Tensor, factor: weft.Constexpr):
    a[weft.thread_idx.x] *= factor


@weft.jit
def host(a: weft.Tensor, factor: weft.Constexpr):
    kernel(a, factor).launch(grid=1, block=4)


class OutOfTime:
    """A handler that is a method, which every way to find a handler's code must see."""

    def __init__(self, error):
        self.error = error

    def handle(self, *_):
        raise self.error


@pytest.fixture
def handler():
    before = signal.getsignal(signal.SIGALRM)
    yield lambda error: signal.signal(signal.SIGALRM, OutOfTime(error).handle)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("error", [TimeoutError, ValueError, KeyError, KeyboardInterrupt])
@pytest.mark.parametrize("stage", STAGES)
def test_what_a_signals_handler_raises_comes_out_of_every_stage(stage, error, monkeypatch, handler):
    raised = error("mine")
    handler(raised)
    monkeypatch.setattr(stage, NAMESPACE["slow"])
    with pytest.raises(error) as caught:
        weft.compile(host, np.ones(4, np.float32), 2.0)
    assert caught.value is raised


def raise_alarm():
    signal.raise_signal(signal.SIGALRM)


class Handed:
    """A value that is read at compile time, when the signal comes."""

    @property
    def value(self):
        raise_alarm()
        return 2.0


@weft.kernel
def reading(a: weft.Tensor, handed: weft.Constexpr):
    a[weft.thread_idx.x] *= handed.value


@weft.jit
def read(a: weft.Tensor, handed: weft.Constexpr):
    reading(a, handed).launch(grid=1, block=4)


def test_a_signal_at_compile_time_is_not_the_programs_error(handler):
    raised = TimeoutError("mine")
    handler(raised)
    with pytest.raises(TimeoutError) as caught:
        read(np.ones(4, np.float32), Handed())
    assert caught.value is raised


@pytest.mark.parametrize("error", [TimeoutError, KeyboardInterrupt, SystemExit, MemoryError])
@pytest.mark.parametrize("attribute", ["__dlpack__", "__dlpack_device__"])
def test_what_an_arrays_attribute_raises_says_nothing_of_the_array(attribute, error):
    raised = error("mine")

    class Array:
        def __dlpack__(self, **options):
            return np.ones(4, np.float32).__dlpack__(**options)

        def __dlpack_device__(self):
            return (1, 0)

    def fail(_self):
        raise raised

    setattr(Array, attribute, property(fail))
    for call in (
        lambda: host(Array(), 2.0),
        lambda: weft.compile(host, np.ones(4, np.float32), 2.0)(Array()),
        lambda: weft.ffi.Any(Array()),
        lambda: weft.ffi.Array([Array()]),
    ):
        with pytest.raises(error) as caught:
            call()
        assert caught.value is raised


@pytest.mark.parametrize("stage", [STAGES[0], STAGES[2], STAGES[4]])
def test_a_limit_of_the_process_is_named_and_is_not_a_defect(stage, monkeypatch):
    monkeypatch.setattr(stage, NAMESPACE["full"])
    with pytest.raises(weft.UnavailableError, match="LIMIT_REACHED") as caught:
        weft.compile(host, np.ones(4, np.float32), 2.0)
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    assert f"too many open files (RLIMIT_NOFILE, ulimit -n: {files})" in caught.value.message


def test_limits_are_known_by_number_and_python_words():
    assert "RLIMIT_NPROC" in limit_reached(RuntimeError("can't start new thread"))
    assert "RLIMIT_NPROC" in limit_reached(OSError(errno.EAGAIN, "again"))
    assert limit_reached(OSError(errno.ENOSPC, "full")) == "no space is left on the device"
    assert limit_reached(OSError(errno.ENOENT, "none")) == ""
    assert limit_reached(RuntimeError("can't")) == ""


@pytest.fixture
def ptxas(monkeypatch):
    found = toolchain.find_ptxas()
    if found is None:
        pytest.skip("ptxas is not installed")
    with weft.config.override(ptxas=found):
        yield found


FAKE = (weft.fake_tensor(weft.f32, ("n",)), 2.0)


def test_kernels_are_assembled_without_a_temporary_folder(ptxas, monkeypatch):
    monkeypatch.setenv("TMPDIR", "/nonexistent")
    monkeypatch.setattr("tempfile.gettempdir", lambda: 1 / 0)
    fn = weft.compile(host, *FAKE, options="--gpu-arch sm_90a")
    assert fn.cubin[:4] == b"\x7fELF"


def test_without_more_threads_everything_is_compiled_here(monkeypatch):
    def start(_thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    a = np.ones(4, np.float32)
    weft.compile(host, a, 3.0)(a)
    assert a.tolist() == [3.0] * 4
    assert weft.compile(host, *FAKE, options="--gpu-arch sm_90a").cubin[:4] == b"\x7fELF"


def test_without_more_processes_the_limit_is_named(ptxas, monkeypatch):
    def start(*_arguments, **_options):
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(subprocess, "Popen", start)
    with pytest.raises(weft.ToolchainError, match=r"no more threads or processes \(RLIMIT_NPROC"):
        weft.compile(host, *FAKE, options="--gpu-arch sm_90a")
