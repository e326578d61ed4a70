# SPDX-License-Identifier: Apache-2.0
"""Random typed expression trees give what NumPy gives: type, integers exactly, floats to the bit.

In: trees over variables of every wide type, with weak and typed constants. Out: one compilation per handful
of trees.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import weft
from tests.conformance.harness import INTEGERS, NUMPY_TYPES, WIDE_FLOATS, compute
from tests.conformance.model import (
    arithmetic_type,
    assert_same,
    common_type,
    integer_operator,
    interesting_floats,
    interesting_integers,
    to_integer,
    wrap,
)

ROWS = 24
DEFAULT_FLOAT = weft.f64  # of floats that nothing types, in kernels with an array of f64
VARIABLES = {f"v_{dtype}": dtype for dtype in (*INTEGERS, *WIDE_FLOATS, weft.bool_)}
Values = list[Any]


@dataclass(frozen=True)
class Tree:
    """An expression: its text, its type, and its values by the model, one per row.

    A weak constant has no type; `constant` is then its number.
    """

    text: str
    dtype: weft.DType | None
    values: Values
    constant: float | int | None = None

    def __repr__(self) -> str:
        return self.text


def inputs() -> dict[str, np.ndarray]:
    """Rows that mix the edges of each type."""
    random = np.random.default_rng(11)
    arrays = {}
    for name, dtype in VARIABLES.items():
        if dtype.is_bool:
            pool = np.array([False, True])
        else:
            edges = interesting_floats(dtype) if dtype.is_float else interesting_integers(dtype)
            small = np.arange(-4 if dtype.minimum else 0, 9).astype(NUMPY_TYPES[dtype])
            pool = np.concatenate([edges, small, small])
        arrays[name] = random.choice(pool, ROWS).astype(NUMPY_TYPES[dtype])
    return arrays


INPUTS = inputs()


def converted(tree: Tree, dtype: weft.DType) -> Values:
    """The tree's values in another type, by the rules for written conversions."""
    numpy_type = NUMPY_TYPES[dtype]
    if tree.dtype is None:
        return [numpy_type.type(tree.constant)] * ROWS
    if tree.dtype is dtype:
        return tree.values
    source = np.array(tree.values, NUMPY_TYPES[tree.dtype])
    with np.errstate(all="ignore"):
        if dtype.is_bool:
            return list(source != 0)
        if dtype.is_float:
            return list(source.astype(numpy_type))
        if tree.dtype.is_float:
            return list(to_integer(source, dtype))
    return [numpy_type.type(wrap(int(value), dtype)) for value in tree.values]


def literal(number: int | float) -> Tree:
    return Tree(f"({number!r})" if number < 0 else repr(number), None, [number] * ROWS, number)


def meet(left: Tree, right: Tree) -> weft.DType | None:
    """The common type of two trees, of which one at least has a type."""
    if left.dtype is not None and right.dtype is not None:
        return common_type(left.dtype, right.dtype)
    typed, weak = (left, right) if right.dtype is None else (right, left)
    dtype = arithmetic_type(typed.dtype)
    if isinstance(weak.constant, float) and not dtype.is_float:
        return DEFAULT_FLOAT
    if not dtype.is_float and not dtype.minimum <= weak.constant <= dtype.maximum:
        return None
    return dtype


FLOAT_OPERATIONS: dict[str, Callable[..., Any]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
}


def arithmetic(operator: str, left: Tree, right: Tree) -> Tree:
    dtype = meet(left, right)
    if operator == "/" and dtype is not None and not dtype.is_float:
        dtype = DEFAULT_FLOAT
    assume(dtype is not None)
    assume(not (dtype.is_float and operator in ("//", "%")))
    a, b = converted(left, dtype), converted(right, dtype)
    # A divisor that is zero for all rows may be known to be zero, which is an error.
    assume(operator not in ("//", "%") or any(b))
    with np.errstate(all="ignore"):
        if dtype.is_float:
            values = [FLOAT_OPERATIONS[operator](x, y) for x, y in zip(a, b, strict=True)]
        else:
            values = [
                NUMPY_TYPES[dtype].type(integer_operator(operator, int(x), int(y), dtype))
                for x, y in zip(a, b, strict=True)
            ]
    return Tree(f"({left.text} {operator} {right.text})", dtype, values)


