# SPDX-License-Identifier: Apache-2.0
"""The plan of a signature for the marshaller."""

from __future__ import annotations

from typing import NamedTuple

from weft.arguments.base import DeclaredParameter
from weft.arguments.constant import Constexpr
from weft.arguments.signature import infer_signature
from weft.arguments.stream import Stream
from weft.arguments.tensor_spec import Tensor
from weft.compiler.call_plan import item_plan, make_call_plan
from weft.types import dtype as types

F32 = types.f32


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
    plan = make_call_plan(signature, frozenset({"a"}), returns_objects=True)
    assert (plan.name, plan.signature_text) == ("f", signature.text)
    assert plan.parameters == ("a", "s", "c")
    assert plan.positional_count == 2
    assert plan.defaults == {"s": None, "c": 2.0}
    assert plan.owned_tensors


class Job(NamedTuple):
    source: Tensor[F32, ("n",)]
    tile: Constexpr[int]
    target: Tensor[F32, ("n",)]
    stream: Stream


def test_items_of_a_container_are_distinguished():
    signature = infer_signature(
        "f", [DeclaredParameter("t", tuple[Job, types.i32])], ((Job(*_JOB), 3),)
    )
    kind = signature.parameters[0].kind
    plan = item_plan(kind, "t", {"t[0].target"})
    assert plan == ((((0, 1, 2), (8,)), 0), ())


_JOB = (Tensor[F32, ("n",)], 8, Tensor[F32, ("n",)], 0)
