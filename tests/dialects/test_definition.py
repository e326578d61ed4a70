# SPDX-License-Identifier: Apache-2.0
"""An operation's text form is read when it is first needed, and means what xDSL's own decorator makes of it."""

from __future__ import annotations

import subprocess
import sys
from io import StringIO

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, UnitAttr, i32, i64
from xdsl.dialects.test import TestOp as AnyOp
from xdsl.ir import Dialect
from xdsl.irdl import IRDLOperation, operand_def, result_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import ParseError

from weft.dialects.definition import (
    BaseOperation,
    fixed_result,
    flag,
    integer,
    operand,
    operands,
    operation_definition,
    result,
    result_of,
    string,
)


def doubling(text: str) -> type[IRDLOperation]:
    class Double(IRDLOperation):
        name = "trial.double"
        value = operand_def(i32)
        result = result_def(i32)
        assembly_format = text

    return operation_definition(Double)


def printed(operation: IRDLOperation) -> str:
    stream = StringIO()
    Printer(stream).print_op(operation)
    return stream.getvalue()


def test_text_is_printed_and_parsed_again():
    double = doubling("$value attr-dict `:` type($value) `->` type($result)")
    value = AnyOp(result_types=[i32])
    text = printed(double(operands=[value.results[0]], result_types=[i32]))
    assert text == "%0 = trial.double %1 : i32 -> i32"
    context = Context()
    context.load_dialect(Builtin)
    context.load_dialect(Dialect("trial", [double]))
    again = Parser(context, f'%1 = "builtin.unrealized_conversion_cast"() : () -> i32\n{text}')
    assert [type(op).__name__ for op in again.parse_module().ops][1] == "Double"
    assert double.assembly_format is not None


def test_a_wrong_text_is_found_when_it_is_first_needed():
    double = doubling("$no_such_operand")
    value = AnyOp(result_types=[i32])
    with pytest.raises(ParseError, match="no_such_operand"):
        printed(double(operands=[value.results[0]], result_types=[i32]))


def test_importing_the_dialects_reads_no_text_of_theirs():
    code = (
        "import xdsl.dialects.arith, xdsl.dialects.func, xdsl.dialects.math, xdsl.dialects.scf\n"
        "from xdsl.irdl import declarative_assembly_format as module\n"
        "read = []\n"
        "original = module.FormatProgram.from_str\n"
        "module.FormatProgram.from_str = lambda *given: read.append(given) or original(*given)\n"
        "import weft.dialects.simt, weft.dialects.ffi\n"
        "assert not read, read\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@operation_definition
class Trial(BaseOperation):
    """An operation whose constructor is made of its fields."""

    name = "trial.fields"
    kind: str = string()
    value: object = operand(i32)
    count: int = integer(i32, default=3)
    more: object = operands(i32, default=())
    ends: bool = flag(default=False)
    given: object = result()
    same: object = result_of("value", i32)
    wide: object = result_of("kind", kind=lambda kind: i64 if kind == "wide" else i32)
    fixed = fixed_result(i32)


def test_fields_are_the_constructors_parameters():
    value = AnyOp(result_types=[i32]).results[0]
    made = Trial("wide", value, 5, [value], given=i64, ends=True)
    assert (made.kind.data, made.count.value.data, made.ends) == ("wide", 5, UnitAttr())
    assert [one.type for one in made.results] == [i64, i32, i64, i32]
    assert list(made.more) == [value]
    brief = Trial("a", value, given=i32)
    assert (brief.count.value.data, brief.ends, list(brief.more)) == (3, None, [])
    assert brief.wide.type == i32


@pytest.mark.parametrize(
    ("given", "named", "said"),
    [
        ((), {}, "takes kind, value, count, more, ends, given; kind is missing"),
        (("a",), {"kind": "b"}, "received 1 values, kind"),
        (("a",), {"kinds": "b"}, "received 1 values, kinds"),
        (range(7), {}, "received 7 values"),
    ],
)
def test_wrong_arguments_are_named(given: tuple[object, ...], named: dict[str, object], said: str):
    with pytest.raises(TypeError, match=said):
        Trial(*given, **named)


def test_numbers_of_another_type_are_not_mixed_up():
    value = AnyOp(result_types=[i32]).results[0]
    counts = [Trial("a", value, count, given=i32).count.value.data for count in (1, True)]
    assert [type(count) for count in counts] == [int, bool]
