# SPDX-License-Identifier: Apache-2.0
"""Positional, keyword and default arguments bind as they do for a function written in Python."""

import inspect

import pytest

from tests.native.callee import library, planned
from weft import _native

pytestmark = pytest.mark.joined


def f(a, b=2, *, c, d=4):
    """The model."""


def g(a, b, c):
    """The model with three required parameters."""


def k(a, *, c):
    """The model with as many parameters as it has positional arguments too few."""


def h(a, /, b):
    """The model with a positional-only parameter."""


def native(model, code="record") -> _native.Function:
    parameters = list(inspect.signature(model).parameters.values())
    by_kind = [p.kind for p in parameters]
    return planned(
        code,
        *(p.name for p in parameters),
        name=model.__name__,
        signature_text=f"{model.__name__}(...)",
        positional_count=sum(k is not inspect.Parameter.KEYWORD_ONLY for k in by_kind),
        positional_only_count=sum(k is inspect.Parameter.POSITIONAL_ONLY for k in by_kind),
        defaults={p.name: p.default for p in parameters if p.default is not p.empty},
    )


def bound_values(model, *arguments, **keywords) -> list[int]:
    native(model)(*arguments, **keywords)
    count = library().callee_count()
    return [value.int64 for value in library().callee_arguments()[:count]]


@pytest.mark.parametrize(
    ("arguments", "keywords"),
    [
        ((1,), {"c": 3}),
        ((1, 7), {"c": 3, "d": 9}),
        ((), {"d": 8, "c": 3, "b": 5, "a": 1}),
        ((1,), {"c": 3, "b": -1}),
    ],
)
def test_arguments_arrive_in_the_order_of_the_parameters(arguments, keywords):
    expected = inspect.signature(f).bind(*arguments, **keywords)
    expected.apply_defaults()
    assert bound_values(f, *arguments, **keywords) == list(expected.arguments.values())


@pytest.mark.parametrize(
    ("model", "arguments", "keywords"),
    [
        (f, (), {"c": 1}),
        (f, (1,), {}),
        (f, (1, 2, 3), {"c": 1}),
        (f, (1, 2, 3), {}),
        (f, (1,), {"c": 1, "nonsense": 2}),
        (f, (1,), {"c": 1, "a": 2}),
        (g, (), {}),
        (g, (1,), {}),
        (g, (1, 2), {}),
        (g, (1, 2, 3, 4), {}),
        (g, (1, 2), {"b": 2}),
        (k, (1, 2), {}),
        (k, (1, 2), {"c": 3}),
        (h, (), {"a": 1, "b": 2}),
        (h, (1,), {}),
    ],
)
def test_a_call_that_does_not_bind_fails_in_the_words_of_python(model, arguments, keywords):
    with pytest.raises(TypeError) as expected:
        model(*arguments, **keywords)
    with pytest.raises(TypeError) as received:
        native(model)(*arguments, **keywords)
    words, _, signature = str(received.value).partition("; signature: ")
    assert str(expected.value).startswith(words)
    assert signature == f"{model.__name__}(...)"


def test_a_function_without_parameters_counts_its_arguments():
    with pytest.raises(TypeError, match=r"zero\(\) takes 0 positional arguments but 1 was given"):
        planned("record", name="zero")(1)


def test_more_arguments_than_fit_on_the_stack_bind_too():
    names = [f"p{index}" for index in range(60)]
    function = planned("record", *names)
    function(**{name: index for index, name in enumerate(reversed(names))})
    values = [value.int64 for value in library().callee_arguments()[:60]]
    assert values == list(range(59, -1, -1))


def test_a_function_without_a_plan_takes_no_keywords():
    from tests.native.callee import foreign

    foreign("record")(1, 2, 3)
    assert library().callee_count() == 3
    with pytest.raises(TypeError, match="no keyword arguments"):
        foreign("record")(a=1)


def test_defaults_may_be_a_tuple_for_the_last_parameters():
    plan = _native.CallPlan("f", "f(a, b, c)", ("a", "b", "c"), defaults=(5, 6))
    assert plan.defaults == {"b": 5, "c": 6}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"parameters": (1,)}, "parameter names as str"),
        ({"parameters": ("a",), "defaults": {"z": 1}}, "not a parameter"),
        ({"parameters": ("a",), "defaults": (1, 2)}, "2 defaults for 1 parameters"),
        ({"parameters": ("a",), "defaults": 3}, "dict or tuple"),
        ({"parameters": ("a",), "positional_count": 2}, "2 positional"),
        ({"parameters": ("a",), "written_mask": "x"}, "written_mask as int"),
    ],
)
def test_a_wrong_plan_is_refused_when_it_is_made(arguments, message):
    with pytest.raises((TypeError, ValueError), match=message):
        _native.CallPlan("f", "f()", **arguments)