COMPARISONS: dict[str, Callable[..., Any]] = {
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
    "==": np.equal,
    "!=": np.not_equal,
}


def comparison(operator: str, left: Tree, right: Tree) -> Tree:
    dtype = meet(left, right)
    assume(dtype is not None)
    pairs = zip(converted(left, dtype), converted(right, dtype), strict=True)
    values = [COMPARISONS[operator](x, y) for x, y in pairs]
    return Tree(f"({left.text} {operator} {right.text})", weft.bool_, values)


def bitwise(operator: str, left: Tree, right: Tree) -> Tree:
    both_bools = left.dtype is weft.bool_ and right.dtype is weft.bool_
    dtype = weft.bool_ if both_bools else meet(left, right)
    assume(dtype is not None and not dtype.is_float)
    a, b = converted(left, dtype), converted(right, dtype)
    operation = {"&": np.bitwise_and, "|": np.bitwise_or, "^": np.bitwise_xor}[operator]
    values = [operation(x, y) for x, y in zip(a, b, strict=True)]
    return Tree(f"({left.text} {operator} {right.text})", dtype, values)


def shift(operator: str, left: Tree, count: int) -> Tree:
    assume(left.dtype is not None and not left.dtype.is_float)
    dtype = arithmetic_type(left.dtype)
    numpy_type = NUMPY_TYPES[dtype]
    values = [
        numpy_type.type(integer_operator(operator, int(value), count, dtype))
        for value in converted(left, dtype)
    ]
    return Tree(f"({left.text} {operator} {count})", dtype, values)


def shift_by(operator: str, left: Tree, count: Tree) -> Tree:
    """A shift whose count is only known at run time; a negative one counts as a large one."""
    for tree in (left, count):
        assume(tree.dtype is not None and not tree.dtype.is_float)
    dtype = arithmetic_type(left.dtype)
    numpy_type = NUMPY_TYPES[dtype]
    counts = [int(number) if 0 <= int(number) < 64 else 64 for number in count.values]
    values = [
        numpy_type.type(integer_operator(operator, int(value), number, dtype))
        for value, number in zip(converted(left, dtype), counts, strict=True)
    ]
    return Tree(f"({left.text} {operator} {count.text})", dtype, values)


def extreme(function: str, left: Tree, right: Tree) -> Tree:
    """`min` or `max`; of a NaN and a number the number, and of two zeros either."""
    dtype = meet(left, right)
    assume(dtype is not None)
    a, b = converted(left, dtype), converted(right, dtype)
    assume(all(x != 0 or y != 0 or str(x) == str(y) for x, y in zip(a, b, strict=True)))
    choose = {"min": np.fmin, "max": np.fmax}[function]
    return Tree(f"{function}({left.text}, {right.text})", dtype, list(map(choose, a, b)))


def absolute(tree: Tree) -> Tree:
    assume(tree.dtype is not None and not tree.dtype.is_bool)
    numpy_type = NUMPY_TYPES[tree.dtype]
    with np.errstate(all="ignore"):
        return Tree(
            f"abs({tree.text})", tree.dtype, [numpy_type.type(np.abs(v)) for v in tree.values]
        )


def negated(operator: str, tree: Tree) -> Tree:
    assume(tree.dtype is not None)
    dtype = arithmetic_type(tree.dtype)
    assume(not (operator == "~" and (dtype.is_float or tree.dtype.is_bool)))
    values = converted(tree, dtype)
    if dtype.is_float:
        result = [-value if operator == "-" else value for value in values]
    else:
        sign = {"-": lambda x: -x, "+": lambda x: x, "~": lambda x: ~x}[operator]
        result = [NUMPY_TYPES[dtype].type(wrap(sign(int(value)), dtype)) for value in values]
    return Tree(f"({operator}{tree.text})", dtype, result)


