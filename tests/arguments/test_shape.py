# SPDX-License-Identifier: Apache-2.0
"""Shapes: how they are annotated, what an example fixes, what is refused."""

from __future__ import annotations

import numpy
import pytest

from tests.arguments.inferring import X, infer, kind, refused
from weft.arguments.shape import Shape, ShapeKind
from weft.arguments.tensor_spec import Tensor
from weft.types.dims import Dim, sym
from weft.types.dtype import f32


def test_what_is_said_is_kept():
    assert kind(Shape["n", 4, None]) == ShapeKind((Dim("n"), 4, Dim(None)))
    assert kind(Shape[4]).text == "Shape[(4,)]"
    assert kind(Shape[()]).text == "Shape[()]"


def test_an_example_gives_the_rank_and_not_the_sizes():
    assert kind(Shape, (3, numpy.int64(4))) == ShapeKind((Dim(None), Dim(None)))
    assert kind(Shape, [3]).text == "Shape[(None,)]"


def test_a_tuple_without_annotation_is_not_a_shape():
    assert not isinstance(kind(tuple, (3, 4)), ShapeKind)


def test_a_large_example_makes_an_independent_size_wide():
    assert kind(Shape, (1 << 40,)).dims[0].width == 64


def test_symbols_are_shared_with_tensors():
    signature = infer(Tensor[f32, ("n", None)], Shape["n", sym("m", 4)], args=(X, (3, 8)))
    assert signature.text == ("f(a: Tensor[f32, (n, None)], b: Shape[(n, sym(m, divisibility=4))])")
    message = refused(Tensor[f32, ("n", None)], Shape["n"], args=(X, (5,)))
    assert "argument 'b': b[0] is 5, expected 3 to match a.shape[0]" in message


def test_a_stand_in_is_what_it_says():
    assert infer(Shape, args=(Shape["n", 2],)).text == "f(a: Shape[(n, 2)])"


def test_host_arguments_are_the_sizes_that_are_not_demanded():
    leaves = list(ShapeKind((Dim("n"), 4, sym("m", width=64))).host_arguments("s"))
    assert [(leaf.path, leaf.kind.text) for leaf in leaves] == [("s[0]", "i32"), ("s[2]", "i64")]


@pytest.mark.parametrize(
    ("annotation", "value", "words"),
    [
        (Shape, 3, "argument 'a': it is annotated Shape, received a Python int 3"),
        (Shape["n"], (1, 2), "argument 'a': it is (1, 2), but it is annotated Shape[(n,)]"),
        (Shape, (1, 2.0), "argument 'a[1]': expected an int, received a Python float 2.0"),
        (Shape, (True,), "argument 'a[0]': expected an int, received a Python bool True"),
        (Shape, (-1,), "argument 'a': shape[0] is -1, expected a size of at least 0"),
        (Shape[4], (5,), "argument 'a': shape[0] is 5, expected 4"),
        (Shape[sym("n", 4)], (6,), "argument 'a': a[0] is 6, expected a multiple of 4"),
        (Shape[3], Shape[4], "argument 'a': it is Shape[(4,)], but it is annotated Shape[(3,)]"),
    ],
)
def test_what_does_not_fit_is_refused(annotation, value, words: str):
    assert words in refused(annotation, args=(value,))


def test_a_shape_of_unknown_length_needs_an_example():
    assert "Shape has no rank" in refused(Shape)


@pytest.mark.parametrize("dims", ["a b", -1, 2.5])
def test_an_invalid_size_is_refused_where_it_is_written(dims):
    with pytest.raises(TypeError, match=r"Shape\[0\] is .*expected a size"):
        Shape[dims]
