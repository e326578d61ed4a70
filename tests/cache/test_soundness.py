# SPDX-License-Identifier: Apache-2.0
"""A program with one change, in each thing that a compilation may read: what is found is never of the other program."""

import importlib.util
import math
import sys
from array import array
from textwrap import dedent

import pytest

import weft.cache
from tests.conformance.test_source_paths import PATHS, written
from weft.cache import store
from weft.config import override

HELPERS = """
SIZE = 1
def __getattr__(name):
    if name == "WIDTH":
        return SIZE
    raise AttributeError(name)
"""
PROGRAM = """
import dataclasses, enum, functools, math, typing
import weft
LIMIT = 3
@@

@weft.kernel
def work(a: weft.Tensor):
    a[0] = @@

@weft.jit(options="--opt-level 0")
def run(a: weft.Tensor[weft.f32, ("n",)]):
    work(a).launch(grid=1, block=1)
"""
LIMITED = ("LIMIT = 3", "LIMIT = 5")
KEPT, NOT_KEPT = True, False

# What is changed: the program, the value of the kernel (a[0] is 2), old and new text, the values of both programs, and
# whether they may be kept.
ROWS = {
    "a builtin covered for code that Python runs": (
        "def f(n):\n    return max(n, 2)\n#",
        "f(4)",
        "#",
        "max = min",
        4,
        2,
        KEPT,
    ),
    "a module imported by a function": (
        "def f(n):\n    import helpers_h as h\n    return h.SIZE",
        "f(4)",
        "SIZE = 1",
        "SIZE = 2",
        1,
        2,
        NOT_KEPT,
    ),
    "a module's __getattr__": (
        "import helpers_h",
        "helpers_h.WIDTH",
        "SIZE = 1",
        "SIZE = 2",
        1,
        2,
        KEPT,
    ),
    "a patched module": (
        "def f(n):\n    return math.floor(n)\n#",
        "f(1.5)",
        "#",
        "math.floor = math.ceil",
        1,
        2,
        KEPT,
    ),
    "a patched constant of a module": ("#", "math.pi", "#", "math.pi = 3.0", 3.1415927, 3, KEPT),
    "a function's attribute, in Python": (
        "def f(n):\n    return n + f.size\nf.size = 3",
        "f(4)",
        "size = 3",
        "size = 5",
        7,
        9,
        KEPT,
    ),
    "a function's attribute": (
        "def f(n):\n    return n\nf.size = 3",
        "f.size",
        "size = 3",
        "size = 5",
        3,
        5,
        KEPT,
    ),
    "a default of code that Python runs": (
        "def f(x, t=(1, (2, 3))):\n    return t[1][1]",
        "f(3)",
        "(2, 3)",
        "(2, 5)",
        3,
        5,
        KEPT,
    ),
    "an object as a default": (
        """\
        class P:
            @property
            def size(self):
                return LIMIT
        def f(n, p=P()):
            return n + p.size""",
        "f(1)",
        *LIMITED,
        4,
        6,
        NOT_KEPT,
    ),
    "a keyword's default": (
        "def f(x, *, t=3):\n    return x + t",
        "f(a[0])",
        "t=3",
        "t=5",
        5,
        7,
        KEPT,
    ),
    "a function in a tuple": (
        "def g(x):\n    return x + LIMIT\nT = (g,)\ndef f(x):\n    return T[0](x)",
        "f(1)",
        *LIMITED,
        4,
        6,
        KEPT,
    ),
    "a helper's helper's global": (
        "def f(x):\n    return g(x)\ndef g(x):\n    return x + LIMIT",
        "f(a[0]) + f(1)",
        *LIMITED,
        9,
        13,
        KEPT,
    ),
    "a global in a comprehension": (
        "def f(x):\n    return sum(LIMIT for _ in range(x))",
        "f(3)",
        *LIMITED,
        9,
        15,
        KEPT,
    ),
    "one of two lambdas in a line": (
        "f, g = (lambda x: x + 3), (lambda x: x + 5)\nh = f",
        "h(a[0])",
        "h = f",
        "h = g",
        5,
        7,
        KEPT,
    ),
    "what functools.partial holds": (
        "f = functools.partial(lambda x, y: x + y, y=3)",
        "f(a[0])",
        "y=3",
        "y=5",
        5,
        7,
        KEPT,
    ),
    "the function under a decorator": (
        """\
        def twice(f):
            @functools.wraps(f)
            def inner(x):
                return f(x) * 2
            return inner
        @twice
        def f(x):
            return x + 1""",
        "f(1) + f(a[0])",
        "x + 1",
        "x + 2",
        10,
        14,
        KEPT,
    ),
    "a remembered result": (
        "@functools.cache\ndef f(x):\n    return x + LIMIT",
        "f(1)",
        *LIMITED,
        4,
        6,
        NOT_KEPT,
    ),
    "two closures' common variable": (
        """\
        def make(k):
            return (lambda x: x * k), (lambda x: x + k)
        f, g = make(2.0)""",
        "f(a[0]) + g(a[0])",
        "f, g = make(2.0)",
        "f, g = make(2.0)[0], make(3.0)[1]",
        8,
        9,
        KEPT,
    ),
    "two names of one object": (
        "A = [1]\nB = A",
        "3 if A is B else 5",
        "B = A",
        "B = [1]",
        3,
        5,
        KEPT,
    ),
    "a nested list": ("A = {'x': [1, (2, [3])]}", "A['x'][1][1][0]", "[3]", "[5]", 3, 5, KEPT),
    "a property of an enumeration": (
        """\
        class C(enum.Enum):
            RED = 1
            @property
            def size(self):
                return LIMIT""",
        "C.RED.size",
        *LIMITED,
        3,
        5,
        NOT_KEPT,
    ),
    "an operator of an enumeration": (
        "class C(enum.Enum):\n    RED = 1\n    def __add__(self, o):\n        return LIMIT",
        "C.RED + 1",
        *LIMITED,
        3,
        5,
        NOT_KEPT,
    ),
    "an attribute of an enumeration's member": (
        "class C(enum.Enum):\n    RED = 1\n    def __init__(self, v):\n        self.size = 3",
        "C.RED.size",
        "size = 3",
        "size = 5",
        3,
        5,
        KEPT,
    ),
    "how items are compared": (
        """\
        class P:
            def __eq__(self, other):
                return LIMIT == 3
        A, B = [P()], [P()]""",
        "3 if A == B else 5",
        *LIMITED,
        3,
        5,
        NOT_KEPT,
    ),
    "a property of an item, in Python": (
        """\
        class P:
            @property
            def size(self):
                return LIMIT
        A = [P()]
        def f(items):
            return items[0].size""",
        "f(A)",
        *LIMITED,
        3,
        5,
        NOT_KEPT,
    ),
    "a property of a metaclass": (
        """\
        class M(type):
            @property
            def size(cls):
                return LIMIT
        class P(metaclass=M):
            pass""",
        "P.size",
        *LIMITED,
        3,
        5,
        NOT_KEPT,
    ),
    "an inherited descriptor": (
        """\
        class D:
            def __get__(self, instance, owner):
                return LIMIT
        class Q:
            size = D()
        class P(Q):
            pass""",
        "P.size",
        *LIMITED,
        3,
        5,
        NOT_KEPT,
    ),
    "an attribute of a base class": (
        "class Q:\n    K = 3\nclass P(Q):\n    pass\nA = P()",
        "A.K",
        "K = 3",
        "K = 5",
        3,
        5,
        KEPT,
    ),
    "an attribute that covers the class's": (
        "class P:\n    size = 3\nA = P()\n#",
        "A.size",
        "#",
        "A.size = 5",
        3,
        5,
        KEPT,
    ),
    "a method replaced in an instance": (
        "class P:\n    def f(self, x):\n        return x + 3\nA = P()\n#",
        "A.f(a[0])",
        "#",
        "A.f = lambda x: x + 5",
        5,
        7,
        KEPT,
    ),
    "a method's global": (
        "class P:\n    def f(self, x):\n        return x + LIMIT\nA = P()",
        "A.f(a[0])",
        *LIMITED,
        5,
        7,
        KEPT,
    ),
    "a static method": (
        "class P:\n    @staticmethod\n    def f(x):\n        return x + 3\nA = P()",
        "A.f(a[0])",
        "x + 3",
        "x + 5",
        5,
        7,
        KEPT,
    ),
    "the class of a class method": (
        """\
        class Q:
            K = 3
            @classmethod
            def f(cls, x):
                return x + cls.K
        class P(Q):
            pass
        A = P()""",
        "A.f(a[0])",
        "    pass",
        "    K = 5",
        5,
        7,
        KEPT,
    ),
    "a field that a frozen dataclass does not declare": (
        """\
        @dataclasses.dataclass(frozen=True)
        class P:
            x: int = 1
        A = P()
        object.__setattr__(A, 'size', 3)""",
        "A.size + a[0]",
        "'size', 3",
        "'size', 5",
        5,
        7,
        KEPT,
    ),
    "a default factory": (
        """\
        @dataclasses.dataclass(frozen=True)
        class P:
            size: int = dataclasses.field(default_factory=lambda: LIMIT)""",
        "P().size",
        *LIMITED,
        3,
        5,
        NOT_KEPT,
    ),
    "an inherited __post_init__": (
        """\
        class Q:
            def __post_init__(self):
                object.__setattr__(self, 'size', LIMIT)
        @dataclasses.dataclass(frozen=True)
        class P(Q):
            size: int = 1""",
        "P().size",
        *LIMITED,
        3,
        5,
        NOT_KEPT,
    ),
    "a property of a named tuple": (
        """\
        class P(typing.NamedTuple):
            x: int
            @property
            def size(self):
                return LIMIT
        A = P(1)""",
        "A.size",
        *LIMITED,
        3,
        5,
        NOT_KEPT,
    ),
    "the order of matched attributes": (
        """\
        class P:
            __match_args__ = ('x', 'y')
        A = P()
        A.x, A.y = 3, 5
        def f(x):
            match A:
                case P(x, y):
                    return x
            return x""",
        "f(a[0])",
        "('x', 'y')",
        "('y', 'x')",
        3,
        5,
        KEPT,
    ),
    "a kernel's bound": ("#", "3.0", "@weft.kernel", "@weft.kernel(max_threads=64)", 3, 3, KEPT),
}


