# SPDX-License-Identifier: Apache-2.0
"""``weft.random.philox``: random numbers as functions of a seed, an index and a stream; no state, no order.

Written in weft's language. In: 64-bit numbers. Out: words of Philox4x32-10, as Random123 defines it, and numbers
made of them. All are computed with operations that round the same on every target, and so give the same bits.
"""

from __future__ import annotations

from typing import Any, Final

from weft.language.control import static_assert, where
from weft.language.functions import device_function
from weft.language.numbers.convert import bitcast
from weft.language.numbers.math import fma, mulhi, sqrt
from weft.types.dtype import f32, f64, i32, i64, u32, u64

__all__ = ("integers", "normal", "uniform", "words")

_ROUNDS: Final = 10
_MULTIPLIERS: Final = (0xD2511F53, 0xCD9E8D57)
_KEY_STEPS: Final = (0x9E3779B9, 0xBB67AE85)

# √½ as the bits of an f32, and the polynomials of Cephes for the logarithm, sine and cosine.
_ROOT_OF_HALF: Final = 0x3F3504F3
_LOGARITHM: Final = (
    *(7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1),
    *(1.4249322787e-1, -1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1),
)
_LN_2: Final = (0.693359375, -2.12194440e-4)
_SINE: Final = (-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1)
_COSINE: Final = (2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2)
_QUARTER_TURN: Final = 1.5707963267948966 * 2.0**-30


@device_function("random.philox.words")
def words(counter: Any, key: Any) -> Any:
    """The four words that Philox4x32-10 makes of a counter and a key, each a u32.

    They are equal to Random123's ``philox4x32`` with 10 rounds. 16 multiplications of 32 bits and as many times two
    other instructions; nothing is kept between calls.

    Args:
        counter: four integers, taken modulo 2³².
        key: two integers, taken modulo 2³².

    Example:
        ``p, q, r, s = weft.random.philox.words((i, 0, 0, 0), (1, 2))``
    """
    c0, c1, c2, c3 = (u32(word) for word in counter)
    k0, k1 = (u32(word) for word in key)
    for _ in range(_ROUNDS):
        first, second = u64(c0) * _MULTIPLIERS[0], u64(c2) * _MULTIPLIERS[1]
        c0, c1 = u32(second >> 32) ^ c1 ^ k0, u32(second)
        c2, c3 = u32(first >> 32) ^ c3 ^ k1, u32(first)
        k0 += _KEY_STEPS[0]
        k1 += _KEY_STEPS[1]
    return c0, c1, c2, c3


@device_function("random.philox.uniform")
def uniform(seed: Any, index: Any, stream: Any = 0, count: Any = 1, dtype: Any = f32) -> Any:
    """Random numbers, 0 ≤ x < 1: multiples of 2⁻²⁴ for f32, of 2⁻⁵³ for f64.

    Args:
        seed: an integer, taken as a u64.
        index: an integer, taken as a u64: each gives other numbers.
        stream: an integer, taken as a u64, for numbers that have nothing to do with those of other streams.
        count: how many, known at compile time: 1 gives a number, 2 to 4 (for f64 2) a tuple, at the same cost.
        dtype: ``weft.f32`` or ``weft.f64``.

    Raises:
        CompileError: for another count or type.

    Example:
        ``x = weft.random.philox.uniform(1, i); y, z = weft.random.philox.uniform(2, i, count=2)``
    """
    static_assert(dtype is f32 or dtype is f64, "uniform: the dtype is weft.f32 or weft.f64")
    found = _bits(seed, index, stream)
    if dtype is f32:
        return _given(tuple(f32(word >> 8) * 2.0**-24 for word in found), count)
    wide = (_joined(found[0], found[1]), _joined(found[2], found[3]))
    return _given(tuple(f64(word >> 11) * 2.0**-53 for word in wide), count)


