# SPDX-License-Identifier: Apache-2.0
"""Decoded records: one NumPy row each, for every wire format; and the buffer's problems.

In: a buffer of any library. Out: its words; `Recording`, filled by the decoders.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from weft import _native
from weft.blame import is_of_a_handler
from weft.errors import ArgumentValueError, SignatureError, brief
from weft.profiler.buffers import WORD_TYPES, device_tensor, read_device
from weft.types import record_format as wire

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

RECORD: Final = np.dtype(
    [
        ("track", np.uint32),  # index into Recording.tracks
        ("kind", np.uint8),
        ("event", np.uint16),
        ("has_payload", np.bool_),
        ("time", np.float64),  # nanoseconds after Recording.origin_ns
        ("payload", np.uint32),
    ]
)
TRACK: Final = np.dtype(
    [
        ("block", np.uint32),
        ("group", np.uint32),
        ("sm", np.int32),  # -1 where the format does not say
        ("warp", np.int32),
        ("lost", np.uint64),  # records that did not fit
        ("is_complete", np.bool_),
    ]
)
_NAMES: Final = (
    "expected a list of names, a dict from events' numbers to names, or an Enum of the events"
)
BLOCK_LIMIT: Final = 1 << 31


def list_of_names(given: object) -> list[str]:
    """Names by number, as a list: of a sequence, a mapping from numbers to names, or an `enum.Enum`.

    Raises:
        TypeError: for anything else.
        ArgumentValueError: for a number of no event.
    """
    names: Any = given
    if isinstance(given, type) and issubclass(given, Enum):
        names = {member: member.name for member in given}
    if isinstance(names, Mapping):
        table = {_event_number(key): name for key, name in cast("Mapping[Any, Any]", names).items()}
        found = [
            table.get(number, f"event {number}") for number in range(max(table, default=-1) + 1)
        ]
    else:
        if isinstance(names, str | bytes) or not isinstance(names, Iterable):
            raise TypeError(f"the event names are {brief(cast('object', names))}, {_NAMES}")
        found = list(cast("Iterable[Any]", names))
    for name in found:
        if not isinstance(name, str):
            raise TypeError(f"the event names hold {brief(name)}, {_NAMES}")
    return found


def _event_number(key: object) -> int:
    number = key.value if isinstance(key, Enum) else key
    if isinstance(number, bool) or not isinstance(number, int):
        raise TypeError(f"the event names have the key {brief(key)}, {_NAMES}")
    if not 0 <= number < wire.TRACK_MOST_EVENTS:
        raise ArgumentValueError(
            "PROFILER_EVENT",
            f"the event names have the number {number}; expected 0 to {wire.TRACK_MOST_EVENTS - 1}",
        )
    return number


class Recording:
    """One launch's records.

    Attributes:
        kernel: its name; empty if the format does not say.
        records: rows of `RECORD`, track by track, each track in the order of time.
        tracks: rows of `TRACK`, for tracks that recorded or should have.
        events: names by number.
        groups: names by number.
        origin_ns: nanoseconds on the recording machine's clock; times count from there.
        grid, block: of the launch; None if the format does not say.
        tick_ns: how exact times of different tracks are to each other.
        step_ns: how exact times within a track are.
        problems: sentences about missing or wrong data.
        words_needed: of a buffer for every record; 0 if the format does not say.

    Example:
        >>> recording = trace.recordings[0]
        >>> recording.kernel, recording.problems, len(recording.records)
        ('run_kernel', [], 4)
    """

    __slots__ = (
        "block",
        "events",
        "grid",
        "groups",
        "kernel",
        "origin_ns",
        "problems",
        "records",
        "step_ns",
        "tick_ns",
        "tracks",
        "words_needed",
    )

    def __init__(
        self,
        records: NDArray[Any],
        tracks: NDArray[Any],
        *,
        events: Sequence[str] = (),
        groups: Sequence[str] = (),
        kernel: str = "",
        origin_ns: int = 0,
        tick_ns: float = 32.0,
        problems: Sequence[str] = (),
    ) -> None:
        self.records = records
        self.tracks = tracks
        self.events = list(events)
        self.groups = list(groups)
        self.kernel = kernel
        self.origin_ns = origin_ns
        self.tick_ns = self.step_ns = tick_ns
        self.problems = list(problems)
        self.words_needed = 0
        self.grid: tuple[int, int, int] | None = None
        self.block: tuple[int, int, int] | None = None

    def event_name(self, number: int) -> str:
        """The event's name, or its number in words."""
        return self.events[number] if number < len(self.events) else f"event {number}"

    def group_name(self, number: int) -> str:
        """The group's name, or its number in words."""
        return self.groups[number] if number < len(self.groups) else f"group {number}"

    def track_name(self, index: int) -> str:
        """A track for messages: ``b3/g1``."""
        track = self.tracks[index]
        return f"b{track['block']}/g{track['group']}"

    def listed(self, indices: NDArray[Any]) -> str:
        """Tracks for messages, the first three by name."""
        names = [self.track_name(int(index)) for index in indices[:3]]
        more = len(indices) - len(names)
        return ", ".join(names) + (f" and {more} more" if more > 0 else "")


