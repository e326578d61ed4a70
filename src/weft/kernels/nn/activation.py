# SPDX-License-Identifier: Apache-2.0
"""``weft.kernels.gelu`` and ``silu_mul``, and their derivatives: each element by itself.

Computes gelu(x) = x · Φ(x) (Hendrycks and Gimpel, 2016, arXiv:1606.08415), and gate · σ(gate) · up (Shazeer, 2020,
arXiv:2002.05202). In: arrays of floats of one shape. Out: an array of that shape. The scalar functions serve GEMM
epilogues, too.
"""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Any, Final

import weft
from weft.kernels.annotations import Array, Constant, ElementType, Number
from weft.kernels.device.row import sum_type
from weft.kernels.host.arrays import (
    ArrayInfo,
    describe,
    describe_alike,
    output,
    output_like,
    unexpected,
)
from weft.kernels.host.autograd import (
    WIDEST,
    composite_backward,
    differentiable,
    like_first,
    like_second,
    upcast,
    vjp,
)
from weft.kernels.host.dispatch_cache import Call, cached_dispatch

if TYPE_CHECKING:
    from collections.abc import Sequence

_ROOT_HALF: Final = math.sqrt(0.5)
_ROOT_2_OVER_PI: Final = math.sqrt(2 / math.pi)
_CUBIC: Final = 0.044715
_LOG2_E: Final = math.log2(math.e)

# The binary logarithm of Φ(−x), for 0 ≤ x ≤ 9 within 2⁻¹³·³, highest power first; a least maximum of errors.
_LOG2_TAIL: Final = (
    *(-9.77758335e-07, 4.03974117e-05, -0.00072360875, 0.00750289259),
    *(-0.0514463504, -0.461469721, -1.14989286, -1.00009845),
)
_FAR: Final = 16.0  # where the polynomial is below -149


# Of numbers in f32 or f64; traced in kernels.


def relu(x: Number) -> Number:
    """The number, or 0 if it is negative; NaN stays."""
    return 0.0 if x < 0 else x


def relu_backward(gradient: Number, x: Number) -> Number:
    """The gradient where the number is positive; 0 elsewhere."""
    return gradient if x > 0 else 0.0


def ratio(x: Number, y: Number) -> Number:
    """x / y, of f32 within 2 units in the last place on a GPU."""
    return weft.math.divide(x, y, approx=x.dtype is weft.f32)


def sigmoid(x: Number, is_short: bool = False) -> Number:
    """1 / (1 + exp(−x)); `is_short`: of 16 bits that were widened, as exact as these are."""
    return ratio(x.dtype(1.0), 1.0 + weft.math.exp(-x, approx=is_short))


def silu(x: Number, is_short: bool = False) -> Number:
    """X times its sigmoid."""
    return ratio(x, 1.0 + weft.math.exp(-x, approx=is_short))


def silu_backward(gradient: Number, x: Number) -> Number:
    """The gradient times s(1 + x(1 − s)), where s is the sigmoid."""
    share = sigmoid(x)
    return gradient * share * (1.0 + x * (1.0 - share))


def gated(gate: Number, up: Number) -> Number:
    """``silu(gate) · up``."""
    return silu(gate) * up


def short_gated(gate: Number, up: Number) -> Number:
    """The same of 16-bit floats."""
    return silu(gate, True) * up


def gelu_erf(x: Number) -> Number:
    """x · Φ(x)."""
    return 0.5 * x * (1.0 + weft.math.erf(_ROOT_HALF * x))


def gelu_tanh(x: Number) -> Number:
    """x · ½(1 + tanh(v)), which is x · sigmoid(2v), without a difference of near numbers."""
    return ratio(x, 1.0 + weft.math.exp(-_twice_v(x)))


def gelu_erf_backward(gradient: Number, x: Number) -> Number:
    """The gradient times Φ(x) + x · exp(−x²/2) / √(2π)."""
    grad = 0.5 * (1.0 + weft.math.erf(_ROOT_HALF * x))
    return gradient * (grad + x * weft.math.exp(-0.5 * x * x) * (0.5 * _ROOT_2_OVER_PI))


def gelu_tanh_backward(gradient: Number, x: Number) -> Number:
    """The gradient times s + x · s(1 − s) · 2v′, where s is the sigmoid of 2v."""
    return _tanh_backward(gradient, x, False)


# Of 16-bit floats, widened to f32: the error function and an exact `exp` would take longer than memory does.


