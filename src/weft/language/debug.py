# SPDX-License-Identifier: Apache-2.0
"""Looking inside a running kernel: ``printf`` and ``assert``; promises to the compiler: ``assume``.

In: a C format string known at compile time with its arguments; a condition and its text. Out: `simt.printf`,
`simt.assert`, `simt.assume`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from weft.dialects.simt.debug import AssertOp, AssumeOp, PrintfOp
from weft.errors import TypeMismatchError, UnsupportedSyntaxError, ValueRangeError, brief
from weft.language.numbers.convert import constant, convert, default_dtype, operand, truth
from weft.language.numbers.promises import note_assumed
from weft.language.operation import operation
from weft.language.values import Scalar, describe, is_staged
from weft.types import dtype as types

if TYPE_CHECKING:
    from xdsl.ir import SSAValue

    from weft.dialects.builder import Builder
    from weft.types.dtype import DType

_CONVERSION: Final = re.compile(
    r"%(?P<flags>[-+ #0]*)(?P<width>\*|[0-9]+)?(?P<precision>\.(?:\*|[0-9]+)?)?"
    r"(?P<length>hh|h|ll|l|z|j|t|q|L)?(?P<letter>.)?",
    re.DOTALL,
)
_SIGNED: Final = "di"
_UNSIGNED: Final = "uxXo"
_FLOATING: Final = "fFeEgGaA"
MOST_ARGUMENTS: Final = 32
"""The limit of CUDA's printf."""
WIDEST: Final = 4095
"""The longest output that C guarantees for a conversion."""


@operation
def printf(builder: Builder, text: object, *arguments: object) -> None:
    r"""Prints to standard output by C's format rules, once per thread that reaches it.

    ``%d`` and ``%i`` take signed integers and bools, ``%u`` unsigned ones, ``%x %X %o`` any, ``%c`` an
    integer, ``%f %e %g %a`` floats, ``%s`` a constant string; ``%%`` is a percent sign. Flags, width and
    precision are C's, up to 4095. Lengths such as ``ll`` follow from the arguments' types and may be omitted. Only
    ``\n`` ends the line. On a GPU the text appears at the next synchronization.

    Args:
        text: the format, known at compile time.
        *arguments: at most 32 numbers, one per conversion.

    Raises:
        TypeMismatchError: for a format that is not constant, a wrong number of arguments, or an argument that does not
            fit its conversion.
        ValueRangeError: for a conversion that does not exist, or a width or precision beyond 4095.

    Example:
        ``weft.printf("thread %d: %f\n", i, a[i])``
    """
    if not isinstance(text, str):
        raise TypeMismatchError(
            "PRINTF_FORMAT",
            f"printf: the first argument must be a string known at compile time, received {describe(text)}",
            hint='write printf("%d\\n", x)',
        )
    if "\0" in text:
        raise ValueRangeError("PRINTF_FORMAT", "printf: the format holds a NUL character")
    pieces, values = _formatted(builder, text, arguments)
    if len(values) > MOST_ARGUMENTS:
        raise TypeMismatchError(
            "PRINTF_ARGUMENTS",
            f"printf: {len(values)} arguments; at most {MOST_ARGUMENTS} are allowed",
            hint="split it into several",
        )
    builder.emit(PrintfOp("".join(pieces), values))


def _formatted(
    builder: Builder, text: str, arguments: tuple[object, ...]
) -> tuple[list[str], list[SSAValue]]:
    """The format for C's printf, with lengths, and its arguments."""
    pieces: list[str] = []
    values: list[SSAValue] = []
    position = used = 0
    for match in _CONVERSION.finditer(text):
        pieces.append(text[position : match.start()])
        position = match.end()
        if match["letter"] == "%" and len(match[0]) == 2:
            pieces.append("%%")
            continue
        _check_conversion(match)
        if used < len(arguments):
            piece, value = _conversion(builder, match, used + 1, arguments[used])
            pieces.append(piece)
            if value is not None:
                values.append(value)
        used += 1
    pieces.append(text[position:])
    if used != len(arguments):
        raise TypeMismatchError(
            "PRINTF_ARGUMENTS",
            f"printf: the format {text!r} has {used} conversions, received {len(arguments)} arguments",
            hint="a percent sign itself is written %%" if used > len(arguments) else "",
        )
    return pieces, values


def _check_conversion(match: re.Match[str]) -> None:
    known = f"{_SIGNED}{_UNSIGNED}{_FLOATING}cs"
    if "*" in (match["width"] or "") + (match["precision"] or ""):
        raise ValueRangeError(
            "PRINTF_CONVERSION",
            f"printf: {match[0]!r} takes its width from an argument; expected digits",
        )
    if match["letter"] is None or match["letter"] not in known:
        raise ValueRangeError(
            "PRINTF_CONVERSION",
            f"printf: unknown conversion {match[0]!r}; expected one of {' '.join('%' + k for k in known)} %%",
            hint="a percent sign itself is written %%",
        )
    for part in ("width", "precision"):
        digits = (match[part] or "").lstrip(".0")
        if len(digits) > len(str(WIDEST)) or int(digits or 0) > WIDEST:
            raise ValueRangeError(
                "PRINTF_CONVERSION",
                f"printf: the {part} of {brief(match[0])} is more than {WIDEST}",
            )


