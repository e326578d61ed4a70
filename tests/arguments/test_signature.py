# SPDX-License-Identifier: Apache-2.0
"""What a signature infers from annotations and examples, how it prints, and what it refuses."""

from __future__ import annotations

import copy
import pickle
import typing

import numpy
import pytest

from weft.arguments.base import MISSING, DeclaredParameter
from weft.arguments.constant import ConstantKind, Constexpr
from weft.arguments.none import NoneKind
from weft.arguments.scalar import ScalarKind
from weft.arguments.signature import ARGUMENT_KINDS, Signature, infer_signature
from weft.arguments.stream import (
    EnvironmentStreamKind,
    Stream,
    StreamKind,
    environment_stream,
)
from weft.arguments.tensor import TensorKind
from weft.arguments.tensor_spec import Tensor, fake_tensor
from weft.errors import SignatureError
from weft.types import dtype as types
from weft.types.device import CPU, CUDA
from weft.types.dims import Dim, sym

F32 = types.f32
X = numpy.zeros((3, 4), numpy.float32)


def infer(*declared, args=(), is_call=False, **kwargs) -> Signature:
    """A signature of `f` with parameters a, b, c, ... of these annotations."""
    parameters = [
        spec if isinstance(spec, DeclaredParameter) else DeclaredParameter(name, spec)
        for name, spec in zip("abcdefgh", declared, strict=False)
    ]
    return infer_signature("f", parameters, args, kwargs, is_call=is_call)


def kind(annotation, *value):
    return infer(annotation, args=value).parameters[0].kind


def refused(*declared, **given) -> str:
    with pytest.raises(SignatureError) as caught:
        infer(*declared, **given)
    return str(caught.value)


# ---- tensors


def test_an_example_fixes_dtype_rank_device_and_layout_class_but_no_size():
    found = kind(MISSING, X)
    assert isinstance(found, TensorKind)
    assert found == kind(MISSING, numpy.ones((30, 40), numpy.float32))
    assert (found.dtype, found.dims, found.layout) == (F32, (Dim(None), Dim(None)), "contiguous")
    assert (found.device_type, found.device_index, found.alignment_bytes) == (CPU, None, 4)


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
        "its dtype is f32, but it is annotated Tensor[f64], which says f64",
    ),
    "rank": (
        Tensor[F32, ("n",)],
        X,
        "its shape is (3, 4), but it is annotated Tensor[f32, (n,)], which says (n,)",
    ),
    "size": (
        Tensor[F32, ("n", 5)],
        X,
        "its shape[1] is 4, but it is annotated Tensor[f32, (n, 5)], which says 5",
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
        "its layout is strided, but it is annotated Tensor[f32, ..., contiguous], "
        "which says contiguous",
    ),
    "stride": (
        fake_tensor(F32, (None, None), strides=(8, 1)),
        X,
        "its strides[0] is 4, but it is annotated Tensor[f32, (None, None), inner, strides=(8, 1)]",
    ),
    "device": (
        fake_tensor(F32, (None, None), device="cuda"),
        X,
        "its device is cpu, but it is annotated Tensor[f32, (None, None), contiguous, device=cuda]",
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
        "it says sym(n, divisibility=3), where f: argument 'a' says sym(n, divisibility=2)" in text
    )


def test_tensors_that_weft_cannot_use_name_the_argument():
    assert "f: argument 'a': a tensor of complex64 elements" in refused(
        MISSING, args=(numpy.zeros(3, numpy.complex64),)
    )
    assert "f: argument 'a': a tensor of rank 9; the largest rank is 8" in refused(
        MISSING, args=(numpy.zeros((1,) * 9, numpy.float32),)
    )


# ---- the other kinds


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (True, types.bool_),
        (3, types.i32),
        (2.5, types.f32),
        (numpy.int64(3), types.i64),
        (numpy.float64(3), types.f64),
        (numpy.bool_(1), types.bool_),
        (numpy.uint8(3), types.u8),
        (numpy.float16(3), types.f16),
    ],
)
def test_numbers_without_annotation(value, dtype):
    assert kind(MISSING, value) == ScalarKind(dtype)


