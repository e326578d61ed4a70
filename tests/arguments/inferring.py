# SPDX-License-Identifier: Apache-2.0
"""Signatures of a function `f` whose parameters are called a, b, c, ..."""

from __future__ import annotations

import numpy
import pytest

from weft.arguments.base import ArgumentKind, DeclaredParameter
from weft.arguments.signature import Signature, infer_signature
from weft.errors import SignatureError

X = numpy.zeros((3, 4), numpy.float32)


def infer(*declared, args=(), is_call=False, **kwargs) -> Signature:
    """The signature for these annotations or parameters, and these arguments."""
    parameters = [
        spec if isinstance(spec, DeclaredParameter) else DeclaredParameter(name, spec)
        for name, spec in zip("abcdefgh", declared, strict=False)
    ]
    return infer_signature("f", parameters, args, kwargs, is_call=is_call)


def kind(annotation, *value) -> ArgumentKind:
    """The kind of one parameter."""
    return infer(annotation, args=value).parameters[0].kind


def refused(*declared, **given) -> str:
    """The message of a signature that cannot be made."""
    with pytest.raises(SignatureError) as caught:
        infer(*declared, **given)
    return str(caught.value)
