# SPDX-License-Identifier: Apache-2.0
"""printf: the format that C gets, and its checks; assert; print is refused."""

from __future__ import annotations

import pytest

from tests.language.tracing import Trace
from weft.dialects.simt.debug import PrintfOp
from weft.errors import TypeMismatchError, UnsupportedSyntaxError, ValueRangeError
from weft.language import resolve
from weft.language.builtins import BUILTINS
from weft.language.debug import emit_assert
from weft.types import dtype as types
from weft.types.dtype import DTYPES, dtype_named

pytestmark = pytest.mark.joined

printf = resolve("printf")


def printed(trace, *arguments):
    """The format and the types of the arguments that C's printf gets."""
    printf.emit(trace.builder, *arguments)
    operation = trace.block.last_op
    assert isinstance(operation, PrintfOp)
    trace.verify()
    return operation.text.data, [str(argument.type) for argument in operation.args]


@pytest.mark.parametrize(
    ("conversion", "dtype", "text", "passed"),
    [
        ("%d", "bool_", "%d", "i32"),
        ("%d", "i8", "%d", "i32"),
        ("%d", "u16", "%d", "i32"),
        ("%i", "i32", "%i", "i32"),
        ("%d", "i64", "%lld", "i64"),
        ("%u", "u8", "%u", "i32"),
        ("%u", "u32", "%u", "i32"),
        ("%u", "u64", "%llu", "i64"),
        ("%lu", "u32", "%u", "i32"),
        ("%hhd", "i64", "%lld", "i64"),
        ("%08x", "i32", "%08x", "i32"),
        ("%#X", "u64", "%#llX", "i64"),
        ("%c", "u8", "%c", "i32"),
        ("%f", "f16", "%f", "f64"),
        ("%+.3e", "f32", "%+.3e", "f64"),
        ("%-10g", "f64", "%-10g", "f64"),
        ("%a", "bf16", "%a", "f64"),
        ("%5.1f", "f8e4m3", "%5.1f", "f64"),
    ],
)
def test_lengths_follow_from_the_arguments_type(conversion, dtype, text, passed):
    trace = Trace()
    found = printed(trace, f"x = {conversion}\n", trace.scalar(dtype_named(dtype)))
    assert found == (f"x = {text}\n", [passed])


@pytest.mark.parametrize(
    ("conversion", "constant", "text", "passed"),
    [
        ("%d", -5, "%d", "i32"),
        ("%d", 1 << 40, "%lld", "i64"),
        ("%u", 3_000_000_000, "%u", "i32"),
        ("%u", 1 << 63, "%llu", "i64"),
        ("%d", True, "%d", "i32"),
        ("%f", 0.1, "%f", "f64"),
    ],
)
def test_constants_are_printed_in_full(conversion, constant, text, passed):
    assert printed(Trace(), conversion, constant) == (text, [passed])


def test_a_constant_string_becomes_part_of_the_format():
    trace = Trace()
    found = printed(trace, "%s: %d (%5s|%-3s)", "100%", trace.scalar(types.i32), "ab", "c")
    assert found == ("100%%: %d (   ab|c  )", ["i32"])


def test_percent_signs_and_plain_text_stay():
    assert printed(Trace(), "100 %% done\n") == ("100 %% done\n", [])


@pytest.mark.parametrize(
    ("conversion", "dtype", "expected", "hint"),
    [
        ("%d", "f32", "an integer", "use %f, or weft.i32(x)"),
        ("%f", "i32", "a float", "use %d, or weft.f32(x)"),
        ("%d", "u32", "a signed integer", "use %u"),
        ("%u", "i64", "an unsigned integer", "use %d"),
        ("%c", "i64", "at most 32 bits", "weft.i32(x)"),
        ("%s", "i32", "a string known at compile time", ""),
    ],
)
def test_an_argument_of_another_kind_is_an_error(conversion, dtype, expected, hint):
    trace = Trace()
    with pytest.raises(TypeMismatchError) as caught:
        printf.emit(trace.builder, f"{conversion}", trace.scalar(dtype_named(dtype)))
    assert caught.value.code == "PRINTF_TYPE"
    assert caught.value.message == (
        f"printf: argument 1 for {conversion!r} is {dtype}; expected {expected}"
    )
    assert caught.value.hint == hint


