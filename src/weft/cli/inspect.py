# SPDX-License-Identifier: Apache-2.0
"""``weft inspect``: the text of one stage, with the lines of Python that it comes from.

In: a function, the types of its arguments, a stage. Out: text on standard output, colored on a terminal.
"""

from __future__ import annotations

import linecache
import os
import re
import sys
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from weft.cli.functions import (
    WrongCommandError,
    add_function_arguments,
    compile_named,
    find_function,
)
from weft.compiler.options import make_options

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

EXAMPLES: Final = (
    "weft inspect kernels.py::scale --spec 'a:f32[n],b:f32[n]' --stage ir",
    "weft inspect kernels.py::scale --spec 'a:f32[n],b:f32[n]' --gpu-arch sm_90a --stage ptx",
)

_DIM, _PLAIN = "\x1b[36m", "\x1b[0m"
# On the CPU there may be a folder before the name.
_PTX_FILE: Final = re.compile(r'\s*\.file\s+(\d+)\s+(?:"([^"]*)"\s+)?"([^"]*)"')
_PTX_PLACE: Final = re.compile(r"\s*\.loc\s+(\d+)\s+(\d+)\b")
_SASS_PLACE: Final = re.compile(r'\s*//## File "([^"]*)", line (\d+)')
_LLVM_NODE: Final = re.compile(r"!(\d+) = (?:distinct )?!(\w+)\((.*)\)")
_LLVM_USE: Final = re.compile(r", !dbg !(\d+)")
_ATTRIBUTE: Final = re.compile(r'(\w+): (?:!(\d+)|"([^"]*)"|(\d+))')

Place = tuple[str, int]
"""A file and a line."""
Line = tuple[str, Place | None]
"""A line of text, and the place of Python it comes from; None if that is unknown."""


class _Stage(NamedTuple):
    """A text.

    Attributes:
        attribute: of the compiled function; empty if the text is made here.
        lines: reads the places from the text; None if the module is printed with them.
        where: the targets that have it; empty for every target.
    """

    attribute: str
    lines: Callable[[str], Iterator[Line]] | None
    where: str = ""


def ptx_lines(text: str) -> Iterator[Line]:
    r"""PTX, whose ``.loc`` say where it comes from; these are left out.

    Example:
        >>> list(ptx_lines('.file 1 "a.py"\n.loc 1 7 3\nret;'))
        [('ret;', ('a.py', 7))]
    """
    named = filter(None, map(_PTX_FILE.match, text.splitlines()))
    files = {found[1]: os.path.join(found[2] or "", found[3]) for found in named}  # noqa: PTH118
    place: Place | None = None
    for line in text.splitlines():
        if found := _PTX_PLACE.match(line):
            place = (files.get(found[1], ""), int(found[2])) if found[2] != "0" else place
        elif not _PTX_FILE.match(line):
            yield line, place


def sass_lines(text: str) -> Iterator[Line]:
    """SASS, whose comments say where it comes from; these are left out."""
    place: Place | None = None
    for line in text.splitlines():
        if found := _SASS_PLACE.match(line):
            place = (found[1], int(found[2]))
        else:
            yield line, place


def llvm_lines(text: str) -> Iterator[Line]:
    """LLVM's text, whose ``!dbg`` say where it comes from; these, and what they refer to, are left out."""
    nodes = {
        found[1]: {
            name: node or word or number
            for name, node, word, number in _ATTRIBUTE.findall(found[3])
        }
        for found in map(_LLVM_NODE.match, text.splitlines())
        if found
    }

    def file_of(node: dict[str, str]) -> str:
        while "filename" not in node:
            following = nodes.get(node.get("file") or node.get("scope") or "")
            if following is None:
                return ""
            node = following
        return node["filename"]

    place: Place | None = None
    for line in text.splitlines():
        if line.startswith("!"):
            continue
        if found := _LLVM_USE.search(line):
            node = nodes.get(found[1], {})
            if node.get("line", "0") != "0" and not line.startswith("define"):
                place = (file_of(node), int(node["line"]))
        yield _LLVM_USE.sub("", line), place


STAGES: Final = {
    "ir": _Stage("", None),
    "passes": _Stage("", None),
    "llvm": _Stage("llvm_ir", llvm_lines),
    "ptx": _Stage("ptx", ptx_lines, "a GPU: add --gpu-arch sm_90a"),
    "sass": _Stage("sass", sass_lines, "a GPU: add --gpu-arch sm_90a"),
    "asm": _Stage("", ptx_lines, "the CPU: add --target cpu"),
    "wrapper": _Stage("host_llvm_ir", llvm_lines),
}


def _text(compiled: Any, stage: str, opt_level: int) -> str | None:
    """The text of a stage, or None if the target has none."""
    if stage == "asm":
        return _assembly(compiled.llvm_ir or "", opt_level)
    return getattr(compiled, STAGES[stage].attribute)


def _assembly(text: str, opt_level: int) -> str | None:
    """That of kernels for this CPU, or None for those of another target."""
    from weft.backends.cpu.stages import assembly_text
    from weft.backends.host import host_machine

    return assembly_text(text, opt_level) if host_machine().target.triple in text else None


def _module_lines(compiled: Any, function: Any, options: Any, every: bool) -> Iterator[Line]:
    """The module after all passes, or after each, whose name comes before it."""
    from weft.compiler.pipeline import placed_stages
    from weft.dialects.builder import source_location
    from weft.frontend.source import read_source

    stages = placed_stages(
        read_source(function), compiled.signature, options, compiled.architecture or compiled.target
    )
    for name in stages if every else [*stages][-1:]:
        if every:
            yield f"// {name}", None
        for text, location in stages[name]:
            found = None if location is None else source_location(location)
            yield text, None if found is None else (found.file, found.line)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The function and the stage."""
    add_function_arguments(parser)
    parser.add_argument("--stage", choices=STAGES, default="ir", help="which text (default: ir)")


def run(arguments: argparse.Namespace) -> int:
    """Prints the stage's text."""
    stage = STAGES[arguments.stage]
    function = find_function(arguments.function)
    compiled = compile_named(arguments, function, "--generate-line-info")
    options = make_options(arguments.options, defaults=function.default_options)
    if stage.lines is None:
        lines = _module_lines(compiled, function, options, every=arguments.stage == "passes")
    else:
        text = _text(compiled, arguments.stage, options.opt_level)
        if text is None:
            raise WrongCommandError(f"--stage {arguments.stage} is a text for {stage.where}")
        lines = stage.lines(text)
    is_colored = sys.stdout.isatty()
    for line in with_source(lines):
        is_source = line.startswith("# ") and is_colored
        print(f"{_DIM}{line}{_PLAIN}" if is_source else line)
    return 0


def with_source(lines: Iterator[Line]) -> Iterator[str]:
    """The lines, and a line of Python where they come from another one."""
    before: Place | None = None
    for text, place in lines:
        if place is not None and place != before:
            before = place
            file, number = place
            yield f"# {number:4}  {linecache.getline(file, number).rstrip()}"
        yield text
