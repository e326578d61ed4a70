# SPDX-License-Identifier: Apache-2.0
"""Users' own classes as arguments: `weft.register_argument`.

In: a class and a function that gives what is passed in place of an instance. Out: the value that the other kinds look
at. The marshaller keeps the table, so that every path asks the same one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from weft import _native
from weft.arguments.base import describe
from weft.errors import SignatureError

if TYPE_CHECKING:
    from collections.abc import Callable

    from weft.arguments.base import Place

_DEEPEST: Final = 32  # adapters that give instances of registered classes


def register_argument(type: type, adapter: Callable[[Any], object]) -> None:
    """Makes instances of a class arguments: wherever one is given, ``adapter(instance)`` is passed in its place.

    This holds for examples of `weft.compile`, for direct calls, for calls of compiled functions and inside
    containers. Functions see what the adapter gives: a tensor, a number, a tuple, a named tuple or a frozen
    dataclass of these, which then has a kind and a specialization of its own. The adapter is called once or
    more per call, and should be quick and without effects.

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
    """What is passed in place of a value, and whether that is another one.

    Raises:
        SignatureError: if the adapters of registered classes go round in a circle.
    """
    was_adapted = False
    for _ in range(_DEEPEST):
        adapter = _native.find_adapter(type(value))
        if adapter is None:
            return value, was_adapted
        value, was_adapted = adapter(value), True
    raise place.error(
        "ARGUMENT_ADAPTER",
        f"the adapter of {type(value).__qualname__} gives values that have adapters again and again",
    )


_TYPE: Final = type  # `type` is a parameter above


def _error(message: str) -> SignatureError:
    return SignatureError("ARGUMENT_REGISTRATION", message)
