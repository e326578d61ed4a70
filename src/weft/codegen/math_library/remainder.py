# SPDX-License-Identifier: Apache-2.0
"""Remainders and floor division of floats: exact for every quotient.

In: two floats of one type. Out: C's fmod, Python's `//` and `%`; an infinite or zero divisor behaves as in C.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.codegen.math_library.formula import Formula

if TYPE_CHECKING:
    from weft.codegen.llvm.module_printer import LibraryEntry, ModulePrinter

# Quotients below the first and operands between the others divide exactly in one step.
_ONE_STEP = {"float": (2.0**22, 2.0**-100, 2.0**100), "double": (2.0**51, 2.0**-900, 2.0**900)}


def _fmod(kind: str) -> LibraryEntry:
    """|x| modulo |y|, with the sign of x.

    A quotient below 2**mantissa is off by at most one, and `fma` gives the exact rest. Others use long division of the
    mantissas.
    """
    name = "f32" if kind == "float" else "f64"
    quotient, lowest, highest = _ONE_STEP[kind]

    def entry(module: ModulePrinter) -> str:
        f = Formula(module, f"fmod.{name}", kind, kind, kind)
        x, y = f.arguments
        ax, ay = f.fabs(x), f.fabs(y)
        q = f.call("llvm.trunc", f.div(ax, ay))
        rest = f.fma(f.neg(q), ay, ax)
        fixed = f.select(f.compare("olt", rest, 0.0), f.add(rest, ay), rest)
        fixed = f.select(f.compare("oge", fixed, ay), f.sub(fixed, ay), fixed)
        fixed = f.select(f.compare("olt", ax, ay), ax, fixed)
        near = f.compare("olt", q, quotient)
        large = f.compare("ogt", ay, lowest)
        bounded = f.compare("olt", ax, highest)
        both = f.let(f"and i1 {near}, {large}")
        done = f.let(f"and i1 {both}, {bounded}")
        slow = _long_division(f, ax, ay, done)
        result = f.let(f"phi {kind} [ {fixed}, %entry ], [ {slow}, %slow ]")
        return f.finish(f.copysign(result, x))

    return entry


def _long_division(f: Formula, ax: str, ay: str, done: str) -> str:
    """Leaves the entry block if `done`; else divides in block %slow. Ends at the start of %end."""
    f.raw(f"  br i1 {done}, label %end, label %slow\nslow:")
    if f.kind == "float":
        ax, ay = f.let(f"fpext float {ax} to double"), f.let(f"fpext float {ay} to double")
    callee = f.module.library("fmod_long.f64")
    slow = f.let(f"call double {callee}(double {ax}, double {ay})")
    if f.kind == "float":
        slow = f.let(f"fptrunc double {slow} to float")
    f.raw("  br label %end\nend:")
    return slow


def fmod_long(module: ModulePrinter) -> str:
    """x modulo y of non-negative doubles by long division of the mantissas, eleven bits at a time."""
    return f"""define internal double @weft.fmod_long.f64(double %x, double %y) nounwind {{
entry:
  %x_finite = fcmp olt double %x, 0x7FF0000000000000
  %y_positive = fcmp ogt double %y, 0x0000000000000000
  %good = and i1 %x_finite, %y_positive
  %less = fcmp olt double %x, %y
  br i1 %good, label %finite, label %bad
bad:
  ret double 0x7FF8000000000000
finite:
  br i1 %less, label %same, label %start
same:
  ret double %x
start:
  %xb = bitcast double %x to i64
  %yb = bitcast double %y to i64
  %xe0 = lshr i64 %xb, 52
  %ye0 = lshr i64 %yb, 52
  %xf = and i64 %xb, {(1 << 52) - 1}
  %yf = and i64 %yb, {(1 << 52) - 1}
  %x_normal = icmp ne i64 %xe0, 0
  %y_normal = icmp ne i64 %ye0, 0
  %xh = or i64 %xf, {1 << 52}
  %yh = or i64 %yf, {1 << 52}
  %mx = select i1 %x_normal, i64 %xh, i64 %xf
  %my = select i1 %y_normal, i64 %yh, i64 %yf
  %xe = call i64 {module.intrinsic("llvm.umax", ".i64")}(i64 %xe0, i64 1)
  %ye = call i64 {module.intrinsic("llvm.umax", ".i64")}(i64 %ye0, i64 1)
  %distance = sub i64 %xe, %ye
  %r0 = urem i64 %mx, %my
  br label %loop
loop:
  %r = phi i64 [ %r0, %start ], [ %next, %body ]
  %left = phi i64 [ %distance, %start ], [ %remaining, %body ]
  %more = icmp ne i64 %left, 0
  br i1 %more, label %body, label %pack
body:
  %step = call i64 {module.intrinsic("llvm.umin", ".i64")}(i64 %left, i64 11)
  %moved = shl i64 %r, %step
  %next = urem i64 %moved, %my
  %remaining = sub i64 %left, %step
  br label %loop
pack:
  %is_zero = icmp eq i64 %r, 0
  br i1 %is_zero, label %zero, label %nonzero
zero:
  ret double 0x0000000000000000
nonzero:
  %leading = call i64 {module.intrinsic("llvm.ctlz", ".i64")}(i64 %r, i1 false)
  %free = sub i64 %leading, 11
  %spare = sub i64 %ye, 1
  %up = call i64 {module.intrinsic("llvm.umin", ".i64")}(i64 %free, i64 %spare)
  %mantissa = shl i64 %r, %up
  %exponent = sub i64 %spare, %up
  %field = shl i64 %exponent, 52
  %bits = add i64 %field, %mantissa
  %result = bitcast i64 %bits to double
  ret double %result
}}
"""


def _floor_mod(kind: str) -> LibraryEntry:
    """Python's `%`: fmod, shifted by one divisor if the signs differ."""
    name = "f32" if kind == "float" else "f64"

    def entry(module: ModulePrinter) -> str:
        f = Formula(module, f"floor_mod.{name}", kind, kind, kind)
        x, y = f.arguments
        rest = f.library("fmod", x, y)
        return f.finish(_floored(f, rest, y)[0])

    return entry