def conversion(dtype: weft.DType, tree: Tree) -> Tree:
    assume(tree.dtype is not None)
    return Tree(f"weft.{dtype}({tree.text})", dtype, converted(tree, dtype))


def logic(operator: str, left: Tree, right: Tree) -> Tree:
    """`and` and `or` of bools, so that the value is a bool in Python too."""
    assume(left.dtype is not None and right.dtype is not None)
    left, right = (t if t.dtype is weft.bool_ else conversion(weft.bool_, t) for t in (left, right))
    combine = np.logical_and if operator == "and" else np.logical_or
    values = [combine(x, y) for x, y in zip(left.values, right.values, strict=True)]
    return Tree(f"({left.text} {operator} {right.text})", weft.bool_, values)


def choice(condition: Tree, left: Tree, right: Tree) -> Tree:
    """A ternary, whose sides have one type."""
    assume(condition.dtype is not None and left.dtype is not None)
    chosen = (
        right
        if right.dtype is left.dtype
        else Tree(f"weft.{left.dtype}({right.text})", left.dtype, converted(right, left.dtype))
    )
    assume(right.dtype is not None)
    truth = converted(condition, weft.bool_)
    triples = zip(truth, left.values, chosen.values, strict=True)
    values = [x if condition else y for condition, x, y in triples]
    text = f"({left.text} if {condition.text} else {chosen.text})"
    return Tree(text, left.dtype, values)


variables = st.sampled_from(
    [Tree(name, dtype, list(INPUTS[name])) for name, dtype in VARIABLES.items()]
)
literals = st.one_of(
    st.integers(-9, 130).filter(bool).map(literal),
    st.sampled_from([0.5, -1.5, 2.0, 3.0e7]).map(literal),
)
ARITHMETIC = ("+", "-", "*", "/", "//", "%")


def branches(children: st.SearchStrategy[Tree]) -> st.SearchStrategy[Tree]:
    operand = st.one_of(children, children, literals)
    sample = st.sampled_from
    return st.one_of(
        st.builds(arithmetic, sample(ARITHMETIC), children, operand),
        st.builds(arithmetic, sample(("+", "-", "*", "/")), literals, children),
        st.builds(bitwise, sample("&|^"), children, children),
        st.builds(shift, sample(("<<", ">>")), children, st.integers(0, 70)),
        st.builds(shift_by, sample(("<<", ">>")), children, children),
        st.builds(extreme, sample(("min", "max")), children, operand),
        st.builds(absolute, children),
        st.builds(comparison, sample(sorted(COMPARISONS)), children, operand),
        st.builds(negated, sample("-+~"), children),
        st.builds(conversion, sample(list(VARIABLES.values())), children),
        st.builds(logic, sample(("and", "or")), children, children),
        st.builds(choice, children, children, children),
    )


trees = st.recursive(variables, branches, max_leaves=8).filter(lambda tree: len(tree.text) > 10)


def check(chosen: list[Tree]) -> None:
    expressions = {f"e{number}": (tree.text, tree.dtype) for number, tree in enumerate(chosen)}
    got = compute(expressions, **INPUTS)
    for number, tree in enumerate(chosen):
        expected = np.array(tree.values, NUMPY_TYPES[tree.dtype])
        try:
            assert_same(got[f"e{number}"], expected)
        except AssertionError as error:
            row = next(
                k
                for k in range(ROWS)
                if not np.array_equal(got[f"e{number}"][k], expected[k], equal_nan=True)
            )
            used = {n: INPUTS[n][row] for n in VARIABLES if n in tree.text}
            raise AssertionError(f"{tree.text} with {used}: {error}") from None


@settings(
    max_examples=12,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)
@given(st.lists(trees, min_size=4, max_size=8, unique_by=lambda tree: tree.text))
def test_random_expressions_are_what_the_model_says(chosen):
    check(chosen)
