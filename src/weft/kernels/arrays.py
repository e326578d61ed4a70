# SPDX-License-Identifier: Apache-2.0
"""What the functions of ``weft.kernels`` do with arrays of any library before weft's own call.

In: an array as a user passes it, and maybe one to write to. Out: its shape and element type; an output of the same
kind.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from weft.arguments.constant import Constexpr
from weft.arguments.tensor_spec import Tensor
from weft.driver.memory import empty
from weft.errors import brief
from weft.ffi.data_type import DataType
from weft.ffi.tensor import from_dlpack
from weft.types.dtype import f64, i32

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weft.types.dtype import DType

    # As type checkers see the parameters of kernels.
    Array = Any
    Constant = Any
    Float64 = Any
    Int32 = Any
else:
    Array, Constant, Float64, Int32 = Tensor, Constexpr, f64, i32


class Given(NamedTuple):
    """An array of any library.

    Attributes:
        array: as the user passed it.
        shape: its dimensions.
        dtype: weft's element type.
        type_name: the element type's name in array libraries.
        device: where it is.
    """

    array: Any
    shape: tuple[int, ...]
    dtype: DType
    type_name: str
    device: Any

    @property
    def rows(self) -> int:
        """How many rows of the last dimension it has."""
        rows = 1
        for size in self.shape[:-1]:
            rows *= size
        return rows


def given(array: object, name: str, *, is_float: bool = False) -> Given:
    """What an argument is.

    Args:
        array: of any library.
        name: of the argument, for messages.
        is_float: whether its elements have to be floats.

    Raises:
        TypeError: if it is not an array, or has other elements.
        ValueError: if it has no dimension.
    """
    try:
        tensor = from_dlpack(array)
    except TypeError:
        raise TypeError(f"{name} is {brief(array)}, expected an array") from None
    element = DataType(tensor.dtype)
    dtype = element.weft
    if dtype is None or (is_float and not (dtype.is_float and dtype.bits >= 16)):
        wanted = "16, 32 or 64-bit floats" if is_float else "numbers"
        raise TypeError(f"{name} has elements of {tensor.dtype}, expected {wanted}")
    if not tensor.shape:
        raise ValueError(f"{name} has no dimension, expected one or more")
    return Given(array, tuple(tensor.shape), dtype, element.name, tensor.device)


def output(
    like: Given, shape: Sequence[int], dtype: DType, type_name: str, out: object = None
) -> Any:
    """The array to write to: the user's, checked, or a new one of the same library and device as `like`.

    Raises:
        TypeError: if the user's is not an array, or has other elements.
        ValueError: if it has another shape or device.
    """
    if out is None:
        return _new(like, tuple(shape), dtype, type_name)
    try:
        tensor = from_dlpack(out)
    except TypeError:
        raise TypeError(f"out is {brief(out)}, expected an array") from None
    if DataType(tensor.dtype).weft is not dtype:
        raise TypeError(f"out has elements of {tensor.dtype}, expected {type_name}")
    if tuple(tensor.shape) != tuple(shape):
        raise ValueError(f"out has shape {tuple(tensor.shape)}, expected {tuple(shape)}")
    if tensor.device != like.device:
        raise ValueError(f"out is on {tensor.device}, expected {like.device}")
    return out


def _new(like: Given, shape: tuple[int, ...], dtype: DType, type_name: str) -> Any:
    torch: Any = sys.modules.get("torch")
    if torch is not None and isinstance(like.array, torch.Tensor):  # from torch's own allocator
        return torch.empty(shape, dtype=getattr(torch, type_name), device=like.array.device)
    made = empty(shape, dtype, str(like.device))
    kind = cast("type[Any]", type(like.array))
    return made if isinstance(made, kind) else made.to(kind)
