# SPDX-License-Identifier: Apache-2.0
"""Remainders and floor division of floats: exact for every quotient.

In: two floats of one type. Out: C's fmod, Python's `//` and `%`; an infinite or zero divisor behaves as in C.

A quotient that is estimated and rounded to the nearest integer is off by less than one, so that `fma` gives the rest
without error, between -|y| and |y|. Small quotients take one such step, others one for `step` bits of their exponent
each. How good the estimate is does not show in the result.
"""

from __future__ import annotations

from math import inf, nan
from typing import TYPE_CHECKING, NamedTuple

from weft.codegen.math_library.formula import Formula

if TYPE_CHECKING:
    from weft.codegen.llvm.module_printer import LibraryEntry, ModulePrinter


class _Form(NamedTuple):
    """Parameters of a float type.

    Attributes:
        kind: LLVM's name.
        mantissa: bits after the point.
        bias: of the exponent.
        step: bits of a quotient whose estimate is surely off by less than half.
        range: exponents of operands that take one step: of them nothing overflows or is subnormal.
    """

    kind: str
    mantissa: int
    bias: int
    step: int
    range: int


_FORMS = {"f32": _Form("float", 23, 127, 20, 100), "f64": _Form("double", 52, 1023, 50, 900)}


def _inverse(f: Formula, y: str) -> str:
    """1 / y, or a unit's estimate of it, which is off by less than 2**-22."""
    has_unit = f"unit.rcp.{f.name}" in f.module.library_functions
    return f.library("unit.rcp", y) if has_unit else f.div(1.0, y)


def _step(f: Formula, x: str, y: str, inverse: str) -> tuple[str, str]:
    """Quotient and remainder of magnitudes, if the quotient has at most `step` bits; only for x >= y the remainder."""
    nearest = f.call("llvm.roundeven", f.mul(x, inverse))
    rest = f.fma(f.neg(nearest), y, x)
    below = f.compare("olt", rest, 0.0)
    quotient = f.select(below, f.sub(nearest, 1.0), nearest)
    return quotient, f.select(below, f.add(rest, y), rest)


def _one_step(f: Formula, form: _Form) -> tuple[str, str, str]:
    """Quotient and remainder of the magnitudes by one step, and whether that is enough."""
    ax, ay = map(f.fabs, f.arguments)
    quotient, rest = _step(f, ax, ay, _inverse(f, ay))
    rest = f.select(f.compare("olt", ax, ay), ax, rest)
    near = f.compare("olt", quotient, 2.0**form.step)
    large = f.compare("ogt", ay, 2.0**-form.range)
    bounded = f.compare("olt", ax, 2.0**form.range)
    both = f.let(f"and i1 {near}, {large}")
    return quotient, rest, f.let(f"and i1 {both}, {bounded}")


def _begin_slow(f: Formula, is_enough: str) -> None:
    f.raw(f"  br i1 {is_enough}, label %end, label %slow\nslow:")


def _end(f: Formula, near: str, far: str) -> str:
    """The result of one step or of block %slow; begins block %end."""
    f.raw("  br label %end\nend:")
    return f.let(f"phi {f.kind} [ {near}, %entry ], [ {far}, %slow ]")


def _fmod(name: str) -> LibraryEntry:
    """|x| modulo |y|, with the sign of x."""
    form = _FORMS[name]

    def entry(module: ModulePrinter) -> str:
        f = Formula(module, f"fmod.{name}", form.kind, form.kind, form.kind)
        x, y = f.arguments
        ax, ay = f.fabs(x), f.fabs(y)
        _, rest, is_enough = _one_step(f, form)
        _begin_slow(f, is_enough)
        return f.finish(f.copysign(_end(f, rest, f.library("fmod_long", ax, ay)), x))

    return entry


def _fmod_long(name: str) -> LibraryEntry:
    """x modulo y of any magnitudes, by their mantissas."""
    form = _FORMS[name]

    def entry(module: ModulePrinter) -> str:
        f = Formula(module, f"fmod_long.{name}", form.kind, form.kind, form.kind)
        ax, ay = f.arguments
        kind, integer = f.kind, f.integer
        good = f.let(f"and i1 {f.compare('olt', ax, inf)}, {f.compare('ogt', ay, 0.0)}")
        early = f.select(good, ax, nan)
        divides = f.let(f"and i1 {f.compare('oge', ax, ay)}, {good}")
        f.raw(f"  br i1 {divides}, label %start, label %end\nstart:")
        x, x_exponent, _, _ = _parts(f, form, ax)
        y, y_exponent, unit, is_tiny = _parts(f, form, ay)
        inverse = _inverse(f, y)
        distance = f.integer_op("sub", x_exponent, y_exponent)
        first = f.select(f.compare("oge", x, y), f.sub(x, y), x)
        f.raw(
            f"  br label %loop\nloop:\n"
            f"  %rest = phi {kind} [ {first}, %start ], [ %next, %body ]\n"
            f"  %left = phi {integer} [ {distance}, %start ], [ %remaining, %body ]\n"
            f"  %more = icmp sgt {integer} %left, 0\n"
            f"  br i1 %more, label %body, label %pack\nbody:"
        )
        smaller = module.intrinsic("llvm.smin", f".{integer}")
        bits = f.let(f"call {integer} {smaller}({integer} %left, {integer} {form.step})")
        exponent = f.integer_op("add", bits, form.bias)
        power = f.from_bits(f.integer_op("shl", exponent, form.mantissa))
        _, rest = _step(f, f.mul("%rest", power), y, inverse)
        f.raw(
            f"  %next = bitcast {kind} {rest} to {kind}\n"
            f"  %remaining = sub {integer} %left, {bits}\n"
            f"  br label %loop\npack:"
        )
        value = f.mul("%rest", unit)
        value = f.select(is_tiny, f.mul(value, 0.5 ** (form.mantissa + 1)), value)
        f.raw("  br label %end\nend:")
        return f.finish(f.let(f"phi {kind} [ {early}, %entry ], [ {value}, %pack ]"))

    return entry