def _floored(f: Formula, rest: str, y: str) -> tuple[str, str]:
    """The remainder with the divisor's sign, and whether it was shifted."""
    negative_rest = f.compare("olt", rest, 0.0)
    negative_y = f.compare("olt", y, 0.0)
    differ = f.let(f"xor i1 {negative_rest}, {negative_y}")
    nonzero = f.compare("one", rest, 0.0)
    move = f.let(f"and i1 {differ}, {nonzero}")
    moved = f.select(move, f.add(rest, y), rest)
    # A zero remainder has the sign of the divisor.
    is_zero = f.compare("oeq", rest, 0.0)
    return f.select(is_zero, f.copysign(0.0, y), moved), move


def _floor_div(kind: str) -> LibraryEntry:
    """Python's `//`: (x - x % y) / y, rounded to the nearby integer."""
    name = "f32" if kind == "float" else "f64"

    def entry(module: ModulePrinter) -> str:
        f = Formula(module, f"floor_div.{name}", kind, kind, kind)
        x, y = f.arguments
        rest = f.library("fmod", x, y)
        move = _floored(f, rest, y)[1]
        near = f.div(f.sub(x, rest), y)
        lower = f.select(move, f.sub(near, 1.0), near)
        floor = f.call("llvm.floor", lower)
        above = f.compare("ogt", f.sub(lower, floor), 0.5)
        whole = f.select(above, f.add(floor, 1.0), floor)
        quotient = f.div(x, y)
        is_zero = f.compare("oeq", lower, 0.0)
        signed = f.select(is_zero, f.copysign(0.0, quotient), whole)
        # A zero divisor gives C's quotient; an infinite dividend gives NaN, as in Python and NumPy.
        exact = f.compare("ord", rest, 0.0)
        by_zero = f.compare("oeq", y, 0.0)
        return f.finish(f.select(exact, signed, f.select(by_zero, quotient, rest)))

    return entry


REMAINDER: dict[str, LibraryEntry] = {
    "fmod_long.f64": fmod_long,
    **{
        f"{stem}.{name}": make(kind)
        for stem, make in (("fmod", _fmod), ("floor_mod", _floor_mod), ("floor_div", _floor_div))
        for name, kind in (("f32", "float"), ("f64", "double"))
    },
}
