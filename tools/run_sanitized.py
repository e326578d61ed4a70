# SPDX-License-Identifier: Apache-2.0
"""Runs tests on an extension built with the address and undefined-behavior sanitizers.

In: arguments for pytest (default: the tests of the driver, the FFI, the pool, threads that cooperate, and the native
half). Out: pytest's status.
The package is copied beside the instrumented extension, so that the environment's own stays as it is.
"""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
BUILD = ROOT / "build" / "sanitized"
DEFAULT_TESTS = [
    "tests/driver",
    "tests/ffi",
    "tests/native",
    "tests/runtime/test_cpu_pool.py",
    "tests/conformance/test_cooperation.py",
    "tests/conformance/test_cooperative_limits.py",
    "tests/conformance/test_stuck_threads.py",
]
# The child of a threaded process that forks is left alone: the sanitizer's allocator is not made for it.
DESELECTED = [
    "tests/driver/test_program.py::test_threads_can_load_while_another_forks",
    "tests/runtime/test_cpu_pool.py::test_fork_while_another_thread_is_launching",
]


def run(*command: str) -> None:
    """Run a command without its output; its failure is ours."""
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def build_extension(target: Path) -> None:
    """Puts the instrumented extension into a folder; of several runs one builds at a time."""
    BUILD.mkdir(parents=True, exist_ok=True)
    with (BUILD / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        shutil.copy(build(), target)


def build() -> Path:
    """The instrumented extension, where it is built."""
    tools = Path(sys.executable).parent
    run(
        str(tools / "cmake"),
        "-S",
        str(ROOT),
        "-B",
        str(BUILD / "cmake"),
        "-G",
        "Ninja",
        "-DCMAKE_BUILD_TYPE=RelWithDebInfo",
        "-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O1 -g1",
        "-DWEFT_SANITIZE=ON",
        "-DWEFT_WERROR=ON",
        f"-DCMAKE_MAKE_PROGRAM={tools / 'ninja'}",
        f"-DPython_EXECUTABLE={sys.executable}",
    )
    run(str(tools / "cmake"), "--build", str(BUILD / "cmake"), "--target", "_native")
    return next((BUILD / "cmake").glob("_native*.so"))


def copy_package(folder: Path) -> Path:
    """A source tree of this run's own, whose extension is the instrumented one."""
    source = folder / "src"
    shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    build_extension(source / "weft")
    return source


def runtime(name: str) -> str:
    """The path of one of the compiler's sanitizer libraries."""
    command = ["c++", f"-print-file-name={name}"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def main() -> int:
    """Build, then run pytest under the sanitizers."""
    with tempfile.TemporaryDirectory(prefix="weft-sanitized-") as folder:
        return run_tests(copy_package(Path(folder)))


def run_tests(source: Path) -> int:
    """Pytest's status with the package in that source tree."""
    environment = {
        "PYTHONPATH": str(source),
        "LD_PRELOAD": f"{runtime('libasan.so')} {runtime('libubsan.so')}",
        "ASAN_OPTIONS": "detect_leaks=0:detect_odr_violation=0:allocator_may_return_null=1",
        "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
        "WEFT_TEST_FAKE_FLAGS": "-fsanitize=address,undefined -fno-omit-frame-pointer",
    }
    tests = sys.argv[1:] or DEFAULT_TESTS
    deselected = [f"--deselect={test}" for test in DESELECTED]
    variables = [f"{name}={value}" for name, value in environment.items()]
    pytest = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *deselected, *tests]
    return subprocess.run(["env", *variables, *pytest], cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