@device_function("random.philox.integers")
def integers(
    seed: Any, index: Any, low: Any, high: Any, stream: Any = 0, count: Any = 1, dtype: Any = i32
) -> Any:
    """Random integers, low ≤ x < high, made of 64 bits each: no value is likelier than another by more than 2⁻³².

    Args:
        seed: as in `random.philox.uniform`.
        index: as in `random.philox.uniform`.
        low: the least integer.
        high: one above the largest; above `low`.
        stream: as in `random.philox.uniform`.
        count: how many, known at compile time: 1 gives a number, 2 a tuple, at the same cost.
        dtype: of the integers, ``weft.i32``, ``u32``, ``i64`` or ``u64``. In the 64-bit types the range is below 2³².

    Raises:
        CompileError: for another count or type.

    Example:
        ``die = weft.random.philox.integers(1, i, 1, 7)``
    """
    static_assert(dtype in (i32, u32, i64, u64), "integers: the dtype is one of 32 or 64 bits")
    found = _bits(seed, index, stream)
    low, high = dtype(low), dtype(high)
    size = u64(u32(high - low))
    wide = (_joined(found[0], found[1]), _joined(found[2], found[3]))
    return _given(tuple(low + dtype(mulhi(word, size)) for word in wide), count)


@device_function("random.philox.normal")
def normal(seed: Any, index: Any, stream: Any = 0, count: Any = 1) -> Any:
    """Random numbers of the normal distribution, mean 0 and variance 1, as f32; none is beyond ±6.8.

    Two are made of two words by Box and Muller's formula, with a logarithm, sine and cosine of their own, right to
    2⁻²², since those of `weft.math` may differ between a CPU and a GPU.

    Args:
        seed: as in `random.philox.uniform`.
        index: as in `random.philox.uniform`.
        stream: as in `random.philox.uniform`.
        count: how many, known at compile time: 1 gives a number, 2 to 4 a tuple; a second one is free.

    Raises:
        CompileError: for another count.

    Example:
        ``x = weft.random.philox.normal(1, i); y, z = weft.random.philox.normal(2, i, count=2)``
    """
    found = _bits(seed, index, stream)
    first = _box_muller(found[0], found[1])
    return _given((*first, *_box_muller(found[2], found[3])) if count > 2 else first, count, 4)


def _bits(seed: Any, index: Any, stream: Any) -> Any:
    seed, index, stream = u64(seed), u64(index), u64(stream)
    counter = u32(index), u32(index >> 32), u32(stream), u32(stream >> 32)
    return words(counter, (u32(seed), u32(seed >> 32)))


def _given(numbers: Any, count: Any, most: Any = None) -> Any:
    """The first ones: a number, or a tuple of several."""
    most = len(numbers) if most is None else most
    static_assert(1 <= count <= most, f"the count is from 1 to {most}")
    return numbers[0] if count == 1 else numbers[:count]


def _joined(low: Any, high: Any) -> Any:
    return u64(high) << 32 | u64(low)


def _polynomial(coefficients: Any, x: Any) -> Any:
    """By Horner's rule, each step rounded once, whether or not sums are contracted."""
    total = f32(coefficients[0])
    for coefficient in coefficients[1:]:
        total = fma(total, x, f32(coefficient))
    return total


def _box_muller(first: Any, second: Any) -> Any:
    """Two normal numbers of two words."""
    radius = sqrt(-2.0 * _logarithm(fma(f32(first), f32(2.0**-32), f32(2.0**-33))))
    # The nearest of four quarters of a turn, and the signed rest in units of 2⁻³⁰ of one.
    quarter = (second + (1 << 29)) >> 30
    angle = f32(i32(second - (quarter << 30))) * f32(_QUARTER_TURN)
    square = angle * angle
    sine = fma(_polynomial(_SINE, square) * square, angle, angle)
    cosine = fma(_polynomial(_COSINE, square) * square, square, fma(square, f32(-0.5), f32(1.0)))
    is_odd = (quarter & 1) != 0
    x, y = where(is_odd, sine, cosine), where(is_odd, cosine, sine)
    x = where(((quarter + 1) & 2) != 0, -x, x)
    y = where((quarter & 2) != 0, -y, y)
    return radius * x, radius * y


def _logarithm(x: Any) -> Any:
    """The natural logarithm of an f32, 2⁻³³ ≤ x ≤ 1."""
    shifted = bitcast(x, i32) - _ROOT_OF_HALF
    exponent = f32(shifted >> 23)
    rest = bitcast((shifted & 0x7FFFFF) + _ROOT_OF_HALF, f32) - 1.0
    square = rest * rest
    low = fma(exponent, f32(_LN_2[1]), _polynomial(_LOGARITHM, rest) * rest * square)
    return fma(exponent, f32(_LN_2[0]), rest + fma(square, f32(-0.5), low))
