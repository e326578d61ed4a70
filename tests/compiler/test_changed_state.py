# SPDX-License-Identifier: Apache-2.0
"""A direct call runs the program as it is now, whatever has changed in place since it was compiled or kept on disk."""

import dataclasses
import importlib.util
import sys
from array import array
from textwrap import dedent

import pytest

import weft
import weft.frontend.trace
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


@pytest.mark.parametrize("kept", sampled([False, True], 2), ids=["compiled", "found on disk"])
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


@pytest.mark.parametrize("name", sampled(ROWS, 6))
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


# Classes, objects and functions, which Python runs at compile time; `settings` is another module.
RUN = """
class B:
    K = 3
    def m(self): return self.K
    @classmethod
    def c(cls): return cls.K
    @staticmethod
    def s(): return B.K
    def __call__(self): return self.K
    def __len__(self): return self.K
    def __int__(self): return self.K
    def __getitem__(self, i): return self.K + i
    def __add__(self, o): return self.K + o
    def __str__(self): return str(self.K)
    def __enter__(self): return self
    def __exit__(self, *_): pass
    def __iter__(self): return iter((self.K,))
class P(B):
    def over(self): return super().m()
class Q(P):
    def m(self): return super().m()
class I:
    def __init__(self): self.k = B.K
class N:
    def __new__(cls):
        made = object.__new__(cls)
        made.k = B.K
        return made
class M(type):
    @property
    def size(cls): return cls.K
class T(metaclass=M):
    K = 3
class D:
    def __get__(self, item, kind): return B.K
class W:
    x = D()
class G:
    def __getattr__(self, name): return B.K
@dataclasses.dataclass
class R:
    k: int = 3
class S:
    __slots__ = ("k",)
    def f(self): return self.k
A, q, w, g, r, s = P(), Q(), W(), G(), R(), S()
s.k = 3
config = types.SimpleNamespace(K=3, inner=types.SimpleNamespace(K=3))
objects, table = [types.SimpleNamespace(K=3)], {"a": types.SimpleNamespace(K=3)}
late = types.SimpleNamespace()
bound = A.m
def arg(o): return o.K
def arg2(o): return arg(o)
def local():
    o = config
    return o.K
def get(): return config
def default(o=config): return o.K
def around(f):
    @functools.wraps(f)
    def inner(): return f()
    return inner
@around
def wrapped(): return config.K
def own(): return own.K
own.K = 3
def missing():
    try: return late.K
    except AttributeError: return 3
def matched():
    match config:
        case types.SimpleNamespace(K=k): return k
def record():
    match r:
        case R(k): return k
def by_with():
    with A as a: return a.m()
def equal(): return 3 if r == R(3) else 4
part = functools.partial(arg, config)
settings.config = types.SimpleNamespace(K=3)
def there(): return settings.config.K
def imported():
    from settings_s import config as found
    return found.K
"""
# The expression, what changes it from 3 to 4.
RUN_ROWS = [
    *(
        (value, change)
        for value in (
            *("P.c()", "A.c()", "A.m()", "A.over()", "B.m(A)", "P().m()", "P().K", "P().c()"),
            *("A()", "len(A)", "int(A)", "A[0]", "A + 0", "int(str(A))", "int(f'{A}')", "sum(A)"),
            *("bound()", "by_with()", "arg(A)", "arg(P)", "functools.partial(arg, A)()"),
            *("(lambda: A + 0)()", "(lambda: len(A))()", "(lambda: P().m())()"),
        )
        for change in ("B.K = 4", "P.K = 4")
    ),
    *((value, "B.K = 4") for value in ("P.s()", "I().k", "N().k", "w.x", "g.x", "q.m()")),
    *((f"(lambda: {value})()", "B.K = 4") for value in ("I().k", "w.x", "g.x", "arg(B)")),
    ("q.m()", "B.m = lambda self: 4"),
    ("A.m()", "P.K = property(lambda self: 4)"),
    ("T.size", "T.K = 4"),
    *(
        (value, "config.K = 4")
        for value in (
            *("arg(config)", "arg(o=config)", "arg2(config)", "local()", "arg(get())", "default()"),
            *("wrapped()", "matched()", "part()", "(lambda: get().K)()"),
            "(lambda: getattr(config, 'K'))()",
            "(lambda name: getattr(config, name))('K')",
            "(lambda: vars(config)['K'])()",
        )
    ),
    ("arg(config.inner)", "config.inner.K = 4"),
    ("(lambda: config.inner.K)()", "config.inner = types.SimpleNamespace(K=4)"),
    *((value, "objects[0].K = 4") for value in ("arg(objects[0])", "list(map(arg, objects))[0]")),
    *(
        (f"(lambda: {value})()", "objects[0].K = 4")
        for value in ("objects[0].K", "sum(o.K for o in objects)")
    ),
    ("max(objects, key=arg).K", "objects[0].K = 4"),
    ("(lambda: table['a'].K)()", "table['a'].K = 4"),
    ("own()", "own.K = 4"),
    ("A.m()", "A.K = 4"),
    ("(lambda: A + 0)()", "A.K = 4"),
    ("missing()", "late.K = 4"),
    ("(lambda: getattr(late, 'K', 3))()", "late.K = 4"),
    ("record()", "r.k = 4"),
    ("equal()", "r.k = 4"),
    ("3 if r == R(3) else 4", "r.k = 4"),
    ("s.f()", "s.k = 4"),
    ("there()", "settings.config.K = 4"),
    ("there()", "settings.config = types.SimpleNamespace(K=4)"),
    ("imported()", "settings.config.K = 4"),
    ("imported()", "settings.config = types.SimpleNamespace(K=4)"),
]
RUN_BY_NAME = {f"{value} after {change}": (value, change) for value, change in RUN_ROWS}


