# SPDX-License-Identifier: Apache-2.0
"""The Python blocks of every page run, in the order of the page."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.code_blocks import marks_of, program

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
PROGRAMS = {str(page.relative_to(ROOT)): program(page) for page in PAGES}


# Pages whose programs take longest; README.md, tutorial.md and language.md are read first.
SLOW = {
    *("docs/arguments.md", "docs/autotune.md", "docs/export.md", "docs/fused-op.md"),
    *("docs/huggingface.md", "docs/jax.md", "docs/kernels.md", "docs/primitives.md"),
    *("docs/profiling.md", "docs/tensor-cores.md", "docs/torch.md"),
}


def page(name: str, text: str) -> object:
    marks = [*marks_of(text), pytest.mark.slow] if name in SLOW else marks_of(text)
    return pytest.param(name, marks=marks)


def test_slow_pages_are_pages():
    assert set(PROGRAMS) >= SLOW


@pytest.mark.parametrize("page", [page(name, text) for name, text in PROGRAMS.items() if text])
def test_code_of_the_page_runs(page: str, tmp_path: Path):
    # A file, because kernels are compiled from their source text.
    script = tmp_path / f"{Path(page).stem}_page.py"
    script.write_text(PROGRAMS[page])
    result = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, cwd=tmp_path, timeout=120
    )
    assert result.returncode == 0, result.stderr


def test_code_blocks_keep_line_numbers_and_honor_marks(tmp_path: Path):
    page = tmp_path / "page.md"
    page.write_text(
        "# Title\n```python\na = 1\n```\n```sh\nls\n```\n"
        "<!-- not run: needs a GPU -->\n```python\nb = 2\n```\n```python\nc = 3\n```\n"
    )
    lines = program(page).split("\n")
    assert {number: line for number, line in enumerate(lines, 1) if line} == {
        3: "a = 1",
        13: "c = 3",
    }
