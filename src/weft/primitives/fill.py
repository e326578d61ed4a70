# SPDX-License-Identifier: Apache-2.0
"""Tensors that a host function makes like others, and those that it fills: ``weft.empty_like(a)``, ``a.fill_(value)``.

In: a tensor of a host function and a number. Out: a tensor of the caller's allocator; a launch that writes the number
to each element, in the order of the call's stream or of the one given.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import weft
from weft.errors import TypeMismatchError
from weft.language.functions import KernelFunction, device_function
from weft.language.memory.views import reshape
from weft.language.numbers.convert import stored
from weft.language.operation import operation

if TYPE_CHECKING:
    from weft.dialects.builder import Builder
    from weft.language.values import Scalar, Tensor


@operation(on_host=True, in_kernels=False, packed=True, takes_complex=True)
def _flat(builder: Builder, tensor: Tensor) -> Tensor:
    """The tensor with one dimension if its elements are adjacent, so that they are written 16 bytes at a time."""
    if tensor.type.layout.data == "contiguous" and tensor.rank != 1:
        return reshape.emit(builder, tensor, -1)
    return tensor


@operation(on_host=True, in_kernels=False, packed=True, takes_complex=True)
def _element(builder: Builder, tensor: Tensor, value: object) -> Scalar:
    """The number as an element of the tensor, converted as a store converts it.

    Raises:
        TypeMismatchError: for a number that a store would not take, and packed elements.
    """
    if tensor.dtype.is_packed:
        raise TypeMismatchError(
            "FILL_TENSOR",
            f"fill_: {tensor.name} holds packed elements, several to a byte",
            hint="pass the tensor of its bytes too, and fill that",
        )
    try:
        return stored(builder, value, tensor.dtype)
    except TypeMismatchError as error:
        text = f"{tensor.name} holds {tensor.dtype}: {error.message}"
        raise TypeMismatchError(error.code, text, hint=error.hint) from None


def _fill_kernel(a: Any, value: Any) -> None:
    for index in weft.each(a.shape):
        a[index] = value


_FILL: Final[Any] = KernelFunction(_fill_kernel)


@device_function("Tensor.fill_", on_host=True)
def fill_(a: Any, value: Any, stream: Any = None) -> None:
    """Writes a number to each element of a tensor, in a host function: a launch, in the order of its stream.

    Args:
        a: a tensor of any layout; ``a.fill_(...)`` passes it.
        value: a number, converted as in ``a[i] = value``.
        stream: a `weft.Stream` parameter; by default the call's.

    Raises:
        TypeMismatchError: for packed elements, or a number that would be narrowed.

    Example:
        ``a.fill_(-1.0); kernel(a).launch(grid=1, block=32)``
    """
    element, flat = _element(a, value), _flat(a)
    _FILL(flat, element).launch(over=flat.shape, stream=stream)


@device_function("Tensor.zero_", on_host=True)
def zero_(a: Any, stream: Any = None) -> None:
    """Writes 0 to each element of a tensor, in a host function: ``a.fill_(0)``.

    Args:
        a: a tensor of any layout; ``a.zero_()`` passes it.
        stream: as for `fill_`.

    Example:
        ``histogram.zero_(); kernel(histogram).launch(grid=1, block=256)``
    """
    element, flat = _element(a, 0), _flat(a)
    _FILL(flat, element).launch(over=flat.shape, stream=stream)


@device_function("empty_like", on_host=True)
def empty_like(a: Any, dtype: Any = None) -> Any:
    """A contiguous tensor with the shape of another, not cleared, in a host function: ``weft.empty(a.shape, a.dtype)``.

    Args:
        a: a tensor of any layout.
        dtype: of the new elements; by default those of `a`.

    Example:
        ``out = weft.empty_like(a); kernel(out).launch(grid=1, block=32); return out``
    """
    return weft.empty(a.shape, a.dtype if dtype is None else dtype)


@device_function("zeros_like", on_host=True)
def zeros_like(a: Any, dtype: Any = None) -> Any:
    """A contiguous tensor of zeros with the shape of another, in a host function; filled by a launch.

    Args:
        a, dtype: as of `weft.empty_like`.

    Example:
        ``bins = weft.zeros_like(a, weft.i32); kernel(bins).launch(grid=1, block=32); return bins``
    """
    return weft.zeros(a.shape, a.dtype if dtype is None else dtype)


@device_function("full_like", on_host=True)
def full_like(a: Any, value: Any, dtype: Any = None) -> Any:
    """A contiguous tensor with the shape of another and one value everywhere, in a host function.

    Args:
        a, dtype: as of `weft.empty_like`.
        value: as of `Tensor.fill_`.

    Example:
        ``best = weft.full_like(a, -1.0); kernel(best).launch(grid=1, block=32); return best``
    """
    return weft.full(a.shape, value, a.dtype if dtype is None else dtype)