def short_gelu_erf(x: Number) -> Number:
    """max(x, 0) − |x| · Φ(−|x|)."""
    size = min(weft.math.abs(x), _FAR)  # of ∞ times 0 would be NaN
    return relu(x) - size * _tail(size)


def short_gelu_erf_backward(gradient: Number, x: Number) -> Number:
    """As `gelu_erf_backward`."""
    tail = _tail(min(weft.math.abs(x), _FAR))
    grad = tail if x < 0 else 1.0 - tail
    density = weft.math.exp2((-0.5 * _LOG2_E) * x * x, approx=True) * (0.5 * _ROOT_2_OVER_PI)
    return gradient * (grad + x * density)


def short_gelu_tanh(x: Number) -> Number:
    """As `gelu_tanh`."""
    return ratio(x, 1.0 + weft.math.exp2(_twice_v(x, -_LOG2_E), approx=True))


def short_gelu_tanh_backward(gradient: Number, x: Number) -> Number:
    """As `gelu_tanh_backward`."""
    return _tanh_backward(gradient, x, True)


def _twice_v(x: Number, scale: float = 1.0) -> Number:
    """2√(2/π) (x + 0.044715 x³), times a constant."""
    scale *= 2.0 * _ROOT_2_OVER_PI
    return x * (scale + scale * _CUBIC * (x * x))


def _tanh_backward(gradient: Number, x: Number, is_short: bool) -> Number:
    share = sigmoid(_twice_v(x), is_short)
    inner = 2.0 * _ROOT_2_OVER_PI * (1.0 + 3.0 * _CUBIC * x * x)
    return gradient * (share + x * share * (1.0 - share) * inner)


_FORMS: Final = {
    "none": (
        (gelu_erf, gelu_erf_backward),
        (short_gelu_erf, short_gelu_erf_backward),
    ),
    "tanh": (
        (gelu_tanh, gelu_tanh_backward),
        (short_gelu_tanh, short_gelu_tanh_backward),
    ),
}


def is_short_float(dtype: ElementType) -> bool:
    """Whether numbers have so few bits that one instruction for an exponential is as exact."""
    return dtype.bits == 16


@weft.kernel
def map_kernel(x: Array, out: Array, function: Constant) -> None:
    """An iteration: a function of an element."""
    wide = sum_type(x.dtype)
    for place in weft.each(x.shape):
        out[place] = x.dtype(function(wide(x[place])))


@weft.kernel
def map_2_kernel(x: Array, y: Array, out: Array, function: Constant) -> None:
    """An iteration: a function of two elements."""
    wide = sum_type(x.dtype)
    for place in weft.each(x.shape):
        out[place] = x.dtype(function(wide(x[place]), wide(y[place])))


@weft.kernel
def gated_backward_kernel(
    gradient: Array, gate: Array, up: Array, dgate: Array, dup: Array
) -> None:
    """An iteration: both derivatives of an element."""
    wide = sum_type(gate.dtype)
    for place in weft.each(gate.shape):
        given_gradient, x = wide(gradient[place]), wide(gate[place])
        share = sigmoid(x, is_short_float(gate.dtype))
        grad = share * (1.0 + x * (1.0 - share))
        dgate[place] = gate.dtype(given_gradient * wide(up[place]) * grad)
        dup[place] = gate.dtype(given_gradient * x * share)


@weft.jit
def _map(function: Constant, x: Array, out: Array) -> None:
    map_kernel(x, out, function).launch(over=x.shape)


@weft.jit
def _map_2(function: Constant, x: Array, y: Array, out: Array) -> None:
    map_2_kernel(x, y, out, function).launch(over=x.shape)


@weft.jit
def _map_halves(function: Constant, x: Array, out: Array) -> None:
    n = out.shape[-1]
    map_2_kernel(x[..., :n], x[..., n:], out, function).launch(over=out.shape)


@weft.jit
def _gated_backward(gradient: Array, gate: Array, up: Array, dgate: Array, dup: Array) -> None:
    gated_backward_kernel(gradient, gate, up, dgate, dup).launch(over=gate.shape)


@weft.jit
def _packed_backward(gradient: Array, packed: Array, out: Array) -> None:
    n = gradient.shape[-1]
    gate, up, dgate, dup = packed[..., :n], packed[..., n:], out[..., :n], out[..., n:]
    gated_backward_kernel(gradient, gate, up, dgate, dup).launch(over=gradient.shape)


