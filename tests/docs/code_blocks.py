# SPDX-License-Identifier: Apache-2.0
"""The Python blocks of a Markdown page, as one program with the page's own line numbers.

In: a page. Out: a module source in which every line that is not Python is empty, so that an error
names the line of the page. A block under the comment `<!-- not run: why -->` is left out.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path


def program(page: Path) -> str:
    """The page's Python, line for line; an empty string if it has none."""
    lines: list[str] = []
    inside = skipped = False
    for line in page.read_text().splitlines():
        code = ""
        if inside and line.startswith("```"):
            inside = False
        elif inside:
            code = line
        elif re.match(r"<!-- not run: .+ -->", line):
            skipped = True
        elif line.startswith("```"):
            inside = line.strip() == "```python" and not skipped
            skipped = False if line.strip() != "```" else skipped
        lines.append(code)
    text = "\n".join(lines)
    return text if text.strip() else ""


def marks_of(text: str) -> list[pytest.MarkDecorator]:
    """The marks of a test that runs this text: the libraries that it imports, which not every environment has."""
    return [getattr(pytest.mark, need) for need in ("jax", "torch") if f"import {need}" in text]
