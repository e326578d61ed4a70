# SPDX-License-Identifier: Apache-2.0
"""None is fixed when a function is compiled."""

from __future__ import annotations

import typing

from tests.arguments.inferring import X, kind, refused
from weft.arguments.base import MISSING, DeclaredParameter
from weft.arguments.constant import NoneKind
from weft.arguments.tensor_spec import Tensor
from weft.types import dtype as types

F32 = types.f32


def test_none_is_decided_when_compiling():
    assert kind(MISSING, None) == NoneKind()
    for annotation in (Tensor[F32] | None, typing.Optional[Tensor[F32]], None | Tensor[F32]):  # noqa: UP045
        assert kind(annotation, None) == NoneKind()
        assert kind(annotation, X) == kind(MISSING, X)
    for annotation in (F32 | None, None | F32):
        assert kind(annotation, None) == NoneKind()
        assert kind(annotation, 1.0) == kind(F32, 1.0)
    assert kind(DeclaredParameter("a", Tensor[F32], None)) == NoneKind()
    assert "received None" in refused(Tensor[F32], args=(None,))
    assert "expected None, received a Python int 3" in refused(None, args=(3,))
