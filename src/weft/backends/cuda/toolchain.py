# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's tools: nvJitLink in this process or ptxas beside it for cubins, nvdisasm for SASS.

In: PTX, an architecture. Out: a cubin and the verbose log. Tools are looked for in the environment variables of
`weft.config`, in NVIDIA's installed wheels, in PATH and in CUDA's usual place.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

from weft.backends.cuda.diagnostics import refused_line
from weft.backends.cuda.installed import find_installed
from weft.backends.cuda.nvjitlink import NvJitLink
from weft.blame import limit_reached
from weft.config import config, search_path
from weft.errors import ToolchainError
from weft.location import SourceLocation
from weft.memo import kept

if TYPE_CHECKING:
    from collections.abc import Sequence

INSTALL_HINT: Final = "pip install 'weft[cuda]' installs them; neither needs a GPU"
_USUAL_PLACE: Final = Path("/usr/local/cuda/bin")
_TIMEOUT_SECONDS: Final = 600


@dataclass(frozen=True)
class Assembly:
    """What an assembler made.

    Attributes:
        cubin: the machine code; empty where there is no assembler.
        log: what it said, verbosely.
        missing: why there is no machine code, or None.
    """

    cubin: bytes
    log: str
    missing: ToolchainError | None = None


def assemble(
    ptx: str, architecture: str, options: Sequence[str] = (), line_info: bool = False
) -> Assembly:
    """PTX as a cubin, by whichever assembler is installed; nvJitLink first, as it starts no process.

    Args:
        ptx: the text.
        architecture: such as ``"sm_90a"``.
        options: more options for ptxas.
        line_info: whether the cubin holds source lines.
    Raises:
        ToolchainError: if there is no assembler, or if it refuses the text; the message holds its log.
    """
    library = find_nvjitlink() if config.ptxas is None else None
    if library is not None:
        return _with_nvjitlink(library, ptx, architecture, options, line_info)
    ptxas = find_ptxas()
    if ptxas is None:
        raise ToolchainError(
            "TOOL_MISSING",
            "neither nvJitLink nor ptxas is installed, and one of them makes a cubin from PTX",
            hint=INSTALL_HINT,
        )
    return _with_ptxas(ptxas, ptx, architecture, options, line_info)


def _with_nvjitlink(
    library: NvJitLink, ptx: str, architecture: str, options: Sequence[str], line_info: bool
) -> Assembly:
    flags = [f"-arch={architecture}", "-verbose", *(f"-Xptxas={option}" for option in options)]
    if line_info:
        flags.append("-lineinfo")
    result = library.link_ptx(ptx, flags)
    if result.lacks_architecture:
        raise _architecture_missing(f"nvJitLink ({library.path})", architecture)
    if result.error:
        raise _refused("nvJitLink", architecture, f"{result.error}\n{result.log}", ptx)
    return Assembly(result.cubin, result.log)


def _with_ptxas(
    ptxas: str, ptx: str, architecture: str, options: Sequence[str], line_info: bool
) -> Assembly:
    with _memory_file(ptx.encode()) as source, _memory_file() as output:
        paths = _path(source), "-o", _path(output)
        command = [ptxas, f"-arch={architecture}", "-v", *options, *paths]
        if line_info:
            command.insert(2, "-lineinfo")
        log = _run(command, (source, output), f"ptxas -arch={architecture}", architecture, ptx)
        output.seek(0)
        return Assembly(output.read(), log)


def disassemble(cubin: bytes) -> str:
    """A cubin as SASS, with source lines where it has them.

    Raises:
        ToolchainError: if nvdisasm is not installed or fails.
    """
    tool = find_nvdisasm()
    if tool is None:
        raise ToolchainError(
            "TOOL_MISSING", "nvdisasm, which shows SASS, is not installed", hint=INSTALL_HINT
        )
    with _memory_file(cubin) as source:
        return _run([tool, "-g", "-c", _path(source)], (source,), "nvdisasm")


def _memory_file(content: bytes = b"") -> BinaryIO:
    """A file without a name: tools read and write it where no folder for temporary files can be used, too."""
    file = os.fdopen(os.memfd_create("weft"), "w+b")
    file.write(content)
    file.flush()
    return file


def _path(file: BinaryIO) -> str:
    """Where a tool that inherits the file finds it."""
    return f"/proc/self/fd/{file.fileno()}"


def _run(
    command: list[str],
    files: Sequence[BinaryIO],
    what: str,
    architecture: str = "",
    ptx: str = "",
) -> str:
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_SECONDS,
            check=False,
            pass_fds=[file.fileno() for file in files],
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        limit = limit_reached(error)
        raise ToolchainError(
            "TOOL_FAILED", f"{command[0]} cannot be run: {limit or error}"
        ) from error
    log = (done.stdout + done.stderr).replace(_path(files[0]), "kernels.ptx")
    if done.returncode != 0:
        if architecture and "'gpu-name'" in log:
            raise _architecture_missing(command[0], architecture)
        raise _refused(what, "", log, ptx)
    return log


def _architecture_missing(tool: str, architecture: str) -> ToolchainError:
    return ToolchainError(
        "ASSEMBLER_ARCHITECTURE",
        f"{tool} makes no code for {architecture}: each release of CUDA knows some architectures",
        hint="WEFT_PTXAS names the ptxas of another release; the PTX (fn.ptx, --keep-ptx) needs none",
    )


def _refused(tool: str, architecture: str, log: str, ptx: str) -> ToolchainError:
    """The error, at the user's line that the first complaint is about, where there is one."""
    target = f" for {architecture}" if architecture else ""
    file, line = refused_line(log, ptx)
    return ToolchainError(
        "ASSEMBLY_FAILED",
        f"{tool} refused the code{target}:\n{log.strip()}",
        hint="the text of an inline_ptx is assembled as it stands" if "inline asm" in ptx else "",
        location=SourceLocation(file, line, 0, line + 1) if file else None,
    )


@kept
def _open_nvjitlink(path: str) -> NvJitLink:
    return NvJitLink(path)


def find_nvjitlink() -> NvJitLink | None:
    """nvJitLink as `WEFT_NVJITLINK` names it, or of NVIDIA's wheel; None if there is none."""
    if config.nvjitlink is not None:
        return _open_nvjitlink(config.nvjitlink)
    found = find_installed("nvidia-nvjitlink", r"libnvJitLink\.so\.\d+")
    return _open_nvjitlink(found) if found else None


def find_ptxas() -> str | None:
    """Path of ptxas, or None."""
    return config.ptxas or _find_program("ptxas", "nvidia-cuda-nvcc")


def find_nvdisasm() -> str | None:
    """Path of nvdisasm, or None."""
    return config.nvdisasm or _find_program("nvdisasm", "nvidia-cuda-nvdisasm")


def _find_program(name: str, distribution: str) -> str | None:
    installed = find_installed(distribution, f"bin/{name}")
    if installed is not None:
        return installed
    return shutil.which(name, path=search_path()) or shutil.which(name, path=str(_USUAL_PLACE))
