# SPDX-License-Identifier: Apache-2.0
"""A direct call runs the program as it is now, whatever has changed in place since it was compiled or kept on disk."""

import importlib.util
import sys
from array import array
from textwrap import dedent

import pytest

import weft
from tests.sampling import sampled
from weft.cache import store
from weft.config import override

PROGRAM = """
import dataclasses, functools, types, weft
config = types.SimpleNamespace()
import settings_s as settings
@@

@weft.kernel
def work(a: weft.Tensor):
    a[0] = @@

@weft.jit(options="--opt-level 0")
def run(a: weft.Tensor[weft.f32, ("n",)]):
    work(a).launch(grid=1, block=1)
"""
CLASS = "class P:\n    K = 3\n    def f(self, x):\n        return x + self.K\n"
METACLASS = """
VALUES = {"K": 3}
class M(type):
    def __getattr__(cls, name):
        if name not in VALUES: raise AttributeError(name)
        return VALUES[name]
class P(metaclass=M):
    pass
"""
# The class P's attributes are found by `find`, which is put in place later.
FOUND = """
def find(self, name):
    if name == "K": return 4
    if name == "f": return lambda x: x + 9
    return object.__getattribute__(self, name)
"""
# A class P whose metaclass has nothing yet.
PLAIN_METACLASS = """
class M(type): pass
class P(metaclass=M):
    K = 3
    def f(x): return x + 3
"""
# What changes: the program, the value of the kernel (a[0] is 2), the change, and the values before and after it.
ROWS = {
    "a helper's code": (
        "def f(x):\n    return x + 1\ndef g(x):\n    return x + 2",
        "f(a[0])",
        "f.__code__ = g.__code__",
        3,
        4,
    ),
    "the code of a helper's helper": (
        "def h(x):\n    return x + 1\ndef f(x):\n    return h(x)\ndef g(x):\n    return x + 2",
        "f(a[0])",
        "h.__code__ = g.__code__",
        3,
        4,
    ),
    "the code of a function that Python runs": (
        "def f(x):\n    return x + 1\ndef g(x):\n    return x + 2",
        "f(2)",
        "f.__code__ = g.__code__",
        3,
        4,
    ),
    "the kernel's code": (
        "def other(a):\n    a[0] = 5",
        "3",
        "work.function.__code__ = other.__code__",
        3,
        5,
    ),
    "the kernel's function": ("def other(a):\n    a[0] = 5", "3", "work.function = other", 3, 5),
    "the host function's code": (
        "def other(a):\n    pass",
        "3",
        "run.function.__code__ = other.__code__",
        3,
        2,
    ),
    "a default": ("def f(x, y=1):\n    return x + y", "f(a[0])", "f.__defaults__ = (2,)", 3, 4),
    "the type of a default": (
        "def f(x, y=2):\n    return y / 4 if isinstance(y, int) else y",
        "f(a[0])",
        "f.__defaults__ = (2.0,)",
        0.5,
        2,
    ),
    "an item of a default": (
        "def f(x, y=[1]):\n    return x + y[0]",
        "f(a[0])",
        "f.__defaults__[0][0] = 2",
        3,
        4,
    ),
    "a default in Python": (
        "def f(x, y=1):\n    return x + y",
        "f(2)",
        "f.__defaults__ = (2,)",
        3,
        4,
    ),
    "a keyword's default": (
        "def f(x, *, y=1):\n    return x + y",
        "f(a[0])",
        "f.__kwdefaults__ = {'y': 2}",
        3,
        4,
    ),
    "a keyword's default, in place": (
        "def f(x, *, y=1):\n    return x + y",
        "f(a[0])",
        "f.__kwdefaults__['y'] = 2",
        3,
        4,
    ),
    "a cell": (
        "def make(k):\n    def f(x):\n        return x + k\n    return f\nf = make(1)",
        "f(a[0])",
        "f.__closure__[0].cell_contents = 2",
        3,
        4,
    ),
    "a cell in Python": (
        "def make(k):\n    def f(x):\n        return x + k\n    return f\nf = make(1)",
        "f(2)",
        "f.__closure__[0].cell_contents = 2",
        3,
        4,
    ),
    "partial.keywords": (
        "f = functools.partial(lambda x, y: x + y, y=1)",
        "f(a[0])",
        "f.keywords['y'] = 2",
        3,
        4,
    ),
    "partial.keywords in a tuple": (
        "T = (functools.partial(lambda x, y: x + y, y=1),)",
        "T[0](a[0])",
        "T[0].keywords['y'] = 2",
        3,
        4,
    ),
    "partial.keywords in Python": (
        "f = functools.partial(lambda x, y: x + y, y=1)",
        "f(2)",
        "f.keywords['y'] = 2",
        3,
        4,
    ),
    "the code under a partial": (
        "def g(x, y):\n    return x + y\ndef h(x, y):\n    return x - y\nf = functools.partial(g, y=1)",
        "f(a[0])",
        "g.__code__ = h.__code__",
        3,
        1,
    ),
    "the code of a default": (
        "def g(x):\n    return x + 1\ndef h(x):\n    return x + 2\ndef f(x, g=g):\n    return g(x)",
        "f(a[0])",
        "g.__code__ = h.__code__",
        3,
        4,
    ),
    "a missing attribute of an object": (
        "",
        "getattr(config, 'SCALE', 3)",
        "config.SCALE = 4",
        3,
        4,
    ),
    "a missing attribute of a module": (
        "",
        "getattr(settings, 'SCALE', 3)",
        "settings.SCALE = 4",
        3,
        4,
    ),
    "hasattr of an object": (
        "",
        "4 if hasattr(config, 'SCALE') else 3",
        "config.SCALE = 1",
        3,
        4,
    ),
    "hasattr of a module": (
        "",
        "4 if hasattr(settings, 'SCALE') else 3",
        "settings.SCALE = 1",
        3,
        4,
    ),
    "hasattr of a class": (
        "class P:\n    pass",
        "4 if hasattr(P, 'SCALE') else 3",
        "P.SCALE = 1",
        3,
        4,
    ),
    "hasattr of an instance whose class gets it": (
        "class P:\n    pass\nA = P()",
        "4 if hasattr(A, 'SCALE') else 3",
        "P.SCALE = 1",
        3,
        4,
    ),
    "hasattr of a function": (
        "def f():\n    pass",
        "4 if hasattr(f, 'SCALE') else 3",
        "f.SCALE = 1",
        3,
        4,
    ),
    "an attribute that goes": (
        "config.SCALE = 3",
        "getattr(config, 'SCALE', 4)",
        "del config.SCALE",
        3,
        4,
    ),
    "a missing attribute, in Python": (
        "def f():\n    return getattr(settings, 'SCALE', 3)",
        "f()",
        "settings.SCALE = 4",
        3,
        4,
    ),
    "a metaclass's __getattr__": (METACLASS, "P.K", "VALUES['K'] = 4", 3, 4),
    "a metaclass's __getattr__ asked": (
        METACLASS,
        "4 if hasattr(P, 'L') else 3",
        "VALUES['L'] = 4",
        3,
        4,
    ),
    "a class's __getattr__": (
        "VALUES = {'K': 3}\nclass P:\n    def __getattr__(self, name):\n        return VALUES[name]\nA = P()",
        "A.K",
        "VALUES['K'] = 4",
        3,
        4,
    ),
    "a class's __getattribute__ for a value": (
        CLASS + FOUND + "A = P()",
        "A.K",
        "P.__getattribute__ = find",
        3,
        4,
    ),
    "a class's __getattribute__ for a method": (
        CLASS + FOUND + "A = P()",
        "A.f(a[0])",
        "P.__getattribute__ = find",
        5,
        11,
    ),
    "a class's __getattribute__ for an object's own value": (
        CLASS + FOUND + "A = P()\nA.K = 3",
        "A.K",
        "P.__getattribute__ = find",
        3,
        4,
    ),
    "a base class's __getattribute__": (
        CLASS + FOUND + "class Q(P):\n    pass\nA = Q()",
        "A.K",
        "P.__getattribute__ = find",
        3,
        4,
    ),
    "a metaclass's property": (
        PLAIN_METACLASS,
        "P.K",
        "M.K = property(lambda cls: 4)",
        3,
        4,
    ),
    "a metaclass's property for a function": (
        PLAIN_METACLASS + "def g(x):\n    return x + 9",
        "P.f(a[0])",
        "M.f = property(lambda cls: g)",
        5,
        11,
    ),
    "a metaclass's __getattribute__": (
        PLAIN_METACLASS
        + "def find(cls, name):\n    return 4 if name == 'K' else type.__getattribute__(cls, name)",
        "P.K",
        "M.__getattribute__ = find",
        3,
        4,
    ),
    "a class's class": (
        PLAIN_METACLASS + "class N(M):\n    @property\n    def K(cls):\n        return 4",
        "P.K",
        "P.__class__ = N",
        3,
        4,
    ),
    "a class's __bool__": (
        CLASS + "A = P()",
        "3 if A else 4",
        "P.__bool__ = lambda self: False",
        3,
        4,
    ),
    "a class's __len__": (CLASS + "A = P()", "3 if A else 4", "P.__len__ = lambda self: 0", 3, 4),
    "a class's __eq__": (
        CLASS + "A = P()\nB = P()",
        "4 if A == B else 3",
        "P.__eq__ = lambda self, other: True",
        3,
        4,
    ),
    "a class's __ne__": (
        CLASS + "A = P()\nB = P()",
        "3 if A != B else 4",
        "P.__ne__ = lambda self, other: False",
        3,
        4,
    ),
    "a class's attribute": (CLASS, "P.K", "P.K = 4", 3, 4),
    "a class's attribute, by an instance": (CLASS + "A = P()", "A.K", "P.K = 4", 3, 4),
    "a base class's attribute": (CLASS + "class Q(P):\n    pass", "Q.K", "P.K = 4", 3, 4),
    "an attribute that covers a base's": (CLASS + "class Q(P):\n    pass", "Q.K", "Q.K = 4", 3, 4),
    "an attribute that covers the class's": (CLASS + "A = P()", "A.K", "A.K = 4", 3, 4),
    "a method": (CLASS + "A = P()", "A.f(a[0])", "P.f = lambda self, x: x + 9", 5, 11),
    "a method's code": (
        CLASS + "A = P()\ndef g(self, x):\n    return x + 9",
        "A.f(a[0])",
        "P.f.__code__ = g.__code__",
        5,
        11,
    ),
    "a method of an instance": (CLASS + "A = P()", "A.f(a[0])", "A.f = lambda x: x + 9", 5, 11),
    "a static method": (
        "class P:\n    @staticmethod\n    def f(x):\n        return x + 3\nA = P()",
        "A.f(a[0])",
        "P.f = staticmethod(lambda x: x + 9)",
        5,
        11,
    ),
    "a class method": (
        "class P:\n    @classmethod\n    def f(cls, x):\n        return x + 3\nA = P()",
        "A.f(a[0])",
        "P.f = classmethod(lambda cls, x: x + 9)",
        5,
        11,
    ),
    "a property": (
        "class P:\n    @property\n    def size(self):\n        return 3\nA = P()",
        "A.size",
        "P.size = property(lambda self: 4)",
        3,
        4,
    ),
    "a property's code": (
        "class P:\n    @property\n    def size(self):\n        return 3\nA = P()\ndef g(self):\n    return 4",
        "A.size",
        "P.size.fget.__code__ = g.__code__",
        3,
        4,
    ),
    "a global that a property reads": (
        "K = 3\nclass P:\n    @property\n    def size(self):\n        return K\nA = P()",
        "A.size",
        "globals()['K'] = 4",
        3,
        4,
    ),
    "an operator": (
        "@dataclasses.dataclass(frozen=True)\nclass P:\n    x: object\n"
        "    def __add__(self, other):\n        return self.x + other",
        "P(a[0]) + 1",
        "P.__add__ = lambda self, other: self.x + 2",
        3,
        4,
    ),
    "a call": (
        "class P:\n    def __call__(self, x):\n        return x + 1\nA = P()",
        "A(a[0])",
        "P.__call__ = lambda self, x: x + 2",
        3,
        4,
    ),
    "a slot": (
        "class P:\n    __slots__ = ('size',)\nA = P()\nA.size = 3",
        "A.size",
        "A.size = 4",
        3,
        4,
    ),
    "a list in a frozen dataclass": (
        "@dataclasses.dataclass(frozen=True)\nclass P:\n    x: list\nA = P([3])",
        "A.x[0]",
        "A.x[0] = 4",
        3,
        4,
    ),
    "a name of an element type": (
        "T = weft.f32",
        "T(a[0] + 0.5)",
        "globals()['T'] = weft.i16",
        2.5,
        2,
    ),
    "a name of the language": (
        "op = weft.math.sqrt",
        "op(a[0] + 2)",
        "globals()['op'] = weft.math.abs",
        2,
        4,
    ),
    "a name of a module": (
        "place = settings",
        "place.WIDTH",
        "globals()['place'] = types.SimpleNamespace(WIDTH=4)",
        3,
        4,
    ),
    "an element type of a module": (
        "settings.T = weft.f32",
        "settings.T(a[0] + 0.5)",
        "settings.T = weft.i16",
        2.5,
        2,
    ),
    "a builtin that a global covers": (
        "",
        "abs(-4)",
        "globals()['abs'] = lambda x: x",
        4,
        -4,
    ),
}