@pytest.mark.parametrize("kept", sampled([False, True], 2), ids=["compiled", "found on disk"])
@pytest.mark.parametrize("name", sampled(RUN_BY_NAME, 3))
def test_a_change_that_python_reads_at_compile_time_is_noticed(name, kept, tmp_path, monkeypatch):
    value, change = RUN_BY_NAME[name]
    program = PROGRAM.replace("@@", RUN, 1).replace("@@", value)
    store._is_trusted.cache_clear()
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("WEFT_NO_CACHE", str(int(not kept)))
    if kept:
        assert result_of(load(tmp_path / "one", program, monkeypatch)) == 3
    module = load(tmp_path / "other", program, monkeypatch)
    traces = count_traces(monkeypatch)
    assert [result_of(module) for _ in range(3)] == [3] * 3
    assert len(traces) <= 1
    change_program(module, change)
    assert [result_of(module) for _ in range(3)] == [4] * 3
    assert len(traces) <= 2


def count_traces(monkeypatch):
    traces, trace = [], weft.frontend.trace._trace

    def counted(*arguments, **keywords):
        traces.append(arguments)
        return trace(*arguments, **keywords)

    monkeypatch.setattr(weft.frontend.trace, "_trace", counted)
    return traces


# State that Python itself changes while it runs at compile time, and objects of the compiled function's own.
KEPT = """
class Memo:
    def __init__(self): self.kept, self.calls = {}, 0
    def get(self, key):
        self.calls += 1
        if key not in self.kept: self.kept[key] = key
        return self.kept[key]
memo = Memo()
class P:
    K = 3
    def m(self): return self.K
    @functools.cached_property
    def once(self): return self.__class__.K
A = P()
def made(a):
    item = P()
    item.x = 1
    k = item.m()
    item.x = 2
    return k + item.m() - item.x - 1
"""


@pytest.mark.parametrize("value", ["memo.get(1) + memo.get(2)", "made(a)", "A.once", "A.m()"])
def test_state_that_a_trace_itself_changes_is_compiled_once(value, tmp_path, monkeypatch):
    monkeypatch.setenv("WEFT_NO_CACHE", "1")
    program = PROGRAM.replace("@@", KEPT, 1).replace("@@", value)
    module, traces = load(tmp_path, program, monkeypatch), count_traces(monkeypatch)
    assert [result_of(module) for _ in range(3)] == [3] * 3
    assert len(traces) == 1


def test_an_array_of_an_object_whose_number_is_read_is_not_compared(monkeypatch):
    numpy = pytest.importorskip("numpy", reason="needs another package: numpy")

    @dataclasses.dataclass
    class Settings:
        size: int
        table: object

        def positive(self):
            return self.size if self.size > 0 else 1

    settings = Settings(3, numpy.ones(4, numpy.float32))

    @weft.jit
    def plus(n: weft.i32):
        return n + settings.positive()

    traces = count_traces(monkeypatch)
    assert plus(0) == 3
    settings.table[0] = 2
    assert plus(0) == 3
    assert len(traces) == 1
    settings.size = 4
    assert plus(0) == 4


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
