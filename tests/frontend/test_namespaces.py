# SPDX-License-Identifier: Apache-2.0
"""Functions whose module, names or text are not those of a file: `exec`, nested functions, lambdas in lambdas."""

from __future__ import annotations

import ast
import linecache
import pickle
import re
import subprocess
import sys

import numpy as np
import pytest

import weft
from tests.architecture.source_tree import PACKAGE
from tests.sampling import sampled
from weft.config import override
from weft.errors import CompileError, WeftError
from weft.frontend.source import read_source

# What a namespace says of its module; `exec` with a namespace of its own says nothing.
NAMESPACES = [{}, {"__name__": None}, {"__name__": 3}, {"__name__": "no.such.module"}]

PROGRAM = """
import weft
from dataclasses import dataclass

@dataclass(frozen=True)
class Pair:
    first: weft.f32
    second: weft.f32
    def total(self):
        return self.first + self.second

class Scale:
    factor = 2

    def of(self, x):
        return x * self.factor

scale = Scale()
OFFSETS = [1, 2]

def shifted(x):
    return scale.of(x) + OFFSETS[0]

@weft.kernel
def shift_kernel(a: weft.Tensor):
    for i in weft.each(a.shape[0]):
        a[i] = Pair(shifted(a[i]), 1.0).total()

@weft.jit
def shift(a: weft.Tensor, n: weft.i32 = 1):
    shift_kernel(a).launch(over=a.shape[0])
    return n + 1
"""
RESULT = [2.0, 4.0, 6.0]


def executed(text: str, namespace: dict[str, object]) -> dict[str, object]:
    name = f"<text {hash(text)}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    exec(compile(text, name, "exec"), namespace)
    return namespace


def array():
    return np.arange(3, dtype=np.float32)


@pytest.fixture
def cache(tmp_path):
    """The cache on disk, where content of functions and classes is compared."""
    with override(cache_dir=str(tmp_path), no_cache=False):
        yield


def call(made):
    made["shift"](a := array())
    return a


def call_compiled(made):
    weft.compile(made["shift"], array())(a := array())
    return a


def launch(made):
    made["shift_kernel"][1, 32](a := array())
    return a


def call_pickled(made):
    pickle.loads(pickle.dumps(weft.compile(made["shift"], array())))(a := array())
    return a


@pytest.mark.parametrize("namespace", NAMESPACES, ids=str)
@pytest.mark.parametrize("use", sampled([call, call_compiled, launch, call_pickled], 2))
@pytest.mark.usefixtures("cache")
def test_functions_of_any_namespace_are_compiled(namespace, use):
    assert use(executed(PROGRAM, dict(namespace))).tolist() == RESULT


@pytest.mark.parametrize("namespace", NAMESPACES, ids=str)
def test_a_failing_helper_of_any_namespace_is_the_users(namespace):
    text = "def add(a, b):\n    return a.nothing + b\n"
    add = executed(text, dict(namespace))["add"]
    with pytest.raises(CompileError, match="has no attribute 'nothing'") as caught:
        weft.kernels.reduce(array(), add, 0)
    assert caught.value.code == "UNKNOWN_ATTRIBUTE"


def test_a_modules_name_is_taken_apart_in_one_place():
    taken = re.compile(r"__module__\.(partition|split|startswith)\(")
    found = [path for path in PACKAGE.rglob("*.py") if taken.search(path.read_text())]
    assert [path.name for path in found] == ["repeatable.py"]  # of a function that is weft's


STORED = """
import weft
class Scale:
    factor = FACTOR
    def of(self, x):
        return x * self.factor
class Sub(Scale):
    pass
scale = Sub()
@weft.jit
def scaled(n: weft.i32):
    return scale.of(n)
"""


@pytest.mark.parametrize("namespace", [{}, {"__name__": "a_module"}], ids=str)
@pytest.mark.usefixtures("cache")
def test_a_class_of_any_namespace_is_known_by_its_content_on_disk(namespace):
    results = []
    for factor in (2, 3):
        text = STORED.replace("FACTOR", str(factor))
        linecache.cache["<same>"] = (len(text), None, text.splitlines(True), "<same>")
        exec(compile(text, "<same>", "exec"), made := dict(namespace))
        results.append(weft.compile(made["scaled"])(1))
    assert results == [2, 3]


def test_the_hint_for_text_made_at_run_time_is_code_to_copy():
    text, namespace = PROGRAM, {}
    exec(text, namespace)
    with pytest.raises(CompileError) as caught:
        namespace["shift"](array())
    assert caught.value.code == "SOURCE_MISSING"
    code = caught.value.hint.partition("needs a name of its own: ")[2]
    again = {"text": text, "namespace": (made := {}), "linecache": linecache}
    exec(code, again)
    assert call(made).tolist() == RESULT


OPERATOR = """
import weft
class Offset:
    def __init__(self, n): self.n = n
    def __add__(self, other): return self.n + other
offset = Offset(1)
@weft.jit
def f(n: weft.i32):
    return offset + n
print(f(4))
"""


def test_operators_of_classes_at_the_prompt_are_inlined():
    command = [sys.executable, "-c", OPERATOR]
    assert subprocess.run(command, capture_output=True, text=True).stdout == "5\n"


