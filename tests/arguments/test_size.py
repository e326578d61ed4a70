# SPDX-License-Identifier: Apache-2.0
"""Sizes: numbers annotated `weft.sym`, which share symbols with tensors and promise divisibility."""

from __future__ import annotations

import numpy
import pytest

from tests.arguments.inferring import X, infer, kind, refused
from weft.arguments.shape import SizeKind
from weft.arguments.tensor_spec import Tensor
from weft.types.dims import Dim, sym
from weft.types.dtype import f32


def test_what_is_said_is_kept():
    assert kind(sym("n")) == SizeKind(Dim("n"))
    assert kind(sym("n")).text == "sym(n)"
    assert kind(sym("n", 8)).text == "sym(n, divisibility=8)"
    assert kind(sym(None, 8), 16) == SizeKind(Dim(None, 8))


@pytest.mark.parametrize("size", [0, 16, numpy.int64(16), numpy.uint8(16), 1 << 40])
def test_an_example_fixes_only_the_width(size):
    assert kind(sym("n", 8), size) == SizeKind(Dim("n", 8, 32 if size < 1 << 31 else 64))


def test_a_symbol_is_also_an_example():
    assert infer(sym("n", 8), args=(sym("n", 8),)).text == "f(a: sym(n, divisibility=8))"
    assert "annotated weft.sym('n', divisibility=8" in refused(sym("n", 8), args=(sym("m"),))


def test_symbols_are_shared_with_tensors():
    signature = infer(Tensor[f32, ("n", None)], sym("n", 3), args=(X, 3))
    assert (
        signature.text
        == "f(a: Tensor[f32, (sym(n, divisibility=3), None)], b: sym(n, divisibility=3))"
    )
    message = refused(Tensor[f32, ("n", None)], sym("n"), args=(X, 5))
    assert "argument 'b': b is 5, expected 3 to match a.shape[0]" in message


def test_the_host_argument_has_the_symbols_width():
    for dim, text in ((sym("n"), "i32"), (sym("n", width=64), "i64")):
        (leaf,) = SizeKind(dim).host_arguments("n")
        assert (leaf.path, leaf.kind.text) == ("n", text)
    assert not list(SizeKind(4).host_arguments("n"))


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (12, "argument 'a': a is 12, expected a multiple of 8"),
        (-8, "argument 'a': it is -8, expected a size of at least 0"),
        (8.0, "received a Python float 8.0"),
        (True, "received a Python bool True"),
        ("8", "received a Python str '8'"),
        ((8,), "received a Python tuple"),
    ],
)
def test_a_wrong_example_is_refused(value, words):
    assert words in refused(sym("n", 8), args=(value,))