def test_a_tensor_is_not_an_argument():
    trace = Trace()
    with pytest.raises(TypeMismatchError, match=r"is Tensor\[f32, \(\?,\)\]; expected a number"):
        printf.emit(trace.builder, "%f", trace.tensor(types.f32))


@pytest.mark.parametrize(
    ("text", "count", "conversions"), [("%d", 0, 1), ("%d %d", 1, 2), ("%d", 2, 1), ("none", 1, 0)]
)
def test_a_wrong_number_of_arguments_is_an_error(text, count, conversions):
    trace = Trace()
    with pytest.raises(TypeMismatchError) as caught:
        printf.emit(trace.builder, text, *[1] * count)
    assert caught.value.code == "PRINTF_ARGUMENTS"
    assert f"has {conversions} conversions, received {count} arguments" in caught.value.message


@pytest.mark.parametrize("text", ["%n", "%p", "%y", "%", "100%", "%*d", "%.*f", "% %"])
def test_an_unknown_conversion_is_an_error(text):
    trace = Trace()
    with pytest.raises(ValueRangeError) as caught:
        printf.emit(trace.builder, text, 1)
    assert caught.value.code == "PRINTF_CONVERSION"


LARGE = ["4096", "99999", "99999999999999999999", "9" * 5000]


@pytest.mark.parametrize("digits", LARGE, ids=lambda digits: digits[:20])
@pytest.mark.parametrize("letter", "diuxXocfFeEgGaAs")
@pytest.mark.parametrize(("part", "text"), [("width", "%{}{}"), ("precision", "%-5.{}{}")])
def test_a_width_or_precision_that_c_does_not_promise_is_an_error(part, text, digits, letter):
    argument = {"s": "text"}.get(letter, 1.5 if letter in "fFeEgGaA" else 1)
    with pytest.raises(
        ValueRangeError, match=f"printf: the {part} of .* is more than 4095"
    ) as caught:
        printf.emit(Trace().builder, text.format(digits, letter), argument)
    assert caught.value.code == "PRINTF_CONVERSION"
    assert len(caught.value.message) < 200
    printf.emit(Trace().builder, text.format("4095", letter), argument)
    printf.emit(Trace().builder, text.format("0004095", letter), argument)


def test_a_width_has_the_digits_of_c():
    with pytest.raises(ValueRangeError, match="unknown conversion"):
        printf.emit(Trace().builder, "%\N{ARABIC-INDIC DIGIT THREE}d", 1)


@pytest.mark.parametrize("text", [3, None, ("%d",)])
def test_the_format_is_a_constant_string(text):
    with pytest.raises(TypeMismatchError, match="a string known at compile time"):
        printf.emit(Trace().builder, text)


def test_a_nul_character_would_end_the_text_unseen():
    with pytest.raises(ValueRangeError, match="NUL"):
        printf.emit(Trace().builder, "a\0b")


def test_at_most_32_arguments_are_printed():
    trace = Trace()
    printf.emit(trace.builder, "%d" * 32, *range(32))
    with pytest.raises(TypeMismatchError, match="33 arguments; at most 32"):
        printf.emit(trace.builder, "%d" * 33, *range(33))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_an_assertion_takes_any_number(dtype):
    trace = Trace()
    emit_assert(trace.builder, trace.scalar(dtype), "a[i] > 0")
    assert trace.names[-1] == "simt.assert"
    assert '"a[i] > 0"' in trace.verify()


def test_an_assertion_that_holds_at_compile_time_leaves_nothing():
    trace = Trace()
    emit_assert(trace.builder, (1,), "never")
    assert trace.names == []


def test_a_constant_false_assertion_fails_when_reached():
    trace = Trace()
    emit_assert(trace.builder, False, "unreachable")
    assert trace.names == ["simt.assert"]


def test_a_tensor_is_not_a_condition():
    trace = Trace()
    with pytest.raises(TypeMismatchError):
        emit_assert(trace.builder, trace.tensor(types.f32), "a")


def test_print_points_to_printf():
    trace = Trace()
    with pytest.raises(UnsupportedSyntaxError) as caught:
        BUILTINS[print].emit(trace.builder, trace.scalar(types.i32), trace.scalar(types.f32))
    assert caught.value.code == "PRINT"
    assert caught.value.hint.startswith('in a kernel use weft.printf("%d %f\\n", ...)')
