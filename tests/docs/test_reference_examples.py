# SPDX-License-Identifier: Apache-2.0
"""Every public name of the reference has an example, and it runs."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

import weft
from docs import generate_reference
from docs.generate_reference import FAMILIES
from tests.docs.code_blocks import marks_of
from tests.docs.reference_examples import Fragment, entries, example, run_session
from tests.sampling import sampled
from weft.language import LANGUAGE
from weft.language.functions import DeviceFunction
from weft.language.operation import Operation

ENTRIES = entries()
EXAMPLES = {name: example(name, value) for name, value in ENTRIES.items()}
SESSIONS = {name: text for name, text in EXAMPLES.items() if ">>> " in text}
FRAGMENTS = {name: text for name, text in EXAMPLES.items() if text and ">>> " not in text}


def test_the_reference_lists_every_public_name():
    assert {name for names in weft._PUBLIC.values() for name in names} <= set(ENTRIES)


def test_every_entry_has_an_example():
    assert [name for name, text in EXAMPLES.items() if not text] == [], "write an Example section"


def marked(texts: dict[str, str]) -> list[object]:
    """The names, those whose text needs torch or JAX marked; of functions on whole arrays five of six are slow."""
    arrays = [name for name in texts if name.startswith(("kernels.", "torch.", "nn.", "hf."))]
    slow = {*arrays} - {*arrays[::6]}
    return [
        pytest.param(name, marks=[*marks_of(text), *[pytest.mark.slow] * (name in slow)])
        for name, text in texts.items()
    ]


@pytest.mark.parametrize("name", marked(SESSIONS))
def test_the_session_gives_what_it_shows(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)  # sessions write files
    assert run_session(name, SESSIONS[name]) == []


@pytest.mark.parametrize("name", sampled(FRAGMENTS, 4))
def test_the_fragment_runs_on_the_cpu(name: str):
    fragment = Fragment(name, FRAGMENTS[name])
    if fragment.is_for_cuda_only():
        with pytest.raises(weft.UnavailableError, match="TARGET_OPERATION"):
            fragment.compiled("--target cpu")
    else:
        fragment.compiled("--target cpu")(*fragment.arguments())


@pytest.mark.parametrize("name", sampled(FRAGMENTS, 12))
def test_the_fragment_compiles_for_a_gpu(name: str):
    fragment = Fragment(name, FRAGMENTS[name])
    assert fragment.compiled("--gpu-arch sm_90a").cubin


def parameters(value: object) -> set[str]:
    """The names that a caller of an operation or a function gives arguments to."""
    if isinstance(value, Operation | DeviceFunction):
        return set(inspect.signature(value).parameters)
    return set(inspect.signature(value).parameters) if inspect.isroutine(value) else set()


def undocumented(name: str, value: object) -> set[str]:
    """Parameters that the entry's Args section leaves out."""
    text = generate_reference.documentation(name, value)
    if "Arguments" in FAMILIES.get(LANGUAGE.get(name, ""), "") or re.search(
        r"(?i)arguments\b.* (as in|those of) `", text
    ):
        return set()
    section = re.search(r"^ *Args:\n((?:[ \t]+.*\n|\n)+)", f"{text}\n", re.MULTILINE)
    said = set(re.findall(r"\w+", section[1])) if section else set()
    return parameters(value) - said - {"self"}


def test_every_parameter_is_documented():
    missing = {name: undocumented(name, value) for name, value in ENTRIES.items()}
    assert {name: found for name, found in missing.items() if found} == {}
