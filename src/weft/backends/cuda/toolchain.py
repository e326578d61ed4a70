# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's tools: ptxas as a process, or nvJitLink in this one, for cubins; nvdisasm for SASS.

In: PTX, an architecture. Out: a cubin and the verbose log. Tools are searched in the environment variables of
`weft.config`, in NVIDIA's installed wheels, in PATH and in CUDA's usual place.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from weft.backends.cuda.assemblers import find_nvdisasm, find_ptxas, nvjitlink_path
from weft.backends.cuda.diagnostics import refused_line
from weft.backends.cuda.nvjitlink import NvJitLink
from weft.backends.cuda.tool_process import Ptxas, run_tool
from weft.codegen.llvm.lock import holding_llvm
from weft.config import config
from weft.errors import ToolchainError
from weft.location import SourceLocation
from weft.memo import kept

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

INSTALL_HINT: Final = "pip install 'weft-lang[cuda]' installs it; it needs no GPU"
# Errors that are not about the code: another assembler may work.
_TRIES_ANOTHER: Final = {"TOOL_MISSING", "TOOL_FAILED", "ASSEMBLER_ARCHITECTURE"}
_TOO_NEW: Final = re.compile(r"'gpu-name'|Unsupported \.version")


@dataclass(frozen=True)
class Assembly:
    """An assembler's result.

    Attributes:
        cubin: the machine code; empty if there is no assembler.
        log: its verbose output.
        missing: why there is no machine code, or None.
        remark: why the assembler was not ptxas, and what that costs.
    """

    cubin: bytes
    log: str
    missing: ToolchainError | None = None
    remark: str = ""


def assemble(
    ptx: str, architecture: str, options: Sequence[str] = (), line_info: bool = False
) -> Assembly:
    """PTX as a cubin: `begin_assembly` with existing PTX."""
    return begin_assembly(lambda: ptx, architecture, options, line_info)()


def begin_assembly(
    make_ptx: Callable[[], str],
    architecture: str,
    options: Sequence[str] = (),
    line_info: bool = False,
) -> Callable[[], Assembly]:
    """Starts to assemble PTX, all its kernels at once; the result waits for the cubin.

    ptxas does it, loading while the PTX is made. If it does not run, or is too old for the architecture,
    nvJitLink does, unless WEFT_PTXAS is set; WEFT_NVJITLINK selects nvJitLink.

    Args:
        make_ptx: called once, before this returns.
        architecture: such as ``"sm_90a"``.
        options: more options for ptxas.
        line_info: whether the cubin holds source lines.
    Raises:
        ToolchainError: later, if there is no assembler, or if it refuses the text; the message holds its log.
    """
    words = [f"-arch={architecture}", "-v", *options, *(["-lineinfo"] if line_info else [])]
    with holding_llvm():  # so that no thread forks, see `Ptxas`, or delays the PTX
        run = _start_ptxas(words)
        try:
            ptx = make_ptx()
            if isinstance(run, Ptxas):
                run.feed(ptx)
        except BaseException:
            if isinstance(run, Ptxas):
                run.stop()
            raise

    def finish() -> Assembly:
        try:
            if isinstance(run, ToolchainError):
                raise run
            return _with_ptxas(run, ptx, architecture)
        except ToolchainError as error:
            library = find_nvjitlink() if error.code in _TRIES_ANOTHER else None
            if library is None or config.ptxas is not None:
                raise
            if "wgmma." in ptx:
                raise _without_nvjitlink(error) from None
            try:
                return _with_nvjitlink(library, ptx, architecture, options, line_info, error)
            except ToolchainError as another:
                raise error if error.code == another.code else another from None

    return finish


def _start_ptxas(words: list[str]) -> Ptxas | ToolchainError:
    """A run of ptxas, or the reason for none."""
    if config.nvjitlink is not None and config.ptxas is None:
        return ToolchainError("TOOL_MISSING", "WEFT_NVJITLINK is set, and WEFT_PTXAS is not")
    path = find_ptxas()
    if path is None:
        return ToolchainError(
            "TOOL_MISSING",
            "ptxas, which makes a cubin from PTX, is not installed",
            hint=INSTALL_HINT,
        )
    try:
        return Ptxas(path, words)
    except ToolchainError as error:
        return error


def _with_ptxas(run: Ptxas, ptx: str, architecture: str) -> Assembly:
    status, log, cubin = run.result()
    # If the program waits for all children, or ignores them, every status is 0.
    if status == 0 and cubin.startswith(b"\x7fELF"):
        return Assembly(cubin, log)
    raise _refused("ptxas", run.path, architecture, log, ptx)


def _without_nvjitlink(reason: ToolchainError) -> ToolchainError:
    """Linked code ignores `setmaxnreg` and waits after each product, so that it is slow or has too few registers."""
    return ToolchainError(
        reason.code,
        f"{reason.message}; kernels with wgmma need ptxas, since nvJitLink makes each product wait",
        hint=reason.hint or INSTALL_HINT,
    )


def _with_nvjitlink(
    library: NvJitLink,
    ptx: str,
    architecture: str,
    options: Sequence[str],
    line_info: bool,
    reason: ToolchainError,
) -> Assembly:
    flags = [f"-arch={architecture}", "-verbose", *(f"-Xptxas={option}" for option in options)]
    if line_info:
        flags.append("-lineinfo")
    result = library.link_ptx(ptx, flags)
    if result.lacks_architecture:
        raise _architecture_missing("nvJitLink", library.path, architecture)
    if result.error:
        log = f"{result.error}\n{result.log}"
        raise _refused("nvJitLink", library.path, architecture, log, ptx)
    cost = "nvJitLink assembled the kernels, which takes more registers, so fewer warps run at once"
    return Assembly(result.cubin, result.log, remark=f"{reason.message}; {cost}")


def disassemble(cubin: bytes) -> str:
    """A cubin as SASS, with source lines if it has them.

    Raises:
        ToolchainError: if nvdisasm is not installed or fails.
    """
    tool = find_nvdisasm()
    if tool is None:
        raise ToolchainError(
            "TOOL_MISSING", "nvdisasm, which shows SASS, is not installed", hint=INSTALL_HINT
        )
    status, text = run_tool([tool, "-g", "-c"], cubin)
    if status != 0:
        raise _refused("nvdisasm", tool, "", text, "")
    return text


def _architecture_missing(tool: str, path: str, architecture: str) -> ToolchainError:
    return ToolchainError(
        "ASSEMBLER_ARCHITECTURE",
        f"{tool} ({path}) makes no code for {architecture}: each release of CUDA knows some architectures",
        hint="WEFT_PTXAS names the ptxas of another release; the PTX (fn.ptx, --keep-ptx) needs none",
    )


def _refused(tool: str, path: str, architecture: str, log: str, ptx: str) -> ToolchainError:
    """The error, at the user's line of the first complaint, if there is one."""
    if architecture and _TOO_NEW.search(log):
        return _architecture_missing(tool, path, architecture)
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
    """nvJitLink from `WEFT_NVJITLINK` or NVIDIA's wheel, or None."""
    path = nvjitlink_path()
    return None if path is None else _open_nvjitlink(path)
