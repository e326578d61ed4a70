# SPDX-License-Identifier: Apache-2.0
"""What PTX computes from registers alone, for many threads at once.

In: an instruction's parts, registers as arrays of 64 bits. Out: a register, or an error that names what is not known.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Final

import ml_dtypes
import numpy as np

from weft.types.dtype import INFO

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

FLOATS = {
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    "e4m3": np.dtype(ml_dtypes.float8_e4m3fn),
    "e5m2": np.dtype(ml_dtypes.float8_e5m2),
}
_INTEGER_OF = {"b": "u", "u": "u", "s": "i"}


class NotEmulatedError(Exception):
    """An instruction that is not known here."""


def dtype_of(name: str) -> np.dtype:
    """NumPy's type of one of PTX."""
    if name in FLOATS:
        return FLOATS[name]
    if name[0] not in _INTEGER_OF or not name[1:].isdigit():
        raise NotEmulatedError(name)
    return np.dtype(f"{_INTEGER_OF[name[0]]}{int(name[1:]) // 8}")


def typed(register: np.ndarray, name: str) -> np.ndarray:
    """A register's numbers."""
    kind = dtype_of(name)
    return register.astype(f"u{kind.itemsize}").view(kind)


def bits(numbers: np.ndarray) -> np.ndarray:
    """A register with them."""
    return np.ascontiguousarray(numbers).view(f"u{numbers.dtype.itemsize}").astype(np.uint64)


def pair(register: np.ndarray, name: str) -> np.ndarray:
    """The two numbers in it, the lower first, as columns."""
    kind = dtype_of(name)
    word = register.astype(f"u{2 * kind.itemsize}")
    return word.view(kind).reshape(len(register), 2)


def of_pair(numbers: np.ndarray) -> np.ndarray:
    """A register with two numbers."""
    size = numbers.dtype.itemsize
    words = np.ascontiguousarray(numbers).view(f"u{2 * size}")
    return words[:, 0].astype(np.uint64)


def narrowed(numbers: np.ndarray, name: str, *, saturates: bool = False) -> np.ndarray:
    """Numbers in another type; small floats rounded to even."""
    kind = dtype_of(name)
    if saturates and name in ("e4m3", "e5m2"):
        most = float(ml_dtypes.finfo(kind).max)
        numbers = np.where(np.isnan(numbers), numbers, np.clip(numbers, -most, most))
    return numbers.astype(kind)


def _shift(numbers: np.ndarray, count: np.ndarray, width: int, *, left: bool) -> np.ndarray:
    amount = (count & np.uint64(0xFFFFFFFF)).astype(np.int64)
    is_signed = numbers.dtype.kind == "i"
    clamped = np.minimum(amount, width - 1).astype(numbers.dtype)
    found = numbers << clamped if left else numbers >> clamped
    beyond = (numbers >> (width - 1)) if is_signed and not left else np.zeros_like(numbers)
    return np.where(amount >= width, beyond, found)


def _product(parts: Sequence[str], a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """`mul.lo`, `mul.hi` and `mul.wide`, and of floats."""
    name = parts[-1]
    one, two = typed(a, name), typed(b, name)
    if "wide" in parts:
        wide = f"{name[0]}{2 * int(name[1:])}"
        kind = dtype_of(wide)
        return bits(one.astype(kind) * two.astype(kind))
    if "hi" in parts:
        width = int(name[1:])
        found = [int(x) * int(y) >> width for x, y in zip(one, two, strict=True)]
        return np.array([value & (2**width - 1) for value in found], np.uint64)
    return bits(one * two)


_SETP: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "lo": np.less,
    "ls": np.less_equal,
    "hi": np.greater,
    "hs": np.greater_equal,
}


def _compared(how: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """1 where it holds; names that end in `u` hold for a NaN, too."""
    if how in _SETP and a.dtype.kind in "iu":
        return _SETP[how](a, b).astype(np.uint64)
    is_nan = np.isnan(a.astype(np.float64)) | np.isnan(b.astype(np.float64))
    if how in ("num", "nan"):
        return (is_nan == (how == "nan")).astype(np.uint64)
    if how in _SETP:
        return (_SETP[how](a, b) & ~is_nan).astype(np.uint64)
    if how[:-1] not in _SETP or how[-1] != "u":
        raise NotEmulatedError(f"setp.{how}")
    return (_SETP[how[:-1]](a, b) | is_nan).astype(np.uint64)


_OF_PAIRS = ("add", "sub", "mul", "fma", "neg", "min", "max")
_EXTREMES = {"min": np.fmin, "max": np.fmax}  # a number wins over NaN
_BITWISE = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}


