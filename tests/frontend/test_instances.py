# SPDX-License-Identifier: Apache-2.0
"""Objects of users' classes: made from run-time values, and reaching the language at any depth."""

from __future__ import annotations

import functools
from dataclasses import InitVar, dataclass, field

import numpy as np
import pytest

import weft
from weft.errors import CompileError


class Scaled:
    factor = 3

    def __init__(self, x, y=2):
        self.x = x
        self.y = y

    def value(self):
        return self.x * self.y

    @property
    def twice(self):
        return self.value() * 2

    def __add__(self, other):
        return Scaled(self.x + other.x, self.y)

    def __call__(self, z):
        return self.value() + z

    @classmethod
    def of(cls, x):
        return cls(x + 1)


class Derived(Scaled):
    def __init__(self, x):
        super().__init__(x, self.factor)
        self.__own = x

    def own(self):
        return self.__own + super().value()


class ByName(Scaled):
    def __init__(self, x):
        Scaled.__init__(self, x, y=4)


class Holder:
    def __init__(self, x):
        self.inner = [Derived(x), Scaled(x)]

    def total(self):
        return self.inner[0].own() + self.inner[1].twice


@dataclass
class Fields:
    x: int
    seed: InitVar[int]
    y: int = 5
    items: list = field(default_factory=list)
    total: int = field(init=False)

    def __post_init__(self, seed):
        self.total = self.x + seed
        self.items.append(self.y)


def changed(n):
    scaled = Scaled(n)
    if n > 3:
        scaled.x = scaled.x + 7
    for i in range(n):
        scaled.y = scaled.y + i
    return scaled.value()


def repeated(n):
    total = 0
    for i in range(n):
        total = total + Scaled(i).value()
    return total


USES = {
    "a method": lambda n: Scaled(n).value(),
    "keywords": lambda n: Scaled(y=n, x=3).value(),
    "a property": lambda n: Scaled(n).twice,
    "an operator": lambda n: (Scaled(n) + Scaled(4)).value(),
    "a call": lambda n: Scaled(n)(1),
    "a class method": lambda n: Scaled.of(n).value(),
    "super": lambda n: Derived(n).value(),
    "private names": lambda n: Derived(n).own(),
    "a base by its name": lambda n: ByName(n).value(),
    "objects in objects": lambda n: Holder(n).total(),
    "a dataclass": lambda n: Fields(n, n).total + Fields(n, 2, y=n).items[0],
    "changes": changed,
    "a loop": repeated,
    "a constant argument": lambda n: Scaled(3).value() + n,
    "isinstance": lambda n: n if isinstance(Derived(n), Scaled) else -1,
}


@pytest.mark.parametrize("use", USES)
def test_an_object_made_of_run_time_values_computes_as_in_python(use):
    function = USES[use]

    @weft.jit
    def host(n: weft.i32):
        return function(n)

    fn = weft.compile(host, 5)
    assert [fn(n) for n in range(7)] == [function(n) for n in range(7)]


def test_an_object_in_a_kernel_holds_elements():
    @weft.kernel
    def kernel(a):
        for i in weft.each(a.shape[0]):
            a[i] = Holder(a[i]).total()

    kernel.over(4)(a := np.arange(4, dtype=np.float32))
    assert a.tolist() == [Holder(i).total() for i in range(4)]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda n: Scaled(n, n, n), r"__init__\(\) takes"),
        (lambda n: Fields(n), r"missing a required argument"),
        (lambda n: Returns(n), r"__init__\(\) should return None"),
    ],
)
def test_wrong_constructions_are_refused(wrong, message):
    @weft.jit
    def host(n: weft.i32):
        wrong(n)

    with pytest.raises(CompileError, match=message):
        host(1)


class Returns:
    def __init__(self, x):
        return x  # noqa: PLE0101


class Layer:
    scale = 4.0

    def __init__(self, then=None):
        self.then = then
        self.root = weft.math.sqrt

    def leaf(self, x):
        return weft.math.sqrt(x)

    def one(self, x):
        return self.leaf(x)

    def two(self, x):
        return self.one(x)

    @property
    def of_scale(self):
        return weft.math.sqrt(self.scale)

    def by_property(self, x):
        return self.of_scale * x

    @staticmethod
    def still(x):
        return weft.math.sqrt(x)

    def by_static_method(self, x):
        return self.still(x)

    def by_attribute(self, x):
        return self.root(x)

    def __matmul__(self, x):
        return self.two(x)

    def by_operator(self, x):
        return self @ x

    def __call__(self, x):
        return self.two(x)

    def by_getattr_of_a_part(self, x):
        return self.then.two(x)


class Made:
    def __init__(self, x):
        self.x = weft.math.sqrt(x)


layer, deep = Layer(), Layer(Layer())
layers, table = [Layer(), Layer()], {"a": Layer()}
bound, part = layer.two, functools.partial(layer.two)


def helper(x):
    return layer.two(x)


def helper_of_a_helper(x):
    return helper(x)


def apply(function, x):
    return function(x)


def plain(x):
    return x + deep.scale


# Lambdas, whose names tell what they reach.
# ruff: noqa: PLW0108, RUF015
DEPTHS = {
    "leaf": lambda x: layer.leaf(x),
    "one": lambda x: layer.one(x),
    "two": lambda x: layer.two(x),
    "by_property": lambda x: layer.by_property(x) / 2 * layer.of_scale / x,
    "by_static_method": lambda x: layer.by_static_method(x),
    "by_attribute": lambda x: layer.by_attribute(x),
    "by_operator": lambda x: layer.by_operator(x),
    "an operator": lambda x: layer @ x,
    "a call": lambda x: layer(x),
    "a part": lambda x: deep.by_getattr_of_a_part(x),
    "a list": lambda x: [one.two(x) for one in layers][1],
    "a dict": lambda x: table["a"].two(x),
    "a bound method": lambda x: bound(x),
    "a partial": lambda x: part(x),
    "a helper": lambda x: helper(x),
    "a helper of a helper": lambda x: helper_of_a_helper(x),
    "an argument": lambda x: apply(layer, x),
    "a method as an argument": lambda x: apply(deep.then.two, x),
    "a constructor": lambda x: Made(x).x,
    "map": lambda x: list(map(layer.two, [x]))[0],
}


@pytest.mark.parametrize("depth", DEPTHS)
def test_methods_of_constants_reach_the_language_at_any_depth(depth):
    function = DEPTHS[depth]

    @weft.jit
    def host(n: weft.f32):
        return function(4.0) + n  # a constant: nothing but the names tells

    assert host(1.0) == 3.0


def test_plain_python_beside_the_language_still_runs_in_python():
    """It may do what tracing cannot, though an object that it is given has methods and operators for kernels."""

    class Other(Layer):
        def __init__(self):
            pass

    other = Other()

    def described(one, x):
        try:
            return x + len(f"{one.scale}")
        finally:
            pass

    @weft.jit
    def host(n: weft.i32):
        return described(other, 2) + n

    assert host(1) == 6
