# SPDX-License-Identifier: Apache-2.0
"""`weft.mma.compress`: a 2:4 sparse matrix as its nonzero half and the metadata of `weft.mma.mma`.

In: a matrix of NumPy or torch. Out: the values, and the 32-bit words that each lane of a warp gives to the MMA, by
PTX's tables for `mma.sp`.
"""

from __future__ import annotations

import sys
from typing import Any, Final, cast

from weft.dialects.nvgpu.mma import sparse_step
from weft.errors import TypeMismatchError, ValueRangeError
from weft.language.numbers.convert import named_dtype
from weft.language.values import describe
from weft.types import dtype as types

_ELEMENTS: Final = (
    *(types.bf16, types.f16, types.f32, types.i8, types.u8),
    *(types.f8e4m3, types.f8e5m2),
)
# Bits of a chunk's nonzero elements → its two places, ascending.
_PAIRS: Final = [
    (0, 1), (0, 1), (0, 1), (0, 1), (0, 2), (0, 2), (1, 2), (0, 0),
    (0, 3), (0, 3), (1, 3), (0, 0), (2, 3), (0, 0), (0, 0), (0, 0),
]  # fmt: skip


def compressed(dense: Any) -> tuple[Any, Any]:
    """As `weft.mma.compress`."""
    numpy, torch = (cast("Any", sys.modules.get(name)) for name in ("numpy", "torch"))
    is_torch = torch is not None and isinstance(dense, torch.Tensor)
    is_numpy = numpy is not None and isinstance(dense, numpy.ndarray)
    shape = cast("tuple[int, ...]", tuple(getattr(dense, "shape", ())))
    if not (is_torch or is_numpy) or len(shape) != 2:
        raise TypeMismatchError(
            "MMA_COMPRESS",
            f"mma.compress takes a matrix of NumPy or torch, received {describe(dense)}"
            + (f" of shape {shape}" if shape else ""),
        )
    dtype = named_dtype(dense.dtype)
    if dtype not in _ELEMENTS:
        raise TypeMismatchError(
            "MMA_COMPRESS",
            f"mma.compress: tensor cores do not multiply a sparse {dtype}; they do {', '.join(map(str, _ELEMENTS))}",
        )
    rows, depth = shape[0], shape[1]
    step = sparse_step(dtype.itemsize)
    if not rows or not depth or rows % 16 or depth % step:
        raise ValueRangeError(
            "MMA_SHAPE",
            f"mma.compress: the matrix is {rows} x {depth}; of {dtype}, rows are a multiple of 16 and columns "
            f"of {step}",
            hint="pad it with zeros",
        )
    arrays = _Torch(torch, dense) if is_torch else _NumPy(numpy)
    chunk = 2 if dtype is types.f32 else 4
    words = arrays.bits(dense, dtype.bits).reshape(rows, depth // chunk, chunk)
    magnitudes = words & ((1 << (dtype.bits - 1)) - 1) if dtype.is_float else words
    is_nonzero = magnitudes != 0
    counts = is_nonzero.sum(-1)
    if int(counts.max()) > chunk // 2:
        place = int(arrays.integers(counts > chunk // 2).reshape(-1).argmax())
        row, number = divmod(place, depth // chunk)
        raise ValueRangeError(
            "MMA_SPARSITY",
            f"mma.compress: row {row} has {int(counts[row, number])} nonzero elements in the columns "
            f"{chunk * number} to {chunk * (number + 1) - 1}; of {dtype} at most {chunk // 2} of {chunk} may be",
            hint="set the smallest to zero first",
        )
    masks: Any = sum(arrays.integers(is_nonzero[..., place]) << place for place in range(chunk))
    if chunk == 2:
        places = (masks >> 1)[..., None]
        codes = 4 + 10 * places[..., 0]  # 0b0100 or 0b1110
    else:
        places = arrays.constant(_PAIRS)[masks]
        codes = places[..., 0] | places[..., 1] << 2
    values = arrays.take(words, places).reshape(rows, depth // 2)
    return arrays.as_elements(values, dense), arrays.words(_metadata(arrays, codes, dtype.itemsize))


def _metadata(arrays: Any, codes: Any, itemsize: int) -> Any:
    """The words of each lane, M / 16 x parts x 32, from four bits for each chunk, M x K / 4 or K / 2."""
    rows, chunks = codes.shape
    held = 8 if itemsize == 1 else 4  # chunks of a row in a word
    shifted = codes.reshape(rows, chunks // held, held) << arrays.constant(
        [4 * n for n in range(held)]
    )
    parts = shifted.sum(-1)
    blocks = rows // 16
    if itemsize == 1:
        # Of a row's four lanes, two have one row each, and two the next part of K.
        split = parts.reshape(blocks, 2, 8, parts.shape[1] // 2, 2)
        return arrays.transposed(split, (0, 3, 2, 4, 1)).reshape(blocks, -1, 32)
    if parts.shape[1] % 4:
        # The instruction that the last register does not serve; any valid bits.
        parts = arrays.joined(parts, 0 * parts[:, :2] + 0x4444)
    both = parts.reshape(blocks, 2, 8, parts.shape[1] // 4, 4)
    words = both[:, 0] | both[:, 1] << 16
    return arrays.transposed(words, (0, 2, 1, 3)).reshape(blocks, -1, 32)


class _NumPy:
    """The operations that differ between libraries, on i64 and on elements' bits."""

    def __init__(self, library: Any) -> None:
        self.library = library

    def bits(self, array: Any, bits: int) -> Any:
        return self.library.ascontiguousarray(array).view(f"u{bits // 8}")

    def integers(self, array: Any) -> Any:
        return array.astype("i8")

    def constant(self, numbers: Any) -> Any:
        return self.library.array(numbers, "i8")

    def take(self, array: Any, places: Any) -> Any:
        return self.library.take_along_axis(array, places, -1)

    def as_elements(self, array: Any, dense: Any) -> Any:
        return array.view(dense.dtype)

    def transposed(self, array: Any, order: tuple[int, ...]) -> Any:
        return array.transpose(order)

    def joined(self, left: Any, right: Any) -> Any:
        return self.library.concatenate([left, right], 1)

    def words(self, array: Any) -> Any:
        return self.library.ascontiguousarray(array).astype("u4")


class _Torch(_NumPy):
    def __init__(self, library: Any, dense: Any) -> None:
        super().__init__(library)
        self.device = dense.device

    def bits(self, array: Any, bits: int) -> Any:
        return array.detach().contiguous().view(getattr(self.library, f"int{bits}"))

    def integers(self, array: Any) -> Any:
        return array.to(self.library.int64)

    def constant(self, numbers: Any) -> Any:
        return self.library.tensor(numbers, device=self.device)

    def take(self, array: Any, places: Any) -> Any:
        return self.library.take_along_dim(array, places, -1)

    def transposed(self, array: Any, order: tuple[int, ...]) -> Any:
        return array.permute(order)

    def joined(self, left: Any, right: Any) -> Any:
        return self.library.cat([left, right], 1)

    def words(self, array: Any) -> Any:
        return array.to(self.library.int32).contiguous().view(self.library.uint32)
