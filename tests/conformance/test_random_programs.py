# SPDX-License-Identifier: Apache-2.0
"""Random small programs give in a kernel what they give in Python.

In: functions with nested ifs, matches and loops, break, continue, return and else. Out: one compilation per program,
run for a handful of arguments.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.conformance.harness import assert_python_agrees, define

NAMES = ("a", "b", "x", "y", "z")
ARGUMENTS = list(itertools.product((-5, -1, 0, 2, 7), (-3, 0, 1, 4)))
# Every assignment is reduced by this, so that no sum or product of three terms leaves 32 bits.
MODULUS = 997

names = st.sampled_from(NAMES)
atoms = st.one_of(names, st.integers(-9, 9).map(lambda n: f"({n})" if n < 0 else str(n)))


def text(form: str, *parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """A format string with drawn parts."""
    return st.builds(form.format, *parts)


def one_of(words: str) -> st.SearchStrategy[str]:
    return st.sampled_from(words.split())


# A divisor is a number, never zero.
quotients = text("({} {} {})", names, one_of("// %"), one_of("2 3 7 (-4)"))
simple = st.one_of(atoms, text("({} {} {})", atoms, one_of("+ - *"), atoms), quotients)
conditions = st.one_of(
    text("{} {} {}", simple, one_of("< <= > >= == !="), atoms),
    text("{} < {} <= {}", atoms, names, atoms),
    text("not {}", names),
    names,
)
compound = st.one_of(conditions, text("({}) {} ({})", conditions, one_of("and or"), conditions))
expressions = st.one_of(
    simple,
    text("{} {} {}", simple, one_of("+ -"), simple),
    text("({} if {} else {})", simple, conditions, simple),
    text("{}({}, {})", one_of("min max"), simple, atoms),
    text("abs({})", simple),
)


@dataclass(frozen=True)
class Place:
    """Where a statement stands: how deep, and in how many loops."""

    depth: int = 0
    loops: int = 0

    def inside(self, loop: bool = False) -> Place:
        return Place(self.depth + 1, self.loops + loop)


def indent(lines: list[str]) -> list[str]:
    return ["    " + line for line in lines]


@st.composite
def statement(draw: st.DrawFn, place: Place) -> list[str]:
    """One statement as lines of text."""
    kinds = ["assign", "assign", "augment", "swap"]
    if place.depth < 3:
        kinds += ["if", "if else", "if elif else", "match"]
    if place.depth < 3 and place.loops < 2:
        kinds += ["for", "for", "while", "search", "endless"]
    if place.loops:
        kinds += ["break", "continue"]
    if place.depth:
        kinds += ["return"]
    return draw(STATEMENTS[draw(st.sampled_from(kinds))](place))


@st.composite
def block(draw: st.DrawFn, place: Place) -> list[str]:
    """One or two statements, indented."""
    parts = draw(st.lists(statement(place), min_size=1, max_size=2))
    return indent([line for part in parts for line in part])


def reduced(name: str, expression: str) -> list[str]:
    return [f"{name} = ({expression}) % {MODULUS}"]


def guarded(word: str) -> st.SearchStrategy[list[str]]:
    """`break`, `continue` or `return` under a condition, so that the rest is reached as well."""
    return conditions.map(lambda condition: [f"if {condition}:", f"    {word}"])


@st.composite
def for_loop(draw: st.DrawFn, place: Place) -> list[str]:
    variable = f"k{place.depth}"
    bound = draw(st.one_of(st.integers(-2, 4).map(str), names.map(lambda n: f"({n} % 5)")))
    start = draw(st.sampled_from(("0", "-1", "2", "b")))
    step = draw(st.sampled_from(("1", "2", "-1", "-2", "3")))
    first, last = (start, bound) if not step.startswith("-") else (bound, start)
    first, last = (f"({part} % 6)" if part == "b" else part for part in (first, last))
    given_range = draw(st.sampled_from((f"range({bound})", f"range({first}, {last}, {step})")))
    use = draw(st.sampled_from(NAMES[2:]))
    body = [f"    {use} = ({use} + {variable}) % {MODULUS}", *draw(block(place.inside(loop=True)))]
    lines = [f"for {variable} in {given_range}:", *body]
    if draw(st.booleans()):
        lines += ["else:", *draw(block(place.inside()))]
    return lines


@st.composite
def while_loop(draw: st.DrawFn, place: Place) -> list[str]:
    counter = f"w{place.depth}"
    condition = draw(conditions)
    limit = draw(st.integers(1, 5))
    lines = [
        f"{counter} = 0",
        f"while {counter} < {limit} and ({condition}):",
        f"    {counter} += 1",
        *draw(block(place.inside(loop=True))),
    ]
    if draw(st.booleans()):
        lines += ["else:", *draw(block(place.inside()))]
    return lines


@st.composite
def if_statement(draw: st.DrawFn, place: Place, parts: int) -> list[str]:
    lines = [f"if {draw(compound)}:", *draw(block(place.inside()))]
    if parts == 3:
        lines += [f"elif {draw(conditions)}:", *draw(block(place.inside()))]
    if parts > 1:
        lines += ["else:", *draw(block(place.inside()))]
    return lines


@st.composite
def search(draw: st.DrawFn, place: Place) -> list[str]:
    """A loop that is the first to assign what it finds, before a break; its else says what holds otherwise."""
    number = draw(st.integers(0, 99))
    found, counter = f"f{number}", f"s{place.depth}"
    header = draw(
        st.sampled_from((f"for {counter} in range(b + 3):", f"for {counter} in (1, 4, -2):"))
    )
    lines = [
        header,
        f"    if {draw(conditions)}:",
        f"        {found} = ({counter} + {draw(atoms)}) % {MODULUS}",
        "        break",
        *draw(
            block(Place(place.depth + 1))
        ),  # without a break of its own, which would not assign it
        "else:",
        f"    {found} = {draw(atoms)}",
    ]
    return [*lines, f"x = (x + {found}) % {MODULUS}"]


@st.composite
def endless(draw: st.DrawFn, place: Place) -> list[str]:
    """`while True` with a counter that ends it, and perhaps something else before."""
    counter = f"e{place.depth}"
    return [
        f"{counter} = 0",
        "while True:",
        f"    {counter} += 1",
        f"    if {counter} > 4:",  # in front of any continue
        "        break",
        *draw(block(place.inside(loop=True))),
        f"    if {draw(conditions)}:",
        f"        {draw(st.sampled_from(('break', 'break', 'return x - 5')))}",
        f"y = (y + {counter}) % {MODULUS}",
    ]


@st.composite
def match_statement(draw: st.DrawFn, place: Place) -> list[str]:
    subject = draw(st.one_of(simple, text("({} % 3, {})", names, names)))
    is_pair = subject.startswith("(") and "," in subject
    lines = [f"match {subject}:"]
    for _ in range(draw(st.integers(1, 3))):
        value = st.integers(-2, 4).map(str)
        pattern = st.one_of(value, text("{} | {}", value, value), st.just("m"))
        if is_pair:
            pattern = text("({}, {})", value, st.one_of(value, st.just("m")))
        chosen = draw(pattern)
        condition = f" if {draw(conditions)}" if chosen == "m" or draw(st.booleans()) else ""
        use = [f"        z = (z + m) % {MODULUS}"] if "m" in chosen else []
        body = indent(draw(block(place.inside())))
        lines += [f"    case {chosen}{condition}:", *use, *body]
    if draw(st.booleans()):
        lines += ["    case _:", *indent(draw(block(place.inside())))]
    return lines


STATEMENTS = {
    "search": search,
    "endless": endless,
    "match": match_statement,
    "assign": lambda place: st.builds(reduced, st.sampled_from(NAMES), expressions),
    "augment": lambda place: st.builds(
        lambda name, sign, value: [f"{name} {sign}= {value}", f"{name} %= {MODULUS}"],
        st.sampled_from(NAMES[2:]),
        st.sampled_from("+-*"),
        simple,
    ),
    "swap": lambda place: st.builds(
        lambda first, second: [f"{first}, {second} = {second}, {first}"], names, names
    ).filter(lambda lines: lines[0][0] != lines[0][3]),
    "if": lambda place: if_statement(place, 1),
    "if else": lambda place: if_statement(place, 2),
    "if elif else": lambda place: if_statement(place, 3),
    "for": for_loop,
    "while": while_loop,
    "break": lambda place: guarded("break"),
    "continue": lambda place: guarded("continue"),
    "return": lambda place: conditions.map(
        lambda condition: [f"if {condition}:", "    return x * 3 + y"]
    ),
}


@st.composite
def programs(draw: st.DrawFn) -> str:
    parts = draw(st.lists(statement(Place()), min_size=1, max_size=5))
    lines = ["x, y = 1, a", f"z = (a * 5 + b) % {MODULUS}"]
    lines += [line for part in parts for line in part]
    lines.append("return x + y * 7 + z * 31")
    return "def program(a, b):\n" + "\n".join(indent(lines)) + "\n"


def check(source: str) -> None:
    program = define(source)["program"]
    try:
        assert_python_agrees(program, *zip(*ARGUMENTS, strict=True))
    except Exception as error:
        error.add_note(source)
        raise


@settings(
    max_examples=18,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(programs())
def test_random_programs_give_what_python_gives(source):
    check(source)
