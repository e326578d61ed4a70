# SPDX-License-Identifier: Apache-2.0
"""Tuples, named tuples and frozen dataclasses: their kinds, their text, what is refused."""

from __future__ import annotations

import collections
import pickle
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy
import pytest

from tests.arguments.inferring import X, infer, kind, refused
from weft.arguments.base import MISSING
from weft.arguments.constant import Constexpr
from weft.arguments.shape import Shape
from weft.arguments.stream import environment_stream
from weft.arguments.tensor_spec import Tensor
from weft.types.dtype import f32, i32, i64

if TYPE_CHECKING:
    import decimal

pytestmark = pytest.mark.joined


class Pair(NamedTuple):
    a: Tensor[f32, ("n",)]
    b: Tensor[f32, ("n",)]


@dataclass(frozen=True)
class Config:
    scale: f32
    tile: Constexpr[int] = 4
    name: ClassVar[str] = "config"


@dataclass(frozen=True)
class Whole:
    pair: Pair
    config: Config
    note: Any = None


@dataclass
class Mutable:
    x: int


@dataclass(frozen=True)
class Unresolved:
    x: decimal.Decimal


Plain = collections.namedtuple("Plain", "x y")
V = numpy.zeros(3, numpy.float32)


@pytest.mark.parametrize("value", [(1, 2.0), [1, 2.0]])
def test_items_without_annotation_keep_their_type(value):
    assert kind(MISSING, value).text == "tuple[i32, f32]"
    assert kind(tuple, value).text == "tuple[i32, f32]"


def test_annotated_items():
    assert kind(tuple[i64, Tensor[f32, ("n", None)]], (1, X)).text == (
        "tuple[i64, Tensor[f32, (n, None)]]"
    )
    assert kind(tuple[i64, tuple[f32, Shape["n"]]]).text == "tuple[i64, tuple[f32, Shape[(n,)]]]"
    assert kind(tuple[i64, ...], (1, 2, 3)).text == "tuple[i64, i64, i64]"
    assert (
        kind(tuple[Any, ...], (1, 2.0)).text
        == kind(tuple[Any, Any], (1, 2.0)).text
        == "tuple[i32, f32]"
    )
    assert kind(tuple[()], ()).text == "tuple[()]"
    assert kind(tuple[i64 | None, f32], (None, 1.0)).text == "tuple[None, f32]"


def test_a_class_without_annotations_takes_them_from_the_example():
    assert kind(MISSING, Plain(1, 2.0)).text == "Plain(x: i32, y: f32)"


def test_compile_time_fields_have_their_value():
    assert kind(MISSING, Config(2.0)).text == "Config(scale: f32, tile=4)"
    assert kind(Config, Config(2, tile=8)).text == "Config(scale: f32, tile=8)"
    assert infer(Whole, args=(Whole(Pair(V, V), Config(1.0)),)).text == (
        "f(a: Whole(pair: Pair(a: Tensor[f32, (n,)], b: Tensor[f32, (n,)]), "
        "config: Config(scale: f32, tile=4), note: None))"
    )


def test_a_tuple_of_the_fields_serves_where_none_is_compile_time():
    assert kind(Pair, (V, V)) == kind(Pair, Pair(V, V))


def test_an_annotation_alone_is_enough_where_it_says_all():
    assert kind(Pair).text == kind(Pair, Pair(V, V)).text


def test_a_signature_is_pickled_compared_and_hashed():
    signature = infer(Whole, args=(Whole(Pair(V, V), Config(1.0)),))
    again = pickle.loads(pickle.dumps(signature))
    assert again == signature
    assert hash(again) == hash(signature)
    assert again.parameters[0].kind.type is Whole
    assert signature != infer(Whole, args=(Whole(Pair(V, V), Config(1.0, 8)),))


def test_tensors_inside_are_among_the_tensors_of_the_signature():
    signature = infer(Whole, args=(Whole(Pair(V, V), Config(1.0)),)).for_device(1)
    assert [name for name, _ in signature.tensors()] == ["a.pair.a", "a.pair.b"]
    assert all(tensor.device_type == 1 for _, tensor in signature.tensors())
    assert [leaf.path for leaf in signature.host_arguments()] == [
        "a.pair.a",
        "a.pair.b",
        "a.config.scale",
    ]


def test_values_are_rebuilt_without_running_the_class():
    made = kind(MISSING, Config(2.0)).make(["scale", "tile"])
    assert type(made) is Config
    assert (made.scale, made.tile) == ("scale", "tile")


@pytest.mark.parametrize(
    ("annotation", "value", "words"),
    [
        (MISSING, Mutable(1), "argument 'a': dataclass Mutable is not frozen"),
        (Mutable, MISSING, "argument 'a': dataclass Mutable is not frozen"),
        (Pair, (V,), "argument 'a': it is annotated Pair, received a Python tuple"),
        (Pair, 3, "argument 'a': it is annotated Pair, received a Python int 3"),
        (Config, (2.0,), "argument 'a': it is annotated Config, received a Python tuple"),
        (
            Pair,
            Pair(V, 3),
            "argument 'a.b': it is annotated Tensor[f32, (n,)], received a Python int",
        ),
        (
            Pair,
            Pair(V, V[:2]),
            "argument 'a.b': a.b.shape[0] is 2, expected 3 to match a.a.shape[0]",
        ),
        (Config, Config("x"), "argument 'a.scale': it is annotated f32, received a Python str 'x'"),
        (
            Config,
            Config(1.0, 2.5),
            "argument 'a.tile': expected Constexpr[int], received a Python float",
        ),
        (tuple[i32, i32], (1,), "argument 'a': it has 1 item, but it is annotated tuple["),
        (tuple[i32], 3, "received a Python int 3"),
        (tuple, MISSING, "argument 'a': no value was given, and tuple does not name its items"),
        (tuple[i32, ...], MISSING, "does not name its items"),
        (tuple[Constexpr[int], f32], (1, 2.0), "a compile-time item needs a name"),
        (MISSING, (1, "abc"), "argument 'a[1]': weft cannot pass a Python str 'abc'"),
        (MISSING, (1, {}), "argument 'a[1]': weft cannot pass a Python dict"),
        (
            MISSING,
            (environment_stream(),),
            "argument 'a[0]': environment_stream() cannot be an item",
        ),
        (MISSING, Unresolved(1), "the annotations of class Unresolved cannot be resolved"),
        (MISSING, (1 << 40,), "argument 'a[0]': value is 1099511627776, expected -2147483648"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_path_to_it(annotation, value, words: str):
    given = () if value is MISSING else (value,)
    assert words in refused(annotation, args=given)
