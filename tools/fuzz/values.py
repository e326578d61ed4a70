# SPDX-License-Identifier: Apache-2.0
"""The reference's numbers: an element type and a Python number, with the arithmetic of docs/language.md.

In: Python's operators on `Value`s and literals. Out: `Value`s. What the pages leave open raises `UnspecifiedError`, and
the program is not a test.
"""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Number = int | float


class UnspecifiedError(Exception):
    """The program does what the documentation leaves open, or never ends."""


@dataclass(frozen=True)
class Type:
    """An element type; called, it converts."""

    name: str
    kind: str  # b, i, u or f
    bits: int

    def __call__(self, value: object) -> Value:
        return convert(value, self)

    @property
    def lowest(self) -> int:
        """The smallest integer."""
        return -(1 << (self.bits - 1)) if self.kind == "i" else 0

    @property
    def highest(self) -> int:
        """The largest integer; 1 of bool_."""
        return (1 << (self.bits - (self.kind == "i"))) - 1 if self.kind != "b" else 1


BOOL = Type("bool_", "b", 8)
SIGNED = {bits: Type(f"i{bits}", "i", bits) for bits in (8, 16, 32, 64)}
UNSIGNED = {bits: Type(f"u{bits}", "u", bits) for bits in (8, 16, 32, 64)}
I32, I64, U32 = SIGNED[32], SIGNED[64], UNSIGNED[32]
F16, BF16, F32, F64 = (Type(name, "f", int(name[-2:])) for name in ("f16", "bf16", "f32", "f64"))
NARROW = [
    Type(name, "f", int(name[1]))
    for name in ("f8e4m3", "f8e5m2", "f8e8m0", "f4e2m1", "f6e2m3", "f6e3m2")
]
TYPES = {
    type_.name: type_
    for type_ in (
        BOOL, *SIGNED.values(), *UNSIGNED.values(), F16, BF16, F32, F64, *NARROW
    )
}  # fmt: skip
# Bits of the significand, the exponent of the smallest normal number, and the largest number.
FORMATS = {
    "f64": (53, -1022, float(np.finfo(np.float64).max)),
    "f32": (24, -126, float(np.finfo(np.float32).max)),
    "f16": (11, -14, 65504.0),
    "bf16": (8, -126, 255 * 2.0**120),
    "f8e4m3": (4, -6, 448.0),
    "f8e5m2": (3, -14, 57344.0),
    "f4e2m1": (2, 0, 6.0),
    "f6e2m3": (4, 0, 7.5),
    "f6e3m2": (3, -2, 28.0),
}

_budget = [0]
_floats = [F32]


def default_float() -> Type:
    """Type of a float that nothing else gives one: f32, in a function with arguments of f64 that."""
    return _floats[0]


def set_default_float(type_: Type) -> None:
    """Says that of the function that runs."""
    _floats[0] = type_


def floats_beside(arguments: Iterable[object]) -> None:
    """Enters a function with these arguments."""
    types = [getattr(argument, "dtype", getattr(argument, "type", None)) for argument in arguments]
    set_default_float(F64 if F64 in types else F32)


def allow(steps: int) -> None:
    """How many operations may follow before the program counts as endless."""
    _budget[0] = steps


def tick() -> None:
    """Counts one operation."""
    _budget[0] -= 1
    if _budget[0] < 0:
        raise UnspecifiedError("it takes too long")


def rounded(numerator: int, denominator: int, type_: Type) -> float:
    """A positive dyadic fraction in a float type, to nearest, ties to even; infinity beyond its largest number."""
    digits, lowest, largest = FORMATS[type_.name]
    exponent = max(numerator.bit_length() - denominator.bit_length(), lowest) - (digits - 1)
    if exponent < 0:
        numerator <<= -exponent
    else:
        denominator <<= exponent
    quotient, rest = divmod(numerator, denominator)
    quotient += 2 * rest > denominator or (2 * rest == denominator and quotient & 1)
    try:
        value = math.ldexp(quotient, exponent)
    except OverflowError:
        return math.inf
    return value if value <= largest else math.inf


