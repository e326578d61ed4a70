# SPDX-License-Identifier: Apache-2.0
"""Buffers for kernels with a `Profiler`: preparing them for a launch, and reading them back.

In: a number of words and a device. Out: memory with a unique prologue, so that a kernel
never writes into other memory. Device memory is weft's own, so no other library is needed.
"""

from __future__ import annotations

import itertools
import secrets
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from weft import _native
from weft.errors import ArgumentValueError, brief
from weft.types import record_format as wire

if TYPE_CHECKING:
    from numpy.typing import NDArray

DEFAULT_WORDS: Final = 1 << 20
"""8 MB: a hundred thousand records and the headers of ten thousand tracks."""

_PAGE_WORDS: Final = 512
_CUDA: Final = 2  # DLPack's kDLCUDA
WORD_TYPES: Final = ((0, 64, 1), (1, 64, 1))
"""DLPack's i64 and u64."""

# Epochs distinguish one launch's track headers from an earlier one's in the same memory.
_epochs = itertools.count(secrets.randbits(40) << 16 | 1)


class LaunchWords:
    """A prepared buffer of one launch, in its device's memory.

    Args:
        words: of 8 bytes.
        ordinal: of the CUDA device; None for the CPU.
        stream: the launch's, in whose order device memory is prepared.

    Attributes:
        address: of the first word.
        words: as given.
    """

    __slots__ = ("_ordinal", "_owner", "_prologue", "address", "words")

    def __init__(self, words: int, ordinal: int | None, stream: int = 0) -> None:
        self.words = words
        self._ordinal = ordinal
        # The copy may still read it when this returns.
        self._prologue = prologue()
        if ordinal is None:
            memory = np.empty(words, np.uint64)
            # The first access to a page takes long; it must not happen inside the kernel.
            memory[::_PAGE_WORDS] = 0
            memory[: wire.PROLOGUE_WORDS] = self._prologue
            self._owner: Any = memory
            self.address = int(memory.ctypes.data)
            return
        self._owner = _device_memory(words, ordinal)
        self.address = self._owner.data
        _native.copy_tensor(self._owner[: wire.PROLOGUE_WORDS], self._prologue, stream, True)

    def read(self) -> NDArray[np.uint64]:
        """The words on this machine; the launch must have ended."""
        if self._ordinal is None:
            return self._owner
        # Not on the launch's stream, which may be gone by now.
        return read_device(self._owner)


def _device_memory(words: int, ordinal: int) -> Any:
    from weft.driver.memory import empty
    from weft.types.dtype import u64

    return empty(words, u64, ordinal)


def read_device(tensor: _native.Tensor) -> NDArray[np.uint64]:
    """A copy of the words of a tensor in device memory, in the order of the default stream."""
    found = np.empty(tensor.shape, _words_type(tensor))
    _native.copy_tensor(found, tensor, 0)
    return found.view(np.uint64)


def _words_type(tensor: _native.Tensor) -> type[Any]:
    return np.int64 if tensor.dtype == WORD_TYPES[0] else np.uint64


def buffer(words: int = DEFAULT_WORDS, device: object = "cpu") -> Any:
    """Memory for one launch of a kernel with ``Profiler(buffer=...)``.

    Pass it as the profiler's argument, then `decode_track` it. `prepare` makes it
    ready for another launch, such as a CUDA graph's next run.

    Args:
        words: of 8 bytes. A launch needs 16, its names, 8 per track, and one per record.
        device: ``"cpu"`` for a NumPy array, or anything that names a CUDA device for a
            tensor of `weft.empty`.

    Raises:
        ArgumentValueError: if it has no room for the prologue, or more than 2³¹ − 1 words.
        TypeError: if `words` is not an int, or `device` does not name a device.
        weft.CudaError: if the device has no such memory left, or there is no usable driver.

    Example:
        >>> records = weft.profiler.buffer(words=64)
        >>> records.shape, records.dtype.name
        ((64,), 'uint64')
    """
    check_words(words)
    if isinstance(device, str) and device == "cpu":
        # Uninitialized memory is enough: tracks say which of their words are records.
        made: Any = np.empty(words, np.uint64)
    else:
        from weft.driver.device import ordinal_of

        made = _device_memory(words, ordinal_of(device))
    prepare(made)
    return made


