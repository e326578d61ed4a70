# SPDX-License-Identifier: Apache-2.0
"""Prose, messages and names of tests are idiomatic English: phrases that are not, and what to write instead."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.architecture.source_tree import ROOT, name

PLACES = ("src", "native", "docs", "examples", "tools", "benchmarks", "tests")
SUFFIXES = {".py", ".pyi", ".h", ".cpp", ".c", ".md", ".txt", ".mlir"}

# What is refused → what to write. Each is wrong wherever it occurs.
PHRASES: dict[str, str] = {
    r"(?<!there )\b(is|are|was|were) no (?!longer|one\b|more|less|later|earlier|sooner|better|\w+er than)[a-z]": (
        "is not a X; weft has no X"
    ),
    r"(?<!there)_(is|are|was|were)_no_(?!longer|more|less|one)": "test_a_X_is_not_a_Y, test_a_non_X_is_refused",
    r"\bwhat (is|are) no\b|_what_(is|are)_no_": "if X is not a Y; objects other than a Y",
    r"\b(that|which) (is|are) none\b": "that is not one",
    r"\bbehind (it|them|the|a|an|this|that|what|its|all|`)\b(?! (same )?interface| host)": "after, for *after*",
    r"\bbits count\b|\bcounts?[ _]for[ _]nothing": "taken modulo 32; is ignored",
    r"(\b|_)(no|some|any)body": "never read; the code, thread or caller that does it",
    r"\bwhoever\b": "the caller, the thread, every caller",
    r"\b(the|its|their|at|each) begin\b": "start",
    r"\b(is|was) what it (is|was)\b|\bare what they (are|were)\b": "is unchanged, keeps its type",
    r"\b(launch|call|function|it|that|which) misses\b": "launch() is missing grid",
    r"\b(by|at) place\b": "positional",
    r"[Ww]hat the files of this": "what the thing is",
    r"\bbe it an?\b": "whether a X or a Y",
    r"\bin the place of\b": "instead of",
    r"\b(of|by) (weft|python|torch|numpy|triton)'s([.,;:)]| (that|which|is|are|in|and|or|with|to)\b)": "a "
    "Python function, one of weft's functions",
    r"\bfor ever\b": "forever",
    r"\bone's own\b": "your own",
    r"\bas one likes\b": "any",
    r"\bby your word\b": "at your own risk",
    r"\bwithout a word\b": "silently, without a message",
    r"\bits like\b|\btheir like\b": "and similar ones, such as X",
    r"\bwhat is called what\b": "equivalent names",
    r"\bwho is done\b": "a finished thread",
}
REFUSED = re.compile("|".join(f"(?:{phrase})" for phrase in PHRASES), re.IGNORECASE)


def texts() -> list[Path]:
    found = [
        path
        for place in PLACES
        for path in sorted((ROOT / place).rglob("*"))
        if path.suffix in SUFFIXES and path != Path(__file__)
    ]
    return [*found, *sorted(ROOT.glob("*.md"))]


def instead(line: str) -> str:
    """What to write for the first foreign phrase of a line."""
    return next(
        f"{match[0]!r}: write {advice}"
        for phrase, advice in PHRASES.items()
        if (match := re.search(phrase, line, re.IGNORECASE))
    )


def test_prose_is_plain_english():
    places = [
        f"{name(path)}:{number}: {instead(line)}"
        for path in texts()
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1)
        if REFUSED.search(line)
    ]
    assert places == [], "\n".join(places)


@pytest.mark.parametrize(
    "foreign",
    [
        "rand is no operation of weft",
        "TypeError: for what is no stream.",
        "def test_what_is_no_stream_is_refused():",
        "Behind the loop, the flag is set.",
        "of others the low five bits count",
        "a value that nobody will look at",
        "the begin of the region",
        "an integer is what it is",
        "launch misses grid",
        "arguments by place",
        "What the files of this room add to.",
        "a function of Python's that is called",
    ],
)
def test_a_foreign_phrase_is_found(foreign: str):
    assert REFUSED.search(foreign)


@pytest.mark.parametrize(
    "plain",
    [
        "there is no driver",
        "weft has no operation rand",
        "the lock is no longer held",
        "is no larger than the block",
        "the clock is behind the host's",
        "the tables of weft's math library",
        "what the kernel writes",
        "no process is left behind",
    ],
)
def test_plain_english_is_left_alone(plain: str):
    assert not REFUSED.search(plain)
