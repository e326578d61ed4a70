# SPDX-License-Identifier: Apache-2.0
"""Copies of a call's arguments, so that trials never touch the user's memory, and whether two trials wrote the same.

In: arguments of any library. Out: sets of the same arguments over memory of their own: same shapes, strides, alignments
and overlaps; written arrays can be restored. Ranges of bytes are copied, so no element type matters. A kernel of
weft's own compares on the device, for every element type: the names of those that differ, and by how much.
"""

from __future__ import annotations

import math
import os
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import weft
from weft import _native
from weft.api import jit, kernel
from weft.arguments.pointer import PointerKind
from weft.driver.device import device_properties, memory_info
from weft.driver.memory import copy, empty, zeros
from weft.errors import ArgumentValueError
from weft.ffi.tensor import tensor_at
from weft.types.device import CPU, CUDA, device_name
from weft.types.dtype import u8, u32

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from weft.arguments.signature import Signature


_ALIGNMENT: Final = 256
_MOST_SETS: Final = 8
_SHARE: Final = 4
_CPU_CACHE_BYTES: Final = 32 << 20


class _Span(NamedTuple):
    """A range of the user's memory that arguments use.

    Attributes:
        device: DLDeviceType and ordinal.
        low, high: addresses of its first byte, and after its last.
        is_written: whether a kernel writes to it.
    """

    device: tuple[int, int]
    low: int
    high: int
    is_written: bool


class Set:
    """The arguments once more.

    Args:
        user: the user's.
        like: a set to copy, instead of the user's memory.

    Attributes:
        values: one for each of the user's, in order.
    """

    def __init__(self, user: UserArguments, like: Set | None = None) -> None:
        self._user = user
        self._buffers = [
            empty(span.high - span.low + _ALIGNMENT, u8, _device(span.device))
            for span in user.spans
        ]
        self._starts = [
            _aligned_like(span.low, buffer.data + buffer.byte_offset)
            for buffer, span in zip(self._buffers, user.spans, strict=True)
        ]
        self._copy([span.low for span in user.spans] if like is None else like._starts)
        self.values = [_rebuilt(value, self._moved) for value in user.values]

    def restore(self) -> None:
        """Restores the arrays that kernels write to the user's values."""
        self._copy([span.low if span.is_written else None for span in self._user.spans])

    def copied(self) -> Set:
        """Another set, with the present contents of this one."""
        return Set(self._user, self)

    def written(self) -> list[tuple[str, Any]]:
        """The tensors that kernels write to, each with its argument's name; they live as long as the set."""
        pairs = zip(self._user.names, self.values, strict=True)
        return [
            (name, tensor)
            for name, value in pairs
            if name in self._user.written
            for tensor in _leaves(value)
        ]

    def _copy(self, sources: Sequence[int | None]) -> None:
        for start, source, span in zip(self._starts, sources, self._user.spans, strict=True):
            if source is not None:
                shape, bytes_ = (span.high - span.low,), (u8.dlpack_code, 8, 1)
                to = tensor_at(start, shape, (1,), bytes_, span.device)
                copy(to, tensor_at(source, shape, (1,), bytes_, span.device))

    def _moved(self, value: Any, info: _native.TensorInfo) -> Any:
        address, device = info.data + info.byte_offset, (info.device_type, info.device_id)
        dtype = info.dtype_code, info.dtype_bits, info.dtype_lanes
        for start, span in zip(self._starts, self._user.spans, strict=True):
            if span.device == device and span.low <= address < span.high:
                moved = start + address - span.low
                return tensor_at(moved, info.shape, info.strides, dtype, device)
        return value  # it has no elements


def _aligned_like(address: int, start: int) -> int:
    """The first address from `start` on with the same place within `_ALIGNMENT` bytes as another."""
    return start + (address - start) % _ALIGNMENT


