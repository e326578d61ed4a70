# SPDX-License-Identifier: Apache-2.0
"""A build, or a start, that cannot succeed says why in one sentence, and what to install."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import sysconfig
from collections import Counter
from pathlib import Path

import pytest

from tests.architecture.source_tree import PACKAGE, ROOT

TOOLS = Path(sys.executable).parent
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"


def configure(folder: Path, *options: str, path: str | None = None) -> str:
    """What CMake prints when it fails, as one line."""
    command = [str(TOOLS / "cmake"), "-S", str(ROOT), "-B", str(folder), "-G", "Ninja"]
    command += [f"-DCMAKE_MAKE_PROGRAM={TOOLS / 'ninja'}", f"-DPython_EXECUTABLE={sys.executable}"]
    environment = None if path is None else {"PATH": path}
    result = subprocess.run([*command, *options], capture_output=True, text=True, env=environment)
    assert result.returncode != 0, result.stdout
    return " ".join(result.stderr.split())


def test_a_build_without_a_compiler_names_the_package(tmp_path: Path):
    printed = configure(tmp_path / "build", path=str(tmp_path))
    assert "weft needs a C++17 compiler and found none: Debian's package is g++" in printed


@pytest.mark.slow
def test_a_build_without_pythons_headers_names_the_package(tmp_path: Path):
    printed = configure(tmp_path / "build", f"-DPython_INCLUDE_DIR={tmp_path / 'none'}")
    assert f"weft needs the headers of Python {PYTHON} and found none" in printed
    assert f"Debian's package is python{PYTHON}-dev" in printed


@pytest.mark.parametrize("system", ["Darwin", "Windows"])
def test_a_build_for_another_system_is_refused(tmp_path: Path, system: str):
    printed = configure(tmp_path / "build", f"-DCMAKE_SYSTEM_NAME={system}")
    assert f"weft runs on Linux, on x86-64 and aarch64, and this is {system};" in printed


def test_only_our_own_builds_take_warnings_for_errors():
    assert "-Werror" in (ROOT / "CMakeLists.txt").read_text()
    assert 'option(WEFT_WERROR "Warnings are errors" OFF)' in (ROOT / "CMakeLists.txt").read_text()
    assert "-DWEFT_WERROR=ON" in (ROOT / "Makefile").read_text()
    assert "WERROR" not in (ROOT / "pyproject.toml").read_text()


@pytest.mark.parametrize(
    ("platform", "reason"),
    [
        ("linux", f"weft's extension was not built for this Python {PYTHON}; install weft with it"),
        (
            "darwin",
            "weft runs on Linux, and this is darwin; docs/platforms.md lists the missing parts",
        ),
    ],
)
def test_a_package_without_an_extension_says_why(tmp_path: Path, platform: str, reason: str):
    ignored = shutil.ignore_patterns("*.so", "__pycache__")
    shutil.copytree(PACKAGE, tmp_path / "weft", ignore=ignored)
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); sys.platform = {platform!r}\n"
        "import weft\nweft.jit\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert f"ImportError: {reason}" in result.stderr
    assert "ModuleNotFoundError" not in result.stderr


def test_a_name_of_the_extension_is_one_class():
    """Of two classes with one name the linker takes either's functions, silently."""
    names: Counter[tuple[str, ...]] = Counter()
    for header in (ROOT / "native").rglob("*.h"):
        text = header.read_text()
        spaces = re.findall(r"^namespace (\S+) \{", text, re.MULTILINE)
        classes = re.findall(r"^(?:class|struct) (\w+) [^;\n]*\{", text, re.MULTILINE)
        names.update((*spaces, name) for name in classes)
    assert len(names) > 100
    assert [name for name, count in names.items() if count > 1] == []


# An x86 header or intrinsic that is not between the lines of an architecture's own.
@pytest.mark.parametrize("word", ["immintrin.h", "x86intrin.h", "_mm_", "__rdtsc", "cpuid.h"])
def test_native_code_has_no_x86_of_its_own(word: str):
    files = [*(ROOT / "native").rglob("*.h"), *(ROOT / "native").rglob("*.cpp")]
    assert [str(file) for file in files if word in file.read_text()] == []


@pytest.mark.slow
def test_what_differs_between_architectures_compiles_for_aarch64(tmp_path: Path):
    pytest.importorskip("ziglang", reason="needs ziglang: make test-all")
    import tvm_ffi.libinfo  # pyright: ignore[reportMissingTypeStubs]

    include = Path(sysconfig.get_path("include"))
    compile_it = [sys.executable, "-m", "ziglang", "c++", "-target", "aarch64-linux-gnu.2.28"]
    compile_it += ["-std=c++17", "-fPIC", "-Wall", "-Wextra", "-Werror", "-c"]
    for folder in (ROOT / "native/include", ROOT / "native"):
        compile_it += ["-I", str(folder)]
    for folder in (*tvm_ffi.libinfo.include_paths(), include):
        compile_it += ["-isystem", str(folder)]
    for source in ("cpu/workers.cpp", "runtime/linker/elf_object.cpp"):
        made = tmp_path / f"{Path(source).stem}.o"
        command = [*compile_it, str(ROOT / "native" / source), "-o", str(made)]
        result = subprocess.run(command, capture_output=True, text=True)
        assert result.returncode == 0, result.stderr
        assert made.read_bytes()[18:20] == b"\xb7\x00"  # EM_AARCH64
