# SPDX-License-Identifier: Apache-2.0
"""A GPU's code checks bounds where the CPU's does: read in the text, without a GPU."""

from __future__ import annotations

import re

import pytest

import weft
from tests.sanitizer.zoo import CASES, read_cases, report_of
from weft.backends.cuda.backend import CudaBackend
from weft.backends.cuda.stages import emit_ptx, machine_of, print_kernels
from weft.backends.registry import find_backend
from weft.compiler import pipeline
from weft.compiler.target_choice import TargetChoice
from weft.dialects.flow import walk
from weft.dialects.nvgpu import NVGPU
from weft.dialects.simt import SIMT
from weft.dialects.simt.debug import CheckOp
from weft.passes.check_accesses import is_checked

CASES_OF_BOUNDS = read_cases(CASES / "bounds.txt")


@pytest.fixture
def compiled(monkeypatch):
    """Programs are compiled for a GPU and end there; a list of their modules' text, checks and checked operations."""
    found = []

    def compile_(self, job):
        machine = machine_of(job)
        operations = list(walk(job.module))
        text = print_kernels(job.module, machine)
        found.append((text, operations, lambda: emit_ptx(text, machine, 3)))
        raise weft.UnavailableError("TARGET", "this is as far as it goes")

    monkeypatch.setattr(CudaBackend, "compile", compile_)
    target = TargetChoice(find_backend("cuda"), "sm_90a")
    monkeypatch.setattr(pipeline, "choose_target", lambda *_: target)
    return found


def sites_of(text: str) -> list[str]:
    """The texts of the constants that a GPU's reports are made of."""
    constants = re.findall(r'constant \[\d+ x i8\] c"([^"]*)"', text)
    return [
        re.sub(r"\\([0-9A-F]{2})", lambda code: chr(int(code[1], 16)), one) for one in constants
    ]


def test_what_the_cpu_finds_a_gpu_looks_for_with_the_same_words(compiled):
    """In the cases of every operation that has checks."""
    seen = set()
    for case in CASES_OF_BOUNDS:
        with pytest.raises(weft.UnavailableError, match="as far as it goes"):
            report_of(case.program, "bounds")
        text, operations, _ = compiled.pop()
        place, _, said = case.report.rpartition("\n[")
        array = re.match(r"\w+\] (?:\d+ elements from )?(.*?)\[-?\d", said)[1]
        sites = [site.split("\0") for site in sites_of(text)]
        assert any(place in site and array in site for site in sites), case.name
        checks = [op for op in operations if isinstance(op, CheckOp)]
        assert len(re.findall(r"call ptr @weft\.recorder[.\w]*\(", text)) >= len(checks), case.name
        assert ("trap;" in text) == any(check.ends is not None for check in checks), case.name
        seen |= {type(op) for op in operations}
    checked = {op for op in (*SIMT.operations, *NVGPU.operations) if is_checked(op)}
    assert {op.name for op in checked - seen} == set()


def test_a_fragment_has_its_instructions_under_the_check(compiled):
    instructions = ("a fragment is stored", "st.global"), ("an operand is loaded", "ldmatrix")
    for words, instruction in instructions:
        (case,) = (case for case in CASES_OF_BOUNDS if case.name.startswith(words))
        with pytest.raises(weft.UnavailableError):
            report_of(case.program, "bounds")
        ptx = compiled.pop()[2]()
        assert instruction in ptx and re.search(r"\bcall[^;]*recorder", ptx)