def load(folder, program, monkeypatch):
    folder.mkdir(exist_ok=True)
    for name, text in (("settings_s", "WIDTH = 3\n"), ("program_s", program)):
        path = folder / f"{name}.py"
        path.write_text(text)
        spec = importlib.util.spec_from_file_location(name, path)
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, name, module)
        spec.loader.exec_module(module)
    return module


def result_of(module):
    a = array("f", [2.0] * 4)
    module.run(a)
    return a[0]


def change_program(module, change):
    """Runs the change in the module, with functions that have a text."""
    lines = dedent(change)
    if "lambda" in change:
        import linecache

        name = f"<change {abs(hash(change))}>"
        linecache.cache[name] = (len(lines), None, [lines + "\n"], name)
        exec(compile(lines, name, "exec"), vars(module))
        return
    exec(lines, vars(module))


@pytest.mark.parametrize("kept", [False, True], ids=["compiled", "found on disk"])
@pytest.mark.parametrize("name", sampled(ROWS, 3))
def test_a_change_in_place_is_noticed(name, kept, tmp_path, monkeypatch):
    text, value, change, before, after = ROWS[name]
    program = PROGRAM.replace("@@", text, 1).replace("@@", value)
    store._is_trusted.cache_clear()
    # By variables: calls under an override are not those of native code.
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("WEFT_NO_CACHE", str(int(not kept)))
    if kept:
        assert result_of(load(tmp_path / "one", program, monkeypatch)) == before
    module = load(tmp_path / "other", program, monkeypatch)
    assert result_of(module) == before
    assert result_of(module) == before
    change_program(module, change)
    assert result_of(module) == after
    compiled = len(module.run.specializations)
    assert result_of(module) == after
    assert len(module.run.specializations) == compiled


