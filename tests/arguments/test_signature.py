# SPDX-License-Identifier: Apache-2.0
"""How arguments bind, what is of no kind, and the signature as a frozen, printable value."""

from __future__ import annotations

import copy
import pickle
from typing import Annotated

import numpy as np
import pytest

from tests.arguments.inferring import X, infer, refused
from weft.arguments.base import MISSING, DeclaredParameter
from weft.arguments.constant import Constexpr
from weft.arguments.signature import ARGUMENT_KINDS, Signature, infer_signature
from weft.arguments.stream import environment_stream
from weft.arguments.tensor_spec import Tensor, fake_tensor
from weft.errors import SignatureError
from weft.types import dtype as types
from weft.types.device import CPU, CUDA

F32 = types.f32


def test_what_is_of_no_kind_is_refused_with_what_is_accepted():
    text = refused(MISSING, args=("abc",))
    assert "f: argument 'a': weft cannot pass a Python str 'abc'" in text
    assert all(kind.title in text for kind in ARGUMENT_KINDS)
    assert "weft cannot pass a Python dict" in refused(MISSING, args=({},))


def test_an_annotation_that_means_nothing():
    assert "it is annotated dict, which weft does not know" in refused(dict, args=({},))


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
    "twice": (((1,), {"a": 3}), "f(a): argument 'a' was passed both by position and by name"),
    "missing": (((), {}), "f(a): missing argument 'a'"),
}


@pytest.mark.parametrize("case", BINDING)
def test_what_does_not_bind(case):
    (args, kwargs), message = BINDING[case]
    assert message in refused(MISSING, args=args, **kwargs)


def test_an_annotation_is_enough_to_compile_but_not_to_call():
    assert infer(Tensor[F32, ("n",)]).text == "f(a: Tensor[f32, (n,)])"
    assert "missing argument 'a'" in refused(Tensor[F32, ("n",)], is_call=True)
    assert "no value was given, and Tensor[f32] has no shape" in refused(Tensor[F32])


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
    with pytest.raises(AttributeError, match=r"Signature\.name cannot be deleted"):
        del signature.name


def test_no_address_and_no_value_is_in_the_key():
    assert "0x" not in repr(example().key)
    first, second = infer(MISSING, args=(1,)), infer(MISSING, args=(2,))
    assert first.key == second.key


def test_tensors_without_a_device_follow_the_target():
    signature = example().for_device(CUDA)
    assert (signature.device_type, signature.tensors()[0].kind.device_type) == (CUDA, CUDA)
    with pytest.raises(
        SignatureError, match="f: argument 'a': the tensor is on cpu, the function runs on cuda"
    ):
        infer(MISSING, args=(fake_tensor(types.f32, ("n",), device="cpu"),)).for_device(CUDA)
    # An example is a type: where it happens to be binds nothing.
    (tensor,) = infer(MISSING, args=(X,)).for_device(CUDA).tensors()
    assert tensor.kind.device_type == CUDA


def test_a_signature_is_checked_against_its_function():
    signature = example()
    declared = [DeclaredParameter(p.name) for p in signature.parameters]
    assert signature.checked_for("f", declared) is signature
    for name, parameters in (("g", declared), ("f", declared[1:])):
        with pytest.raises(SignatureError, match="cannot be compiled for the signature"):
            signature.checked_for(name, parameters)


VECTOR = Tensor[F32, ("n",)]


@pytest.mark.parametrize(
    ("annotation", "same"),
    [
        (Annotated[Tensor, VECTOR], VECTOR),
        (Annotated[Tensor, "of forces", VECTOR, "in newtons"], VECTOR),
        (Annotated[float, types.f16], types.f16),
        (Annotated[Tensor, "any"], Tensor),
        (Annotated[Tensor, VECTOR] | None, VECTOR | None),
        (Annotated[Tensor | None, VECTOR], VECTOR | None),
    ],
)
def test_annotated_says_to_weft_what_is_of_weft(annotation, same):
    examples = (1.5,) if same is types.f16 else (np.zeros(3, np.float32),)
    declared = (DeclaredParameter("a", given) for given in (annotation, same))
    found, expected = (infer_signature("f", [one], examples) for one in declared)
    assert found == expected


def test_annotated_in_a_container():
    pair = tuple[Annotated[Tensor, VECTOR], Annotated[int, types.i64]]
    signature = infer_signature("f", [DeclaredParameter("t", pair)])
    assert signature.text == "f(t: tuple[Tensor[f32, (n,)], i64])"