@pytest.mark.parametrize(
    ("annotation", "value", "dtype"),
    [
        (types.i64, 3, types.i64),
        (types.u8, numpy.int64(3), types.u8),
        (types.f64, 3, types.f64),
        (types.f16, True, types.f16),
        (int, 3, types.i32),
        (int, numpy.int64(3), types.i64),
        (float, 3, types.f32),
        (float, numpy.float64(3), types.f64),
        (bool, True, types.bool_),
        (types.u64, (1 << 64) - 1, types.u64),
    ],
)
def test_an_annotated_dtype_wins(annotation, value, dtype):
    assert kind(annotation, value) == ScalarKind(dtype) == kind(dtype)


def test_a_value_never_is_part_of_the_kind():
    assert kind(MISSING, 1).key == kind(MISSING, 2).key


def test_an_int_beyond_i32_says_what_to_annotate():
    text = refused(MISSING, args=(1 << 31,))
    assert "it is 2147483648, expected -2147483648 to 2147483647 (i32)" in text
    assert "hint: annotate a: weft.i64" in text
    assert "weft.u64" in refused(int, args=(1 << 63,))


def test_numbers_of_the_wrong_kind():
    assert "it is annotated i32, received a Python float 1.5" in refused(types.i32, args=(1.5,))
    assert "it is annotated bool, received a Python int 1" in refused(bool, args=(1,))
    assert "it is -1, expected 0 to 255 (u8)" in refused(types.u8, args=(-1,))


class CudaStream:
    """As of another library."""

    def __cuda_stream__(self):
        return (0, 7)


def test_streams():
    assert kind(MISSING, CudaStream()) == kind(Stream, 7) == kind(Stream, None) == StreamKind()
    assert kind(Stream) == kind(MISSING, Stream(7)) == StreamKind()
    assert kind(Stream, environment_stream()) == EnvironmentStreamKind()
    assert kind(environment_stream()) == EnvironmentStreamKind()
    assert "received a Python str 'x'" in refused(Stream, args=("x",))
    assert "which nobody passes" in refused(environment_stream(), args=(7,))


def test_none_is_decided_when_compiling():
    assert kind(MISSING, None) == NoneKind()
    for annotation in (Tensor[F32] | None, typing.Optional[Tensor[F32]], None | Tensor[F32]):  # noqa: UP045
        assert kind(annotation, None) == NoneKind()
        assert kind(annotation, X) == kind(MISSING, X)
    assert kind(DeclaredParameter("a", Tensor[F32], None)) == NoneKind()
    assert "received None" in refused(Tensor[F32], args=(None,))
    assert "expected None, received a Python int 3" in refused(None, args=(3,))


def test_constants_are_values_of_their_own():
    assert kind(Constexpr, 3) == ConstantKind(3)
    assert kind(Constexpr[int], 3) != kind(Constexpr, 3.0)
    keys = {kind(Constexpr, value).key for value in (1, True, 1.0, 0.0, -0.0, (1,), (True,))}
    assert len(keys) == 7
    nan = float("nan")
    assert kind(Constexpr, nan) == kind(Constexpr, nan)
    assert "it is Constexpr[int], received a Python float 1.5" in refused(
        Constexpr[int], args=(1.5,)
    )
    assert "must be hashable, received a Python list" in refused(Constexpr, args=([1],))
    assert "a value is needed to compile" in refused(Constexpr[int])


def test_what_is_of_no_kind_is_refused_with_what_is_accepted():
    text = refused(MISSING, args=("abc",))
    assert "f: argument 'a': no kind of argument for a Python str 'abc'" in text
    assert all(kind.title in text for kind in ARGUMENT_KINDS)
    assert "no kind of argument for a Python dict" in refused(MISSING, args=({},))


def test_an_annotation_that_means_nothing():
    assert "it is annotated dict, which means nothing to weft" in refused(dict, args=({},))


# ---- binding