def to_float(value: Number, type_: Type) -> float:
    """A number as the nearest of a float type; types of at most 8 bits end at their largest number."""
    if type_.name == "f8e8m0":
        return to_scale(value)
    if value != value:
        return math.nan if type_.bits >= 8 else FORMATS[type_.name][2]
    if value in (math.inf, -math.inf):
        result = math.inf
    elif value == 0:
        return float(value)
    else:
        result = rounded(*abs(value).as_integer_ratio(), type_)
    if type_.bits <= 8:
        result = min(result, FORMATS[type_.name][2])
    return math.copysign(result, value)


def to_scale(value: Number) -> float:
    """The next power of two from the absolute value on, 2**-127 to 2**127."""
    if value != value:
        return math.nan
    if value in (math.inf, -math.inf):
        return 2.0**127
    numerator, denominator = abs(value).as_integer_ratio()  # the denominator is a power of two
    if numerator >= denominator << 127:
        return 2.0**127
    power = 0 if numerator == 0 else 1 << (numerator - 1).bit_length()
    return max(power / denominator, 2.0**-127)


def wrap(value: int, type_: Type) -> int:
    """An integer modulo two to the type's width."""
    value &= (1 << type_.bits) - 1
    return value - (1 << type_.bits) if type_.kind == "i" and value >> (type_.bits - 1) else value


def convert(value: object, type_: Type) -> Value:
    """A number of any type in another: the table "Conversions"."""
    number = value.number if isinstance(value, Value) else value
    if not isinstance(number, int | float):
        raise UnspecifiedError(f"{value!r} is not a number")
    if type_.kind == "b":
        return Value(BOOL, int(number != 0))
    if type_.kind == "f":
        return Value(type_, to_float(number, type_))
    if isinstance(number, int):
        return Value(type_, wrap(number, type_))
    if number != number:
        return Value(type_, 0)
    if math.isinf(number):
        return Value(type_, type_.highest if number > 0 else type_.lowest)
    return Value(type_, max(type_.lowest, min(type_.highest, int(number))))


def counted(type_: Type) -> Type:
    """Type in which a type computes."""
    if type_.kind == "b":
        return I32
    return F32 if type_.bits == 8 and type_.kind == "f" else type_


def summed(type_: Type) -> Type:
    """Type of `weft.warp.sum` of values of a type."""
    if type_.bits >= 32 and type_.kind != "b":
        return type_
    return F32 if type_.kind == "f" else I32


def common(first: Type, second: Type) -> Type:
    """The type in which two operands meet."""
    a, b = counted(first), counted(second)
    if a == b:
        return a
    if "f" in (a.kind, b.kind):
        if a.kind != "f":
            return b
        if b.kind != "f":
            return a
        return F32 if a.bits == b.bits else max(a, b, key=lambda each: each.bits)
    if a.kind == b.kind:
        return max(a, b, key=lambda each: each.bits)
    signed, unsigned = (a, b) if a.kind == "i" else (b, a)
    bits = max(signed.bits, 2 * unsigned.bits)
    if bits > 64:
        raise UnspecifiedError(f"{a.name} and {b.name} have no common type")
    return SIGNED[bits]


def literal_type(value: Number, other: Type | None) -> Type:
    """Type of a literal beside an operand, or alone: the table "Literals are weak"."""
    if isinstance(value, float):
        return counted(other) if other is not None and other.kind == "f" else default_float()
    if other is not None:
        return counted(other)
    if I32.lowest <= value <= I32.highest:
        return I32
    return I64 if value <= I64.highest else UNSIGNED[64]


def typed(value: object, other: Type | None = None) -> Value:
    """An operand; a literal takes the type of what it meets."""
    if isinstance(value, Value):
        return value
    if isinstance(value, bool):
        return Value(BOOL, int(value)) if other is None else convert(value, counted(other))
    if isinstance(value, int | float):
        return convert(value, literal_type(value, other))
    raise UnspecifiedError(f"{value!r} is not a number")


def pair(left: object, right: object) -> tuple[Value, Value]:
    """Two operands, of which literals have the type of the other."""
    first = typed(left, right.type if isinstance(right, Value) else None)
    return first, typed(right, first.type if isinstance(left, Value) else None)


def meet(left: object, right: object) -> tuple[Type, Number, Number]:
    """Two operands in their common type."""
    a, b = pair(left, right)
    type_ = common(a.type, b.type)
    return type_, convert(a, type_).number, convert(b, type_).number