class UserArguments:
    """The arguments of the user's call, which are only read.

    Attributes:
        values: as given.
        names: of the parameters.
        written: those among them that kernels write to.
        spans: the memory that they use.
    """

    def __init__(self, values: Sequence[Any], names: Sequence[str], written: Sequence[str]) -> None:
        self.values = list(values)
        self.names = tuple(names)
        self.written = {path.split(".")[0].split("[")[0] for path in written}
        found: list[_Span] = []
        for name, value in zip(names, values, strict=True):
            for info in _tensors(value):
                low, high = _range(info)
                if low < high:
                    device = info.device_type, info.device_id
                    if info.device_type not in (CPU, CUDA):
                        raise ArgumentValueError(
                            "AUTOTUNE_ARGUMENT",
                            f"argument '{name}' is on {device_name(*device)}, and the tuner cannot copy it",
                            hint="tune with arguments in the memory of the host or of a CUDA device",
                        )
                    found.append(_Span(device, low, high, name in self.written))
        self.spans = _merged(found)

    def sets(self) -> list[Set]:
        """As many copies as a cache does not hold, and memory does: at least one."""
        total = sum(span.high - span.low for span in self.spans)
        if not total:
            return [Set(self)]
        device = self.spans[0].device
        wanted = max(2, min(_MOST_SETS, math.ceil(2 * cache_bytes(device) / total)))
        fits = max(1, _free_bytes(device) // _SHARE // total)
        return [Set(self) for _ in range(min(wanted, fits))]


def check_no_pointers(signature: Signature) -> None:
    """Refuses pointers, since how much memory to copy is not known.

    Raises:
        ArgumentValueError: naming the argument.
    """
    for parameter in signature.parameters:
        for path, kind in parameter.kind.leaves(parameter.name):
            if isinstance(kind, PointerKind):
                raise ArgumentValueError(
                    "AUTOTUNE_ARGUMENT",
                    f"{signature.name}: argument '{path}' is a pointer, and the tuner cannot copy it",
                    hint="make it a tensor, or call the function with all parameters of the space",
                )


def cache_bytes(device: tuple[int, int]) -> int:
    """The size of a device's last cache."""
    if device[0] == CUDA:
        return device_properties(device[1]).l2_cache_bytes
    try:
        text = Path("/sys/devices/system/cpu/cpu0/cache/index3/size").read_text().strip()
        return int(text.removesuffix("K")) << 10
    except (OSError, ValueError):
        return _CPU_CACHE_BYTES


def _free_bytes(device: tuple[int, int]) -> int:
    if device[0] == CUDA:
        return memory_info(device[1])[0]
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _device(device: tuple[int, int]) -> str | int:
    return "cpu" if device[0] == CPU else device[1]


def _tensors(value: Any) -> list[_native.TensorInfo]:
    return [info for _, info in _found(value)]


def _leaves(value: Any) -> list[Any]:
    return [tensor for tensor, _ in _found(value)]


def _found(value: Any) -> list[tuple[Any, _native.TensorInfo]]:
    """The tensors in an argument."""
    found: list[tuple[Any, _native.TensorInfo]] = []

    def note(value: Any, info: _native.TensorInfo) -> Any:
        found.append((value, info))
        return value

    _rebuilt(value, note)
    return found


def _class_of(value: object) -> type[Any]:
    return type(value)


def _rebuilt(value: Any, leaf: Callable[[Any, _native.TensorInfo], Any]) -> Any:
    """An argument with each of its tensors replaced."""
    while (adapter := _native.find_adapter(_class_of(value))) is not None:
        value = adapter(value)
    kind = _class_of(value)
    if issubclass(kind, tuple):
        items: list[Any] = [_rebuilt(item, leaf) for item in value]
        return kind(*items) if hasattr(kind, "_fields") else tuple(items)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    fields: Any = getattr(value, "__dataclass_fields__", None)
    if fields is not None and not isinstance(value, type):
        import dataclasses

        parts = {name: _rebuilt(getattr(value, name), leaf) for name in fields}
        changed = {n: part for n, part in parts.items() if part is not getattr(value, n)}
        return dataclasses.replace(value, **changed) if changed else value
    if value is None or isinstance(value, bool | int | float | str):
        return value
    info = _native.tensor_info(value)
    return value if info is None else leaf(value, info)


def _range(info: _native.TensorInfo) -> tuple[int, int]:
    """The addresses of a tensor's first byte, and after its last; equal if it has no elements."""
    address = info.data + info.byte_offset
    if 0 in info.shape:
        return address, address
    size = (info.dtype_bits * info.dtype_lanes + 7) // 8
    steps = [(n - 1) * stride for n, stride in zip(info.shape, info.strides, strict=True)]
    return (
        address + size * sum(step for step in steps if step < 0),
        address + size * (1 + sum(step for step in steps if step > 0)),
    )


def _merged(spans: Sequence[_Span]) -> list[_Span]:
    """The spans without overlaps."""
    result: list[_Span] = []
    for span in sorted(spans):
        last = result[-1] if result else None
        if last is not None and last.device == span.device and span.low < last.high:
            is_written = last.is_written or span.is_written
            result[-1] = _Span(span.device, last.low, max(last.high, span.high), is_written)
        else:
            result.append(span)
    return result


# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false


@kernel
def _difference_kernel(expected: weft.Tensor, got: weft.Tensor, largest: weft.Tensor) -> None:
    """Each iteration compares one element. Floats of at least 0 are in the order of their bits."""
    for index in weft.each(expected.shape):
        x, y = weft.f64(expected[index]), weft.f64(got[index])
        if not (expected[index] == got[index] or (x != x and y != y)):
            error = weft.f32(abs(x - y) / max(1.0, abs(x)))
            if error != error:
                error = weft.f32(math.inf)
            weft.atomic_max(largest, 0, weft.bitcast(max(error, 1e-30), weft.u32))


@jit
def _difference(expected: weft.Tensor, got: weft.Tensor, largest: weft.Tensor) -> None:
    _difference_kernel(expected, got, largest).launch(over=expected.shape)


def largest_difference(expected: Any, got: Any) -> float:
    """The largest difference of two tensors: absolute where the expected value is below 1, relative above.

    Two NaN are equal; NaN and a number differ by infinity.
    """
    if not expected.ndim:
        expected, got = expected[None], got[None]
    device = "cpu" if expected.device[0] == CPU else expected.device[1]
    largest = zeros(1, u32, device)
    _difference(expected, got, largest)
    bits = copy(empty(1, u32), largest).item()
    return struct.unpack("f", struct.pack("I", bits))[0]


def differing(
    expected: Iterable[tuple[str, Any]], got: Iterable[tuple[str, Any]], tolerance: float
) -> Iterator[tuple[str, float]]:
    """The tensors whose largest difference is above the tolerance: the name, and the difference."""
    for (name, wanted), (_, found) in zip(expected, got, strict=True):
        difference = largest_difference(wanted, found) if wanted.size else 0.0
        if difference > tolerance:
            yield name, difference
