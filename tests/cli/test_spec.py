# SPDX-License-Identifier: Apache-2.0
"""The language of `--spec`."""

from __future__ import annotations

from argparse import ArgumentTypeError

import pytest

import weft
from weft.cli.functions import Value, example_of, parse_spec


def test_each_kind_of_argument():
    text = "a:f32[n, 4] strided,b:bf16[None],c:u8[],x:i64,tile=16,shape=(2, 3),on=True,s='a,b'"
    assert parse_spec(text) == {
        "a": weft.fake_tensor(weft.f32, ("n", 4), "strided"),
        "b": weft.fake_tensor(weft.bf16, (None,)),
        "c": weft.fake_tensor(weft.u8, ()),
        "x": weft.i64,
        "tile": Value(16),
        "shape": Value((2, 3)),
        "on": Value(True),
        "s": Value("a,b"),
    }


@pytest.mark.parametrize("dtype", ["bool_", "i32", "u16", "f16", "bf16", "f64", "f8e4m3"])
def test_number_of_each_type_is_an_example(dtype: str):
    @weft.jit
    def host(x):
        return x

    fn = weft.compile(host, example_of(parse_spec(f"x:{dtype}")["x"]), options="--target cpu")
    assert str(fn.signature) == f"host(x: {dtype})"


@pytest.mark.parametrize(
    ("text", "expected", "place"),
    [
        ("", "the name of a parameter", 0),
        ("a", "':' and a type, or '=' and a value", 1),
        ("a:f33[n]", "a type: bool_, i8,", 2),
        ("a:f32[n", "',' or ']'", 7),
        ("a:f32[n,-1]", "a size, a name, or None", 8),
        ("a:f32[9223372036854775808]", "a size below 2**63", 6),
        ("a:f32[1,1,1,1,1,1,1,1,1]", "at most 8 dims", 22),
        ("a:f32[n] row", "',' and the next parameter", 9),
        ("a:f32,a:f32", "one type of 'a', which is here twice", 6),
        ("a=1+", "a Python literal", 2),
    ],
)
def test_caret_is_under_the_place(text: str, expected: str, place: int):
    with pytest.raises(ArgumentTypeError) as caught:
        parse_spec(text)
    message, line, caret = str(caught.value).split("\n")
    assert message.startswith(f"expected {expected}")
    assert line.removeprefix("  ") == text
    assert caret.removeprefix("  ") == " " * place + "^"
