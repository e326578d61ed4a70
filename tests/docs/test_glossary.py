# SPDX-License-Identifier: Apache-2.0
"""Words of the glossary stand only where they have their one meaning."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROFILER = ("src/weft/profiler", "src/weft/language/profiling", "src/weft/types/record_format.py")
# word → where it would mean something else. A word is also one as a part of a longer name.
ELSEWHERE = {
    "lane": PROFILER,
    "trace": ("src/weft/language/profiling", "src/weft/types"),
    "track": ("src/weft/frontend", "src/weft/backends", "src/weft/language/threads", "native/cpu"),
}


def glossary() -> list[str]:
    text = (ROOT / "docs/glossary.md").read_text(encoding="utf-8")
    return re.findall(r"^\| \*\*(.+?)\*\* \|", text, re.MULTILINE)


def files(place: str) -> list[Path]:
    root = ROOT / place
    if root.is_file():
        return [root]
    return [path for path in root.rglob("*") if path.suffix in (".py", ".cpp", ".h")]


@pytest.mark.parametrize("word", ELSEWHERE)
def test_a_word_of_the_glossary_means_one_thing(word: str):
    assert word in glossary()
    pattern = re.compile(rf"(?<![a-z]){word}s?(?![a-z])", re.IGNORECASE)
    searched = [path for place in ELSEWHERE[word] for path in files(place)]
    assert searched
    assert [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in searched
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if pattern.search(line)
    ] == []


def test_each_word_has_one_entry_in_the_order_of_the_alphabet():
    words = [word.lower() for word in glossary()]
    assert words == sorted(set(words))
