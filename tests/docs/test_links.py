# SPDX-License-Identifier: Apache-2.0
"""Links and paths of the pages exist."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(page for folder in (".", "docs/**", "notes") for page in ROOT.glob(f"{folder}/*.md"))


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headlines, as Markdown renderers make them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    plain = (re.sub(r"[^\w\- ]", "", title.lower()) for title in titles)
    return {title.strip().replace(" ", "-") for title in plain}


def broken_links(page: Path) -> list[str]:
    """Links to files, or to headlines of pages, that do not exist."""
    text = re.sub(r"^```.*?^```|`[^`]*`", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    targets = re.findall(r"\]\(([^)#\s]+)(?:#([^)]*))?\)", text)
    # Messages with brackets and parentheses look like links; a path has a dot or a slash inside.
    paths = [(target, title) for target, title in targets if re.search(r"\w[./]\w", target)]
    local = [one for one in paths if not one[0].startswith(("http:", "https:"))]
    broken = [target for target, _ in local if not (page.parent / target).exists()]
    titled = [(page.parent / target, title) for target, title in local if title]
    return broken + [
        f"{target.name}#{title}"
        for target, title in titled
        if target.suffix == ".md" and target.exists() and title not in anchors(target)
    ]


def broken_paths(page: Path) -> list[str]:
    """Paths in code font that do not exist."""
    paths = re.findall(
        r"`((?:src|native|tests|docs|benchmarks|examples|tools)/[\w./-]+)`", page.read_text()
    )
    return [path for path in paths if not (ROOT / path).exists()]


@pytest.mark.parametrize("broken", [broken_links, broken_paths])
def test_links_and_paths_lead_to_files(broken: Callable[[Path], list[str]]):
    found = {str(page.relative_to(ROOT)): broken(page) for page in PAGES}
    assert {page: paths for page, paths in found.items() if paths} == {}


def test_every_decision_is_listed():
    folder = ROOT / "docs" / "decisions"
    listed = (folder / "README.md").read_text()
    assert [page.name for page in folder.glob("0*.md") if page.name not in listed] == []
