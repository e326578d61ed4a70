# SPDX-License-Identifier: Apache-2.0
"""``weft.kernels.gemm`` and ``matmul``: products of matrices and of stacks of them, by the kernel that suits.

In: arrays of floats of any layout. Out: an array. On a Hopper GPU 16-bit and 8-bit floats go through
`hopper_products`, where the copy engine can read them; 16-bit floats on other GPUs from sm_80 on, or in other layouts,
through `warp_products`; everything else through `tiled_products`.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from weft.driver.device import device_properties
from weft.errors import brief
from weft.ffi.data_type import DataType
from weft.kernels import hopper_products, tiled_products, warp_products
from weft.kernels.arrays import Given, element_type, given, output
from weft.kernels.endings import Ending, activation_of
from weft.kernels.gradients import differentiable
from weft.types.dtype import DType, f64

if TYPE_CHECKING:
    from weft.ffi.device import Device

_CHUNK: Final = (
    16  # bytes, of which the copy engine's strides and the threads' copies are multiples
)
_MOST_RANK: Final = 5  # of a tensor map


def _like_product(a: Any, b: Any, *_: Any) -> Any:
    stack = a.shape[:-2] or b.shape[:-2]
    return a.new_empty((*stack, a.shape[-2], b.shape[-1]))


def _matmul_backward(gradient: Any, _: Any, a: Any, b: Any) -> Any:
    by_left = matmul(gradient, b.mT)
    if a.ndim < by_left.ndim:
        by_left = by_left.flatten(0, -3).sum(0)
    if b.ndim < gradient.ndim:  # one matrix: the rows of all of a's together
        rows = a.reshape(-1, a.shape[-1]), gradient.reshape(-1, gradient.shape[-1])
        return by_left, matmul(rows[0].mT, rows[1])
    return by_left, matmul(a.mT, gradient)


@differentiable(_like_product, _matmul_backward)
def matmul(a: Any, b: Any, out: Any = None) -> Any:
    """The product of two matrices, or of two stacks of them: ``a @ b``.

    Args:
        a: an array of floats, (..., m, k), of 8, 16, 32 or 64 bits and any layout. Summed in f32, or f64 for f64.
        b: an array of floats, (..., k, n), of a's type; 8-bit types may differ. The leading dimensions are those of
            `a`, or one of the two has none, and its matrix is multiplied with each of the other's.
        out: an array of the result's shape, of 16, 32 or 64-bit floats, that does not overlap the others; None: a new
            one of a's library and type, bfloat16 for 8-bit floats.

    Returns:
        `out`, or the new array.

    Raises:
        TypeError: for something else than arrays of floats, or of two types.
        ValueError: for shapes that do not fit; for arrays on different devices.

    Example:
        >>> import numpy as np, weft
        >>> weft.kernels.matmul(np.ones((2, 3)), np.ones((3, 1))).tolist()
        [[3.0], [3.0]]
    """
    return gemm(a, b, out=out)


def gemm(
    a: Any,
    b: Any,
    bias: Any = None,
    activation: Any = None,
    residual: Any = None,
    alpha: float = 1.0,
    beta: float = 1.0,
    dtype: Any = None,
    out: Any = None,
) -> Any:
    """A product and what follows it: ``activation(alpha · a @ b + bias) + beta · residual``, rounded once.

    Args:
        a: as in `matmul`.
        b: as in `matmul`. A layer's weight, (n, k), is passed as its transposed view, which is not copied.
        bias: a vector of floats, one per column; None: 0.
        activation: ``"relu"``, ``"gelu"``, ``"gelu_tanh"``, ``"silu"``, or a function of a number that kernels can
            call; None: the number itself.
        residual: an array of floats of the result's shape and any layout, which may be `out` itself; None: 0.
        alpha: a factor of the product. For 8-bit floats: the product of both scales.
        beta: a factor of the residual.
        dtype: of the result: ``weft.f32``, a name such as ``"float32"``, or a type of the array library; None: out's,
            else a's, or bfloat16 for 8-bit floats.
        out: as in `matmul`.

    Returns:
        `out`, or the new array.

    Raises:
        TypeError: as `matmul`; for another activation or dtype.
        ValueError: as `matmul`; for a bias or residual of another shape.

    Example:
        >>> import numpy as np, weft
        >>> a, weight = np.array([[1.0, 2.0]]), np.array([[3.0, 4.0], [-5.0, 1.0]])
        >>> weft.kernels.gemm(a, weight.T, bias=np.array([1.0, 1.0]), activation="relu").tolist()
        [[12.0, 0.0]]
        >>> weft.kernels.gemm(a, weight.T, activation=lambda x: x * x, dtype="float32").tolist()
        [[121.0, 9.0]]
    """
    left, right = _factor(a, "a"), _factor(b, "b")
    _check_factors(left, right)
    stack = left.shape[:-2] or right.shape[:-2]
    shape = (*stack, left.shape[-2], right.shape[-1])
    kind, name = _result_type(left, dtype, out)
    out = output(left, shape, kind, name, out)
    _check_bias(left, bias, shape[-1])
    if residual is not None:
        _check_residual(left, residual, shape)
    ending = Ending(
        None if alpha == 1 else float(alpha),
        bias,
        activation_of(activation),
        None if residual is None or beta == 1 else float(beta),
        residual,
    )
    if 0 not in shape:
        _multiply(left, right, given(out, "out"), ending)
    return out


def _factor(array: object, name: str) -> Given:
    found = given(array, name)
    if not found.dtype.is_float:
        raise TypeError(f"{name} has elements of {found.type_name}, expected floats")
    if len(found.shape) < 2:
        raise ValueError(f"{name} has shape {found.shape}, expected a matrix or a stack of them")
    return found


def _check_factors(left: Given, right: Given) -> None:
    if left.dtype is not right.dtype and not (left.dtype.is_float8 and right.dtype.is_float8):
        raise TypeError(f"b has elements of {right.type_name}, expected {left.type_name} as a")
    if left.device != right.device:
        raise ValueError(f"b is on {right.device}, expected {left.device}")
    if left.shape[-1] != right.shape[-2]:
        raise ValueError(
            f"b has shape {right.shape}, expected {left.shape[-1]} rows, as a has columns"
        )
    stacks = left.shape[:-2], right.shape[:-2]
    if all(stacks) and stacks[0] != stacks[1]:
        raise ValueError(f"b is a stack of {stacks[1]} matrices, expected {stacks[0]} as a, or one")


def _result_type(left: Given, dtype: Any, out: Any) -> tuple[DType, str]:
    if dtype is None:
        if out is not None:
            found = given(out, "out", is_float=True)
            return found.dtype, found.type_name
        if left.dtype.is_float8:
            return element_type(DataType("bfloat16"))  # type: ignore[return-value]
        return left.dtype, left.type_name
    try:
        name = str(getattr(dtype, "__name__", dtype)).rpartition(".")[-1]
        kind, name = element_type(DataType(dtype if isinstance(dtype, DType) else name))
    except (TypeError, ValueError):
        raise TypeError(f"dtype is {brief(dtype)}, expected a type of floats") from None
    if kind is None or not kind.is_float or kind.is_float8:
        raise TypeError(f"dtype is {brief(dtype)}, expected 16, 32 or 64-bit floats")
    return kind, name


def _check_bias(left: Given, bias: object, columns: int) -> None:
    if bias is None:
        return
    found = given(bias, "bias", is_float=True)
    if found.shape != (columns,):
        raise ValueError(f"bias has shape {found.shape}, expected ({columns},)")
    if found.device != left.device:
        raise ValueError(f"bias is on {found.device}, expected {left.device}")


def _check_residual(left: Given, residual: object, shape: tuple[int, ...]) -> None:
    found = given(residual, "residual", is_float=True)
    if found.shape != shape:
        raise ValueError(f"residual has shape {found.shape}, expected {shape}")
    if found.device != left.device:
        raise ValueError(f"residual is on {found.device}, expected {left.device}")


class Stored(NamedTuple):
    """A factor as it lies in memory.

    Attributes:
        array: the user's, or a view of it with the last two dimensions exchanged.
        is_exchanged: whether it is such a view.
        has_chunks: whether all rows of `array` begin at multiples of 16 bytes, without gaps between elements.
        is_whole: whether their lengths are such multiples, too.
    """

    array: Any
    is_exchanged: bool
    has_chunks: bool
    is_whole: bool


def stored(factor: Given) -> Stored:
    """How a factor lies: along its rows, or else along its columns."""
    *leading, pitch, step = factor.strides
    rows, columns = factor.shape[-2:]
    array, is_exchanged = factor.array, False
    if step != 1 and (pitch == 1 or rows == 1):
        array = _exchanged(factor.array)
        is_exchanged = array is not None
        if array is None:
            array = factor.array
        else:
            pitch, step, columns = step, pitch, rows
    size = factor.dtype.itemsize
    strides = [
        stride for stride, length in zip(leading, factor.shape[:-2], strict=True) if length != 1
    ]
    has_chunks = (
        step == 1
        and factor.address % _CHUNK == 0
        and all(stride > 0 and stride * size % _CHUNK == 0 for stride in (*strides, pitch))
    )
    return Stored(array, is_exchanged, has_chunks, has_chunks and columns * size % _CHUNK == 0)


def _exchanged(array: Any) -> Any:
    """A view with the last two dimensions exchanged; None where the library has none."""
    for name in ("swapaxes", "transpose"):  # of NumPy and CuPy, of torch
        method = getattr(array, name, None)
        if method is not None:
            return method(-1, -2)
    return None


@cache
def capability(device: Device) -> tuple[int, int]:
    """The compute capability of a GPU, or (0, 0) for the CPU."""
    if device.type != "cuda":
        return (0, 0)
    return device_properties(device.index).compute_capability


def _multiply(left: Given, right: Given, result: Given, ending: Ending) -> None:
    left, right, result, ending = _joined(left, right, result, ending)
    version = capability(left.device)
    if left.shape[-1] and version >= (8, 0) and left.dtype.itemsize <= 2:
        a, b = stored(left), stored(right)
        if version == (9, 0) and _suits_copy_engine(left, right, a, b):
            _by_hopper(a, b, left, right, result, ending)
            return
        if left.dtype.itemsize == 2:
            call = warp_products.gemm
            if a.is_whole and b.is_whole:
                call = warp_products.gemm_of_chunks
            call(a.array, b.array, result.array, ending, not a.is_exchanged, b.is_exchanged)
            return
    sizes = tiled_products.OF_F64 if left.dtype is f64 else tiled_products.OF_F32
    if version == (0, 0):
        sizes = tiled_products.OF_CPU
    along_k = left.strides[-1] == 1, right.strides[-2] == 1 and right.strides[-1] != 1
    tiled_products.gemm(left.array, right.array, result.array, ending, sizes, along_k)


def _suits_copy_engine(left: Given, right: Given, a: Stored, b: Stored) -> bool:
    if left.dtype.itemsize == 1 and (a.is_exchanged or not b.is_exchanged):
        return False  # of 8-bit elements neighbors have to lie along k
    return a.has_chunks and b.has_chunks and max(len(left.shape), len(right.shape)) <= _MOST_RANK


def _by_hopper(
    a: Stored, b: Stored, left: Given, right: Given, result: Given, ending: Ending
) -> None:
    by_copies = result.dtype.itemsize == 2 and stored(result).has_chunks
    plan = hopper_products.Plan(
        not a.is_exchanged,
        b.is_exchanged,
        (len(left.shape) > 2, len(right.shape) > 2),
        by_copies and not stored(result).is_exchanged,
    )
    hopper_products.gemm(a.array, b.array, result.array, ending, plan)


def _joined(
    left: Given, right: Given, result: Given, ending: Ending
) -> tuple[Given, Given, Given, Ending]:
    """A stack times one matrix as a single product, where the stack has no gaps."""
    residual = ending.residual
    arrays = [left.array, result.array, *([] if residual is None else [residual])]
    if (
        len(left.shape) == 2
        or len(right.shape) > 2
        or not all(hasattr(array, "reshape") for array in arrays)
        or not all(given(array, "residual").is_contiguous for array in arrays)
    ):
        return left, right, result, ending
    flat = [array.reshape(-1, array.shape[-1]) for array in arrays]
    if residual is not None:
        ending = ending._replace(residual=flat[2])
    return given(flat[0], "a"), right, given(flat[1], "out"), ending
