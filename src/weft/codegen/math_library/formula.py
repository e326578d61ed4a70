# SPDX-License-Identifier: Apache-2.0
"""A library function under construction: expressions in one float type, with Python floats as constants.

In: operands as LLVM text or Python numbers. Out: the text of an internal, always inlined function. Code is branch-free
if possible, so that loops over it vectorize.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from weft.codegen.llvm.types import f32_text, f64_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weft.codegen.llvm.module_printer import ModulePrinter

    Operand = str | float


class Formula:
    """The body of one library function.

    Attributes:
        module: provides intrinsics and other library functions.
        kind: the float type of the arithmetic, `float` or `double`.
        name: its weft name, `f32` or `f64`.
        integer: the integer type of the same width.
        arguments: names of the parameters.

    Example:
        >>> def square(module):
        ...     f = Formula(module, "square.f32", "float", "float")
        ...     (x,) = f.arguments
        ...     return f.finish(f.mul(x, x))
    """

    __slots__ = (
        "_header",
        "_lines",
        "_numbers",
        "_result",
        "arguments",
        "integer",
        "kind",
        "module",
        "name",
    )

    def __init__(
        self, module: ModulePrinter, symbol: str, result: str, *parameters: str, kind: str = ""
    ) -> None:
        self.module = module
        self.kind = kind or (result if result in ("float", "double") else "float")
        self.name = "f32" if self.kind == "float" else "f64"
        self.integer = "i32" if self.kind == "float" else "i64"
        self.arguments = tuple(f"%x{index}" for index in range(len(parameters)))
        self._result = result
        listed = ", ".join(f"{p} %x{index}" for index, p in enumerate(parameters))
        self._header = f"define internal {result} @weft.{symbol}({listed}) alwaysinline nounwind"
        self._lines: list[str] = []
        self._numbers = itertools.count(1)

    def share(self, other: Formula) -> None:
        """Writes into the body of `other`: for a part computed in another float type."""
        self._lines = other._lines
        self._numbers = other._numbers

    # ---- text

    def let(self, expression: str) -> str:
        """Adds an instruction and returns its result's name."""
        name = f"%v{next(self._numbers)}"
        self._lines.append(f"  {name} = {expression}")
        return name

    def raw(self, text: str) -> None:
        """Adds whole lines, such as a branch and the label of the block after it."""
        self._lines.append(text)

    def text(self, operand: Operand) -> str:
        """A number as a constant of the formula's float type; names stay."""
        if isinstance(operand, str):
            return operand
        return f32_text(operand) if self.kind == "float" else f64_text(operand)

    def finish(self, result: str) -> str:
        """The whole function, which returns `result`."""
        self._lines.append(f"  ret {self._result} {result}")
        body = "\n".join(self._lines)
        return f"{self._header} {{\nentry:\n{body}\n}}\n"

    # ---- floats

    def _binary(self, instruction: str, a: Operand, b: Operand) -> str:
        return self.let(f"{instruction} {self.kind} {self.text(a)}, {self.text(b)}")

    def add(self, a: Operand, b: Operand) -> str:
        """a + b"""
        return self._binary("fadd", a, b)

    def sub(self, a: Operand, b: Operand) -> str:
        """a - b"""
        return self._binary("fsub", a, b)

    def mul(self, a: Operand, b: Operand) -> str:
        """a * b"""
        return self._binary("fmul", a, b)

    def div(self, a: Operand, b: Operand) -> str:
        """a / b"""
        return self._binary("fdiv", a, b)

    def neg(self, a: Operand) -> str:
        """-a"""
        return self.let(f"fneg {self.kind} {self.text(a)}")

    def call(self, name: str, *operands: Operand) -> str:
        """An intrinsic of the formula's float type, such as ``"llvm.fabs"``."""
        callee = self.module.intrinsic(name, f".{self.name}")
        listed = ", ".join(f"{self.kind} {self.text(operand)}" for operand in operands)
        return self.let(f"call {self.kind} {callee}({listed})")

    def library(self, name: str, *operands: Operand) -> str:
        """Another library function of the same float type, such as ``"exp"``."""
        callee = self.module.library(f"{name}.{self.name}")
        listed = ", ".join(f"{self.kind} {self.text(operand)}" for operand in operands)
        return self.let(f"call {self.kind} {callee}({listed})")

    def fma(self, a: Operand, b: Operand, c: Operand) -> str:
        """a * b + c, rounded once"""
        return self.call("llvm.fma", a, b, c)

    def fabs(self, a: Operand) -> str:
        """|a|"""
        return self.call("llvm.fabs", a)

    def sqrt(self, a: Operand) -> str:
        """The square root, correctly rounded."""
        return self.call("llvm.sqrt", a)

    def copysign(self, magnitude: Operand, sign: Operand) -> str:
        """`magnitude` with the sign of `sign`"""
        return self.call("llvm.copysign", magnitude, sign)

    def horner(self, x: Operand, coefficients: Sequence[float]) -> str:
        """The polynomial with these coefficients, the highest power's first."""
        value: Operand = coefficients[0]
        for coefficient in coefficients[1:]:
            value = self.fma(value, x, coefficient)
        return self.text(value)

    def compare(self, predicate: str, a: Operand, b: Operand) -> str:
        """An i1, with LLVM's float predicates: ``"olt"`` is false for NaN, ``"ult"`` true."""
        return self._binary(f"fcmp {predicate}", a, b)

    def select(self, condition: str, a: Operand, b: Operand) -> str:
        """a where the condition holds, else b"""
        return self.let(
            f"select i1 {condition}, {self.kind} {self.text(a)}, {self.kind} {self.text(b)}"
        )

    # ---- bits

    def bits(self, a: Operand) -> str:
        """The float's bits as an integer of its width."""
        return self.let(f"bitcast {self.kind} {self.text(a)} to {self.integer}")

    def from_bits(self, bits: str) -> str:
        """The float with these bits."""
        return self.let(f"bitcast {self.integer} {bits} to {self.kind}")

    def integer_op(self, instruction: str, a: str | int, b: str | int) -> str:
        """An integer instruction in the float's width, such as ``"and"`` or ``"icmp eq"``."""
        return self.let(f"{instruction} {self.integer} {a}, {b}")
