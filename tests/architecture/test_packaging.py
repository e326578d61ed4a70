# SPDX-License-Identifier: Apache-2.0
"""A wheel is built as a user's pip would build it, and what it holds runs without this repository.

The build folder is kept between runs, so that only the first one compiles the whole extension, without optimization.
"""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.architecture.source_tree import PACKAGE, ROOT
from tools.build_wheels import POLICY, label, link_flags
from weft.ffi.library import find_ffi_library

# The first run on a busy machine compiles the extension for minutes.
pytestmark = [pytest.mark.timeout(600), pytest.mark.slow]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", str(ROOT), "--wheel-dir", str(folder)]
    command += ["--quiet", "--no-deps", "--no-build-isolation"]
    command += ["--config-settings", f"build-dir={ROOT / 'build' / 'wheel'}"]
    command += ["--config-settings", "cmake.define.CMAKE_CXX_FLAGS_RELEASE=-O0"]
    variables = os.environ | {"LDFLAGS": link_flags(ROOT / "build" / "wheels" / "link")}
    result = subprocess.run(command, capture_output=True, text=True, env=variables)
    assert result.returncode == 0, result.stdout + result.stderr
    (made,) = folder.glob("weft_lang-*.whl")
    return made


@pytest.fixture(scope="module")
def unpacked(wheel: Path) -> Path:
    zipfile.ZipFile(wheel).extractall(wheel.parent / "site")
    return wheel.parent / "site"


def test_the_wheel_holds_every_module_the_extension_and_the_types(unpacked: Path):
    expected = {
        str(path.relative_to(PACKAGE.parent))
        for suffix in ("*.py", "*.pyi")
        for path in PACKAGE.rglob(suffix)
    }
    held = {str(path.relative_to(unpacked)) for path in (unpacked / "weft").rglob("*.py*")}
    assert expected <= held
    assert (unpacked / "weft" / "py.typed").exists()
    assert len(list((unpacked / "weft").glob("_native*.so"))) == 1
    assert (unpacked / "weft" / "lib" / "libweft_runtime.a").exists()


def test_the_wheel_runs_on_older_systems(wheel: Path, tmp_path: Path):
    pytest.importorskip("auditwheel", reason="needs auditwheel: make test-all")
    labeled = label(wheel, tmp_path)
    assert labeled.name.endswith(f"-{POLICY}.whl")
    libraries = [name for name in zipfile.ZipFile(labeled).namelist() if ".libs/" in name]
    assert libraries == []


def test_the_wheel_holds_the_license(unpacked: Path):
    (license,) = unpacked.glob("weft_lang-*.dist-info/licenses/LICENSE")
    assert "Apache License" in license.read_text()


def test_what_the_wheel_holds_runs(unpacked: Path, tmp_path: Path):
    code = (
        f"import sys; sys.path.insert(0, {str(unpacked)!r})\n"
        "import weft._native\n"
        f"assert weft.__file__.startswith({str(unpacked)!r}), weft.__file__\n"
        "from weft.cli import main\n"
        "assert main(['explain', 'PRINT']) == 0\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path
    )
    assert result.returncode == 0, result.stderr


def test_what_the_wheel_holds_exports_for_a_c_program(unpacked: Path, tmp_path: Path):
    code = (
        f"import sys; sys.path[:0] = [{str(unpacked)!r}, {str(ROOT)!r}]\n"
        "import weft\n"
        "from tests.exported.functions import compiled\n"
        "print(weft.export('functions.a', [compiled('scale')]))\n"
        "weft.load('functions.a')\n"
        f"assert str(weft.runtime_archive()).startswith({str(unpacked)!r})\n"
    )
    command = [sys.executable, "-c", code]
    made = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    library = Path(find_ffi_library()).parent
    words = ["-x", "c", str(ROOT / "tests/exported/program.c"), "-x", "none", "functions.a"]
    words += [f"-I{tmp_path}", f"-I{library.parent / 'include'}", f"-L{library}", "-ltvm_ffi"]
    subprocess.run(["c++", "-o", "program", *words], check=True, cwd=tmp_path)
    variables = os.environ | {"LD_LIBRARY_PATH": str(library)}
    result = subprocess.run(
        ["./program"], capture_output=True, text=True, cwd=tmp_path, env=variables
    )
    assert result.stdout.startswith("3 2997\n"), result.stderr