def _parts(f: Formula, form: _Form, value: str) -> tuple[str, str, str, str]:
    """A magnitude's mantissa in [1, 2), its exponent, its power of two, and whether it is subnormal.

    The power is that of a subnormal number times 2**(mantissa + 1).
    """
    width = form.mantissa + 1
    is_tiny = f.compare("olt", value, 2.0 ** (1 - form.bias))
    bits = f.bits(f.select(is_tiny, f.mul(value, 2.0**width), value))
    exponent = f.integer_op("lshr", bits, form.mantissa)
    lower = f.integer_op("sub", exponent, width)
    exponent = f.let(f"select i1 {is_tiny}, {f.integer} {lower}, {f.integer} {exponent}")
    fraction = f.integer_op("and", bits, (1 << form.mantissa) - 1)
    mantissa = f.from_bits(f.integer_op("or", fraction, form.bias << form.mantissa))
    unit = f.from_bits(f.integer_op("and", bits, -1 << form.mantissa))
    return mantissa, exponent, unit, is_tiny


def _signs(f: Formula) -> tuple[str, str]:
    """The product of the operands' signs as a float, and whether they differ."""
    x, y = map(f.bits, f.arguments)
    signs = f.integer_op("xor", x, y)
    return f.from_bits(signs), f.integer_op("icmp slt", signs, 0)


def _floor_mod(name: str) -> LibraryEntry:
    """Python's `%`: fmod, moved by one divisor if the signs differ; 0 has the sign of the divisor too."""
    kind = _FORMS[name].kind

    def entry(module: ModulePrinter) -> str:
        f = Formula(module, f"floor_mod.{name}", kind, kind, kind)
        _, y = f.arguments
        rest = f.fabs(f.library("fmod", *f.arguments))
        moves = f.let(f"and i1 {_signs(f)[1]}, {f.compare('one', rest, 0.0)}")
        return f.finish(f.copysign(f.select(moves, f.sub(f.fabs(y), rest), rest), y))

    return entry


def _floor_div(name: str) -> LibraryEntry:
    """Python's `//`: (x - x % y) / y, rounded to the nearby integer; one step has that integer already."""
    form = _FORMS[name]

    def entry(module: ModulePrinter) -> str:
        f = Formula(module, f"floor_div.{name}", form.kind, form.kind, form.kind)
        sign, differ = _signs(f)
        quotient, rest, is_enough = _one_step(f, form)
        moves = f.let(f"and i1 {differ}, {f.compare('one', rest, 0.0)}")
        near = f.select(moves, f.add(quotient, 1.0), quotient)
        _begin_slow(f, is_enough)
        far = _end(f, near, _far_quotient(f, differ))
        return f.finish(f.copysign(far, sign))

    return entry


def _far_quotient(f: Formula, differ: str) -> str:
    """The quotient, up to the sign of a zero; in block %slow."""
    x, y = f.arguments
    rest = f.copysign(f.library("fmod_long", f.fabs(x), f.fabs(y)), x)
    near = f.div(f.sub(x, rest), y)
    moves = f.let(f"and i1 {differ}, {f.compare('one', rest, 0.0)}")
    lower = f.select(moves, f.sub(near, 1.0), near)
    floor = f.call("llvm.floor", lower)
    above = f.compare("ogt", f.sub(lower, floor), 0.5)
    whole = f.select(above, f.add(floor, 1.0), floor)
    # A zero divisor gives C's quotient; an infinite dividend gives NaN, as in Python and NumPy.
    by_zero = f.select(f.compare("oeq", y, 0.0), f.mul(x, inf), rest)
    return f.select(f.compare("ord", rest, 0.0), whole, by_zero)


REMAINDER: dict[str, LibraryEntry] = {
    f"{stem}.{name}": make(name)
    for stem, make in (
        ("fmod", _fmod),
        ("fmod_long", _fmod_long),
        ("floor_mod", _floor_mod),
        ("floor_div", _floor_div),
    )
    for name in _FORMS
}