def _gelu_backward(gradient: Array, _: object, x: Array, approximate: str) -> Array:
    return gelu_backward(gradient, x, approximate), None


def _gelu_backward_by_torch(gradient: Array, x: Array, approximate: str) -> Array:
    functional: Any = sys.modules["torch"].nn.functional

    def own(x: Array) -> Array:
        return functional.gelu(upcast(x), approximate=approximate)

    return vjp(own, gradient, x)[0]


def _like_both(gradient: Array, gate: Array, up: Array) -> Array:
    return gate.new_empty(gate.shape), up.new_empty(up.shape)


def _silu_mul_backward(gradient: Array, _: object, gate: Array, up: Array) -> Array:
    if up is None:
        return _packed_silu_mul_backward(gradient, gate), None
    return silu_mul_backward(gradient, gate, up)


def _like_gated(gate: Array, up: Array = None, *_: object) -> Array:
    return gate.new_empty(gate.shape if up is not None else _half_of(gate.shape))


def _half_of(shape: Sequence[int]) -> tuple[int, ...]:
    return *shape[:-1], shape[-1] // 2


def _silu_mul_backward_by_torch(gradient: Array, gate: Array, up: Array) -> Array:
    silu: Any = sys.modules["torch"].nn.functional.silu

    def own(gate: Array, up: Array) -> Array:
        return silu(upcast(gate)) * upcast(up)

    return vjp(own, gradient, gate, up)


def _tail(size: Any) -> Array:
    """Φ(−size), from 0 to 9 within 2⁻¹³ in relative terms, and beyond to 0."""
    power = size.dtype(_LOG2_TAIL[0])
    for coefficient in _LOG2_TAIL[1:]:
        power = weft.math.fma(power, size, size.dtype(coefficient))
    return weft.math.exp2(power, approx=True)


def _form(approximate: str, dtype: weft.DType) -> tuple[Array, Array]:
    """The function and its derivative."""
    if approximate not in _FORMS:
        raise ValueError(unexpected("approximate", approximate, "'none' or 'tanh'"))
    return _FORMS[approximate][is_short_float(dtype)]


@differentiable(like_first, _gelu_backward, rows={"x": 1}, saves=frozenset({"x"}))
@cached_dispatch
def gelu(x: Array, approximate: str = "none", out: Array = None) -> Array:
    """The Gaussian error linear unit of each element: x · Φ(x), where Φ is the normal distribution's integral.

    Args:
        x: an array of 16, 32 or 64-bit floats of any rank from 1 on and any layout. Computed in f32, or f64 for f64.
        approximate: ``"none"``: by the error function; ``"tanh"``: x · ½(1 + tanh(√(2/π) (x + 0.044715 x³))).
        out: an array of x's shape and type, which may be `x` itself; None: a new one of x's library.

    Returns:
        `out`, or the new array.

    Raises:
        TypeError: for something else than an array of floats.
        ValueError: for another `approximate`; for `out` of another shape or on another device.

    Example:
        >>> import numpy as np, weft
        >>> weft.kernels.gelu(np.array([-100.0, 0.0, 100.0])).tolist()
        [-0.0, 0.0, 100.0]
    """
    source = describe(x, "x", is_float=True)
    function = _form(approximate, source.dtype)[0]
    out = output_like(source, out, ("x",), x=x)
    return Call(_map, (function, x, out), out)


@differentiable(
    like_second, composite_backward(_gelu_backward_by_torch), rows={"gradient": 1, "x": 1}
)
@cached_dispatch
def gelu_backward(gradient: Array, x: Array, approximate: str = "none", out: Array = None) -> Array:
    """The derivative of `gelu`: `gradient` times that of x · Φ(x).

    Args:
        gradient: of the result, an array of x's shape and type.
        x: as in `gelu`.
        approximate: as in `gelu`.
        out: as in `gelu`; it may be `gradient` itself.

    Returns:
        `out`, or the new array.

    Raises:
        TypeError: as `gelu`.
        ValueError: as `gelu`; for a gradient of another shape.

    Example:
        >>> import numpy as np, weft
        >>> weft.kernels.gelu_backward(np.ones(3), np.array([-100.0, 0.0, 100.0])).tolist()
        [0.0, 0.5, 1.0]
    """
    source = describe(x, "x", is_float=True)
    derivative = _form(approximate, source.dtype)[1]
    describe_alike(source, gradient, "gradient")
    out = output_like(source, out, ("gradient", "x"), gradient=gradient, x=x)
    return Call(_map_2, (derivative, gradient, x, out), out)


