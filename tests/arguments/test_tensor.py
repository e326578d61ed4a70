# SPDX-License-Identifier: Apache-2.0
"""What examples, annotations and fakes say about a tensor, and where they contradict each other."""

from __future__ import annotations

import ml_dtypes
import numpy
import pytest

from tests.arguments.inferring import X, infer, kind, refused
from weft.arguments.base import MISSING
from weft.arguments.tensor import TensorKind
from weft.arguments.tensor_spec import Tensor, fake_tensor
from weft.types import dtype as types
from weft.types.device import CPU, CUDA
from weft.types.dims import Dim, sym

pytestmark = pytest.mark.joined

F32 = types.f32


def test_an_example_fixes_all_but_sizes():
    found = kind(MISSING, X)
    assert isinstance(found, TensorKind)
    assert found == kind(MISSING, numpy.ones((30, 40), numpy.float32))
    assert (found.dtype, found.dims, found.layout) == (F32, (Dim(None), Dim(None)), "contiguous")
    assert (found.example_device, found.device_index, found.alignment_bytes) == ((CPU, 0), None, 4)


@pytest.mark.parametrize(
    ("example", "layout"),
    [
        (X, "contiguous"),
        (X[:, :2], "inner"),
        (X.T, "strided"),
        (X[::-1], "inner"),
        (X[:, ::2], "strided"),
        (numpy.broadcast_to(X[0], (3, 4)), "inner"),
        (X[:1], "contiguous"),
        (X[:, :1], "inner"),
        (X[:0], "contiguous"),
        (numpy.zeros((), numpy.float32), "contiguous"),
    ],
)
def test_layout_class_of_an_example(example, layout):
    assert kind(MISSING, example).layout == layout


def test_annotations_say_more():
    assert (
        infer(Tensor[F32, ("n", 4, None), "inner"]).text == "f(a: Tensor[f32, (n, 4, None), inner])"
    )
    assert kind(Tensor[F32, ("n", 4)], X).dims == (Dim("n"), 4)
    assert kind(Tensor[F32], X).dims == (Dim(None), Dim(None))
    assert kind(Tensor[F32, ..., "strided"], X).layout == "strided"
    assert kind(Tensor, X) == kind(MISSING, X)


def test_an_annotation_without_layout_takes_the_examples():
    assert kind(Tensor[F32, ("n", "m")], X.T).layout == "strided"
    assert kind(Tensor[F32, ("n", "m")]).layout == "contiguous"


def test_a_fake_stands_for_a_tensor():
    fake = fake_tensor(F32, ("n", 8), strides=("s", 1), alignment_bytes=16, device="cuda:1")
    found = kind(MISSING, fake)
    assert found == kind(fake)
    assert (
        found.text
        == "Tensor[f32, (n, 8), inner, strides=(s, 1), alignment_bytes=16, device=cuda:1]"
    )
    assert (found.device_type, found.device_index) == (CUDA, 1)


def test_a_fake_narrows_what_an_annotation_names():
    signature = infer(
        Tensor[F32, ("n",)],
        Tensor[F32, ("n", "m")],
        args=(fake_tensor(F32, (8,)), fake_tensor(F32, (None, None))),
    )
    assert [p.kind.dims for p in signature.parameters] == [(8,), (8, Dim("m"))]


def test_a_name_carries_its_facts_to_every_mention():
    signature = infer(Tensor[F32, ("n",)], Tensor[F32, (sym("n", divisibility=16),)])
    assert [p.kind.dims for p in signature.parameters] == [(sym("n", divisibility=16),)] * 2


def test_a_large_example_needs_64_bits():
    big = numpy.lib.stride_tricks.as_strided(numpy.zeros(1, numpy.int8), (1 << 31,), (0,))
    for annotation in (MISSING, Tensor[types.i8, ("n",)]):
        found = kind(annotation, big)
        assert found.dims[0].width == found.dim_bits == 64
    signature = infer(Tensor[types.i8, ("n",)], Tensor[types.i8, ("n",)], args=(big, big))
    assert {p.kind.dim_bits for p in signature.parameters} == {64}


@pytest.mark.parametrize(
    ("spec", "bits"),
    [
        (Tensor[F32, ("n",)], 32),
        (Tensor[F32, ("n", 1)], 32),
        (Tensor[F32, ("n", "m")], 64),
        (Tensor[F32, (4096, 4096)], 32),
        (Tensor[F32, (1 << 16, 1 << 16)], 64),
        (Tensor[F32, ("n",), "strided"], 64),
        (Tensor[F32, (sym("n", width=64),)], 64),
        (Tensor[F32, ()], 32),
    ],
)
def test_offsets_have_32_bits_only_where_the_extent_is_proven(spec, bits):
    assert kind(spec).offset_bits == bits


CONFLICTS = {
    "dtype": (
        Tensor[types.f64],
        X,
        "its dtype is f32, but the annotation Tensor[f64] says f64",
    ),
    "rank": (
        Tensor[F32, ("n",)],
        X,
        "its shape is (3, 4), but the annotation Tensor[f32, (n,)] says (n,)",
    ),
    "size": (
        Tensor[F32, ("n", 5)],
        X,
        "its shape[1] is 4, but the annotation Tensor[f32, (n, 5)] says 5",
    ),
    "symbol": (Tensor[F32, ("n", "n")], X, "a.shape[1] is 4, expected 3 to match a.shape[0]"),
    "divisibility": (
        Tensor[F32, (sym("n", divisibility=2), None)],
        X,
        "a.shape[0] is 3, expected a multiple of 2",
    ),
    "layout": (
        Tensor[F32, ..., "contiguous"],
        X.T,
        "its layout is strided, but the annotation Tensor[f32, ..., contiguous] says contiguous",
    ),
    "stride": (
        fake_tensor(F32, (None, None), strides=(8, 1)),
        X,
        "its strides[0] is 4, but the annotation Tensor[f32, (None, None), inner, strides=(8, 1)]",
    ),
    "device": (
        fake_tensor(F32, (None, None), device="cuda"),
        X,
        "its device is cpu, but the annotation Tensor[f32, (None, None), contiguous, device=cuda]",
    ),
    "kind": (Tensor[F32], 3, "it is annotated Tensor[f32], received a Python int 3"),
}


@pytest.mark.parametrize("case", CONFLICTS)
def test_a_conflict_names_annotation_and_example(case):
    annotation, example, message = CONFLICTS[case]
    text = refused(annotation, args=(example,))
    assert text.startswith("[")
    assert f"f: argument 'a': {message}" in text


def test_two_sets_of_facts_for_one_name():
    text = refused(
        Tensor[F32, (sym("n", divisibility=2),)], Tensor[F32, (sym("n", divisibility=3),)]
    )
    assert (
        "declared sym(n, divisibility=3) here and sym(n, divisibility=2) in f: argument 'a'" in text
    )


def test_tensors_that_weft_cannot_use_name_the_argument():
    assert "f: argument 'a': weft has no element type dlpack(code=7, bits=8)" in refused(
        MISSING, args=(numpy.zeros(3, ml_dtypes.float8_e3m4),)
    )
    assert "f: argument 'a': the tensor's rank is 9, expected at most 8" in refused(
        MISSING, args=(numpy.zeros((1,) * 9, numpy.float32),)
    )