@pytest.fixture
def load(tmp_path, monkeypatch):
    """A function that loads a program as another process, in another checkout, would."""
    store._is_trusted.cache_clear()

    def load(checkout, program, helpers):
        (tmp_path / checkout).mkdir()
        for name, text in (("helpers_h", helpers), ("program_h", program)):
            path = tmp_path / checkout / f"{name}.py"
            path.write_text(text)
            spec = importlib.util.spec_from_file_location(name, path)
            module = importlib.util.module_from_spec(spec)
            monkeypatch.setitem(sys.modules, name, module)
            spec.loader.exec_module(module)
        return module

    for name in ("floor", "pi"):  # patched by some programs, and restored here
        monkeypatch.setattr(math, name, getattr(math, name))
    with override(cache_dir=str(tmp_path / "cache"), no_cache=False):
        yield load


def result_of(module):
    a = array("f", [2.0] * 4)
    module.run(a)
    return a[0]


@pytest.mark.parametrize("name", ROWS)
def test_a_change_is_never_answered_with_what_was_kept(load, name):
    text, value, old, new, before, after, may_keep = ROWS[name]
    program = PROGRAM.replace("@@", dedent(text), 1).replace("@@", value)
    changed, helpers = program.replace(old, new, 1), HELPERS.replace(old, new, 1)
    assert (changed, helpers) != (program, HELPERS)
    stats = weft.cache.stats()
    stored = stats.stored
    assert result_of(load("one", program, HELPERS)) == pytest.approx(before)
    assert (stats.stored > stored) is may_keep, stats
    assert result_of(load("other", changed, helpers)) == pytest.approx(after)


@pytest.mark.parametrize("name", PATHS.values(), ids=PATHS)
def test_an_error_names_the_file_of_this_checkout(tmp_path, name):
    store._is_trusted.cache_clear()
    with override(cache_dir=str(tmp_path / "cache"), no_cache=False):
        for checkout in ("one", "other"):
            (folder := tmp_path / checkout).mkdir()
            host, path = written(folder, name)
            with pytest.raises(AssertionError) as caught:
                weft.compile(host, array("f", [-4.0]), options="--target cpu")(array("f", [-4.0]))
            assert f"{path}:9" in str(caught.value).replace("\\udce9", "\udce9")
