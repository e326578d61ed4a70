# SPDX-License-Identifier: Apache-2.0
"""docs/errors.md has every message of a call: of generated code, of the marshaller, of launches, of the driver."""

from __future__ import annotations

import functools
import re
from pathlib import Path

import pytest

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
    """What the row's message may look like."""
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


@pytest.mark.parametrize(("file", "exception", "message"), REFUSALS)
def test_every_refusal_of_the_marshaller_has_a_row(file: str, exception: str, message: str):
    rows = [error for error in ERRORS if error.exception == exception]
    if file == "bind_arguments":
        message = f"f() {message}; signature: f(a)"
    assert any(pattern(error).fullmatch(message) for error in rows), (
        "add it to docs/call_errors.txt"
    )


@pytest.mark.parametrize(("kind", "exception"), kinds().items())
def test_every_failing_check_of_generated_code_has_a_row(kind: str, exception: str):
    assert BY_KEY[kind].exception == exception


@pytest.mark.parametrize("case", [*WRONG, *ON_CUDA])
def test_what_every_caller_gets_has_a_row(case: str):
    answer = (WRONG | ON_CUDA)[case][2]
    exception, _, text = answer.partition(": ")
    sentence = re.sub(r"^argument #\d+ '[^']+': ", "", text)
    rows = [error for error in ERRORS if error.exception == exception]
    assert any(pattern(error).fullmatch(sentence) for error in rows)


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.key)
def test_every_row_is_said_in_words_of_the_native_code(error: CallError):
    assert error.exception and error.cause and error.cure
    if error.key in kinds():
        return
    folder = {"driver": "driver", "launch": "cpu", "scratch": "runtime"}.get(
        error.key.partition(".")[0], "python"
    )
    said = set(re.findall(r"\w{3,}", error.message))
    assert said - words_of(folder) == set()


def test_keys_are_unique():
    assert len(BY_KEY) == len(ERRORS)
