# SPDX-License-Identifier: Apache-2.0
"""The files of the repository as the architecture tests read them: parsed, not imported."""

from __future__ import annotations

import ast
import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "weft"


@cache
def python_modules() -> tuple[Path, ...]:
    """Every module of the package."""
    return tuple(sorted(PACKAGE.rglob("*.py")))


@cache
def native_files() -> tuple[Path, ...]:
    """Every C and C++ file under native/."""
    files = [path for path in (ROOT / "native").rglob("*") if path.suffix in (".h", ".cpp", ".c")]
    return tuple(sorted(files))


@cache
def parsed(path: Path) -> ast.Module:
    """The syntax tree of a Python file."""
    return ast.parse(path.read_text(), str(path))


def name(path: Path) -> str:
    """A path as it is written in messages: relative to the repository."""
    return str(path.relative_to(ROOT))


def run_python(code: str, *arguments: str) -> str:
    """What `code` prints in a fresh interpreter of this environment."""
    import sys

    result = subprocess.run(
        [sys.executable, *arguments, "-c", code], capture_output=True, text=True, timeout=60
    )
    assert result.returncode == 0, result.stderr
    return result.stdout