def test_an_operator_without_a_text_is_reported_as_such():
    exec("class Offset:\n    def __add__(self, other): return other", made := {})
    offset = made["Offset"]()

    @weft.jit
    def f(n: weft.i32):
        return offset + n

    with pytest.raises(CompileError) as caught:
        f(4)
    assert caught.value.code == "SOURCE_MISSING"


# Annotations of this module are texts, so that they hold none of the values they name.
def typed_by_names_of_the_enclosing_function(n):
    vector, number = weft.Tensor[weft.f32, (n,)], weft.f32  # noqa: F841

    def helper(x: number):
        return x + 1

    @weft.kernel
    def kernel(a: vector):
        for i in weft.each(a.shape[0]):
            a[i] = helper(a[i])

    @weft.jit
    def host(a: vector):
        kernel(a).launch(over=a.shape[0])

    vector = None  # Python's annotations have the value at the definition
    return host


def test_annotations_name_variables_of_enclosing_functions():
    typed_by_names_of_the_enclosing_function(3)(a := array())
    assert a.tolist() == [1.0, 2.0, 3.0]
    with pytest.raises(ValueError, match=r"shape\[0\] is 3, but the annotation .* says 5"):
        typed_by_names_of_the_enclosing_function(5)(array())


number = weft.f64


class Holder:
    number = weft.i32

    @weft.jit
    def method(x: number):
        return x

    def around(self):
        def inner(x: number):  # a class's names are not those of its methods
            return x

        return weft.jit(inner)


def test_annotations_in_a_class_see_its_variables():
    assert weft.compile(Holder.method).signature.parameters[0].kind.dtype == weft.i32
    assert weft.compile(Holder().around()).signature.parameters[0].kind.dtype == weft.f64


def test_a_variable_of_an_enclosing_function_hides_the_modules():
    number = weft.i16  # noqa: F841

    @weft.jit
    def f(x: number):
        return x

    assert weft.compile(f).signature.parameters[0].kind.dtype == weft.i16


def test_a_bare_launch_reads_enclosing_variables():
    vector = weft.Tensor[weft.f32, (3,)]

    @weft.kernel
    def kernel(a: vector):
        a[0] = 7.0

    kernel[1, 1](a := array())
    assert a[0] == 7
    with pytest.raises(ValueError, match=r"shape\[0\] is 4"):
        kernel[1, 1](np.zeros(4, np.float32))


class Unknown:
    pass


@weft.kernel
def of_unknown(a: weft.Tensor, b: Unknown, *, c: Missing = 1):
    a[0] = 1.0


@weft.kernel
def of_unknown_alone(a: weft.Tensor, b: Unknown):
    a[0] = 1.0


@weft.jit
def host_of_unknown(a: weft.Tensor, b: Unknown):
    pass


@weft.jit
def host_of_missing(a: weft.Tensor, b: Missing):
    pass


@pytest.mark.parametrize(
    ("call", "parameter"),
    [
        (lambda a: of_unknown[1, 1](a, a), "c: Missing"),
        (lambda a: of_unknown.over(3)(a, a), "c: Missing"),
        (lambda a: of_unknown_alone[1, 1](a, a), "b: Unknown"),
        (lambda a: of_unknown_alone.over(3)(a, a), "b: Unknown"),
        (lambda a: host_of_unknown(a, a), "b: Unknown"),
        (lambda a: weft.compile(host_of_unknown, a, a), "b: Unknown"),
        (lambda a: weft.compile(host_of_missing), "b: Missing"),
        (lambda a: host_of_missing(a, a), "b: Missing"),
    ],
)
def test_a_wrong_annotation_points_at_its_parameter(call, parameter):
    with pytest.raises(WeftError) as caught:
        call(array())
    place = caught.value.location
    line = linecache.getline(place.file, place.line)
    assert place.file == __file__
    assert line[place.column : place.end_column] == parameter


def test_arrays_of_an_enclosing_function_are_not_kept():
    import gc
    import weakref

    def made():
        large, number = array(), weft.i32  # noqa: F841

        @weft.jit
        def f(x: number):
            return x

        return f, weakref.ref(large)

    f, alive = made()
    gc.collect()
    assert f(2) == 2
    assert alive() is None


NESTED = [
    ("f = lambda x: lambda y: x + y", ["f", "f(1)"]),
    ("f = lambda x: (lambda y: (lambda z: x + y + z))", ["f", "f(1)", "f(1)(2)"]),
    ("f, g = (lambda x: lambda y: x), (lambda x: lambda y: y)", ["f", "f(1)", "g", "g(1)"]),
    ("f = lambda x, g=(lambda y: y): lambda z: g(x) + z", ["f", "f(1)", "f.__defaults__[0]"]),
    ("f = lambda: lambda: lambda: 1", ["f", "f()", "f()()"]),
]


@pytest.mark.parametrize(("text", "lambdas"), NESTED)
def test_lambdas_inside_lambdas_are_distinguished(text, lambdas):
    made = executed(f"{text}\n", {})
    nodes = [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Lambda)]
    written = {ast.dump(node) for node in nodes}
    found = {ast.dump(read_source(eval(one, made)).tree) for one in lambdas}
    assert found == written
    for one in lambdas:
        function = eval(one, made)
        names = tuple(a.arg for a in read_source(function).tree.args.args)
        assert names == function.__code__.co_varnames[: function.__code__.co_argcount]
