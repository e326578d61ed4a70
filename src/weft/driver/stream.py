# SPDX-License-Identifier: Apache-2.0
"""Streams of any library as CUDA handles.

In: None, an int, or an object of torch, CuPy, cuda.core or anything with `__cuda_stream__`. Out: a CUstream.
"""

from __future__ import annotations

from weft import _native
from weft.driver.library import open_driver


def stream_handle(stream: object) -> int:
    """The CUstream of a stream object, as a number; None is 0, the legacy default stream.

    Accepted: an int, an object with ``__cuda_stream__`` (cuda.core, cuda.compute), torch's streams
    (``cuda_stream``), CuPy's (``ptr``). JAX has no stream objects; its arrays order themselves through DLPack.

    Raises:
        TypeError: it is not a stream.

    Example:
        >>> stream_handle(None), stream_handle(2)
        (0, 2)
    """
    return _native.stream_handle(stream)


def stream_device(stream: object) -> int | None:
    """The ordinal of a stream's device; None for the default streams 0, 1 and 2.

    Raises:
        weft.CudaError: the stream does not exist, or there is no usable driver.
    """
    open_driver()
    device = _native.stream_device(stream)
    return None if device < 0 else device


def is_capturing(stream: object) -> bool:
    """Whether a stream is being captured into a graph; then no code can be loaded.

    Raises:
        weft.CudaError: the stream does not exist, or there is no usable driver.
    """
    open_driver()
    return _native.is_stream_capturing(stream)
