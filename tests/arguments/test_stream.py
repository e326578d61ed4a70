# SPDX-License-Identifier: Apache-2.0
"""Streams of any library, and the environment's own."""

from __future__ import annotations

from tests.arguments.inferring import kind, refused
from weft.arguments.base import MISSING
from weft.arguments.stream import (
    EnvironmentStreamKind,
    Stream,
    StreamKind,
    environment_stream,
)


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
    assert "is never passed" in refused(environment_stream(), args=(7,))
