# SPDX-License-Identifier: Apache-2.0
"""JAX's arrays, which are immutable: results are written before they become arrays of JAX.

In: a call of a function of arrays. Out: its result. JAX is not imported.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, cast

import weft
from weft.kernels.annotations import Arguments, Keywords

if TYPE_CHECKING:
    from collections.abc import Callable

_SUMS: Final = ("sum", "cumsum")  # of narrower integers they have 64 bits


def with_jax(
    jax: Any, function: Callable[..., Any], arguments: Arguments, keywords: Keywords
) -> Any:
    """Calls a function, converts results to arrays of JAX where arguments are, and synchronizes the GPU."""
    kinds: list[Any] = [
        type(value)
        for value in (*arguments, *keywords.values())
        if isinstance(value, jax.Array) and not isinstance(value, jax.core.Tracer)
    ]
    if not kinds:
        return function(*arguments, **keywords)

    def memory_of(value: Any) -> Any:
        if not isinstance(value, jax.Array):
            return value
        return weft.ffi.from_dlpack(value.block_until_ready())

    result: Any = function(
        *map(memory_of, arguments),
        **{name: memory_of(value) for name, value in keywords.items()},
    )
    if function.__name__ in _SUMS:
        _check_precision(result)
    if isinstance(result, tuple):
        results = cast("tuple[Any, ...]", result)
        return tuple(_given_back(one, kinds[0]) for one in results)
    return _given_back(result, kinds[0])


def _given_back(result: Any, kind: Any) -> Any:
    if not isinstance(result, weft.ffi.Tensor):
        return result
    weft.synchronize(str(result.device))
    return result.to(kind)


def _check_precision(result: Any) -> None:
    """Raises where JAX, which has no 64-bit types unless `jax_enable_x64` is set, would change integers.

    Raises:
        OverflowError: for integers beyond 32 bits.
    """
    jax: Any = sys.modules["jax"]
    if jax.config.jax_enable_x64 or not isinstance(result, weft.ffi.Tensor) or 0 in result.shape:
        return
    kind = weft.ffi.DataType(result.dtype).weft
    if kind is None or kind not in (weft.i64, weft.u64):
        return
    narrow = weft.i32 if kind is weft.i64 else weft.u32
    lowest = -(1 << 31) if narrow is weft.i32 else 0
    extremes: Any = (result,)
    if result.shape:  # two numbers are copied from the device, not the sums
        kernels: Any = import_module("weft.kernels")
        extremes = kernels.min(result), kernels.max(result)
    for extreme in extremes:
        number = int(weft.copy(weft.empty((), kind, "cpu"), extreme).item())
        if not lowest <= number < lowest + (1 << 32):
            raise OverflowError(
                f"the result has {number}, an {kind} that {narrow} cannot hold, and JAX has no 64-bit types now: "
                'set jax.config.update("jax_enable_x64", True)'
            )