@pytest.mark.parametrize("name", sampled(ROWS, 3))
def test_a_change_in_place_is_never_answered_from_disk(name, tmp_path, monkeypatch):
    text, value, change, before, after = ROWS[name]
    program = PROGRAM.replace("@@", text, 1).replace("@@", value)
    store._is_trusted.cache_clear()
    with override(cache_dir=str(tmp_path / "cache"), no_cache=False):
        assert result_of(load(tmp_path / "one", program, monkeypatch)) == before
        module = load(tmp_path / "other", program, monkeypatch)
        change_program(module, change)
        assert result_of(module) == after
        assert result_of(load(tmp_path / "third", program, monkeypatch)) == before


def test_a_launch_without_a_host_function_notices_other_parameters(tmp_path, monkeypatch):
    text = "def other(a, x=7, *, y=1):\n    a[0] = weft.f32(x + y)"
    module = load(tmp_path, PROGRAM.replace("@@", text, 1).replace("@@", "3"), monkeypatch)
    launch = module.work
    launch[1, 1](a := array("f", [0.0]))
    assert a[0] == 3
    change_program(module, "work.function.__code__ = other.__code__")
    launch[1, 1](a, 5, y=2)
    assert a[0] == 7
    change_program(
        module, "work.function.__defaults__ = (7,)\nwork.function.__kwdefaults__ = {'y': 1}"
    )
    launch[1, 1](a)
    assert a[0] == 8
    change_program(module, "work.function.__kwdefaults__['y'] = 3")
    launch[1, 1](a)
    assert a[0] == 10