def compute(parts: Sequence[str], given: Sequence[np.ndarray]) -> np.ndarray:
    """The result of an instruction.

    Raises:
        NotEmulatedError: for one that is not known.
    """
    operation, name = parts[0], parts[-1]
    with np.errstate(all="ignore"):
        if name.endswith("x2") and operation in _OF_PAIRS:
            return _paired(operation, name[:-2], given)
        match operation:
            case "mov" | "cvta":
                return given[0]
            case "and" | "or" | "xor":
                return _BITWISE[operation](given[0], given[1])
            case "not" if name == "pred":
                return given[0] ^ np.uint64(1)
            case "not":
                return bits(~typed(given[0], name))
            case "neg":
                return bits(-typed(given[0], name))
            case "abs":
                return bits(np.abs(typed(given[0], name)))
            case "add":
                return bits(typed(given[0], name) + typed(given[1], name))
            case "sub":
                return bits(typed(given[0], name) - typed(given[1], name))
            case "mul":
                return _product(parts, given[0], given[1])
            case "mad":
                wide = f"{name[0]}{2 * int(name[1:])}" if "wide" in parts else name
                product = typed(_product(["mul", *parts[1:]], given[0], given[1]), wide)
                return bits(product + typed(given[2], wide))
            case "fma":
                one, two, three = (typed(value, name).astype(np.longdouble) for value in given)
                return bits((one * two + three).astype(dtype_of(name)))
            case "min" | "max":
                return bits(reduce(_EXTREMES[operation], (typed(one, name) for one in given)))
            case "shl" | "shr":
                return bits(
                    _shift(typed(given[0], name), given[1], int(name[1:]), left=operation == "shl")
                )
            case "setp" if len(parts) == 3:
                return _compared(parts[1], typed(given[0], name), typed(given[1], name))
            case "selp":
                return np.where(given[2] != 0, given[0], given[1])
            case _:
                return _rare(parts, given)


def _paired(operation: str, name: str, given: Sequence[np.ndarray]) -> np.ndarray:
    """Arithmetic of both halves of a register, each rounded once."""
    if operation == "neg":
        return of_pair(-pair(given[0], name))
    if operation in _EXTREMES:
        return of_pair(_EXTREMES[operation](*(pair(value, name) for value in given)))
    wide = np.longdouble if name == "f32" else np.float64  # a product and a sum are rounded once
    one, two, *more = (pair(value, name).astype(wide) for value in given)
    match operation:
        case "add":
            found = one + two
        case "sub":
            found = one - two
        case "mul":
            found = one * two
        case _:
            found = one * two + more[0]
    return of_pair(narrowed(found, name))


def _rare(parts: Sequence[str], given: Sequence[np.ndarray]) -> np.ndarray:
    operation, name = parts[0], parts[-1]
    match operation:
        case "cvt":
            return _converted(parts, given)
        case "bfe":
            return _field(given, name)
        case "lop3":
            return _looked_up(given)
        case "shf" if parts[2] == "wrap":
            low, high, by = (value & np.uint64(0xFFFFFFFF) for value in given)
            both, by = low | high << np.uint64(32), by & np.uint64(31)
            moved = both << by >> np.uint64(32) if parts[1] == "l" else both >> by
            return moved & np.uint64(0xFFFFFFFF)
        case "prmt" if len(parts) == 2:
            return _permuted(given)
        case "div" if parts[1:-1] == ["rn"]:
            return bits(typed(given[0], name) / typed(given[1], name))
        case "sqrt" if parts[1:-1] == ["rn"]:
            return bits(np.sqrt(typed(given[0], name)))
        case "div" | "rem" if name[0] in "su":
            one, two = (typed(value, name).astype(object) for value in given)
            quotient = [
                abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1) if y else -1
                for x, y in zip(one, two, strict=True)
            ]
            rests = [x - y * q for x, y, q in zip(one, two, quotient, strict=True)]
            found = quotient if operation == "div" else rests
            return np.array([int(x) & (2 ** int(name[1:]) - 1) for x in found], np.uint64)
    raise NotEmulatedError(".".join(parts))


