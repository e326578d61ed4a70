# SPDX-License-Identifier: Apache-2.0
"""The tree of folders in docs/architecture.md is the one on disk, and what is planned is not there yet."""

from __future__ import annotations

import re

from tests.architecture.source_tree import ROOT


def drawn() -> dict[str, bool]:
    """Each folder of the page, and whether it is planned."""
    text = (ROOT / "docs/architecture.md").read_text()
    (block,) = re.findall(r"## The tree\n.*?```text\n(.*?)```", text, re.DOTALL)
    found: dict[str, bool] = {}
    around: list[str] = []
    for line in block.splitlines():
        indent, name, phrase = re.fullmatch(r"( *)([\w/]+)/ *(.*)", line).groups()
        depth = len(indent) // 4
        around[depth:] = [name]
        found["/".join(around)] = phrase.startswith("planned")
    return found


def on_disk() -> set[str]:
    """The folders with files of their own, and those around them."""
    found: set[str] = set()
    for top in ("src/weft", "native"):
        for path in (ROOT / top).rglob("*"):
            if path.suffix in {".py", ".cpp", ".h"}:
                folder = path.parent.relative_to(ROOT)
                found |= {str(each) for each in (folder, *folder.parents)}
    return found - {".", "src"}


def test_every_folder_is_drawn_and_every_drawn_folder_exists():
    assert {folder for folder, is_planned in drawn().items() if not is_planned} == on_disk()


def test_what_is_planned_does_not_exist_yet():
    planned = {folder for folder, is_planned in drawn().items() if is_planned}
    assert planned & on_disk() == set()