def test_a_host_function_notices_other_parameters_and_defaults(tmp_path, monkeypatch):
    text = (
        "@weft.kernel\ndef put(a: weft.Tensor, x):\n    a[0] = x\n"
        "def other(a, x: weft.f32 = 1.0, *, y: weft.f32 = 1.0):\n"
        "    put(a, x + y).launch(grid=1, block=1)"
    )
    module = load(tmp_path, PROGRAM.replace("@@", text, 1).replace("@@", "3"), monkeypatch)
    module.run(a := array("f", [0.0]))
    change_program(
        module,
        "run.function.__code__ = other.__code__\n"
        "run.function.__annotations__ = other.__annotations__",
    )
    module.run(a, 5.0, y=2.0)
    assert a[0] == 7
    change_program(module, "run.function.__defaults__ = (8.0,)")
    change_program(module, "run.function.__kwdefaults__ = {'y': 1.0}")
    module.run(a)
    assert a[0] == 9
    change_program(module, "run.function.__kwdefaults__['y'] = 3.0")
    module.run(a)
    assert a[0] == 11


class Inner:
    def __init__(self):
        self.deep = 0


class Base:
    K = 3

    def __init__(self):
        self.own, self.inner = 1, Inner()

    @classmethod
    def of_class(cls):
        return cls.K

    @staticmethod
    def named():
        return Base.K

    @property
    def property(self):
        return self.own + self.K

    def method(self):
        return self.property + self.inner.deep + len(self.others())

    def others(self):
        return getattr(self, "table", ())