def _conversion(
    builder: Builder, match: re.Match[str], number: int, argument: object
) -> tuple[str, SSAValue | None]:
    letter = match["letter"]
    start = f"%{match['flags']}{match['width'] or ''}{match['precision'] or ''}"
    if letter == "s":
        if not isinstance(argument, str):
            raise _unsuitable(match[0], number, argument, "a string known at compile time")
        return (f"{start}s" % argument).replace("%", "%%"), None
    value = _number(builder, match[0], number, argument)
    dtype = value.dtype
    if letter in _FLOATING:
        if not dtype.is_float:
            raise _unsuitable(match[0], number, argument, "a float", "use %d, or weft.f32(x)")
        return f"{start}{letter}", convert(builder, value, types.f64).ssa
    if dtype.is_float:
        raise _unsuitable(match[0], number, argument, "an integer", "use %f, or weft.i32(x)")
    wide = dtype.bits == 64
    if letter == "c":
        if wide:
            raise _unsuitable(match[0], number, argument, "at most 32 bits", "weft.i32(x)")
        return f"{start}c", convert(builder, value, types.i32).ssa
    if letter in _SIGNED and dtype.kind == "uint" and dtype.bits >= 32:
        raise _unsuitable(match[0], number, argument, "a signed integer", "use %u")
    if letter == "u" and dtype.is_signed:
        raise _unsuitable(match[0], number, argument, "an unsigned integer", "use %d")
    passed = _passed_dtype(dtype)
    return f"{start}{'ll' if wide else ''}{letter}", convert(builder, value, passed).ssa


def _passed_dtype(dtype: DType) -> DType:
    """The type of an integer in a variadic C call: at least 32 bits."""
    if dtype.bits >= 32:
        return dtype
    # Unsigned ones fit i32; signed ones keep their own width's bits under %x.
    return types.u32 if dtype.kind == "uint" else types.i32


def _number(builder: Builder, conversion: str, number: int, argument: object) -> Scalar:
    try:
        value = operand(builder, argument)
    except TypeMismatchError:
        raise _unsuitable(conversion, number, argument, "a number") from None
    if isinstance(value, Scalar):
        return value
    dtype = types.f64 if isinstance(value, float) else default_dtype(value)
    if conversion[-1] == "u" and not isinstance(value, float) and value >= 0:
        dtype = types.u32 if value <= types.u32.maximum else types.u64
    return constant(builder, value, dtype)


def _unsuitable(
    conversion: str, number: int, argument: object, expected: str, hint: str = ""
) -> TypeMismatchError:
    return TypeMismatchError(
        "PRINTF_TYPE",
        f"printf: argument {number} for {conversion!r} is {describe(argument)}; expected {expected}",
        hint=hint,
    )


def emit_assert(builder: Builder, condition: object, text: str) -> None:
    """``assert condition, text``: the launch fails with an error if the condition is false.

    A condition true at compile time adds no code; a false one fails when a thread reaches it, as in Python.

    Args:
        condition: a number, or any compile-time value.
        text: text of the error; without a message the front end passes the condition's source.

    Raises:
        TypeMismatchError: for a tensor or a stream.
    """
    if not is_staged(condition):
        if not condition:
            builder.emit(AssertOp(constant(builder, False, types.bool_).ssa, text))
        return
    builder.emit(AssertOp(truth(builder, condition).ssa, text))


@operation(on_host=True)
def assume(builder: Builder, condition: object) -> None:
    """Promises that a condition holds whenever a thread comes here, so that the compiler may leave out what tests it.

    On a GPU it adds no instruction, and where it does not hold the kernel may do anything. It is an assertion on the
    CPU, on a GPU under the sanitizer or with ``--enable-assertions``, and in host functions, where it fails the call: a
    wrong promise is an error with its line. A condition true at compile time adds nothing. It
    may say that a number is a multiple (``weft.assume(n % 4 == 0)``), is positive, or is below a length tested later.
    Operations after it that need alignment know the powers of two that it says, of a dim or a stride, too: after
    ``weft.assume(a.shape[1] % 8 == 0)`` a row of ``a`` is known to begin at a multiple of 8 elements. Promises of a
    host function about dims, strides and numbers are known in the kernels that receive them.

    Args:
        condition: a comparison, or comparisons joined by ``and``; a bool.

    Raises:
        TypeMismatchError: for anything else, such as the remainder ``n % 8``.
        AssertionError: where it is checked and does not hold.

    Example:
        ``weft.assume(n > 0); weft.assume(n % 4 == 0)``
    """
    if isinstance(condition, bool):
        if condition:
            return
        condition = constant(builder, False, types.bool_)
    if not isinstance(condition, Scalar) or not condition.dtype.is_bool:
        raise TypeMismatchError(
            "ASSUME_CONDITION",
            f"assume: expected a condition, received {describe(condition)}",
            hint="write a comparison, such as weft.assume(n % 8 == 0)",
        )
    note_assumed(builder, builder.emit(AssumeOp(condition.ssa)))


@operation(name="print", on_host=True)
def print_(builder: Builder, *arguments: object, **keywords: object) -> None:
    """Refuses Python's print: the GPU formats, so the format must be C's.

    Raises:
        UnsupportedSyntaxError: always.
    """
    del builder, keywords
    guess = " ".join("%f" if _is_float(argument) else "%d" for argument in arguments)
    raise UnsupportedSyntaxError(
        "PRINT",
        "print is not available in compiled code",
        hint=f'in a kernel use weft.printf("{guess}\\n", ...), which takes a C format string; from a host function, '
        "return the value",
    )


def _is_float(value: object) -> bool:
    return isinstance(value, float) or (isinstance(value, Scalar) and value.dtype.is_float)
