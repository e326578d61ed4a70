# SPDX-License-Identifier: Apache-2.0
"""External tools that join code: the system's linker and archiver, and CUDA's `fatbinary`.

In: objects; cubins and PTX. Out: a shared library, or an archive; device code for several architectures in one image,
of which the driver chooses.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from weft.backends.cuda.assemblers import find_fatbinary
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
        ToolchainError: without a C++ compiler, or with its message.
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
        ToolchainError: without `ar`, or with its message.
    """
    archiver = _tool(("ar", "llvm-ar"), "binutils", "an archive")
    made = folder / "made.a"
    shutil.copyfile(runtime_archive(), made)
    listed = folder / "objects"
    listed.write_text("".join(f'"{path}"\n' for path in objects))
    _run([archiver, "q", str(made), f"@{listed}"])
    _run([archiver, "s", str(made)])
    shutil.copyfile(made, output)


def make_fatbin(images: Sequence[tuple[str, bytes, bytes]]) -> bytes:
    """One image of the device code of several architectures, and PTX for newer ones.

    PTX is added for the newest architecture whose code runs on later ones, which those with a letter, such as sm_90a,
    do not. A single cubin without PTX stays as it is, and so does anything but a cubin.

    Args:
        images: architecture, cubin and PTX of each.
    Raises:
        ToolchainError: if an assembler or `fatbinary` is missing, or fails.
    """
    portable = [image for image in images if image[0][-1].isdigit() and image[2]]
    newest = max(portable, key=lambda image: int(image[0][3:]), default=None)
    if len(images) == 1 and (newest is None or not images[0][1].startswith(b"\x7fELF")):
        return images[0][1]
    tool = find_fatbinary()
    if tool is None:
        if len(images) == 1:
            return images[0][1]
        raise ToolchainError(
            "TOOL_MISSING",
            "a file for several architectures needs fatbinary, which is not installed",
            hint="pip install 'weft-lang[cuda]', or export a file for each architecture",
        )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        words: list[str] = []
        for architecture, cubin, _ in images:
            if not cubin.startswith(b"\x7fELF"):
                raise ToolchainError(
                    "ASSEMBLER_ARCHITECTURE",
                    f"there is no assembler for {architecture} here",
                    hint="pip install 'weft-lang[cuda]'",
                )
            place = folder / f"{architecture}.cubin"
            place.write_bytes(cubin)
            words.append(f"--image3=kind=elf,sm={architecture[3:]},file={place}")
        if newest is not None:
            place = folder / "newer.ptx"
            place.write_bytes(newest[2])
            words.append(f"--image3=kind=ptx,sm={newest[0][3:]},file={place}")
        output = folder / "out.fatbin"
        result = subprocess.run(
            [tool, "-64", f"--create={output}", *words], capture_output=True, text=True, check=False
        )
        if result.returncode != 0:
            raise ToolchainError(
                "LINK_FAILED",
                f"fatbinary failed with code {result.returncode}:\n{result.stderr.strip()}",
            )
        return output.read_bytes()
