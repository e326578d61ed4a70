# SPDX-License-Identifier: Apache-2.0
"""Copies of boxes of tensors by the copy engine: ``weft.tma``.

In: a tensor map, the index of a box, a tile in shared memory. Out: copies that run beside the threads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from weft.dialects.nvgpu.tma import TmaPrefetchOp
from weft.errors import TypeMismatchError
from weft.language.numbers.convert import convert, expect_scalar
from weft.language.operation import operation
from weft.language.values import Scalar, TensorMap, describe
from weft.types import dtype as types

if TYPE_CHECKING:
    from xdsl.ir import SSAValue

    from weft.dialects.builder import Builder


@operation(name="tma.prefetch")
def prefetch(builder: Builder, tensor_map: object, index: object = None) -> None:
    """Fetches a tensor map before it is first used, or a box of its tensor into the L2 cache.

    One thread of a grid's blocks is enough. It changes nothing but times, and does nothing on the CPU.

    Args:
        tensor_map: a parameter of the kernel.
        index: of the first element of a box, as for `tma.load`; without it the map itself is fetched.

    Raises:
        TypeMismatchError: for what is not a tensor map, or a wrong number of indices.
        UnavailableError: before sm_90.

    Example:
        ``weft.tma.prefetch(source)``
    """
    found = _map(tensor_map, "prefetch")
    indices = [] if index is None else _indices(builder, "prefetch", found, index)
    builder.emit(TmaPrefetchOp(found.ssa, indices))


def _map(value: object, name: str) -> TensorMap:
    if isinstance(value, TensorMap):
        return value
    raise TypeMismatchError(
        "TMA_MAP",
        f"tma.{name}: the first argument must be a tensor map, received {describe(value)}",
        hint="annotate the kernel's parameter weft.TensorMap, and pass it weft.tensor_map(a, box=...)",
    )


def _indices(builder: Builder, name: str, tensor_map: TensorMap, index: object) -> list[SSAValue]:
    """The index of a box's first element, one i32 per dimension; it may be outside the tensor."""
    parts = cast("tuple[object, ...]", index) if isinstance(index, tuple) else (index,)
    rank = len(tensor_map.type.box)
    if len(parts) != rank:
        raise TypeMismatchError(
            "TMA_INDEX",
            f"tma.{name}: {tensor_map.name} has rank {rank}, received "
            f"{len(parts)} {'index' if len(parts) == 1 else 'indices'}",
            hint="give the index of the box's first element, in elements, one number per dimension",
        )
    return [_index(builder, name, part) for part in parts]


def _index(builder: Builder, name: str, part: object) -> SSAValue:
    found = expect_scalar(builder, part, f"tma.{name}: an index")
    if isinstance(found, Scalar):
        is_integer = found.dtype.is_integer and not found.dtype.is_bool
    else:
        is_integer = isinstance(found, int) and not isinstance(found, bool)
    if not is_integer:
        raise TypeMismatchError(
            "TMA_INDEX", f"tma.{name}: an index is {describe(part)}; expected an integer"
        )
    return convert(builder, found, types.i32).ssa
