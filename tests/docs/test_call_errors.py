# SPDX-License-Identifier: Apache-2.0
"""docs/errors.md has every message of a call: of generated code, of the marshaller, of launches, of the driver."""

from __future__ import annotations

import functools
import re
from pathlib import Path

from docs.generate_errors import CallError, call_errors
from tests.ffi_wrapper.golden_cases import ON_CUDA, WRONG

NATIVE = Path(__file__).parents[2] / "native"
ERRORS = [error for found in call_errors().values() for error in found]
BY_KEY = {error.key: error for error in ERRORS}

# The files of the way from a Python call into compiled code, and the words that raise there.
CALL_PATH = (
    "bind_arguments encode encode_container read_buffer read_common read_cuda_array read_dlpack read_numpy "
    "prepared_call stream writable"
).split()
LITERAL = r'"((?:[^"\\]|\\.)*)"'
RAISED = re.compile(
    r"(?:refuse\(\s*PyExc_(?P<exception>\w+),|raise_binding\(\s*plan, PyUnicode_FromFormat\()"
    rf"(?P<text>(?:\s*{LITERAL})+)"
)


def kinds() -> dict[str, str]:
    """Failure kind → its exception."""
    table = (NATIVE / "include" / "weft" / "runtime_table.h").read_text()
    return dict(re.findall(r'KIND\((\w+), "(\w+)"\)', table))


def pattern(error: CallError) -> re.Pattern[str]:
    """Pattern of the row's message."""
    parts = re.split("…+", error.message)
    return re.compile(".*".join(map(re.escape, parts)), re.DOTALL)


def source_of(name: str) -> str:
    """The text of a file of native/python, in whichever of its rooms it is."""
    (path,) = (NATIVE / "python").rglob(f"{name}.cpp")
    return path.read_text()


def raised(name: str) -> list[tuple[str, str]]:
    """Exception and message, with holes as `…`, of each refusal in a file of native/python."""
    found = []
    for match in RAISED.finditer(source_of(name)):
        text = "".join(re.findall(LITERAL, match["text"])).replace('\\"', '"')
        found.append(
            (match["exception"] or "TypeError", re.sub(r"%(?:l*[du]|zd|[sURS])", "…", text))
        )
    return found


@functools.cache
def words_of(folder: str) -> set[str]:
    """The words in the texts of a folder's files; sentences may be put together from several."""
    found: set[str] = set()
    for path in (NATIVE / folder).rglob("*.cpp"):
        for text in re.findall(LITERAL, path.read_text()):
            found |= set(re.findall(r"\w{3,}", text))
    return found


REFUSALS = [(name, *refusal) for name in CALL_PATH for refusal in raised(name)]


def test_the_marshallers_refusals_are_found():
    assert len(REFUSALS) > 25
    assert {name for name, *_ in REFUSALS} == set(CALL_PATH)


def has_row(exception: str, message: str) -> bool:
    """Whether the page has such a message."""
    rows = [error for error in ERRORS if error.exception == exception]
    return any(pattern(error).fullmatch(message) for error in rows)


def test_every_refusal_of_the_marshaller_has_a_row():
    messages = [
        (exception, f"f() {text}; signature: f(a)" if file == "bind_arguments" else text)
        for file, exception, text in REFUSALS
    ]
    assert [one for one in messages if not has_row(*one)] == [], "add it to docs/call_errors.txt"


def test_every_failing_check_of_generated_code_has_a_row():
    assert {kind: BY_KEY[kind].exception for kind in kinds()} == kinds()


def test_every_callers_message_has_a_row():
    answers = [case[2].partition(": ") for case in (WRONG | ON_CUDA).values()]
    said = [(kind, re.sub(r"^argument #\d+ '[^']+': ", "", text)) for kind, _, text in answers]
    assert [one for one in said if not has_row(*one)] == []


def test_every_row_is_in_the_words_of_the_native_code():
    folders = {"driver": "driver", "launch": "cpu", "scratch": "runtime"}
    foreign: dict[str, set[str]] = {}
    for error in ERRORS:
        assert error.exception and error.cause and error.cure
        folder = folders.get(error.key.partition(".")[0], "python")
        words = set(re.findall(r"\w{3,}", error.message)) - words_of(folder)
        if words and error.key not in kinds():
            foreign[error.key] = words
    assert foreign == {}


def test_keys_are_unique():
    assert len(BY_KEY) == len(ERRORS)