def in_floats(type_: Type, function: Callable[..., Any], *numbers: Number) -> Value:
    """A function of floats, computed in f64 or in f32 and rounded once to its type."""
    numpy_type = np.float64 if type_ == F64 else np.float32
    with np.errstate(all="ignore"):
        result = float(function(*(numpy_type(number) for number in numbers)))
    return Value(type_, result if type_.bits >= 32 else to_float(result, type_))


def _divided(a: int, b: int, type_: Type) -> tuple[int, int]:
    """Quotient, rounded down, and remainder; by zero all bits set, and the dividend."""
    return (-1, a) if b == 0 else (wrap(a // b, type_), a % b)


_INTEGERS: dict[str, Callable[[int, int, Type], int]] = {
    "+": lambda a, b, _: a + b,
    "-": lambda a, b, _: a - b,
    "*": lambda a, b, _: a * b,
    "//": lambda a, b, type_: _divided(a, b, type_)[0],
    "%": lambda a, b, type_: _divided(a, b, type_)[1],
    "&": lambda a, b, _: a & b,
    "|": lambda a, b, _: a | b,
    "^": lambda a, b, _: a ^ b,
}
_FLOATS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": np.floor_divide,
    "%": np.remainder,
}


def arithmetic(sign: str, left: object, right: object) -> Value:
    """`left sign right` for all signs but shifts, powers and comparisons."""
    tick()
    a, b = pair(left, right)
    if sign in "&|^" and a.type == b.type == BOOL:
        return Value(BOOL, _INTEGERS[sign](int(a.number), int(b.number), BOOL))
    type_, x, y = meet(a, b)
    if sign == "/" and type_.kind != "f":
        type_ = F64 if 64 in (a.type.bits, b.type.bits) else default_float()
        x, y = convert(a, type_).number, convert(b, type_).number
    if type_.kind == "f":
        together = _fused_sum(type_, sign, a, b) if sign in "+-" else None
        return in_floats(type_, _FLOATS[sign], x, y) if together is None else together
    return Value(type_, wrap(_INTEGERS[sign](int(x), int(y), type_), type_))


def multiply_add(type_: Type, x: float, y: float, z: float) -> Value:
    """`x * y + z`, rounded once: exactly, in fractions."""
    if not all(map(math.isfinite, (x, y, z))):
        with np.errstate(all="ignore"):
            # A finite product may not overflow here, so the sign of it is enough.
            product = np.float64(x) * y if not (math.isfinite(x) and math.isfinite(y)) else 0.0
            return Value(type_, to_float(float(product + np.float64(z)), type_))
    exact = Fraction(x) * Fraction(y) + Fraction(z)
    if exact == 0:
        sign = math.copysign(1, x) * math.copysign(1, y)
        is_zero = x * y == 0 and z == 0
        negative = is_zero and sign < 0 and math.copysign(1, z) < 0
        return Value(type_, -0.0 if negative else 0.0)
    wide = type_ if type_.bits >= 32 else F32
    result = rounded(abs(exact.numerator), exact.denominator, wide)
    return Value(type_, to_float(result if exact > 0 else -result, type_))


def _fused_sum(type_: Type, sign: str, left: Value, right: Value) -> Value | None:
    """A sum or difference with a product of its type as an operand, the left one first."""
    for product, other, is_left in ((left, right, True), (right, left, False)):
        if isinstance(product, Product) and product.type == type_ and type_ in (F32, F64):
            x, y = product.factors
            z = float(convert(other, type_).number)
            if sign == "-":
                x, z = (x, -z) if is_left else (-x, z)
            return multiply_add(type_, x, y, z)
    return None


def compared(test: Callable[[Any, Any], bool], left: object, right: object) -> Value:
    """A comparison in the common type."""
    tick()
    _, a, b = meet(left, right)
    return Value(BOOL, int(test(a, b)))


def shifted(left: object, right: object, is_left: bool) -> Value:
    """A shift in the left operand's type; a count that is negative or too large shifts everything out."""
    tick()
    value, count = typed(left), int(typed(right).number)
    type_, number = counted(value.type), int(value.number)
    if not 0 <= count < type_.bits:
        return Value(type_, -1 if not is_left and number < 0 else 0)
    return Value(type_, wrap(number << count if is_left else number >> count, type_))


def _binary(sign: str) -> tuple[Any, Any]:
    return (
        lambda self, other: arithmetic(sign, self, other),
        lambda self, other: arithmetic(sign, other, self),
    )


class Value:
    """A staged number of one thread."""

    __slots__ = ("number", "type")

    def __init__(self, type_: Type, number: Number) -> None:
        self.type = type_
        self.number = number

    def __repr__(self) -> str:
        return f"{self.type.name}({self.number})"

    @property
    def dtype(self) -> Type:
        """The element type, by the name that kernels use."""
        return self.type

    __add__, __radd__ = _binary("+")
    __sub__, __rsub__ = _binary("-")
    __mul__, __rmul__ = _binary("*")
    __truediv__, __rtruediv__ = _binary("/")
    __floordiv__, __rfloordiv__ = _binary("//")
    __mod__, __rmod__ = _binary("%")
    __and__, __rand__ = _binary("&")
    __or__, __ror__ = _binary("|")
    __xor__, __rxor__ = _binary("^")

    def __lshift__(self, other: object) -> Value:
        return shifted(self, other, is_left=True)

    def __rshift__(self, other: object) -> Value:
        return shifted(self, other, is_left=False)

    def __pow__(self, exponent: int) -> Value:
        type_ = counted(self.type)
        if not isinstance(exponent, int) or exponent < 0 or type_.kind == "f":
            raise UnspecifiedError("powers of floats are not exact")
        return Value(type_, wrap(int(self.number) ** exponent, type_))

    def __lt__(self, other: object) -> Value:
        return compared(operator.lt, self, other)

    def __le__(self, other: object) -> Value:
        return compared(operator.le, self, other)

    def __gt__(self, other: object) -> Value:
        return compared(operator.gt, self, other)

    def __ge__(self, other: object) -> Value:
        return compared(operator.ge, self, other)

    def __eq__(self, other: object) -> Any:
        return compared(operator.eq, self, other)

    def __ne__(self, other: object) -> Any:
        return compared(operator.ne, self, other)

    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> bool:
        tick()
        return self.number != 0

    def __neg__(self) -> Value:
        type_ = counted(self.type)
        if type_.kind == "f":
            return Value(type_, -self.number)
        return Value(type_, wrap(-int(self.number), type_))

    def __pos__(self) -> Value:
        return Value(counted(self.type), self.number)

    def __invert__(self) -> Value:
        if self.type.kind not in "iu":
            raise UnspecifiedError("~ is for integers")
        return Value(self.type, wrap(~int(self.number), self.type))

    def __index__(self) -> int:
        if self.type.kind == "f":
            raise UnspecifiedError("an index is an integer")
        return int(self.number)


class Product(Value):
    """A product that stands as an operand of `+` or `-` in the text, with its factors in its type."""

    __slots__ = ("factors",)

    def __init__(self, value: Value, *factors: Value) -> None:
        super().__init__(value.type, value.number)
        self.factors = [float(convert(each, value.type).number) for each in factors]


def wide(type_: Type) -> Type:
    """Type of a literal with it in a variable: the table "Sums are wide"."""
    if type_.bits >= 32 or type_ == BOOL:
        return type_
    return F32 if type_.kind == "f" else I32


def augmented(kind: str, left: Any, right: Any) -> Any:
    """``left += right`` of a variable, and the other signs, by the names of `ast`'s classes."""
    is_literal = isinstance(left, int | float) and not isinstance(left, bool)
    if is_literal and isinstance(right, Value):
        left = convert(left, literal_type(left, wide(right.type)))
    return _AUGMENTED[kind](left, right)


_AUGMENTED = {
    "Add": operator.add,
    "Sub": operator.sub,
    "Mult": operator.mul,
    "FloorDiv": operator.floordiv,
    "Mod": operator.mod,
    "BitAnd": operator.and_,
    "BitOr": operator.or_,
    "BitXor": operator.xor,
    "LShift": operator.lshift,
    "RShift": operator.rshift,
}


def product(left: Any, right: Any) -> Any:
    """`left * right` as an operand of a sum."""
    value = left * right
    return Product(value, *pair(left, right)) if isinstance(value, Value) else value
