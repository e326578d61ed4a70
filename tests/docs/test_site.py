# SPDX-License-Identifier: Apache-2.0
"""The site has every page, with links that lead within it."""

from __future__ import annotations

from pathlib import Path

from tools.build_site import OF_ROOT, rewritten

ROOT = Path(__file__).resolve().parents[2]
LISTED_BY_PAGES = ("decisions/0", "reference/kernels/")


def test_every_page_is_in_the_navigation():
    navigation = (ROOT / "mkdocs.yml").read_text()
    pages = [str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")]
    pages = [page for page in pages if not page.startswith(LISTED_BY_PAGES)]
    listed = [*OF_ROOT.values(), *pages]
    assert [page for page in listed if f" {page}\n" not in navigation] == []


def test_links_lead_to_pages_of_the_site_and_sources_become_paths():
    text = "[a](docs/language.md#loops) [the example](examples/saxpy.py) [b](https://x.y)\n```\n[c](docs/cpu.md)\n```\n"
    assert rewritten(ROOT / "README.md", text) == (
        "[a](language.md#loops) the example (`examples/saxpy.py`) [b](https://x.y)\n```\n[c](docs/cpu.md)\n```\n"
    )
    text = "[a](../../README.md) [`src/weft/api.py`](../../src/weft/api.py) f[x](...)"
    page = ROOT / "docs" / "recipes" / "add-an-op.md"
    assert rewritten(page, text) == "[a](../index.md) `src/weft/api.py` f\\[x](...)"
