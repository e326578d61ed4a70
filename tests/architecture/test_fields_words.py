# SPDX-License-Identifier: Apache-2.0
"""The glossary's "do not say" holds in identifiers, docstrings, comments, messages, pages and names of tests.

Beside its words stand phrases that are not idiomatic English, with what to write.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from tests.architecture.source_tree import ROOT, name

GLOSSARY: Final = ROOT / "docs/glossary.md"
PLACES: Final = ("src", "native", "docs", "examples", "tools", "benchmarks", "tests")
SUFFIXES: Final = {".py", ".pyi", ".h", ".cpp", ".c", ".md", ".txt", ".mlir"}
ROW: Final = re.compile(r"^\| (`.*`) \| (.*) \|$", re.MULTILINE)
CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

# Grammar that no table of words holds, and how it is written.
PHRASES: Final[dict[str, str]] = {
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
    r'"""What (a|an|the|one|is|has|it|each|every|users?) ': "begin with a verb or a noun of the field",
    r"^#+ what (a|an|the) .* is$": "begin with a verb or a noun of the field",
}
# Held in the source, the pages and the examples; tests may say "what a call does".
NOUN_CLAUSE: Final = re.compile(r"\bwhat (a|an|the|one|is|has|it|users?) ", re.IGNORECASE)
OPENING: Final = re.compile(r'"""(What|How|Where|Which|Who|When|Of) ')
NOUN_CLAUSE_SAYS: Final = "the thing itself: *the result of a call*; *validates arguments*"
# The same letters in another word or meaning: a leaky ReLU's parameter, rounding, a hash's rounds, a paper's title.
ELSEWHERE: Final = re.compile(
    r"negative[_ ]slope|10 rounds\b|all rounds unrolled|ROUNDS|what is None|What is the fast Fourier"
    r"|(?<![a-z])[Rr]ounds([.;]|[_ ](to|once|twice|up|down|back|ties|half|each|products|arguments|at|a|no|f32|any"
    r"|as|them|after|right|doubles)(?![a-z]))"
)


def refused_words() -> dict[str, str]:
    """Each word of the glossary's first table, and what to say."""
    rows = ROW.findall(GLOSSARY.read_text(encoding="utf-8"))
    return {word: say for words, say in rows for word in re.findall(r"`([^`]+)`", words)}


def pattern(word: str) -> str:
    """A word by itself or as a part of a longer name."""
    return rf"(?<![a-z]){re.escape(word)}(?![a-z])".replace(r"\ ", "[ _-]")


WORDS: Final = refused_words()
WORD: Final = re.compile("|".join(map(pattern, WORDS)), re.IGNORECASE)
PHRASE: Final = re.compile(
    "|".join(f"(?:{phrase})" for phrase in PHRASES), re.IGNORECASE | re.MULTILINE
)


def literal(phrase: str) -> str:
    """Lowercase text that each match of a phrase has: looked for at once, where a word's edge is tried everywhere."""
    bare = re.sub(r"\[.*?\]|\\b", "\n", re.sub(r"\((?:[^()]|\([^()]*\))*\)", "\n", phrase))
    return "" if "|" in bare else max(re.findall("[a-z' ]+", bare.lower()), key=len)


LITERALS: Final = {
    literal(phrase): re.compile(
        "|".join(one for one in PHRASES if literal(one) == literal(phrase)),
        re.IGNORECASE | re.MULTILINE,
    )
    for phrase in PHRASES
}
PARTS: Final = {word: frozenset(re.findall("[a-z]+", word.lower())) for word in WORDS}


def texts(place: str) -> list[Path]:
    """Files to read of a folder, or of the root: not the table itself, nor records of the past."""
    found = (ROOT / place).rglob("*") if place else ROOT.glob("*.md")
    return sorted(
        path for path in found if path.suffix in SUFFIXES and path not in (Path(__file__), GLOSSARY)
    )


def found_in(line: str) -> str:
    """What to write for the first refused word of a line, or nothing."""
    line = ELSEWHERE.sub("", line)
    split = CAMEL.sub("_", line)
    if WORD.search(split):
        return next(
            f"{word!r}: say {say}"
            for word, say in WORDS.items()
            if re.search(pattern(word), split, re.IGNORECASE)
        )
    if PHRASE.search(line):
        return next(
            f"{match[0]!r}: {say}"
            for phrase, say in PHRASES.items()
            if (match := re.search(phrase, line, re.IGNORECASE))
        )
    return ""


def test_the_table_is_read():
    assert len(WORDS) > 40
    assert WORDS["endings"] == "epilogue"


def has_phrase(text: str) -> bool:
    lower = text.lower()
    return any(word in lower and phrase.search(text) for word, phrase in LITERALS.items())


def places_in(path: Path) -> list[str]:
    """Each refused word or phrase of a file, by line."""
    text = path.read_text(errors="replace")
    split = CAMEL.sub("_", text).lower()
    words = set(re.findall("[a-z]+", split))
    possible = [pattern(word) for word, parts in PARTS.items() if parts <= words]
    has_words = re.search("|".join(possible), split) is not None if possible else False
    has_phrases = has_phrase(text)
    is_test = name(path).startswith(("tests/", "tools/", "benchmarks/"))
    has_clauses = not is_test and NOUN_CLAUSE.search(text) is not None
    places: list[str] = []
    for number, line in enumerate(text.splitlines() if has_words or has_phrases else (), 1):
        if advice := found_in(line):
            places.append(f"{name(path)}:{number}: {advice}")
    for number, line in enumerate(text.splitlines() if has_clauses else (), 1):
        if clause := NOUN_CLAUSE.search(ELSEWHERE.sub("", line)):
            places.append(f"{name(path)}:{number}: {clause[0]!r}: {NOUN_CLAUSE_SAYS}")
    return places


def test_a_noun_clause_is_refused_outside_of_tests():
    assert NOUN_CLAUSE.search("The docstring says what an operation does.")
    assert not NOUN_CLAUSE.search(ELSEWHERE.sub("", "return None if what is None else text"))


def test_docstrings_begin_with_a_verb_or_a_noun():
    lines = [
        f"{name(path)}:{number}: {line.strip()}"
        for path in texts("src")
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if OPENING.search(line)
    ]
    assert lines == [], "\n".join(lines)


@pytest.mark.parametrize("place", [*PLACES, ""], ids=[*PLACES, "root"])
def test_the_fields_words_are_said(place: str):
    places = [place for path in texts(place) for place in places_in(path)]
    assert places == [], "\n".join(places)


@pytest.mark.joined
@pytest.mark.parametrize(
    "line",
    [
        "class PlainEnding(NamedTuple):",
        "def test_endings_are_applied():",
        "its copies are under way",
        "[copies](sanitizer.md#copies-under-way)",
        "in every round of the loop",
        "has_rounds = check_rounds(kernel)",
        "a tile lies in two panels",
        "the scheduler is told of each arrival",
        "a matrix product with epilogue",
        "rows_of_spreads = 3",
        '"""What the kernel reads."""',
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
def test_a_word_that_is_not_the_fields_is_found(line: str):
    assert has_phrase(line) == bool(PHRASE.search(line))
    assert found_in(line)


@pytest.mark.parametrize(
    "line",
    [
        "def leaky_relu(x, negative_slope=0.01):",
        "the extending of i8, pending copies, and background",
        "the epilogue rounds to bf16",
        "Philox4x32 with 10 rounds",
        "the product of two sizes",
        '"""Load what the block needs."""',
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
def test_other_words_are_left_alone(line: str):
    assert not found_in(line)
