# SPDX-License-Identifier: Apache-2.0
"""`weft.warmup`: compiles for a call without launching.

In: a function, arguments or stand-ins for them, maybe another GPU. Out: compiled functions, in this process and in the
cache on disk.
"""

from __future__ import annotations

import re
from math import prod
from typing import TYPE_CHECKING, Any, Final, cast

from weft.config import call_mode, overridden
from weft.driver.memory import empty
from weft.errors import brief
from weft.ffi.tensor import packed, tensor_at
from weft.tracebacks import one_frame
from weft.types.capabilities import multiprocessor
from weft.types.device import CPU, CUDA
from weft.types.dtype import DType, u8

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_ALIGNMENT: Final = 256  # of whole arrays, by the libraries' allocators
_FIRST: Final = 1 << 44  # no memory is there, and none is read


class Warmup:
    """A running `weft.warmup`.

    Attributes:
        architecture: of the GPU that code is for; None: of the device where the arguments are.
        multiprocessors: of that GPU.
        compiled: how many functions were compiled, or read from the cache.
    """

    def __init__(self, architecture: str | None, multiprocessors: int) -> None:
        self.architecture, self.multiprocessors, self.compiled = architecture, multiprocessors, 0
        self._next = _FIRST

    @property
    def capability(self) -> tuple[int, int]:
        """The compute capability of the architecture."""
        number = int(re.sub(r"\D", "", self.architecture or ""))
        return divmod(number, 10)

    @property
    def shared_bytes(self) -> int:
        """The most shared memory of a block."""
        found = multiprocessor(self.architecture or "")
        return (found.shared << 10) - found.reserved

    def array(
        self,
        shape: Sequence[int],
        dtype: DType,
        device: tuple[int, int],
        strides: Sequence[int] | None = None,
        alignment: int = _ALIGNMENT,
    ) -> Any:
        """A stand-in for an array: on a GPU it has an address, but no memory."""
        sizes = tuple(shape)
        if device[0] == CPU and strides is None and alignment == _ALIGNMENT:
            # The system provides it only when it is touched.
            if not dtype.is_packed:
                return empty(sizes, dtype)
            return packed(empty((*sizes[:-1], dtype.storage_bytes(sizes[-1])), u8), dtype)
        if strides is None:
            strides = [prod(sizes[axis + 1 :]) for axis in range(len(sizes))]
        address = -(-self._next // (2 * _ALIGNMENT)) * 2 * _ALIGNMENT + alignment
        reach = 1 + sum(abs(step) * max(n - 1, 0) for n, step in zip(sizes, strides, strict=True))
        span = dtype.storage_bytes(reach) + _ALIGNMENT
        self._next = address + 2 * span
        element = dtype.dlpack_code, dtype.bits, 1
        return tensor_at(address + span // alignment * alignment, sizes, strides, element, device)


def running() -> Warmup | None:
    """The `weft.warmup` of the calling context."""
    return cast("Warmup | None", overridden("warmup"))


@one_frame("weft.warmup")
def warmup(
    function: Callable[..., object],
    /,
    *arguments: object,
    arch: str | None = None,
    multiprocessors: int = 132,
    **keywords: object,
) -> int:
    """Compiles what ``function(*arguments, **keywords)`` would compile, and launches nothing.

    Later calls with such arguments find the code in this process, and in others through the cache on disk.

    Args:
        function: of ``weft.kernels``, made by ``@weft.jit``, or a Python function that calls such functions and reads
            no result.
        arguments, keywords: of the call. ``weft.fake_tensor(dtype, shape)`` stands for an array, also within tuples and
            lists: it takes no memory of a GPU. Its sizes are numbers; without `strides` it is contiguous, without
            `alignment_bytes` it is aligned to 256 bytes, as new arrays are, and without `device` it is on ``"cuda"`` if
            `arch` is given, else on ``"cpu"``.
        arch: the GPU's architecture, such as ``"sm_90a"``, which need not be in this machine; None: that of the
            arguments' device.
        multiprocessors: of the GPU, with `arch`; ``weft.kernels`` chooses by them. 132 has an H100 SXM or H200.

    Returns:
        How many programs were compiled, or read from the cache; 0 if this process had all.

    Raises:
        TypeError: if a stand-in has a symbolic size or stride.
        CompileError, OptionError: as the call.

    Example:
        >>> rows = weft.fake_tensor(weft.f32, (64, 1000))
        >>> compiled = weft.warmup(weft.kernels.softmax, rows)
        >>> weft.warmup(weft.kernels.softmax, rows)  # this process has all
        0
    """
    if not callable(function):
        raise TypeError(f"weft.warmup takes a function, received {brief(function)}")
    if arch is not None and re.fullmatch(r"sm_[1-9]\d{1,2}[af]?", arch) is None:
        raise ValueError(f"arch is {brief(arch)}, expected an architecture such as 'sm_90a'")
    state = Warmup(arch, multiprocessors)
    own = [_stand_in(state, one, f"argument {place}") for place, one in enumerate(arguments, 1)]
    named = {name: _stand_in(state, one, f"argument '{name}'") for name, one in keywords.items()}
    with call_mode("warmup", state):
        function(*own, **named)
    return state.compiled


def _stand_in(state: Warmup, value: object, name: str) -> Any:
    """An argument with arrays for all fakes in it."""
    if type(value) in (tuple, list):
        items = [_stand_in(state, one, name) for one in cast("Sequence[object]", value)]
        return items if type(value) is list else tuple(items)
    fake: Any = value
    if not hasattr(fake, "example_device") or not hasattr(fake, "alignment_bytes"):
        return fake
    for what, sizes in (("shape", fake.dims), ("strides", fake.strides)):
        if sizes is None and what == "shape":
            raise TypeError(f"{name} has no shape, expected weft.fake_tensor(dtype, shape)")
        for size in sizes or ():
            if type(size) is not int:
                raise TypeError(f"{name}: {what} {brief(sizes)} of a stand-in must be numbers")
    kind = fake.device_type
    if kind is None:
        kind = CPU if state.architecture is None else CUDA
    device = kind, fake.device_index or 0
    return state.array(fake.dims, fake.dtype, device, fake.strides, fake.alignment_bytes or 256)
