# SPDX-License-Identifier: Apache-2.0
"""Builds the C++ of tests/ffi/cpp against the headers that the installed apache-tvm-ffi ships."""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from weft.ffi.library import find_ffi_library

FOLDER = Path(__file__).parent / "cpp"


def headers() -> Path:
    """The include folder of the installed package."""
    return Path(find_ffi_library()).parent.parent / "include"


def compiler() -> str:
    return os.environ.get("CXX") or shutil.which("c++") or "g++"


@functools.cache
def build(source: str, *flags: str, program: bool = False) -> Path:
    """The library or program of one source file; built once per state of what it is made of."""
    path = FOLDER / source
    library = Path(find_ffi_library())
    made_of = path.read_bytes() + repr((str(library), library.stat().st_mtime_ns, flags)).encode()
    name = f"weft-{path.stem}-{os.getuid()}-{hashlib.sha256(made_of).hexdigest()[:16]}"
    target = Path(tempfile.gettempdir()) / (name if program else f"{name}.so")
    if target.is_file() and target.stat().st_uid == os.getuid():
        return target
    command = [compiler(), "-std=c++17", "-O1", "-fPIC", "-pthread", f"-I{headers()}", str(path)]
    command += [] if program else ["-shared"]
    command += [str(library), f"-Wl,-rpath,{library.parent}", *flags]
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / target.name
        plain = {**os.environ, "LD_PRELOAD": ""}  # the compiler itself needs no sanitizer
        subprocess.run([*command, "-o", str(made)], check=True, env=plain)
        staged = target.with_suffix(f".{os.getpid()}")
        shutil.copy(made, staged)
    staged.replace(target)
    return target


def run_python(program: str, **environment: str) -> str:
    """Runs a Python program in a process of its own and returns what it printed; it must end with 0."""
    import sys

    result = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        timeout=120,
    )
    assert result.returncode == 0, (
        f"exit status {result.returncode}\n{result.stdout}\n{result.stderr}"
    )
    return result.stdout