class Derived(Base):
    pass


OBJECT = Derived()


def free():
    return Derived.K + OBJECT.own


RUN_BY_PYTHON = {
    "a class method": (Derived.of_class, "base derived"),
    "a class method of an object": (OBJECT.of_class, "base derived"),
    "a static method": (Derived.named, "base"),
    "a property": (lambda: OBJECT.property, "base derived own"),
    "a method": (OBJECT.method, "base derived own deep table covered"),
    "a function": (free, "base derived own"),
}


@pytest.mark.parametrize("way", RUN_BY_PYTHON)
def test_attributes_that_python_reads_at_compile_time_are_noticed(way, monkeypatch):
    value, changes = RUN_BY_PYTHON[way]

    @weft.jit
    def plus(n: weft.i32):
        return n + value()

    def one():
        return [plus(0) for _ in range(3)]

    changing = {
        "base": lambda: monkeypatch.setattr(Base, "K", 4),
        "derived": lambda: monkeypatch.setattr(Derived, "K", 50, raising=False),
        "own": lambda: monkeypatch.setattr(OBJECT, "own", 700),
        "deep": lambda: monkeypatch.setattr(OBJECT.inner, "deep", 8000),
        "table": lambda: monkeypatch.setattr(OBJECT, "table", (1, 2), raising=False),
        "covered": lambda: monkeypatch.setattr(OBJECT, "K", 90000, raising=False),
    }
    assert one() == [value()] * 3
    for change in changes.split():
        before = value()
        changing[change]()
        assert value() != before
        assert one() == [value()] * 3
    monkeypatch.undo()
    assert one() == [value()] * 3
