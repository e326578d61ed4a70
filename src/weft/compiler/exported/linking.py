# SPDX-License-Identifier: Apache-2.0
"""The system's linker and archiver: objects with weft's runtime as one file.

In: objects. Out: a shared library, or an archive.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final

from weft.errors import ToolchainError
from weft.ffi.library import find_ffi_library

if TYPE_CHECKING:
    from collections.abc import Sequence

_RUNTIME: Final = Path(__file__).parents[2] / "lib" / "libweft_runtime.a"
_COMPILERS: Final = ("c++", "g++", "clang++")
# Only the functions are exported; the runtime's threads and states stay for the life of the process.
_VERSIONS: Final = "{ global: __tvm_ffi_*; local: *; };\n"


def runtime_archive() -> Path:
    """The path of libweft_runtime.a, which a program links with exported objects.

    Raises:
        ToolchainError: if this installation of weft has none.

    Example:
        >>> weft.runtime_archive().name
        'libweft_runtime.a'
    """
    if not _RUNTIME.is_file():
        raise ToolchainError(
            "TOOL_MISSING",
            f"there is no {_RUNTIME}, which exported functions are linked with",
            hint="install weft again; in a checkout, `make native` builds it",
        )
    return _RUNTIME


def _tool(names: Sequence[str], package: str, purpose: str) -> str:
    for name in names:
        path = shutil.which(name)
        if path is not None:
            return path
    raise ToolchainError(
        "TOOL_MISSING",
        f"{purpose} needs {names[0]}, which is not on the search path",
        hint=f"install {package}, or export an object (.o) and link it elsewhere",
    )


def _run(command: list[str]) -> None:
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise ToolchainError(
            "LINK_FAILED",
            f"{os.path.basename(command[0])} failed with code {result.returncode}:\n"  # noqa: PTH119
            f"{(result.stderr or result.stdout).strip()}",
        )


def link_shared(objects: Sequence[Path], output: Path, name: str, folder: Path) -> None:
    """A shared library of objects and the runtime.

    Args:
        objects: in any number.
        output: the file to write.
        name: that the library has for the loader.
        folder: for files of the linker.
    Raises:
        ToolchainError: without a C++ compiler, or with what it said.
    """
    compiler = _tool(_COMPILERS, "g++", "a shared library")
    versions, listed = folder / "versions", folder / "objects"
    versions.write_text(_VERSIONS)
    # Thousands of paths do not fit a command.
    listed.write_text("".join(f'"{path}"\n' for path in objects))
    libraries = Path(find_ffi_library()).parent
    _run(
        [
            *(compiler, "-shared", "-o", str(output), f"@{listed}", str(runtime_archive())),
            *(f"-L{libraries}", "-ltvm_ffi", "-ldl", "-pthread"),
            *(f"-Wl,-soname,{name}", f"-Wl,--version-script={versions}", "-Wl,--gc-sections"),
            *("-Wl,-z,nodelete", "-Wl,-z,defs", "-Wl,--as-needed"),
        ]
    )


def make_archive(objects: Sequence[Path], output: Path, folder: Path) -> None:
    """An archive of objects and the runtime.

    Raises:
        ToolchainError: without `ar`, or with what it said.
    """
    archiver = _tool(("ar", "llvm-ar"), "binutils", "an archive")
    made = folder / "made.a"
    shutil.copyfile(runtime_archive(), made)
    listed = folder / "objects"
    listed.write_text("".join(f'"{path}"\n' for path in objects))
    _run([archiver, "q", str(made), f"@{listed}"])
    _run([archiver, "s", str(made)])
    shutil.copyfile(made, output)
