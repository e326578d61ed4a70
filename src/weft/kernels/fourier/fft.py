# SPDX-License-Identifier: Apache-2.0
"""``weft.kernels.fft``, ``rfft``, ``irfft``: discrete Fourier transforms of rows of complex or real numbers.

X[k] = Σ x[j] exp(−2πi jk / n). `stockham` has the passes, `bluestein` lengths with large prime factors, `rfft` even
lengths of real numbers.
"""

from __future__ import annotations

import sys
from typing import Any, Final

import weft
from weft import _native
from weft.kernels.annotations import Array, Function
from weft.kernels.fourier.bluestein import BluesteinArgs, FFTConfig, fft_config, transform
from weft.kernels.fourier.io import IOFormat
from weft.kernels.fourier.rfft import rfft_even
from weft.kernels.host.arrays import (
    ArrayInfo,
    describe,
    integer_from,
    output,
    output_like,
    unexpected,
)
from weft.kernels.host.autograd import differentiable, like_first
from weft.kernels.host.dispatch_cache import Call, cached_dispatch

_LONGEST: Final = 1 << 26
_FLOAT, _COMPLEX = 2, 5  # DLPack's codes
_OPPOSITE: Final = {"backward": "forward", "ortho": "ortho", "forward": "backward"}
"""The norms; the derivative of a transform is the inverse one with this norm."""


@weft.jit
def _fft(
    x: weft.Tensor, out: weft.Tensor, plan: weft.Constexpr[FFTConfig], args: BluesteinArgs | None
) -> None:
    transform(x, out, plan, args)


@weft.jit
def _rfft_even(
    x: weft.Tensor, out: weft.Tensor, plan: weft.Constexpr[FFTConfig], args: BluesteinArgs | None
) -> None:
    rfft_even(x, out, plan, args)


def _fft_backward(gradient: Array, _: object, x: Array, inverse: bool, norm: str) -> Array:
    return fft(gradient.resolve_conj(), not inverse, _OPPOSITE[norm]), None, None


