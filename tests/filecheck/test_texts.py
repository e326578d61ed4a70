# SPDX-License-Identifier: Apache-2.0
"""Text in, text out: what a pass leaves and a backend prints of each `.mlir` file below this folder.

The first line names the run, a row of `runs.RUNS`: `// RUN: ptx`. The output is compared with the lines
of the file that begin with the name, `// PTX: …`. How a file may check is LLVM's FileCheck.
"""

from __future__ import annotations

import re
from io import StringIO
from pathlib import Path

import pytest
from filecheck.finput import FInput
from filecheck.matcher import Matcher
from filecheck.options import Options
from filecheck.parser import Parser as CheckParser
from filecheck.parser import pattern_for_opts
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

from tests.filecheck.runs import RUNS
from weft.dialects.context import make_context

FOLDER = Path(__file__).parent
FILES = sorted(FOLDER.rglob("*.mlir"))
RUN = re.compile(r"^// RUN: (.+)$", re.MULTILINE)


def parse(text: str) -> ModuleOp:
    """The verified module of a text."""
    module = Parser(make_context(), text).parse_module()
    module.verify()
    return module


def check(path: Path, prefix: str, output: str) -> None:
    """Compare an output with the lines of a file that begin with `prefix`.

    Raises:
        AssertionError: if they do not match; filecheck has printed where.
    """
    options = Options(match_filename=str(path), check_prefixes=[prefix])
    checks = CheckParser(options, StringIO(path.read_text()), *pattern_for_opts(options))
    matched = Matcher(options, FInput("output", output), checks).run() == 0
    assert matched, f"{path.name} does not match:\n{output}"


CASES = [(path, run) for path in FILES for run in RUN.findall(path.read_text())]


def cases() -> list[object]:
    """Each with its name; of machine code, whose disassembler takes 0.4 s to start, every fourth is not slow."""
    of_sass = [case for case in CASES if case[1] == "sass"]
    slow = {*of_sass} - {*of_sass[::4]}
    return [
        pytest.param(
            *case,
            id=f"{case[0].relative_to(FOLDER)}:{case[1]}",
            marks=[pytest.mark.slow] if case in slow else [],
        )
        for case in CASES
    ]


@pytest.mark.parametrize(("path", "run"), cases())
def test_run_gives_what_is_checked(path: Path, run: str):
    check(path, run.upper(), RUNS[run](parse(path.read_text())))


def test_every_file_has_a_run_and_every_run_a_file():
    assert {path for path, _ in CASES} == set(FILES)
    assert {run for _, run in CASES} == set(RUNS)
