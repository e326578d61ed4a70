# SPDX-License-Identifier: Apache-2.0
"""JAX's arrays, which are immutable: results are written before they become arrays of JAX.

In: a call of a function of arrays. Out: its result. JAX is not imported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from weft.driver.device import synchronize
from weft.ffi.tensor import Tensor, from_dlpack

if TYPE_CHECKING:
    from collections.abc import Callable


def with_jax(
    jax: Any, function: Callable[..., Any], arguments: tuple[Any, ...], keywords: dict[str, Any]
) -> Any:
    """Calls a function, which gives arrays of JAX where it is given some; then it waits for a GPU."""
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
        return from_dlpack(value.block_until_ready())

    result: Any = function(
        *map(memory_of, arguments),
        **{name: memory_of(value) for name, value in keywords.items()},
    )
    if isinstance(result, tuple):
        results = cast("tuple[Any, ...]", result)
        return tuple(_given_back(one, kinds[0]) for one in results)
    return _given_back(result, kinds[0])


def _given_back(result: Any, kind: Any) -> Any:
    if not isinstance(result, Tensor):
        return result
    synchronize(str(result.device))
    return result.to(kind)
