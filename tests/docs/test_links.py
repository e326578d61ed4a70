# SPDX-License-Identifier: Apache-2.0
"""What the pages point at exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(page for folder in (".", "docs/**", "notes") for page in ROOT.glob(f"{folder}/*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files(page: Path):
    text = re.sub(r"^```.*?^```|`[^`]*`", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    targets = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text)
    # Messages with brackets and parentheses look like links; a path has a dot or a slash inside.
    paths = [target for target in targets if re.search(r"\w[./]\w", target)]
    local = [target for target in paths if not target.startswith(("http:", "https:"))]
    assert [target for target in local if not (page.parent / target).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_paths_in_code_font_exist(page: Path):
    paths = re.findall(
        r"`((?:src|native|tests|docs|benchmarks|examples|tools)/[\w./-]+)`", page.read_text()
    )
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_every_decision_is_listed():
    folder = ROOT / "docs" / "decisions"
    listed = (folder / "README.md").read_text()
    assert [page.name for page in folder.glob("0*.md") if page.name not in listed] == []
