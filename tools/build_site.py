# SPDX-License-Identifier: Apache-2.0
"""Builds the site of the documentation from the pages as they are: `make site`.

In: README.md, the other pages of the root, and docs/. Out: build/site/html, checked by mkdocs. A link to a source
becomes its path: the site does not hold it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parents[1]
SITE = ROOT / "build" / "site"
# Pages of the root → their names in the site.
OF_ROOT = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
}
SHOWN = (".md", ".png", ".svg")
LINK = re.compile(r"\[([^\]]*)\]\(([^)#\s]+)(#[^)\s]*)?\)")


def target_of(file: Path) -> Path | None:
    """Where a file of the repository is in the site; None if it is not there."""
    if file.parent == ROOT:
        return Path(OF_ROOT[file.name]) if file.name in OF_ROOT else None
    if ROOT / "docs" not in file.parents or file.suffix not in SHOWN:
        return None
    return file.relative_to(ROOT / "docs")


def rewritten(page: Path, text: str) -> str:
    """A page's text with links that lead to files of the site."""

    def link(found: re.Match[str]) -> str:
        words, target, part = found[1], found[2], found[3] or ""
        file = (page.parent / target).resolve()
        if target == "...":  # a call in a message: kernel[grid, block](...)
            return f"\\{found[0]}"
        if target.startswith(("http:", "https:", "mailto:")) or not file.exists():
            return found[0]  # mkdocs says which are broken
        place, own = target_of(file), target_of(page)
        if place is None or own is None:
            path = f"`{file.relative_to(ROOT)}`"
            return path if words.strip("`") in path else f"{words} ({path})"
        return f"[{words}]({os.path.relpath(place, own.parent)}{part})"

    return outside_blocks(text, lambda prose: LINK.sub(link, prose))


def outside_blocks(text: str, change: Callable[[str], str]) -> str:
    """The text with its prose changed, and its code blocks as they are."""
    pieces = re.split(r"(^```.*?^```)", text, flags=re.MULTILINE | re.DOTALL)
    return "".join(piece if piece.startswith("```") else change(piece) for piece in pieces)


def main() -> int:
    """Writes the pages and runs mkdocs; its exit code."""
    pages = SITE / "pages"
    shutil.rmtree(pages, ignore_errors=True)
    files = [ROOT / name for name in OF_ROOT]
    files += [file for file in sorted((ROOT / "docs").rglob("*")) if file.suffix in SHOWN]
    for file in files:
        place = target_of(file)
        assert place is not None
        (pages / place).parent.mkdir(parents=True, exist_ok=True)
        if file.suffix == ".md":
            (pages / place).write_text(rewritten(file, file.read_text()))
        else:
            shutil.copyfile(file, pages / place)
    command = [sys.executable, "-m", "mkdocs", "build", "--strict"]
    return subprocess.run(
        [*command, "--config-file", str(ROOT / "mkdocs.yml")], check=False
    ).returncode


if __name__ == "__main__":
    sys.exit(main())
