# SPDX-License-Identifier: Apache-2.0
"""Named tuples, frozen dataclasses with methods and operators, `in`, comparisons of containers, functions as values.

In: functions of two small integers. Out: the values that Python gives, for run-time values and for constants, and
PTX.
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections import namedtuple
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import NamedTuple

import numpy as np
import pytest

import weft
from tests.conformance.harness import assert_python_agrees_everywhere

PAIRS = list(itertools.product(range(-4, 9), (-3, 0, 1, 2, 5)))
NUMBERS = {"one": 1, "two": 2}


class Span(NamedTuple):
    first: object
    last: object = 3

    def total(self):
        return self.first + self.last


Named = namedtuple("Named", "a b")


@dataclass(frozen=True)
class Affine:
    scale: object
    offset: object = 0
    mode: weft.Constexpr[int] = 1

    def __call__(self, x):
        return self.scale * x + self.offset

    def __add__(self, other):
        if not isinstance(other, Affine):
            return NotImplemented
        return Affine(self.scale + other.scale, self.offset + other.offset)

    def __rmul__(self, factor):
        return Affine(factor * self.scale, factor * self.offset)

    def __neg__(self):
        return Affine(-self.scale, -self.offset)

    def __getitem__(self, index):
        return self.offset if index == 0 else self.scale

    def __contains__(self, x):
        return (x == self.offset) | (x == self.scale)

    def __bool__(self):
        return self.scale != 0

    def __len__(self):
        return 2

    def __lt__(self, other):
        return self.scale < other.scale

    @property
    def doubled(self):
        return 2 * self.scale

    @staticmethod
    def five_times(x):
        return x * 5

    @classmethod
    def diagonal(cls, x):
        return cls(x, x)

    def apply(self, x):
        if self.mode == 1:
            return self(x)
        return x - self.offset

    def shifted(self, by):
        return replace(self, offset=self.offset + by)


@dataclass(frozen=True)
class ByKey:
    key: object
    note: object

    def __eq__(self, other):
        return self.key == other.key

    def __hash__(self):
        return hash(self.key)


class Level(IntEnum):
    LOW = 1
    HIGH = 5


def helper(x, y=2, *, z=1):
    return x * y + z


def any_number(*values, **named):
    total = 0
    for value in values:
        total += value
    for value in named.values():
        total += value
    return total


def repeated(function, x, *, times=1):
    for _ in range(times):
        x = function(x)
    return x


def named_tuple_fields_defaults_methods(x, y):
    span = Span(x, y)
    if x > 2:
        span = Span(y, x)
    first, last = span
    return span.total() * 10 + span[1] + first - last + Span(x).last


def named_tuple_replaced_and_carried(x, y):
    pair = Named(b=x, a=y)
    for k in range(3):
        pair = Named(pair.b, pair.a + k)
    return pair._replace(a=4).a + pair.a * 10 + pair.b + pair._asdict()["b"] + len(pair)


def dataclass_methods_of_every_kind(x, y):
    line, other = Affine(x, y), Affine(2, x, mode=0)
    made = Affine.diagonal(y).offset + line.doubled + line.five_times(1) + Affine.five_times(x)
    return line(2) + other.apply(y) + line.apply(1) + made + getattr(line, "sca" + "le")


def dataclass_operators(x, y):
    line = 3 * (Affine(x, y) + Affine(1, x)) + -Affine(y)
    bits = (y in line) + 2 * (x not in line) + 4 * (Affine(x) < Affine(y)) + 8 * bool(line)
    line += Affine(1)
    return line[0] + 10 * line[1] + bits + (100 if line else 200) + len(line)


def dataclass_in_branches_and_loops(x, y):
    line = Affine(x, y)
    if x > 0:
        line = line.shifted(3)
    for k in range(y):
        line = Affine(line.offset, line.scale - k)
    while line.scale > 10:
        line = replace(line, scale=line.scale - 3)
    return line(3)


def equality_of_dataclasses(x, y):
    own = (ByKey(x, 1) == ByKey(y, 2)) + 2 * (ByKey(x, y) != ByKey(1, 0))
    return own + 4 * (Affine(x, 2) == Affine(y, 2)) + 8 * (Affine(x) != Affine(y, 1))


def equality_of_containers(x, y):
    tuples = ((x, 1) == (y, 1)) + 2 * ((x, y) != (y, x)) + 4 * ((x, 1) == (x, 1, 2))
    named = Named(x, 1) == (y, 1)
    tables = {"a": x, "b": 1} == {"b": 1, "a": y}
    return (
        tuples
        + 8 * named
        + 16 * ([x, [y]] == [y, [x]])
        + 32 * tables
        + 64 * ((x, None) == (1, None))
    )


def order_of_tuples(x, y):
    less = ((x, y) < (y, x)) + 2 * ((x, 1) <= (y, 0)) + 4 * ((x, y, 1) > (x, y))
    return less + 8 * ([x] >= [y, 0]) + 16 * ((x, 2.5) < (x, 3.5))


def in_constants_of_every_kind(x, y):
    some = (x in (1, 2, 5)) + 2 * (x not in [3, y]) + 4 * ("one" in NUMBERS) + 8 * (x in {2, 4})
    more = 16 * (x in range(2, 8, 2)) + 32 * (x in NUMBERS.values()) + 64 * (x in {1: "a", 5: "b"})
    return some + more + 128 * (x in frozenset((y, 2)) if isinstance(x, str) else 128)


def in_long_ranges(x, y):
    up = (x in range(100)) + 2 * (x * y in range(-30, 40, 3)) + 4 * (x in range(60, -60, -7))
    return up + 8 * (x not in range(-(10**12), 10**12, 5)) + 16 * (y in range(2, 10**12))


def enum_members_and_kinds_of_numbers(x, y):
    kinds = isinstance(x, int) + 2 * isinstance(x / 2, float) + 4 * isinstance(x > y, bool)
    return (x + Level.HIGH if x > Level.LOW else Level.LOW) * 10 + kinds + isinstance(x, str)


def helpers_with_defaults_and_unpacking(x, y):
    given, named = (x, 3), {"z": y}
    first = helper(x) + helper(x, 3) + helper(y=x, x=y) + helper(x, z=y) + helper(*given, **named)
    return first + any_number(x, y, 1, k=x, m=2) + any_number(*(x, y), **named)


def functions_as_arguments(x, y):
    lambdas = repeated(lambda v: v * 2 + y, x, times=2) + repeated(helper, x)
    partial = repeated(functools.partial(helper, z=5), x) + repeated(abs, y)
    table = {"add": operator.add, "mul": lambda a, b: a * b}
    return lambdas + partial + table["add"](x, y) * 3 + table["mul"](x, y) + [helper, max][1](x, y)


def folds_over_staged_items(x, y):
    total = sum(map(lambda v: v * 2, (x, y, 3))) + sum(map(operator.mul, (x, 2), (y, x)), 7)
    total += functools.reduce(lambda a, b: a * 3 + b, (x, y, 1)) + functools.reduce(
        operator.sub, [x, y]
    )
    kept = list(filter(lambda v: v > 1, (1, 2, 3)))
    ordered = sorted((3, 1, 2), key=lambda v: -v)
    return total + len(kept) * x + ordered[0] + min((3, 1, 2), key=lambda v: -v) + max([x, y])


def operators_as_functions(x, y):
    shifted = operator.lshift(x, 2) + operator.rshift(y, 1) + operator.pow(x, 2)
    compared = operator.le(x, y) + operator.ne(x, y) * 2
    return shifted + operator.xor(x, y) * compared + operator.floordiv(x, 3) - operator.mod(y, 3)


def comprehensions_of_every_kind(x, y):
    products = [k * x for k in range(4) if k != 2]
    table = {k: k + y for k in (1, 2)}
    nested = [[i * j + x for j in range(2)] for i in range(2)]
    walrus = [last := k + x for k in (1, 2, 3)]
    generated = sum(k * j for k in range(3) for j in range(k))
    return (
        sum(products)
        + table[2]
        + nested[1][1]
        + sum(walrus)
        + last
        + generated
        + len({k % 3 for k in range(7)})
    )


def unpacking_and_indexing(x, y):
    a, (b, *c), d = x, (y, 1, 2), 5
    a, b = b, a
    [e, g] = a, b
    p = q = a + b
    joined = (*(x, y), 1, *[2, 3])
    return (
        a * 2 + b + c[0] + c[1] + d + e - g + p * q + joined[4] + (x, y, 1)[1:][0] + (x, y)[::-1][0]
    )


def augmented_items(x, y):
    items, table = [1, 2, 3], {"a": y}
    items[1] += x
    items += [4]
    table["a"] *= 2
    table["b"] = x
    return items[1] + len(items) + table["a"] + table["b"]


def augmented_of_every_operator(x, y):
    x += y
    x -= 3
    x *= 2
    x //= 3
    x %= 7
    x <<= 1
    x |= 8
    x &= 0xFF
    x ^= 3
    x >>= 1
    x **= 2
    return x


def closures_see_later_values(x, y):
    def outer(z):
        def inner(w):
            return w + x

        return inner(z) * y

    x = x + 1
    return outer(2)


class Bounds:
    """Slots in place of a dict; a property that is assigned."""

    __slots__ = ("_low", "high")
    STEP = 2

    def __init__(self, low, high):
        self._low, self.high = low, high

    @property
    def low(self):
        return self._low * self.STEP

    @low.setter
    def low(self, value):
        self._low = value + 1

    @classmethod
    def around(cls, x):
        return cls(x - cls.STEP, x + cls.STEP)

    @staticmethod
    def width(low, high):
        return high - low

    def size(self):
        return self.width(self._low, self.high)


class Named3(Bounds):
    __slots__ = ("third",)

    def __init__(self, low, high, third):
        super().__init__(low, high)
        self.third = third

    def size(self):
        return super().size() + self.third


class WithDict(Bounds):
    """A class without slots of its own has a dict too."""

    def __init__(self, low):
        super().__init__(low, 7)
        self.extra = low


@dataclass(slots=True)
class Counter:
    step: int
    total: int = 0
    seen: list = field(default_factory=list)
    LIMIT = 5

    def __post_init__(self):
        self.step = self.step + 1

    def add(self, x):
        if x < self.LIMIT:
            self.total += x * self.step
        return self

    @property
    def mean(self):
        return self.total // 2

    @mean.setter
    def mean(self, value):
        self.total = 2 * value


@dataclass(frozen=True, slots=True)
class Point:
    x: object
    y: object = 1
    SCALE = 3

    @property
    def size(self):
        return self.x * self.SCALE + self.y

    @classmethod
    def diagonal(cls, x):
        return cls(x, x)


def slots_are_attributes(x, y):
    bounds = Bounds(x, y)
    bounds.high += 3
    bounds.low = bounds.low - y
    bounds.low += 1
    return bounds.size() + Bounds.around(x).size() + bounds.low


def slots_of_derived_classes(x, y):
    three, more = Named3(x, y, 4), WithDict(y)
    three.third, more.extra, more.fresh = y, more.extra + x, x
    three.low = 3
    return three.size() * more.size() + more.extra + more.fresh


def slots_change_in_control_flow(x, y):
    bounds, counter = Bounds(x, y), Counter(y)
    for k in range(3):
        bounds.high = bounds.high + k
        if bounds.high > x:
            bounds.low = k
            counter.add(k)
    while counter.total > 20:
        counter.mean = counter.mean - 5
    return bounds.size() + counter.total + counter.mean


class Late:
    __slots__ = ("first", "second")

    def __init__(self, first):
        self.first = first


class Asked:
    """A slot that the class answers for while it is not assigned."""

    __slots__ = ("value",)

    def __getattr__(self, name):
        if name == "value":
            return 7
        raise AttributeError(name)


def slots_that_getattr_answers_for(x, y):
    asked = Asked()
    before = asked.value
    if x > y:
        asked.value = x
    else:
        asked.value = y
    return before + 10 * asked.value


def slots_that_are_not_assigned(x, y):
    late, other = Late(x), Late(y)
    if x > y:
        late.second = x
    else:
        late.second = y
    found = hasattr(other, "second")
    other.second = 5
    return late.second + found + other.second + late.first


def dataclasses_with_slots(x, y):
    point = replace(Point.diagonal(x), y=y)
    if x > y:
        point = Point(y)
    counter = Counter(step=x).add(1).add(y)
    counter.mean += 1
    return point.size + counter.total + Point.SCALE + (point == Point(y)) + len(counter.seen)


FUNCTIONS = [
    value
    for value in list(globals().values())
    if getattr(value, "__module__", "") == __name__
    and getattr(value, "__code__", None) is not None
    and value.__code__.co_varnames[: value.__code__.co_argcount] == ("x", "y")
    and value is not helper
]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_objects_mean_what_they_mean_in_python(function):
    assert_python_agrees_everywhere(function, PAIRS)


def first_of(x):
    return x[1] if hasattr(x, "shape") else x


@weft.kernel
def asking_kernel(a: weft.Tensor, number: weft.f32, out: weft.Tensor):
    tile = weft.shared(4, weft.f32)
    answers = (
        first_of(a) == 5,
        first_of(number) == 2,
        hasattr(weft.thread_idx, "x") and not hasattr(weft.thread_idx, "w"),
        hasattr(number, "dtype") and not hasattr(number, "shape"),
        not hasattr(a, "ssa") and not hasattr(a, "type"),  # what the compiler's own object has
        isinstance(a, weft.Tensor) and isinstance(tile, weft.Tensor | int),
        not isinstance(a, int) and not isinstance(number, (weft.Tensor, int)),
        getattr(weft.thread_idx, "x") == 0,  # noqa: B009
        getattr(a, "missing", 3) == 3 and getattr(a, "shape", 3)[0] == 2,
    )
    for index, answer in enumerate(answers):
        out[index] = answer


def test_what_a_tensor_is_and_has_is_asked_of_the_kernels_tensor():
    out = np.zeros(9, np.bool_)
    asking_kernel[1, 1](np.array([4, 5], np.float32), 2.0, out)
    assert out.all(), out


class Running:
    """Fields take their type where they are first assigned."""

    def __init__(self, a):
        self.a = a
        self.total = 0

    def choose(self, condition):
        if condition:
            self.first = self.a[0]
            self.scale = 2
        else:
            self.first = self.a[1]
            self.scale = 3
            self.other = 1

    def run(self):
        for i in range(len(self.a)):
            self.last = self.a[i]
            if self.last > 2:
                self.step = self.last
            else:
                self.step = 1
            self.total += self.step * self.scale
        return self.total


@weft.kernel
def running_kernel(a: weft.Tensor, out: weft.Tensor):
    run = Running(a)
    run.choose(a[0] > 0)
    weft.static_assert(not hasattr(run, "other"))
    out[0] = run.run()
    out[1] = run.first
    weft.static_assert(not hasattr(run, "last"))
    run.last = weft.i32(a[1])
    out[2] = run.last


@pytest.mark.parametrize("first", [1.0, -1.0])
def test_an_attribute_is_first_assigned_in_branches_and_iterations(first):
    a, out = np.array([first, 5, 2], np.float32), np.zeros(3, np.float32)
    running_kernel[1, 1](a, out)
    scale = 2 if first > 0 else 3
    assert out.tolist() == [scale * 7, first if first > 0 else 5, 5]


KEPT = Bounds(1, 2)


def test_a_slot_of_an_object_of_the_program_does_not_change_and_is_noticed():
    @weft.kernel
    def read_kernel(out):
        out[0] = KEPT.high + KEPT.low

    @weft.kernel
    def write_kernel(out):
        if out[0] > 0:
            KEPT.low = out[0]

    out = np.zeros(1, np.int32)
    read_kernel[1, 1](out)
    assert out[0] == 4
    KEPT.high, KEPT.low = 7, 4
    try:
        read_kernel[1, 1](out)
        assert out[0] == 17
        with pytest.raises(weft.CompileError, match="MUTATION"):
            write_kernel[1, 1](out)
        assert KEPT.low == 10
    finally:
        KEPT.high, KEPT.low = 2, 0


class Measure(float):
    """Its number is not an attribute."""

    __slots__ = ()


def test_an_object_with_more_than_attributes_is_not_made_of_run_time_values():
    @weft.kernel
    def kernel(out):
        out[0] = Measure(out[1])

    with pytest.raises(weft.CompileError, match=r"CALL_STAGED[^$]*Measure"):
        kernel[1, 1](np.zeros(2, np.float32))


class Bound(functools.partial):
    """The members of a class in C are not the attributes of a plain object."""


BOUND = Bound(operator.add, 1)


def test_members_of_a_class_in_c_are_not_assigned():
    @weft.kernel
    def kernel(out):
        BOUND.func = operator.sub
        out[0] = BOUND(2)

    with pytest.raises(weft.CompileError, match="attribute 'func' of"):
        kernel[1, 1](np.zeros(1, np.int32))
    assert BOUND(2) == 3