def _converted(parts: Sequence[str], given: Sequence[np.ndarray]) -> np.ndarray:
    to, source = parts[-2], parts[-1]
    saturates = "satfinite" in parts
    if to.endswith("x2"):
        if to[:-2] in _NARROW and source == "f32":
            return _narrow_pair(to[:-2], *(typed(value, "f32") for value in given))
        if source[:-2] in _NARROW:
            return of_pair(narrowed(_wide_pair(source[:-2], given[0]), to[:-2]))
        if source == "f32":
            high, low = (typed(value, "f32") for value in given)
            both = np.stack([low, high], axis=1)
        elif source.endswith("x2"):
            both = pair(given[0], source[:-2]).astype(np.float32)
        else:
            raise NotEmulatedError(".".join(parts))
        return of_pair(narrowed(both, to[:-2], saturates=saturates))
    numbers = typed(given[0], source)
    if numbers.dtype in FLOATS.values() and to not in FLOATS:
        if "rzi" not in parts:
            raise NotEmulatedError(".".join(parts))
        limits = np.iinfo(dtype_of(to))
        wide = np.nan_to_num(np.trunc(numbers.astype(np.float64)))
        return bits(np.clip(wide, float(limits.min), float(limits.max)).astype(dtype_of(to)))
    if to in ("f16", "bf16") and source == "f64":
        raise NotEmulatedError(".".join(parts))
    found = bits(narrowed(numbers, to))
    if to in ("s8", "s16"):  # signed ones fill a wider register with their sign
        top = np.uint64(1 << (int(to[1:]) - 1))
        found = (found ^ top) - top
    return found


# Floats of fewer than 8 bits, and exponents: the name in weft, and bits from one of a pair to the other.
_NARROW: Final = {
    "e2m1": ("f4e2m1", 4),
    "e2m3": ("f6e2m3", 8),
    "e3m2": ("f6e3m2", 8),
    "ue8m0": ("f8e8m0", 8),
}


def _narrow_pair(name: str, high: np.ndarray, low: np.ndarray) -> np.ndarray:
    weft_name, pitch = _NARROW[name]
    kind = INFO[weft_name].format
    assert kind is not None
    parts = [np.array([kind.bits_of(float(x)) for x in one], np.uint64) for one in (low, high)]
    return parts[0] | parts[1] << np.uint64(pitch)


def _wide_pair(name: str, given: np.ndarray) -> np.ndarray:
    weft_name, pitch = _NARROW[name]
    info = INFO[weft_name]
    assert info.format is not None
    values = np.array([info.format.value_of(bits) for bits in range(1 << info.bits)], np.float32)
    mask = np.uint64((1 << info.bits) - 1)
    return np.stack([values[given & mask], values[given >> np.uint64(pitch) & mask]], axis=1)


def _field(given: Sequence[np.ndarray], name: str) -> np.ndarray:
    value, start, length = given
    width = int(name[1:])
    number = typed(value, f"u{width}") >> start.astype(f"u{width // 8}")
    size = length.astype(f"u{width // 8}")
    one = number.dtype.type(1)
    found = np.where(size >= width, number, number & ((one << size) - one))
    if name[0] == "s":
        top = one << (np.maximum(size, one) - one)
        found = np.where(size >= width, found, (found ^ top) - top)
    return found.astype(np.uint64)


def _looked_up(given: Sequence[np.ndarray]) -> np.ndarray:
    """Each bit from a table of eight, by those of three numbers."""
    a, b, c, table = given
    found = np.zeros_like(a)
    for place in range(8):
        chosen = [x if place >> shift & 1 else ~x for x, shift in ((a, 2), (b, 1), (c, 0))]
        one = (table >> np.uint64(place)) & np.uint64(1) != 0
        found |= np.where(one, chosen[0] & chosen[1] & chosen[2], np.uint64(0))
    return found & np.uint64(0xFFFFFFFF)


def _permuted(given: Sequence[np.ndarray]) -> np.ndarray:
    low, high, selector = given
    both = (low & np.uint64(0xFFFFFFFF)) | (high << np.uint64(32))
    found = np.zeros_like(both)
    for place in range(4):
        nibble = (selector >> np.uint64(4 * place)) & np.uint64(15)
        byte = (both >> ((nibble & np.uint64(7)) * np.uint64(8))) & np.uint64(0xFF)
        byte = np.where(nibble >= 8, np.where(byte >= 128, 0xFF, 0), byte).astype(np.uint64)
        found |= byte << np.uint64(8 * place)
    return found
