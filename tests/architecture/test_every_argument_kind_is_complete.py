# SPDX-License-Identifier: Apache-2.0
"""Walks the table of argument kinds: a new row fails here until everything it needs exists."""

from __future__ import annotations

import inspect

import pytest

from tests.architecture.source_tree import PACKAGE, ROOT, parsed
from weft.arguments.base import ArgumentKind
from weft.arguments.signature import ARGUMENT_KINDS
from weft.ffi_wrapper import DECODERS

pytestmark = pytest.mark.joined

kinds = pytest.mark.parametrize("kind", ARGUMENT_KINDS, ids=lambda kind: kind.__name__)


def module_of(kind: type[ArgumentKind]) -> str:
    return kind.__module__.rpartition(".")[2]


def name_of(kind: type[ArgumentKind]) -> str:
    return kind.__name__.removesuffix("Kind").lower()


@kinds
def test_kind_lives_in_a_file_of_arguments_and_says_what_it_is(kind: type[ArgumentKind]):
    assert kind.__module__.startswith("weft.arguments.")
    assert inspect.cleandoc(kind.__doc__ or "") != inspect.cleandoc(ArgumentKind.__doc__ or "")
    assert kind.title


@kinds
@pytest.mark.parametrize("answer", ["text", "infer"])
def test_kind_answers_itself(kind: type[ArgumentKind], answer: str):
    assert getattr(kind, answer) is not getattr(ArgumentKind, answer)
    assert inspect.getattr_static(kind, answer) is not inspect.getattr_static(ArgumentKind, answer)


@kinds
def test_kind_can_be_asked_for_or_recognized(kind: type[ArgumentKind]):
    own = {"is_annotated_by", "recognizes"} & set(vars(kind))
    assert own, f"{kind.__name__} is neither annotated nor recognized"


@kinds
def test_wrapper_decodes_what_callers_pass_and_nothing_else(kind: type[ArgumentKind]):
    assert (kind in DECODERS) == kind.is_passed


@kinds
def test_decoding_of_a_kind_is_a_function_of_the_same_name(kind: type[ArgumentKind]):
    if kind.is_passed:
        assert DECODERS[kind].__name__ in (f"decode_{name_of(kind)}", f"decode_{module_of(kind)}")


@kinds
def test_kind_has_tests_of_its_own(kind: type[ArgumentKind]):
    own = (f"test_{name_of(kind)}.py", f"test_{module_of(kind)}.py")
    assert any((ROOT / "tests" / "arguments" / name).exists() for name in own)


def test_every_kind_that_is_written_is_in_the_table():
    written = {
        node.name
        for path in (PACKAGE / "arguments").glob("*.py")
        for node in parsed(path).body
        if hasattr(node, "bases")
        for base in node.bases
        if getattr(base, "id", "") in ("ArgumentKind", "ContainerKind")
    }
    assert written == {kind.__name__ for kind in ARGUMENT_KINDS}
