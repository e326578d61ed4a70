# SPDX-License-Identifier: Apache-2.0
"""Builds a wheel for each interpreter that is installed here, and tries each in an empty environment.

In: interpreters, by default every `python3.N` that weft supports and the search path has. Out: wheels in dist/, which
run on every Linux with glibc 2.28 (manylinux_2_28), and a line for each. The compiler is this system's: what its
libraries would ask of a newer glibc comes from tools/wheels.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
BUILD = ROOT / "build" / "wheels"
SUPPORTED = tuple(f"python3.{minor}" for minor in range(11, 15))
POLICY = f"manylinux_2_28_{platform.machine()}"
# Compiles, runs and compares, with nothing but what the wheel brings.
PROGRAM = """
import array, weft

@weft.kernel
def add_one_kernel(a: weft.Tensor, b: weft.Tensor):
    for i in weft.each(a.shape[0]):
        b[i] = a[i] + 1.0

@weft.jit
def add_one(a: weft.Tensor[weft.f32, ("n",)], b: weft.Tensor[weft.f32, ("n",)]):
    add_one_kernel(a, b).launch(over=a.shape[0])

a, b = weft.full((1000,), 2, weft.f32, device="cpu"), weft.zeros((1000,), weft.f32, device="cpu")
add_one(a, b)
assert memoryview(b).tolist() == [3.0] * 1000
vector = weft.fake_tensor(weft.f32, ("n",))
assert ".target sm_90a" in weft.compile(add_one, vector, vector, options="--gpu-arch sm_90a").ptx
"""


def link_flags(folder: Path) -> str:
    """Flags with which an extension asks nothing of a glibc newer than 2.28; their files go to `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    sources = ROOT / "tools" / "wheels"
    versions = folder / "versions"
    # The version of the oldest functions of each processor's glibc.
    oldest = "GLIBC_2.2.5" if platform.machine() == "x86_64" else "GLIBC_2.17"
    versions.write_text(f"{oldest} {{ *; }};\n")
    older = folder / "older_glibc.o"
    hidden = ["-O2", "-fPIC", "-fvisibility=hidden"]
    run("cc", *hidden, "-c", str(sources / "older_glibc.c"), "-o", str(older))
    for name, macro in (("libdl.so.2", "-DLIBDL"), ("libpthread.so.0", "-DLIBPTHREAD")):
        stub = ["-shared", "-fPIC", "-fno-builtin", "-nostdlib", macro, f"-Wl,-soname,{name}"]
        stub += [f"-Wl,--version-script={versions}", str(sources / "moved_to_libc.c")]
        run("cc", *stub, "-o", str(folder / name))
    flags = [str(older), "-static-libstdc++", "-Wl,--exclude-libs,ALL", f"-L{folder}"]
    flags += ["-Wl,--push-state,--no-as-needed,-l:libpthread.so.0,-l:libdl.so.2,--pop-state"]
    return " ".join(flags)


def run(*command: str, cwd: Path | None = None, **variables: str) -> str:
    """Output of a command.

    Raises:
        SystemExit: if it fails; with what it printed.
    """
    words = ["env", *(f"{name}={value}" for name, value in variables.items()), *command]
    result = subprocess.run(words, capture_output=True, text=True, cwd=cwd, check=False)
    if result.returncode != 0:
        raise SystemExit(f"{' '.join(command)}\n{result.stdout}{result.stderr}")
    return result.stdout


def build(python: str, output: Path) -> Path:
    """The wheel of an interpreter, under the policy's tag.

    Raises:
        SystemExit: if it cannot be built, or needs more than the policy admits.
    """
    with tempfile.TemporaryDirectory(prefix="weft-wheel-") as folder:
        command = [python, "-m", "pip", "wheel", str(ROOT), "--no-deps", "--wheel-dir", folder]
        run(*command, "--quiet", LDFLAGS=link_flags(BUILD / "link"))
        (plain,) = Path(folder).glob("weft_lang-*.whl")
        return label(plain, output)


def label(wheel: Path, output: Path) -> Path:
    """A copy of a wheel with the policy's tag, if auditwheel finds that it keeps to it."""
    search = os.pathsep.join([str(Path(sys.executable).parent), *os.get_exec_path()])
    with tempfile.TemporaryDirectory(prefix="weft-wheel-") as folder:
        audit = [sys.executable, "-m", "auditwheel", "repair", "--only-plat", "--plat", POLICY]
        run(*audit, "--wheel-dir", folder, str(wheel), PATH=search)
        (made,) = Path(folder).glob("*.whl")
        output.mkdir(parents=True, exist_ok=True)
        return Path(shutil.copy(made, output / made.name))


def attempt(python: str, wheel: Path) -> str:
    """Installs the wheel into an empty environment and runs a program there; returns the interpreter's version."""
    with tempfile.TemporaryDirectory(prefix="weft-empty-") as folder:
        there = Path(folder)
        run(python, "-m", "venv", str(there / "env"))
        inside = str(there / "env" / "bin" / "python")
        run(inside, "-m", "pip", "install", "--quiet", str(wheel))
        program = there / "program.py"
        program.write_text(PROGRAM)
        run(inside, "-I", str(program), cwd=there, WEFT_NO_CACHE="1")
        run(str(there / "env" / "bin" / "weft"), "explain", "PRINT", cwd=there)
        return run(inside, "--version").strip()


def interpreters(wanted: list[str]) -> list[str]:
    """The interpreters to build for; without names, every one that runs here."""
    if wanted:
        return wanted
    found: list[str] = []
    for name in SUPPORTED:
        probe = [name, "-c", "import pip, venv"]
        if (
            shutil.which(name)
            and not subprocess.run(probe, capture_output=True, check=False).returncode
        ):
            found.append(name)
        else:
            print(f"{name}: not installed here, no wheel")
    return found


def main() -> None:
    """Build and try each; the exit status is that of the first that fails."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("pythons", nargs="*", help="interpreters; by default those installed here")
    for python in interpreters(parser.parse_args().pythons):
        wheel = build(python, ROOT / "dist")
        version = attempt(python, wheel)
        print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB, runs on {version}", flush=True)


if __name__ == "__main__":
    main()
