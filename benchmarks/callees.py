# SPDX-License-Identifier: Apache-2.0
"""Builds callees.c, and the stubs of the CUDA runtime that torch runs on where there is no GPU.

Out: addresses of the functions, the folder of the stubs. Built once per state of the sources.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import subprocess
import tempfile
from pathlib import Path

from benchmarks.harness import ROOT
from weft.ffi.library import find_ffi_library

FOLDER = Path(__file__).parent
COMPILER = os.environ.get("CC", "cc")


def compile_library(target: str, sources: list[Path], flags: list[str]) -> Path:
    """The shared library `target` in a folder of its own, named after what it is made of."""
    made_of = b"".join(source.read_bytes() for source in sources) + " ".join(flags).encode()
    folder = ROOT / "build" / f"benchmark-{hashlib.sha256(made_of).hexdigest()[:16]}"
    path = folder / target
    if path.exists():
        return path
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=folder, suffix=".so", delete=False) as made:
        code = [str(source) for source in sources if source.suffix == ".c"]
        command = [COMPILER, "-O2", "-shared", "-fPIC", *code, *flags, "-o", made.name]
        subprocess.run(command, check=True)
        Path(made.name).replace(path)
    return path


@functools.cache
def callees() -> ctypes.CDLL:
    """The functions of callees.c."""
    library = Path(find_ffi_library())
    include = library.parent.parent / "include"
    flags = [f"-I{include}", str(library), f"-Wl,-rpath,{library.parent}"]
    return ctypes.CDLL(str(compile_library("callees.so", [FOLDER / "callees.c"], flags)))


def address(name: str) -> int:
    """Where a function of callees.c is."""
    value = ctypes.cast(getattr(callees(), name), ctypes.c_void_p).value
    assert value is not None
    return value


def build_cuda_stub() -> Path:
    """The folder with `cudart_stub.so`, to be preloaded, and `libcuda.so.1`, to be found."""
    stub = FOLDER / "cuda_stub"
    script = stub / "runtime.map"
    runtime = compile_library(
        "cudart_stub.so",
        [stub / "runtime.c", script],
        ["-Wl,-soname,cudart_stub.so", f"-Wl,--version-script={script}"],
    )
    driver = compile_library("libcuda.so.1", [stub / "driver.c"], ["-Wl,-soname,libcuda.so.1"])
    link = runtime.parent / driver.name
    if not link.exists():
        link.symlink_to(driver)
    return runtime.parent
