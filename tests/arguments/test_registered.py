# SPDX-License-Identifier: Apache-2.0
"""Users' classes: registered once, passed as what their adapter gives."""

from __future__ import annotations

import numpy
import pytest

from tests.arguments.inferring import X, infer, kind, refused
from weft.arguments.base import MISSING
from weft.arguments.registered import register_argument
from weft.arguments.tensor_spec import Tensor
from weft.errors import SignatureError
from weft.types.dtype import f32


class Image:
    def __init__(self, pixels):
        self.pixels = pixels


class Album:
    def __init__(self, *images):
        self.images = images


class Endless:
    pass


register_argument(Image, lambda image: (image.pixels, image.pixels.shape[0]))
register_argument(Album, lambda album: album.images)
register_argument(Endless, lambda endless: endless)


def test_an_instance_is_of_the_kind_that_its_adapter_gives():
    assert kind(MISSING, Image(X)).text == "tuple[Tensor[f32, (None, None)], i32]"
    assert kind(Image, Image(X)) == kind(MISSING, Image(X))


def test_adapters_nest_and_work_inside_containers():
    assert kind(MISSING, (Album(Image(X)), 1)).text == (
        "tuple[tuple[tuple[Tensor[f32, (None, None)], i32]], i32]"
    )


def test_an_annotation_is_checked_against_the_adapters_value():
    annotation = tuple[Tensor[f32, ("n", 4)], f32]
    assert infer(annotation, args=(Image(X),)).text == "f(a: tuple[Tensor[f32, (n, 4)], f32])"
    assert "it is annotated Tensor, received a Python tuple" in refused(Tensor, args=(Image(X),))


def test_adapters_that_go_in_a_circle_are_refused():
    assert "the adapter of Endless returns values that need adapters" in refused(
        MISSING, args=(Endless(),)
    )


@pytest.mark.parametrize("known", [int, str, tuple, numpy.ndarray, type(None)])
def test_a_class_that_is_an_argument_already_is_refused(known):
    with pytest.raises(SignatureError, match="are arguments already"):
        register_argument(known, lambda value: 1)


def test_only_a_class_and_a_function_are_accepted():
    with pytest.raises(SignatureError, match="takes a class, received a Python int 3"):
        register_argument(3, lambda value: 1)
    with pytest.raises(SignatureError, match="takes a function of one value, received None"):
        register_argument(Image, None)


def test_an_unregistered_class_as_annotation_is_refused():
    class Unknown:
        pass

    assert "which weft does not know" in refused(Unknown, args=(Unknown(),))
