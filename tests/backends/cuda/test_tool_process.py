# SPDX-License-Identifier: Apache-2.0
"""ptxas runs beside the process, whatever that does meanwhile; where it fails, an error or a remark says why."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from weft.backends.cuda import toolchain
from weft.backends.cuda.target import cuda_machine
from weft.backends.cuda.toolchain import assemble, begin_assembly
from weft.config import environment, override
from weft.errors import ToolchainError

PTX = ".version 8.0\n.target sm_90a\n.address_size 64\n" + "".join(
    f".visible .entry {name}(.param .u32 n) {{ ret; }}\n" for name in ("first", "second")
)


def script(folder: Path, text: str) -> str:
    """A shell program instead of ptxas, in a folder with a space in its name."""
    path = folder / "a folder" / "ptxas"
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def children() -> list[str]:
    """Of this thread."""
    return Path(f"/proc/self/task/{threading.get_native_id()}/children").read_text().split()


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_all_kernels_of_a_module_are_assembled_by_one_process(monkeypatch: pytest.MonkeyPatch):
    started: list[list[str]] = []

    class Counted(subprocess.Popen):
        def __init__(self, command: list[str], **options: object) -> None:
            started.append(command)
            super().__init__(command, **options)

    monkeypatch.setattr(subprocess, "Popen", Counted)
    found = assemble(PTX, "sm_90a")
    assert found.log.count("Compiling entry function") == 2
    assert not found.remark
    assert [command[0] for command in started] == [toolchain.find_ptxas()]


def test_ptxas_starts_before_there_is_ptx():
    running: list[int] = []

    def make_ptx() -> str:
        running.extend(map(int, children()))
        return PTX

    before = set(map(int, children()))
    finish = begin_assembly(make_ptx, "sm_90a")
    assert set(running) - before
    assert finish().cubin.startswith(b"\x7fELF")


def test_no_file_and_no_process_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assemble(PTX, "sm_90a")
    before = open_files(), children()

    def fail() -> str:
        raise ZeroDivisionError

    for _ in range(3):
        assemble(PTX, "sm_90a")
        with pytest.raises(ZeroDivisionError):
            begin_assembly(fail, "sm_90a")
        with pytest.raises(ToolchainError, match=r"(?s)refused.*kernels.ptx, line 1"):
            assemble("nonsense", "sm_90a")
        with override(ptxas=str(tmp_path / "none")), pytest.raises(ToolchainError):
            assemble(PTX, "sm_90a")
    assert (open_files(), children()) == before
    assert not list(tmp_path.iterdir())


def test_a_path_with_spaces_is_one(tmp_path: Path):
    found = toolchain.find_ptxas()
    with override(ptxas=script(tmp_path, f"exec '{found}' \"$@\"")):
        assert assemble(PTX, "sm_90a").cubin == assemble(PTX, "sm_90a").cubin != b""


def test_threads_assemble_side_by_side():
    cubins: list[bytes] = []
    threads = [
        threading.Thread(target=lambda: cubins.append(assemble(PTX, "sm_90a").cubin))
        for _ in range(12)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(cubins) == 12
    assert len(set(cubins)) == 1


def test_a_fork_in_the_middle_waits_and_delays_nothing():
    cuda_machine("sm_90a")  # LLVM's lock knows of forks from now on
    forked: list[int] = []

    def fork() -> None:
        child = os.fork()
        if child == 0:
            time.sleep(30)
            os._exit(0)
        forked.append(child)

    def make_ptx() -> str:
        thread.start()
        time.sleep(0.2)
        assert not forked
        return PTX

    thread = threading.Thread(target=fork)
    begin = time.monotonic()
    finish = begin_assembly(make_ptx, "sm_90a")
    thread.join()
    cubin = finish().cubin
    os.kill(forked[0], signal.SIGKILL)
    os.waitpid(forked[0], 0)
    assert cubin.startswith(b"\x7fELF")
    assert time.monotonic() - begin < 20


def wait_for_all(_number: int, _frame: object) -> None:
    with suppress(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


@pytest.mark.parametrize("handler", [signal.SIG_IGN, wait_for_all])
def test_a_program_that_reaps_all_children_gets_its_cubin(handler: object):
    before = signal.signal(signal.SIGCHLD, handler)
    try:
        assert assemble(PTX, "sm_90a").cubin.startswith(b"\x7fELF")
        with pytest.raises(ToolchainError, match=r"(?s)ptxas refused the code.*line 1"):
            assemble("nonsense", "sm_90a")
    finally:
        signal.signal(signal.SIGCHLD, before)


def test_waiting_works_without_pidfd(
    monkeypatch: pytest.MonkeyPatch,
):
    def missing(_pid: int) -> int:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(os, "pidfd_open", missing)
    assert assemble(PTX, "sm_90a").cubin.startswith(b"\x7fELF")


def test_an_interrupt_from_the_terminal_does_not_reach_it(tmp_path: Path):
    groups = tmp_path / "groups"
    with override(ptxas=script(tmp_path, f"cut -d ' ' -f 5 /proc/$$/stat > '{groups}'; exit 1")):
        with pytest.raises(ToolchainError):
            assemble(PTX, "sm_90a")
    assert int(groups.read_text()) != os.getpgrp()


def test_what_the_environment_says_of_memory_goes_first(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.malloc.check=0")
    assert environment(GLIBC_TUNABLES="x", OTHER="y").items() >= {
        ("GLIBC_TUNABLES", "glibc.malloc.check=0"),
        ("OTHER", "y"),
    }


FAILURES = {
    "crash": ("kill -SEGV $$", "ASSEMBLY_FAILED", "was ended by SIGSEGV"),
    "time-out": ("exec sleep 60", "ASSEMBLY_FAILED", "took more than 0.5 seconds"),
    "no cubin": ("echo nothing done", "ASSEMBLY_FAILED", "(?s)refused the code.*nothing done"),
    "no library": ("echo 'libc.so.9: cannot open' >&2; exit 127", "TOOL_FAILED", "libc.so.9"),
    "old": (
        "echo \"line 1; fatal : Unsupported .version 9.0; current version is '8.3'\"; exit 255",
        "ASSEMBLER_ARCHITECTURE",
        "makes no code for sm_90a",
    ),
    "unknown architecture": (
        "echo \"Value 'sm_90a' is not defined for option 'gpu-name'\"; exit 255",
        "ASSEMBLER_ARCHITECTURE",
        "makes no code for sm_90a",
    ),
}


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("named", [True, False])
def test_a_ptxas_that_fails_is_an_error_or_replaced_with_a_remark(
    failure: str, named: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    text, code, message = FAILURES[failure]
    monkeypatch.setattr(toolchain, "_TIMEOUT_SECONDS", 0.5)
    path = script(tmp_path, text)
    if named:
        with override(ptxas=path), pytest.raises(ToolchainError, match=message) as caught:
            assemble(PTX, "sm_90a")
        assert caught.value.code == code
        return
    monkeypatch.setattr(toolchain, "find_ptxas", lambda: path)
    if code == "ASSEMBLY_FAILED":  # of this code; another assembler could fail as badly
        with pytest.raises(ToolchainError, match=message):
            assemble(PTX, "sm_90a")
        return
    found = assemble(PTX, "sm_90a")
    assert found.cubin.startswith(b"\x7fELF")
    assert path in found.remark
    assert "nvJitLink assembled the kernels, which takes more registers" in found.remark
    monkeypatch.setattr(toolchain, "find_nvjitlink", lambda: None)
    with pytest.raises(ToolchainError, match=message):
        assemble(PTX, "sm_90a")


def test_a_file_that_cannot_be_executed_is_replaced_with_a_remark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = script(tmp_path, "exit 0")
    Path(path).chmod(0o644)
    monkeypatch.setattr(toolchain, "find_ptxas", lambda: path)
    found = assemble(PTX, "sm_90a")
    assert found.remark.startswith(f"{path} cannot be run: ")
    assert "Permission denied" in found.remark


def test_without_ptxas_nvjitlink_says_what_that_costs(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(toolchain, "find_ptxas", lambda: None)
    found = assemble(PTX, "sm_90a")
    assert found.cubin.startswith(b"\x7fELF")
    assert found.remark.startswith("ptxas, which makes a cubin from PTX, is not installed; nvJitL")


def test_a_named_nvjitlink_is_chosen():
    library = toolchain.find_nvjitlink()
    assert library is not None
    with override(nvjitlink=library.path):
        assert assemble(PTX, "sm_90a").remark.startswith("WEFT_NVJITLINK is set")
    with override(nvjitlink="/no/such/library", ptxas=str(toolchain.find_ptxas())):
        assert not assemble(PTX, "sm_90a").remark