@dataclass(slots=True, eq=False)
class Launch:
    """One launch of a trace.

    Attributes:
        recording: its records.
        function: its host function; empty if unknown.
        begin_ns, end_ns: the host's monotonic clock just before the call, and after all launches had ended;
            None if unknown.
        device: where it ran: ``"cpu"``, whose clock is the host's, or ``"cuda:0"``.
        stream: the CUDA stream's handle; None on the CPU, or if unknown.
        host_ns: the launch's time on the host, on the CPU that of the run; None if unknown.
        device_ns: time on the GPU between an event before the launch and one after it; None on the CPU, in a
            CUDA graph, and if unknown.
        is_marked: whether the kernel has a `Profiler`; otherwise its recording is empty.

    Example:
        >>> trace.launches[0].function, trace.launches[0].device
        ('run', 'cpu')
    """

    recording: Recording
    function: str = ""
    begin_ns: int | None = None
    end_ns: int | None = None
    device: str = ""
    stream: int | None = None
    host_ns: int | None = field(default=None, init=False)
    device_ns: float | None = field(default=None, init=False)
    is_marked: bool = field(default=True, init=False)

    def __repr__(self) -> str:
        return f"<launch of {self.recording.kernel or 'a kernel'}: {len(self.recording.records)} records>"


def as_words(buffer: object) -> NDArray[np.uint64]:
    """A profiler's buffer as u64 words on the host, copied from a device if needed.

    Args:
        buffer: an array of 8-byte integers (NumPy, torch, CuPy, anything with the buffer protocol or DLPack),
            or bytes.

    Raises:
        SignatureError: if it is not an array.
        ArgumentValueError: for an array of other elements, or bytes that are not whole words.
    """
    if isinstance(buffer, bytes | bytearray):
        data = bytes(buffer)
        if len(data) % 8:
            raise ArgumentValueError(
                "PROFILER_BUFFER", f"{len(data)} bytes are not a whole number of 8-byte words"
            )
        return np.frombuffer(data, np.uint64)
    try:
        array: NDArray[Any] = np.ascontiguousarray(_on_host(buffer))
    except Exception as error:
        if is_of_a_handler(error):
            raise
        raise SignatureError(
            "PROFILER_BUFFER", f"a {type(buffer).__name__} is not a buffer of a profiler: {error}"
        ) from error
    if array.dtype.kind not in "iu" or array.dtype.itemsize != 8:
        raise ArgumentValueError(
            "PROFILER_BUFFER",
            f"the buffer has {array.dtype} elements; a profiler's buffer holds 8-byte integers",
        )
    return array.reshape(-1).astype(array.dtype.newbyteorder("="), copy=False).view(np.uint64)


def _on_host(buffer: Any) -> NDArray[Any]:
    """An array of any library in this machine's memory."""
    for name in ("cpu", "get"):  # torch's and CuPy's methods, which know the writing streams
        bring = getattr(buffer, name, None)
        if callable(bring) and hasattr(buffer, "device"):
            return np.asarray(bring())
    tensor = device_tensor(buffer)
    if tensor is not None:
        if tensor.dtype not in WORD_TYPES or not tensor.is_contiguous:
            return np.empty(0, np.uint8)  # of another type, which the caller refuses
        _native.synchronize(tensor.device[1])
        return read_device(tensor)
    if hasattr(buffer, "__dlpack__") and not hasattr(buffer, "__array__"):
        return np.from_dlpack(buffer)
    return np.asarray(buffer)


def segments(keys: NDArray[Any]) -> NDArray[np.int64]:
    """Where runs of equal keys begin, in an array that is sorted by them."""
    if not len(keys):
        return np.zeros(0, np.int64)
    return np.flatnonzero(np.r_[True, keys[1:] != keys[:-1]])


def unwrapped(times: NDArray[Any], starts: NDArray[np.int64], bits: int = 32) -> NDArray[np.int64]:
    """Times of `bits` bits as differences from the first of their run, for any number of wraps.

    Adjacent times must be less than one wrap apart. A step back of less than 1/4096 of a wrap is kept as such,
    since a clock read by two threads is not always in order.

    Args:
        times: raw times, run by run.
        starts: where the runs begin.
        bits: of the clock.
    """
    count = len(times)
    result = np.zeros(count, np.int64)
    if not count:
        return result
    mask = (1 << bits) - 1
    raw = times.astype(np.int64)
    steps = np.zeros(count, np.int64)
    steps[1:] = (raw[1:] - raw[:-1]) & mask
    backward = steps > mask - (1 << (bits - 12))
    steps[backward] -= mask + 1
    steps[starts] = 0
    total = np.cumsum(steps)
    lengths = np.diff(np.r_[starts, count])
    return total - np.repeat(total[starts], lengths)
