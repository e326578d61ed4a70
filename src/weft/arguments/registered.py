# SPDX-License-Identifier: Apache-2.0
"""Users' own classes as arguments: `weft.register_argument`.

In: a class and a function that converts an instance to an argument. Out: the value that the other kinds look
at. The marshaller keeps the table, which every path shares.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from weft import _native
from weft.arguments.base import describe
from weft.errors import SignatureError

if TYPE_CHECKING:
    from collections.abc import Callable

    from weft.arguments.base import Place

_DEEPEST: Final = 32  # chained adapters


def register_argument(type: type, adapter: Callable[[Any], object]) -> None:
    """Makes instances of a class acceptable as arguments: ``adapter(instance)`` is passed in their place.

    This holds for examples of `weft.compile`, direct calls, calls of compiled functions, and items of containers.
    Functions see the adapter's result: a tensor, a number, or a tuple, named tuple or frozen dataclass of these, with
    its own kind and specialization. The adapter may run several times per call and should be fast and free of side
    effects.

    Args:
        type: the class; instances of its subclasses are registered on their own.
        adapter: a function of one instance.

    Raises:
        SignatureError: if `type` is not a class, or weft already knows how to pass its instances.

    Example:
        >>> class Image:
        ...     def __init__(self, pixels):
        ...         self.pixels = pixels
        >>> weft.register_argument(Image, lambda image: image.pixels)
    """
    if not isinstance(type, _TYPE):
        raise _error(f"register_argument takes a class, received {describe(type)}")
    if not callable(adapter):
        raise _error(
            f"register_argument takes a function of one value, received {describe(adapter)}"
        )
    try:
        _native.register_adapter(type, adapter)
    except ValueError as error:
        raise _error(str(error)) from None


def adapted(value: object, place: Place) -> tuple[object, bool]:
    """Adapt a value, and say whether the result differs from it.

    Raises:
        SignatureError: if adapters of registered classes form a cycle.
    """
    was_adapted = False
    for _ in range(_DEEPEST):
        adapter = _native.find_adapter(type(value))
        if adapter is None:
            return value, was_adapted
        value, was_adapted = adapter(value), True
    raise place.error(
        "ARGUMENT_ADAPTER",
        f"the adapter of {type(value).__qualname__} returns values that need adapters, without end",
    )


_TYPE: Final = type  # `type` is a parameter above


def _error(message: str) -> SignatureError:
    return SignatureError("ARGUMENT_REGISTRATION", message)