def check_words(words: object) -> None:
    """Refuses an impossible buffer size.

    Raises:
        ArgumentValueError: if it is out of range.
        TypeError: if it is not an int.
    """
    if isinstance(words, bool) or not isinstance(words, int):
        raise TypeError(f"words is {brief(words)}, expected an int")
    if not wire.PROLOGUE_WORDS <= words < wire.TRACK_MOST_WORDS:
        raise ArgumentValueError(
            "PROFILER_BUFFER",
            f"{words} words; expected {wire.PROLOGUE_WORDS} to {wire.TRACK_MOST_WORDS - 1}",
        )


def prologue() -> NDArray[np.uint64]:
    """The first words of a buffer, ready for one launch."""
    words = np.zeros(wire.PROLOGUE_WORDS, np.uint64)
    words[wire.WORD_MAGIC] = wire.TRACK_MAGIC
    words[wire.WORD_EPOCH] = next(_epochs)
    return words


def prepare(words: Any) -> None:
    """Makes a buffer ready for another launch; costs 128 bytes, whatever its size.

    Device memory is written in the order of the default stream, and waited for.

    Args:
        words: an array of at least 16 u64 or i64 elements, which is changed: NumPy's, `buffer`'s, or one on a
            CUDA device that offers DLPack.

    Raises:
        ArgumentValueError: for another array.

    Example:
        >>> records = weft.profiler.buffer(words=64)
        >>> weft.profiler.prepare(records)  # before each launch but the first
    """
    tensor = device_tensor(words)
    if tensor is None:
        array = _shared_array(words)
        _check(array.ndim, array.dtype.kind in "iu" and array.dtype.itemsize == 8, array.size)
        array.view(np.uint64)[: wire.PROLOGUE_WORDS] = prologue()
        return
    _check(tensor.ndim, tensor.dtype in WORD_TYPES, tensor.size)
    start = prologue().view(_words_type(tensor))
    _native.copy_tensor(tensor[: wire.PROLOGUE_WORDS], start, 0)


def _shared_array(words: Any) -> NDArray[Any]:
    """Any library's array as a writable NumPy array over the same memory."""
    if hasattr(words, "__dlpack__") and not hasattr(words, "__array__"):
        words = np.from_dlpack(words)
    array = np.asarray(words)
    if array.base is None and array is not words:
        raise ArgumentValueError(
            "PROFILER_BUFFER", f"a {type(words).__name__} is not memory that a kernel can write"
        )
    if not array.flags.writeable:
        raise ArgumentValueError("PROFILER_BUFFER", "the buffer is read-only")
    return array


def device_tensor(value: object) -> _native.Tensor | None:
    """An array on a CUDA device as a tensor; None for other arrays and objects."""
    place: Any = getattr(value, "__dlpack_device__", None)
    if place is None or isinstance(value, np.ndarray):
        return None
    kind, _ = cast("tuple[int, int]", place())
    if kind != _CUDA:
        return None
    return value if isinstance(value, _native.Tensor) else _native.from_dlpack(value)


def _check(rank: int, is_words: bool, size: int) -> None:
    if rank != 1 or not is_words:
        raise ArgumentValueError(
            "PROFILER_BUFFER",
            f"the buffer has rank {rank} and {'8-byte integers' if is_words else 'other elements'}; expected "
            "rank 1 and u64",
        )
    if size < wire.PROLOGUE_WORDS:
        raise ArgumentValueError(
            "PROFILER_BUFFER",
            f"the buffer has {size} words; expected {wire.PROLOGUE_WORDS} at least",
        )
