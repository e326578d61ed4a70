# SPDX-License-Identifier: Apache-2.0
"""Immutable records: made, compared, copied and pickled by their fields."""

from __future__ import annotations

import copy
import pickle
from typing import ClassVar

import pytest

from weft.types.frozen import Frozen


class Size(Frozen):
    unit: ClassVar[str] = "mm"

    width: int
    height: int = 1

    def area(self) -> int:
        return self.width * self.height


class Named(Size):
    name: str = ""


class Even(Frozen):
    number: int = 0

    def __post_init__(self) -> None:
        if self.number % 2:
            raise ValueError(f"{self.number} is odd")


def test_fields_are_annotations_in_order_with_their_defaults():
    assert Size(3, 2).area() == Size(width=3, height=2).area() == Size(3, height=2).area() == 6
    assert Size(3).height == 1 and Size(3).unit == "mm"


def test_a_subclass_adds_fields_to_those_of_its_base():
    made = Named(3, 2, "door")
    assert (made.width, made.height, made.name, made.area()) == (3, 2, "door", 6)
    assert repr(made) == "Named(width=3, height=2, name='door')"


@pytest.mark.parametrize(
    ("values", "named", "said"),
    [
        ((), {}, "Size: no width"),
        ((), {"height": 2}, "Size: no width"),
        ((1, 2, 3), {}, "Size has width, height, and no more"),
        ((1,), {"depth": 2}, "Size has width, height, and no more"),
        ((1,), {"width": 2}, "Size has width, height, and no more"),
    ],
)
def test_other_fields_are_refused(values: tuple[int, ...], named: dict[str, int], said: str):
    with pytest.raises(TypeError, match=said):
        Size(*values, **named)


def test_fields_are_checked_where_the_class_says_so():
    assert Even(2).number == 2
    with pytest.raises(ValueError, match="3 is odd"):
        Even(3)


def test_records_are_equal_by_class_and_fields():
    assert Size(3) == Size(3, 1) and hash(Size(3)) == hash(Size(3, 1))
    assert Size(3) != Size(3, 2) and Size(3) != Named(3) and Size(3) != (3, 1)


def test_records_cannot_be_changed_nor_given_other_attributes():
    size = Size(3)
    for change in (lambda: setattr(size, "width", 4), lambda: setattr(size, "depth", 4)):
        with pytest.raises(AttributeError, match=r"Size\.\w+ cannot be changed"):
            change()
    with pytest.raises(AttributeError, match=r"Size\.width cannot be deleted"):
        del size.width
    assert not hasattr(size, "__dict__")


def test_copies_and_pickles_are_equal():
    made = Named(3, 2, "door")
    assert copy.deepcopy(made) == pickle.loads(pickle.dumps(made)) == made


def test_what_has_its_default_is_not_shown():
    assert repr(Size(3)) == "Size(width=3)"
