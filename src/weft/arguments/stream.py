# SPDX-License-Identifier: Apache-2.0
"""The argument kinds of streams: passed by the caller, or the environment's own.

In: `weft.Stream`, an object with `__cuda_stream__` or `cuda_stream`, `weft.environment_stream()`.
Out: `StreamKind`, `EnvironmentStreamKind`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.arguments.base import (
    MISSING,
    Annotation,
    ArgumentKind,
    annotation_text,
    describe,
    is_c_pointer,
)

if TYPE_CHECKING:
    from weft.arguments.base import Place, Symbols


class Stream:
    """A CUDA stream; also the annotation of a parameter that takes one.

    Streams of torch, CuPy and cuda.core, integers, `ctypes.c_void_p` and None (the legacy default stream)
    are accepted wherever a `weft.Stream` is. The CPU target ignores streams.

    Attributes:
        handle: the CUstream as an integer. Borrowed: the stream's owner keeps it alive.

    Example:
        >>> weft.Stream(0).__cuda_stream__()
        (0, 0)
    """

    def __init__(self, handle: int = 0) -> None:
        if type(handle) is not int:
            raise TypeError(f"Stream: handle must be an int, received {describe(handle)}")
        if not 0 <= handle < 1 << 64:
            raise ValueError(f"Stream: handle is {handle}, expected an address of 64 bits")
        self.handle = handle

    def __cuda_stream__(self) -> tuple[int, int]:
        """The CUDA stream protocol: version 0 and the handle."""
        return (0, self.handle)

    def __repr__(self) -> str:
        return f"weft.Stream({self.handle:#x})"


class EnvironmentStream(Annotation):
    """The value of `weft.environment_stream()`."""

    def __repr__(self) -> str:
        return "environment_stream()"


def environment_stream() -> EnvironmentStream:
    """A stream that is not passed: the current stream of the first CUDA tensor's library, at each call.

    Use it in `weft.compile`, or as an annotation; the compiled function does not take that parameter. Launches without
    `stream=` use the same stream.

    Example:
        >>> weft.environment_stream()
        environment_stream()
    """
    return EnvironmentStream()


def is_stream(value: object) -> bool:
    """Whether the value is a stream: it follows the CUDA stream protocol, or is torch's."""
    return hasattr(type(value), "__cuda_stream__") or isinstance(
        getattr(value, "cuda_stream", None), int
    )


class StreamKind(ArgumentKind):
    """A stream passed by the caller; a function's first one is the stream of its launches."""

    title = "a stream (torch, CuPy, cuda.core, weft.Stream)"

    @property
    def text(self) -> str:
        return "Stream"

    @classmethod
    def is_annotated_by(cls, annotation: object) -> bool:
        return annotation is Stream

    @classmethod
    def recognizes(cls, value: object) -> bool:
        return is_stream(value)

    @classmethod
    def infer(
        cls, annotation: object, value: object, place: Place, symbols: Symbols
    ) -> StreamKind | EnvironmentStreamKind:
        if isinstance(value, EnvironmentStream):
            return EnvironmentStreamKind()
        handle = (isinstance(value, int) and not isinstance(value, bool)) or is_c_pointer(value)
        if value is MISSING or value is None or handle or is_stream(value):
            return cls()
        raise place.error(
            "ARGUMENT_NOT_STREAM",
            f"it is annotated {annotation_text(annotation)}, received {describe(value)}",
        )


class EnvironmentStreamKind(ArgumentKind):
    """The stream that the FFI environment holds for the call's device; not passed."""

    title = "weft.environment_stream()"
    is_passed = False

    @property
    def text(self) -> str:
        return "environment_stream()"

    @classmethod
    def is_annotated_by(cls, annotation: object) -> bool:
        return isinstance(annotation, EnvironmentStream)

    @classmethod
    def recognizes(cls, value: object) -> bool:
        return isinstance(value, EnvironmentStream)

    @classmethod
    def infer(
        cls, annotation: object, value: object, place: Place, symbols: Symbols
    ) -> EnvironmentStreamKind:
        if value is MISSING or isinstance(value, EnvironmentStream):
            return cls()
        raise place.error(
            "ARGUMENT_IS_ENVIRONMENT_STREAM",
            f"environment_stream() is never passed, received {describe(value)}",
        )