@differentiable(
    _like_gated,
    _silu_mul_backward,
    autocast=WIDEST,
    rows={"gate": 1, "up": 1},
    saves=frozenset({"gate", "up"}),
)
@cached_dispatch
def silu_mul(gate: Array, up: Array = None, out: Array = None) -> Array:
    """The gated unit of a transformer's middle layer: gate / (1 + exp(−gate)) · up.

    Args:
        gate: as x of `gelu`.
        up: an array of gate's shape and type. None: `gate` holds both, as the halves of its rows, ``h[..., :n]`` and
            ``h[..., n:]``, and its derivative is one array.
        out: an array of the result's shape and gate's type, which may be `gate` itself if `up` is given; None: a new
            one of gate's library.

    Returns:
        `out`, or the new array.

    Raises:
        TypeError: as `gelu`.
        ValueError: for arrays of different shapes or devices.

    Example:
        >>> import numpy as np, weft
        >>> weft.kernels.silu_mul(np.array([0.0, 100.0]), np.array([1.0, 2.0])).tolist()
        [0.0, 200.0]
        >>> weft.kernels.silu_mul(np.array([0.0, 100.0, 1.0, 2.0])).tolist()
        [0.0, 200.0]
    """
    source = describe(gate, "gate", is_float=True)
    if up is None:
        shape = _packed_shape(source)
        out = output(source, shape, source.dtype, source.type_name, out, gate=gate)
        function = short_gated if is_short_float(source.dtype) else gated
        return Call(_map_halves, (function, gate, out), out)
    describe_alike(source, up, "up")
    out = output_like(source, out, ("gate", "up"), gate=gate, up=up)
    function = short_gated if is_short_float(source.dtype) else gated
    return Call(_map_2, (function, gate, up, out), out)


@differentiable(
    _like_both,
    composite_backward(_silu_mul_backward_by_torch),
    rows={"gradient": 1, "gate": 1, "up": 1},
)
@cached_dispatch
def silu_mul_backward(gradient: Array, gate: Array, up: Array) -> tuple[Array, Array]:
    """The derivatives of `silu_mul` by `gate` and by `up`.

    Args:
        gradient: of the result, an array of gate's shape and type.
        gate: as in `silu_mul`.
        up: as in `silu_mul`.

    Returns:
        Two new arrays of gate's shape and type.

    Raises:
        TypeError: as `silu_mul`.
        ValueError: as `silu_mul`.

    Example:
        >>> import numpy as np, weft
        >>> dgate, dup = weft.kernels.silu_mul_backward(np.ones(1), np.zeros(1), np.ones(1))
        >>> float(dgate[0]), float(dup[0])
        (0.5, 0.0)
    """
    source = describe(gate, "gate", is_float=True)
    describe_alike(source, up, "up")
    describe_alike(source, gradient, "gradient")
    results = output_like(source), output_like(source)
    return Call(_gated_backward, (gradient, gate, up, *results), results)  # type: ignore[return-value]


def _packed_shape(packed: ArrayInfo) -> tuple[int, ...]:
    """The shape of half of each row.

    Raises:
        ValueError: for rows of an odd length, or none.
    """
    if not packed.shape or packed.shape[-1] % 2:
        raise ValueError(
            f"gate has shape {packed.shape}, expected rows of an even length, the halves gate and up; or pass up"
        )
    return _half_of(packed.shape)


def _like_packed(_: object, packed: Array) -> Array:
    return packed.new_empty(packed.shape)


def _packed_by_torch(gradient: Array, packed: Array) -> Array:
    gate, up = packed.chunk(2, -1)
    torch: Any = sys.modules["torch"]
    return torch.cat(_silu_mul_backward_by_torch(gradient, gate, up), -1)


@differentiable(
    _like_packed, composite_backward(_packed_by_torch), rows={"gradient": 1, "packed": 1}
)
@cached_dispatch
def _packed_silu_mul_backward(gradient: Array, packed: Array) -> Array:
    """The derivative of `silu_mul` by an array that holds both halves."""
    source = describe(packed, "packed", is_float=True)
    describe_alike(source, gradient, "gradient", _packed_shape(source))
    result = output_like(source)
    return Call(_packed_backward, (gradient, packed, result), result)