def test_arguments_bind_as_in_python():
    parameters = [
        DeclaredParameter("a", types.i32),
        DeclaredParameter("b", types.f32, 2.0),
        DeclaredParameter("c", MISSING, 7, keyword_only=True),
    ]
    signature = infer_signature("f", parameters, (1,), {"c": 2.5})
    assert signature.text == "f(a: i32, b: f32 = 2.0, *, c: f32 = 7)"


BINDING = {
    "too many": (((1, 2), {}), "f(a): expected at most 1 positional arguments, received 2"),
    "unknown": (((1,), {"zz": 3}), "f(a): unknown argument 'zz'"),
    "twice": (((1,), {"a": 3}), "f(a): argument 'a' is given by position and by name"),
    "missing": (((), {}), "f(a): missing argument 'a'"),
}


@pytest.mark.parametrize("case", BINDING)
def test_what_does_not_bind(case):
    (args, kwargs), message = BINDING[case]
    assert message in refused(MISSING, args=args, **kwargs)


def test_an_annotation_is_enough_to_compile_but_not_to_call():
    assert infer(Tensor[F32, ("n",)]).text == "f(a: Tensor[f32, (n,)])"
    assert "missing argument 'a'" in refused(Tensor[F32, ("n",)], is_call=True)
    assert "no value was given, and Tensor[f32] does not say its shape" in refused(Tensor[F32])


# ---- the signature as a value


def example() -> Signature:
    return infer_signature(
        "f",
        [
            DeclaredParameter("a", Tensor[F32, ("n",)]),
            DeclaredParameter("k", Constexpr[int], 3),
            DeclaredParameter("c", types.f32, 2.0),
            DeclaredParameter("s", environment_stream()),
        ],
    )


def test_constants_and_the_environments_stream_are_not_passed():
    signature = example()
    assert signature.text == repr(signature) == "f(a: Tensor[f32, (n,)], c: f32 = 2.0)"
    assert [parameter.name for parameter in signature.passed] == ["a", "c"]
    assert signature.constant_positions == (1,)


def test_a_signature_is_a_frozen_value():
    signature = example()
    assert signature == example()
    assert hash(signature) == hash(example())
    assert pickle.loads(pickle.dumps(signature)) == copy.deepcopy(signature) == signature
    assert signature.for_device(CPU) != signature.for_device(CUDA)
    with pytest.raises(AttributeError, match=r"Signature\.name cannot be changed"):
        signature.name = "g"


def test_no_address_and_no_value_is_in_the_key():
    assert "0x" not in repr(example().key)
    first, second = infer(MISSING, args=(1,)), infer(MISSING, args=(2,))
    assert first.key == second.key


def test_tensors_without_a_device_follow_the_target():
    signature = example().for_device(CUDA)
    assert (signature.device_type, signature.tensors()[0].kind.device_type) == (CUDA, CUDA)
    with pytest.raises(
        SignatureError, match="f: argument 'a': it is on cpu, the function runs on cuda"
    ):
        infer(MISSING, args=(X,)).for_device(CUDA)


def test_a_signature_is_checked_against_its_function():
    signature = example()
    declared = [DeclaredParameter(p.name) for p in signature.parameters]
    assert signature.checked_for("f", declared) is signature
    for name, parameters in (("g", declared), ("f", declared[1:])):
        with pytest.raises(SignatureError, match="cannot be compiled for the signature"):
            signature.checked_for(name, parameters)


def test_the_call_plan_has_masks_defaults_and_names():
    signature = infer_signature(
        "f",
        [
            DeclaredParameter("k", Constexpr[int], 3),
            DeclaredParameter("a", Tensor[F32, ("n",)]),
            DeclaredParameter("s", Stream, None),
            DeclaredParameter("c", types.f32, 2.0, keyword_only=True),
        ],
        kwargs={"s": 7},
    )
    plan = signature.call_plan(frozenset({"a"}), returns_objects=True)
    assert (plan.name, plan.signature_text) == ("f", signature.text)
    assert plan.parameters == ("a", "s", "c")
    assert plan.positional_count == 2
    assert plan.defaults == {"s": None, "c": 2.0}
    assert plan.owned_tensors
