# SPDX-License-Identifier: Apache-2.0
"""What `@operation` adds to a function: a name, documentation, checks of the call."""

from __future__ import annotations

import inspect

import pytest

from tests.language.tracing import Trace
from weft.errors import TypeMismatchError, UnavailableError
from weft.language.operation import operation


@operation
def twice(builder, value, *, times=2):
    """Doubles.

    Args:
        value: what is doubled.
    """
    del builder
    return value * times


@operation(name="math.thrice", on_host=True)
def thrice(builder, value):
    """Triples."""
    return value / builder


def test_an_operation_is_emitted_with_a_builder():
    assert twice.emit(Trace().builder, 3) == 6
    assert twice.emit(Trace().builder, 3, times=5) == 15


def test_name_documentation_and_signature_are_the_users():
    assert (twice.name, twice.on_host) == ("twice", False)
    assert (thrice.name, thrice.on_host) == ("math.thrice", True)
    assert "value: what is doubled." in twice.__doc__
    assert str(inspect.signature(twice)) == "(value, *, times=2)"
    assert repr(thrice) == "weft.math.thrice"


@pytest.mark.parametrize(
    ("arguments", "keywords", "text"),
    [
        ((), {}, "missing a required argument: 'value'"),
        ((1, 2), {}, "too many positional arguments"),
        ((1,), {"count": 2}, "unexpected keyword argument 'count'"),
    ],
)
def test_a_wrong_call_says_what_is_wrong_and_how_to_call(arguments, keywords, text):
    with pytest.raises(TypeMismatchError) as caught:
        twice.emit(Trace().builder, *arguments, **keywords)
    assert caught.value.code == "CALL_ARGUMENTS"
    assert text in caught.value.message
    assert caught.value.hint == "call twice(value, times=2)"


def test_a_defect_inside_an_operation_is_not_a_wrong_call():
    with pytest.raises(TypeError, match="unsupported operand") as caught:
        thrice.emit(Trace().builder, 3)
    assert not isinstance(caught.value, TypeMismatchError)


def test_calling_an_operation_as_python_is_refused():
    with pytest.raises(UnavailableError, match=r"weft\.twice\(\.\.\.\)"):
        twice(3)
