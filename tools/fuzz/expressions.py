# SPDX-License-Identifier: Apache-2.0
"""Random expressions of a given element type, as text.

In: a generator of random numbers and what names are in scope. Out: text whose value has exactly the type asked for,
by the rules of docs/language.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tools.fuzz.values import (
    BF16,
    BOOL,
    F16,
    F32,
    F64,
    I32,
    I64,
    NARROW,
    SIGNED,
    UNSIGNED,
    Type,
    UnspecifiedError,
    common,
)

if TYPE_CHECKING:
    import random

INTEGERS = (*SIGNED.values(), *UNSIGNED.values())
FLOATS = (F16, BF16, F32, F64)
NUMBERS = (*INTEGERS, *FLOATS)
DEPTH = 3


@dataclass
class Helper:
    """A Python function that kernels call: the types of its parameters and of what it returns."""

    name: str
    parameters: tuple[Type, ...]
    results: tuple[Type, ...]


@dataclass
class Scope:
    """Names that an expression may use.

    Attributes:
        variables: name → type.
        arrays: name → element type and length, a power of two or more than 15.
        elements: texts of elements that belong to this thread → type.
        helpers: functions that may be called.
        on_host: in a host function, which reads no elements.
    """

    variables: dict[str, Type] = field(default_factory=dict)
    arrays: dict[str, tuple[Type, int]] = field(default_factory=dict)
    elements: dict[str, Type] = field(default_factory=dict)
    helpers: list[Helper] = field(default_factory=list)
    on_host: bool = False

    def copy(self) -> Scope:
        """A scope in which new variables are forgotten at its end."""
        return Scope(
            dict(self.variables),
            dict(self.arrays),
            dict(self.elements),
            list(self.helpers),
            self.on_host,
        )


def joins(first: Type, second: Type) -> Type | None:
    """The type in which two meet, if there is one."""
    try:
        return common(first, second)
    except UnspecifiedError:
        return None


class Expressions:
    """Writes expressions.

    Example:
        >>> import random
        >>> text = Expressions(random.Random(1)).of(I32, Scope({"v": I32}))
    """

    def __init__(self, random: random.Random) -> None:
        self.random = random

    def chance(self, probability: float) -> bool:
        """True as often as that."""
        return self.random.random() < probability

    # ---- leaves

    def literal(self, type_: Type) -> str:
        """A constant of a type, often one where something changes."""
        if type_ == BOOL:
            return self.random.choice(("weft.bool_(True)", "weft.bool_(False)"))
        if type_.kind == "f":
            chosen = (0.0, -0.0, 1.0, -1.5, 0.1, 3.0, 1e-3, 255.5, 1e4, -7.25, 1e-7)
            return f"weft.{type_.name}({self.random.choice(chosen)})"
        limits = (type_.lowest, type_.highest, type_.highest - 1, type_.highest // 2)
        small = (0, 1, 2, 3, 7, 10, type_.bits - 1)
        return f"weft.{type_.name}({self.random.choice(limits if self.chance(0.3) else small)})"

    def weak(self, type_: Type) -> str:
        """A literal without a type that takes this one beside an operand of it; not 0."""
        if type_.kind == "f" and self.chance(0.6):
            return str(self.random.choice((0.5, 2.0, 1.25, 1e-2, 100.0)))
        return str(self.random.choice((1, 2, 3, 5, 7, 10, 16, 100)))

    def leaf(self, type_: Type, scope: Scope, constant: bool = True) -> str:
        """A name, an element or a literal of a type; without `constant` not a literal, where there is a way."""
        named = [name for name, found in scope.variables.items() if found == type_]
        named += [text for text, found in scope.elements.items() if found == type_]
        if named and (not constant or self.chance(0.75)):
            return self.random.choice(named)
        others = [*scope.variables, *scope.elements]
        if others and (not constant or self.chance(0.5)):
            return f"weft.{type_.name}({self.random.choice(others)})"
        return self.literal(type_)

    def index(self, length: int, scope: Scope, depth: int) -> str:
        """An index below a length."""
        if length > 2 and self.chance(0.3):
            first = self.random.randrange(1, length)
            rest = self.index(length - first, scope, depth)
            return self.random.choice((f"{first} + ({rest})", f"({rest}) + {first}"))
        inner = self.of(self.random.choice((I32, UNSIGNED[32], SIGNED[16])), scope, depth)
        if length & (length - 1) == 0 and self.chance(0.5):
            return f"weft.i32({inner}) & {length - 1}"
        return f"weft.i32({inner}) % {length}"

    # ---- numbers

    def of(self, type_: Type, scope: Scope, depth: int = DEPTH) -> str:
        """An expression of exactly this type."""
        if depth <= 0 or self.chance(0.12):
            return self.leaf(type_, scope)
        if type_ == BOOL:
            return f"weft.bool_({self.condition(scope, depth - 1)})"
        shared = [self._binary, self._binary, self._binary, self._conversion, self._choice]
        shared += [self._call, self._element, self._unary]
        own = [self._bits, self._shift, self._division]
        if type_.kind == "f":
            own = [self._rounding, self._fused, self._division, self._sum, self._sum]
        for _ in range(4):
            text = self.random.choice(shared + own)(type_, scope, depth - 1)
            if text:
                return f"({text})"
        return self.leaf(type_, scope)

    def _partner(self, type_: Type) -> Type:
        """A type that meets this one in this one."""
        return self.random.choice([each for each in NUMBERS if joins(type_, each) == type_])

    def _binary(self, type_: Type, scope: Scope, depth: int) -> str:
        signs = "+ - *" if type_.kind == "f" else "+ - * & | ^"
        sign = self.random.choice(signs.split())
        left, kind = self.of(type_, scope, depth), self.random.random()
        if kind < 0.2:
            right = self.weak(type_)
        elif kind < 0.5:
            right = self.of(self._partner(type_), scope, depth)
        else:
            right = self.of(type_, scope, depth)
        return f"{left} {sign} {right}" if self.chance(0.7) else f"{right} {sign} {left}"

    def _division(self, type_: Type, scope: Scope, depth: int) -> str:
        sign = self.random.choice(("//", "%", "/") if type_.kind == "f" else ("//", "%"))
        left, right = type_, type_
        if type_ == F32 and self.chance(0.3):
            small = [each for each in INTEGERS if each.bits < 64]
            left, right = self.random.choice(small), self.random.choice(small)
            divisor = self._at_run_time(right, scope) or self.weak(I32)
            return f"weft.f32({self.of(left, scope, depth)} / {divisor})"
        divisor = self._at_run_time(right, scope) if self.chance(0.7) else ""
        return f"{self.of(left, scope, depth)} {sign} {divisor or self.weak(right)}"

    def _at_run_time(self, type_: Type, scope: Scope) -> str:
        """A value that the compiler cannot know: the constant divisor 0 would be refused. Or nothing."""
        names = [name for name in scope.variables if name[0] not in "pv"]
        names = [*names, *scope.elements]
        return f"weft.{type_.name}({self.random.choice(names)})" if names else ""

    def _conversion(self, type_: Type, scope: Scope, depth: int) -> str:
        source = self.random.choice((*NUMBERS, BOOL))
        inner = self.of(source, scope, depth)
        if type_.kind == "f" and self.chance(0.1):
            inner = f"weft.{self.random.choice(NARROW).name}({inner})"
        return f"weft.{type_.name}({inner})"

    def _choice(self, type_: Type, scope: Scope, depth: int) -> str:
        condition = self.condition(scope, depth)
        first, second = self.of(type_, scope, depth), self.of(type_, scope, depth)
        if not scope.on_host and self.chance(0.25):
            listed = ", ".join(f"weft.{type_.name}({text})" for text in (first, second, first))
            return f"({listed})[{self.index(3, scope, depth)}]"
        if scope.on_host or self.chance(0.5):
            return f"{first} if {condition} else {second}"
        return f"weft.where({condition}, {first}, {second})"

    def _call(self, type_: Type, scope: Scope, depth: int) -> str:
        helpers = [helper for helper in scope.helpers if helper.results == (type_,)]
        if not helpers:
            return ""
        helper = self.random.choice(helpers)
        arguments = ", ".join(self.of(each, scope, depth) for each in helper.parameters)
        return f"{helper.name}({arguments})"

    def _element(self, type_: Type, scope: Scope, depth: int) -> str:
        arrays = [name for name, (found, _) in scope.arrays.items() if found == type_]
        if not arrays:
            return ""
        name = self.random.choice(arrays)
        return f"{name}[{self.index(scope.arrays[name][1], scope, depth)}]"

    def _unary(self, type_: Type, scope: Scope, depth: int) -> str:
        inner = self.of(type_, scope, depth)
        if self.chance(0.3):
            name = self.random.choice(("min", "max", "weft.math.min", "weft.math.max"))
            return f"{name}({inner}, {self.weak(type_)})"
        signs = ["-", "abs", "weft.math.abs"] + (["~", "+"] if type_.kind != "f" else [])
        sign = self.random.choice(signs)
        return f"{sign}({inner})"

    # ---- integers

    def _bits(self, type_: Type, scope: Scope, depth: int) -> str:
        other = self.random.choice(INTEGERS)
        if type_ == I32 and self.chance(0.5):
            name = self.random.choice(("popcount", "clz", "ctz", "ffs"))
            return f"weft.math.{name}({self.of(other, scope, depth)})"
        inner, kind = self.of(type_, scope, depth), self.random.randrange(4)
        if kind == 0:
            return f"{inner} ** {self.random.randrange(5)}"
        if kind == 1:
            return f"weft.math.mulhi({inner}, {self.of(type_, scope, depth)})"
        if kind == 2:
            return f"weft.ceil_div({inner}, {self.weak(type_)})"
        if scope.on_host:
            return ""
        twin = (UNSIGNED if type_.kind == "i" else SIGNED)[type_.bits]
        return f"weft.bitcast({self.of(twin, scope, depth)}, weft.{type_.name})"

    def _shift(self, type_: Type, scope: Scope, depth: int) -> str:
        sign = self.random.choice(("<<", ">>"))
        count = str(self.random.randrange(type_.bits))
        if self.chance(0.5) and (scope.variables or scope.elements):
            # A constant count that is negative would be refused.
            count = self.leaf(self.random.choice(INTEGERS), scope, constant=False)
            count = f"({count} & 15)" if scope.on_host else count
        return f"{self.of(type_, scope, depth)} {sign} {count}"

    # ---- floats

    def _rounding(self, type_: Type, scope: Scope, depth: int) -> str:
        name = self.random.choice(("floor", "ceil", "trunc", "round", "sqrt"))
        return f"weft.math.{name}({self.of(type_, scope, depth)})"

    def _fused(self, type_: Type, scope: Scope, depth: int) -> str:
        first, second = self.of(type_, scope, depth), self.of(type_, scope, depth)
        if self.chance(0.3):  # a NaN's sign is not specified, so its bits come from an integer
            return f"weft.math.copysign({first}, weft.{type_.name}({self.of(I32, scope, depth)}))"
        return f"weft.math.fma({first}, {second}, {self.of(type_, scope, depth)})"

    def _sum(self, type_: Type, scope: Scope, depth: int) -> str:
        """A product as an operand of a sum or a difference, at either side or at both."""
        partner, sign = self._partner(type_), self.random.choice("+-")
        product = f"{self.of(type_, scope, depth)} * {self.of(partner, scope, depth)}"
        other = self.of(type_, scope, depth)
        if self.chance(0.3):
            other = f"{other} * {self.weak(type_)}"
        return f"{product} {sign} {other}" if self.chance(0.5) else f"{other} {sign} {product}"

    # ---- conditions

    def condition(self, scope: Scope, depth: int) -> str:
        """A condition: a comparison, a question, or several of them."""
        kind = self.random.random()
        if depth > 0 and kind < 0.25:
            first, second = self.condition(scope, depth - 1), self.condition(scope, depth - 1)
            return f"({first} {self.random.choice(('and', 'or'))} {second})"
        if depth > 0 and kind < 0.32:
            return f"(not {self.condition(scope, depth - 1)})"
        if kind < 0.4:
            name = self.random.choice(("isnan", "isinf", "isfinite"))
            return f"weft.math.{name}({self.of(self.random.choice(FLOATS), scope, depth)})"
        if kind < 0.48:
            return self.leaf(BOOL, scope)
        type_ = self.random.choice(NUMBERS)
        sign = self.random.choice(("<", "<=", ">", ">=", "==", "!="))
        left = self.of(type_, scope, depth)
        if self.chance(0.15):
            middle, right = self.of(type_, scope, depth), self.of(type_, scope, depth)
            return f"({left} {sign} {middle} {self.random.choice(('<', '<='))} {right})"
        others = [each for each in NUMBERS if joins(type_, each)]
        right = self.weak(type_)
        if self.chance(0.7):
            right = self.of(self.random.choice(others), scope, depth)
        return f"({left} {sign} {right})"

    def type(self) -> Type:
        """An element type for a variable."""
        common_ones = (I32, I32, UNSIGNED[32], I64, F32, F32)
        return self.random.choice((*NUMBERS, *common_ones, BOOL))