def _rfft_like(x: Array, *_: object) -> Array:
    """A new tensor for the half spectrum of each of x's rows."""
    return x.new_empty((*x.shape[:-1], x.shape[-1] // 2 + 1), dtype=x.dtype.to_complex())


def _rfft_backward(gradient: Array, _: object, x: Array, norm: str) -> Array:
    gradient, n = gradient.resolve_conj(), x.shape[-1]
    return irfft(_scaled_inside(gradient, n, 0.5), n, _OPPOSITE[norm]), None


def _scaled_inside(spectrum: Array, n: int, factor: float) -> Array:
    """Scales the frequencies of half a spectrum of n numbers that `irfft` counts twice.

    Nothing is written in place: torch folds constants of graphs as if nothing were.
    """
    torch: Any = sys.modules["torch"]
    place = torch.arange(spectrum.shape[-1], device=spectrum.device)
    return torch.where((place > 0) & (place < (n + 1) // 2), spectrum * factor, spectrum)


def _irfft_like(x: Array, n: int | None = None, *_: object) -> Array:
    """A new tensor for the rows of the half spectra in x."""
    outer = x.shape[:-1] if x.is_complex() else x.shape[:-2]
    count = 2 * (x.shape[len(outer)] - 1) if n is None else n
    return x.new_empty((*outer, count), dtype=x.dtype.to_real())


def _irfft_backward(gradient: Array, _: object, x: Array, n: int | None, norm: str) -> Array:
    found = _scaled_inside(rfft(gradient, _OPPOSITE[norm]), gradient.shape[-1], 2.0)
    if not x.is_complex():
        found = sys.modules["torch"].view_as_real(found)
    return found, None, None


def _check_norm(norm: object) -> None:
    if norm not in _OPPOSITE:
        raise ValueError(unexpected("norm", norm, f"one of {', '.join(map(repr, _OPPOSITE))}"))


def _scale(n: int, norm: str, *, is_inverse: bool) -> float:
    """The normalization factor of a transform of n points."""
    if norm == "ortho":
        return n**-0.5
    return 1 / n if is_inverse == (norm == "backward") else 1.0


def _on_pairs(function: Function, x: Array, out: Array, *arguments: Any) -> Array:
    """Applies a function of pairs to pairs or complex numbers."""
    pairs = _pairs_of(x, "x")
    if pairs is None:
        return function(x, *arguments, out)
    if out is None:
        return _complex_of(function(pairs, *arguments))
    target = _pairs_of(out, "out")
    if target is None:
        raise TypeError(unexpected("out", out, f"an array of {x.dtype} as x"))
    function(pairs, *arguments, target)
    return out


def _pairs_of(array: Array, name: str) -> Array:
    """A view of complex numbers as pairs of floats; None for anything else than an array of complex numbers.

    Raises:
        TypeError: for complex numbers without such a view.
        ValueError: for a number without a dimension.
    """
    torch: Any = sys.modules.get("torch")
    if torch is not None and isinstance(array, torch.Tensor):
        if not array.is_complex():
            return None
        pairs = torch.view_as_real(array.resolve_conj() if name == "x" else array)
    elif "complex" not in str(getattr(array, "dtype", "")):
        return None
    else:
        pairs = _viewed(array, name)
    if len(pairs.shape) < 2:
        raise ValueError(f"{name} has no dimension, expected one or more")
    return pairs


def _viewed(array: Array, name: str) -> Array:
    numpy, cupy = sys.modules.get("numpy"), sys.modules.get("cupy")
    if numpy is not None and isinstance(array, numpy.ndarray):
        return array.view((array.real.dtype, 2))
    if cupy is not None and isinstance(array, cupy.ndarray):
        kind = array.real.dtype
        return cupy.ndarray((*array.shape, 2), kind, array.data, (*array.strides, kind.itemsize))
    if isinstance(array, weft.ffi.Tensor):
        return _with_elements(array, _FLOAT, array.dtype[1] // 2)
    raise TypeError(f"{name} has elements of {array.dtype}, expected pairs of floats, (..., n, 2)")


def _complex_of(pairs: Array) -> Array:
    """Views new pairs as complex numbers of their library."""
    torch: Any = sys.modules.get("torch")
    if torch is not None and isinstance(pairs, torch.Tensor):
        return torch.view_as_complex(pairs)
    if isinstance(pairs, weft.ffi.Tensor):
        return _with_elements(pairs, _COMPLEX, pairs.dtype[1] * 2)
    return pairs.view(f"complex{16 * pairs.itemsize}")[..., 0]


def _with_elements(tensor: weft.ffi.Tensor, code: int, bits: int) -> weft.ffi.Tensor:
    """Views the memory with elements of another DLPack type."""
    return weft.ffi.from_dlpack(_native.export_as(tensor, code, bits, max_version=(1, 1)))


def _checked(x: Array, name: str, *, has_pairs: bool) -> ArrayInfo:
    """Validates an array of rows."""
    source = describe(x, name, is_float=True)
    if source.dtype.itemsize < 4:
        raise TypeError(f"{name} has elements of {source.type_name}, expected float32 or float64")
    if has_pairs and (len(source.shape) < 2 or source.shape[-1] != 2):
        raise ValueError(f"{name} has shape {source.shape}, expected pairs of floats, (..., n, 2)")
    return source


def _check_length(n: int, what: str) -> None:
    if not 0 < n <= _LONGEST:
        raise ValueError(f"x has rows of {n} {what} numbers, expected from 1 to {_LONGEST}")


def _width(array: ArrayInfo) -> int:
    """Elements of an access to a point: a pair at once, or one."""
    return min(array.width, 2)


@differentiable(like_first, _fft_backward, saves=frozenset())
def fft(x: Array, inverse: bool = False, norm: str = "backward", out: Array = None) -> Array:
    """The discrete Fourier transform of each row of complex numbers: X[k] = Σ x[j] exp(−2πi jk / n).

    Rows of up to 2¹⁴ numbers (2¹³ of f64; half of that, or a quarter, where a block has less than 160 kB of shared
    memory) are read and written once, longer ones twice, and three times beyond 2²², if the length has no prime factor
    above 7. Other lengths are padded to a little more than twice theirs, and convolved (Bluestein), in one kernel where
    that fits a block.

    Args:
        x: complex64 or complex128 numbers of any library, any rank from 1 on and any layout; or f32 or f64 pairs of a
            real and an imaginary part, (..., n, 2). n is at most 2²⁶.
        inverse: whether to transform back: exp(+2πi jk / n), and the sum divided by n.
        norm: ``"backward"``: only the inverse is divided by n; ``"forward"``: only the other one is; ``"ortho"``: both
            are divided by √n.
        out: an array of x's shape and type, which may be `x` itself; None: a new one of x's library.

    Returns:
        `out`, or the new array.

    Raises:
        TypeError: for something else than such an array.
        ValueError: for rows of no or too many numbers; another `norm`; `out` of another shape or on another device.

    Example:
        >>> import numpy as np, weft
        >>> weft.kernels.fft(np.array([1, 0, 0, 0], np.complex64)).tolist()
        [(1+0j), (1+0j), (1+0j), (1+0j)]
        >>> weft.kernels.fft(np.array([[0.0, 4.0], [0.0, 0.0]]), inverse=True).tolist()  # pairs
        [[0.0, 2.0], [0.0, 2.0]]
    """
    _check_norm(norm)
    return _on_pairs(_fft_pairs, x, out, bool(inverse), norm)


@differentiable(_rfft_like, _rfft_backward, rows={"x": 1})
def rfft(x: Array, norm: str = "backward", out: Array = None) -> Array:
    """Half of `fft` of each row of real numbers, as NumPy's: X[0] to X[n // 2]; the others are their conjugates.

    Of an even length n the transform is one of n / 2 complex numbers.

    Args:
        x: an array of f32 or f64, any rank from 1 on and any layout.
        norm: as in `fft`.
        out: complex numbers, or pairs, (..., n // 2 + 1), of x's precision; None: a new array of x's library.

    Returns:
        `out`, or a new array of complex numbers.

    Raises:
        TypeError, ValueError: as `fft`.

    Example:
        >>> import numpy as np, weft
        >>> found = weft.kernels.rfft(np.array([1, 2, 3, 4], np.float32))
        >>> np.allclose(found, [10, -2 + 2j, -2])
        True
    """
    _check_norm(norm)
    if out is None:
        return _complex_of(_rfft_pairs(x, norm))
    target = _pairs_of(out, "out")
    _rfft_pairs(x, norm, out if target is None else target)
    return out


@differentiable(_irfft_like, _irfft_backward)
def irfft(x: Array, n: int | None = None, norm: str = "backward", out: Array = None) -> Array:
    """The inverse of `rfft`: rows of real numbers from their half spectrum.

    The imaginary parts of X[0], and of X[n / 2] for an even n, count as 0.

    Args:
        x: complex numbers, or pairs, as in `fft`: (..., n // 2 + 1).
        n: real numbers of a row; None: the even number of the two that are possible.
        norm: as in `fft`.
        out: an array (..., n) of x's precision; None: a new one of x's library.

    Returns:
        `out`, or the new array.

    Raises:
        TypeError, ValueError: as `fft`; for another `n`.

    Example:
        >>> import numpy as np, weft
        >>> weft.kernels.irfft(np.array([10, -2 + 2j, -2], np.complex64)).tolist()
        [1.0, 2.0, 3.0, 4.0]
    """
    _check_norm(norm)
    pairs = _pairs_of(x, "x")
    return _irfft_pairs(x if pairs is None else pairs, n, norm, out)


@cached_dispatch
def _fft_pairs(x: Array, inverse: bool, norm: str, out: Array = None) -> Array:
    source = _checked(x, "x", has_pairs=True)
    n = source.shape[-2]
    _check_length(n, "complex")
    out = output_like(source, out, ("x",), x=x)
    if not source.size:
        return out
    io = IOFormat(n, widths=(_width(source), _width(describe(out, "out"))))
    scale, sign = _scale(n, norm, is_inverse=inverse), 1 if inverse else -1
    plan = fft_config(io, source.device, source.dtype.itemsize, sign, scale)
    return Call(_fft, (x, out, *plan), out)


@cached_dispatch
def _rfft_pairs(x: Array, norm: str, out: Array = None) -> Array:
    source = _checked(x, "x", has_pairs=False)
    n = source.shape[-1]
    _check_length(n, "real")
    shape = (*source.shape[:-1], n // 2 + 1, 2)
    out = output(source, shape, source.dtype, source.type_name, out, x=x)
    if not source.size:
        return out
    widths, scale = (
        (_width(source), _width(describe(out, "out"))),
        _scale(n, norm, is_inverse=False),
    )
    io = (
        IOFormat(n, "reals", "half", widths)
        if n % 2
        else IOFormat(n // 2, "packed", "pairs", widths)
    )
    plan = fft_config(io, source.device, source.dtype.itemsize, -1, scale)
    return Call(_fft if n % 2 else _rfft_even, (x, out, *plan), out)


@cached_dispatch
def _irfft_pairs(x: Array, n: int | None, norm: str, out: Array = None) -> Array:
    source = _checked(x, "x", has_pairs=True)
    even = 2 * (source.shape[-2] - 1)
    n = even if n is None else integer_from(n, "n", max(even, 1), even + 2)
    _check_length(n, "real")
    shape = (*source.shape[:-2], n)
    out = output(source, shape, source.dtype, source.type_name, out, x=x)
    if not source.size:
        return out
    widths, scale = (_width(source), _width(describe(out, "out"))), _scale(n, norm, is_inverse=True)
    io = IOFormat(n, "mirrored", "reals", widths)
    if n % 2 == 0:
        io = IOFormat(n // 2, "folded", "packed", widths)
    plan = fft_config(io, source.device, source.dtype.itemsize, 1, scale)
    return Call(_fft, (x, out, *plan), out)
