# SPDX-License-Identifier: Apache-2.0
"""The space of configurations: all combinations or a list, checked, and as JSON."""

from __future__ import annotations

import pytest

import weft
from tests.autotune.kernels import plain_scale, tuned
from weft.autotuner.space import Space, as_json

NAMES = ("a", "tile", "stages")


def test_a_dictionary_is_all_combinations_in_order():
    space = Space({"tile": [(8, 4), (4, 4)], "stages": range(2, 4)}, "f", NAMES)
    assert [tuple(each.values()) for each in space.configurations] == [
        *(((8, 4), 2), ((8, 4), 3), ((4, 4), 2), ((4, 4), 3))
    ]


def test_a_list_is_what_it_says_and_each_is_tried_once():
    listed = [{"tile": 1, "stages": 2}, {"stages": 2, "tile": 1}, {"tile": True, "stages": 2}]
    assert len(Space(listed, "f", NAMES).configurations) == 2


def test_what_json_has_made_of_a_configuration_finds_it_again():
    space = Space({"tile": [(8, 4), (4, 8)], "stages": [weft.f16, None]}, "f", NAMES)
    for chosen in space.configurations:
        assert space.find(space.as_json(chosen)) is chosen
    assert space.find({"tile": [1, 1], "stages": None}) is None


def test_values_have_the_same_text_in_every_process():
    assert as_json((1, 2.5, "x", None, weft.bf16)) == [1, 2.5, "x", None, "weft.bf16"]
    assert as_json(len) == "builtins.len"
    with pytest.raises(weft.ArgumentValueError, match="AUTOTUNE_VALUE"):
        as_json(object())


@pytest.mark.parametrize(
    ("space", "code"),
    [
        ({}, "AUTOTUNE_SPACE"),
        ([], "AUTOTUNE_SPACE"),
        (None, "AUTOTUNE_SPACE"),
        ({"threads": []}, "AUTOTUNE_SPACE"),
        ({"threads": 64}, "AUTOTUNE_SPACE"),
        ({"threads": "64"}, "AUTOTUNE_SPACE"),
        ({"items": [[1]]}, "AUTOTUNE_SPACE"),
        ([{"threads": 64}, {"items": 1}], "AUTOTUNE_SPACE"),
        ([{}], "AUTOTUNE_SPACE"),
        ({"threads": range(1000), "items": range(1000)}, "AUTOTUNE_SPACE"),
        ({"thread": [64]}, "AUTOTUNE_NAME"),
    ],
)
def test_a_wrong_space_is_refused_when_it_is_written(space, code):
    with pytest.raises(weft.SignatureError) as caught:
        tuned(space=space)
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"samples": 0}, ValueError),
        ({"seconds": -1}, ValueError),
        ({"seconds": float("nan")}, ValueError),
        ({"check": "exact"}, ValueError),
        ({"workers": -1}, ValueError),
        ({"prune": 3}, TypeError),
        ({"key": 3}, TypeError),
        ({"function": plain_scale.function}, TypeError),
    ],
)
def test_a_wrong_rule_is_refused_when_it_is_written(arguments, error):
    with pytest.raises(error):
        tuned(**arguments)
