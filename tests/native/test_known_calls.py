# SPDX-License-Identifier: Apache-2.0
"""Calls of known types run in native code, and notice every change of what their compilation read."""

from __future__ import annotations

import gc
import sys
import threading
import types
import weakref

import numpy as np
import pytest

import weft
from tests.sampling import sampled
from weft import _native
from weft.config import override

SETTINGS = types.ModuleType("settings_of_known_calls")


def load(text, **names):
    """A program, whose functions have a text."""
    import linecache

    file = f"<known calls {abs(hash((text, *names)))}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    program = types.SimpleNamespace()
    program.__dict__.update({"weft": weft, "__name__": "known_calls", **names})
    exec(compile(text, file, "exec"), program.__dict__)
    return program


# a[0] becomes `value()`, which is written in the program, whichever way the kernel is launched.
PROGRAM = """
{before}

@weft.kernel
def put(a: weft.Tensor, scale: weft.f32 = 1.0):
    a[0] = scale * ({value})

@weft.kernel
def put_each(a: weft.Tensor, scale: weft.f32 = 1.0):
    for i in weft.each(1):
        a[i] = scale * ({value})

@weft.jit
def run(a: weft.Tensor, scale: weft.f32 = 1.0):
    put(a, scale).launch(grid=1, block=1)

@weft.jit
def run_named(a: weft.Tensor, *, scale: weft.f32 = 1.0):
    put(a, scale).launch(grid=1, block=1)

@weft.jit
def run_constant(a: weft.Tensor, threads: weft.Constexpr):
    put(a).launch(grid=1, block=threads)

class Owner:
    @weft.kernel
    def put(self: weft.Constexpr, a: weft.Tensor):
        a[0] = {value}

    @weft.jit
    def run(self: weft.Constexpr, a: weft.Tensor):
        put(a).launch(grid=1, block=1)

owner = Owner()
"""
FORMS = {
    "a function": lambda program, a: program.run(a, 1.0),
    "a default": lambda program, a: program.run(a),
    "keywords": lambda program, a: program.run(scale=1.0, a=a),
    "keyword-only parameters": lambda program, a: program.run_named(a, scale=1.0),
    "a keyword-only default": lambda program, a: program.run_named(a),
    "a constant": lambda program, a: program.run_constant(a, 2),
    "a method": lambda program, a: program.owner.run(a),
    "a stream": lambda program, a: program.run(a, stream=0),
    "a launch": lambda program, a: program.put[1, 1](a, 1.0),
    "a launch with a default": lambda program, a: program.put[(1, 1, 1), (1, 1)](a),
    "a launch with keywords": lambda program, a: program.put[(1,), 1](scale=1.0, a=a),
    "a launch on a stream": lambda program, a: program.put[1, 1, 0](a),
    "a launch with a stream": lambda program, a: program.put[1, 1](a, stream=0),
    "over": lambda program, a: program.put_each.over(1)(a, 1.0),
    "over extents": lambda program, a: program.put_each.over((1, 1))(a),
    "over with keywords": lambda program, a: program.put_each.over(iterations=1)(a=a, scale=1.0),
    "over with a stream": lambda program, a: program.put_each.over(1)(a, stream=0),
    "a launch of a method": lambda program, a: program.owner.put[1, 1](a),
}
# Python functions that are the form itself.
OWN = ("Kernel.__getitem__", "Kernel.over")
HELPER = "def f():\n    return 3\ndef g():\n    return 4"
# What changes: the program, the value, and the change of the program.
CHANGES = {
    "a global": ("K = 3", "K", lambda p: setattr(p, "K", 4)),
    "a global that covers a builtin": ("", "abs(-3)", lambda p: setattr(p, "abs", lambda x: 4)),
    "a closure's cell": (
        "def make(k):\n    def f():\n        return k\n    return f\nf = make(3)",
        "f()",
        lambda p: setattr(p.f.__closure__[0], "cell_contents", 4),
    ),
    "a function's code": (HELPER, "f()", lambda p: setattr(p.f, "__code__", p.g.__code__)),
    "a function's defaults": (
        "def f(k=3):\n    return k",
        "f()",
        lambda p: setattr(p.f, "__defaults__", (4,)),
    ),
    "a function's keyword defaults": (
        "def f(*, k=3):\n    return k",
        "f()",
        lambda p: setattr(p.f, "__kwdefaults__", {"k": 4}),
    ),
    "a module's attribute": (
        "SETTINGS.K = 3",
        "SETTINGS.K",
        lambda p: setattr(p.SETTINGS, "K", 4),
    ),
    "a class's attribute": (
        "class P:\n    K = 3",
        "P.K",
        lambda p: setattr(p.P, "K", 4),
    ),
    "a class's attribute that becomes a descriptor, whose value changes": (
        "class D:\n    K = 3\n    def __get__(self, *_):\n        return D.K\nclass P:\n    K = 3",
        "P.K",
        lambda p: (setattr(p.P, "K", p.D()), call_every_form(p), setattr(p.D, "K", 4)),
    ),
    "a base class's attribute": (
        "class B:\n    K = 3\nclass P(B):\n    pass",
        "P.K",
        lambda p: setattr(p.B, "K", 4),
    ),
    "an object's attribute": (
        "class P:\n    pass\nA = P()\nA.K = 3",
        "A.K",
        lambda p: setattr(p.A, "K", 4),
    ),
    "an object's slot": (
        "class P:\n    __slots__ = ('K',)\nA = P()\nA.K = 3",
        "A.K",
        lambda p: setattr(p.A, "K", 4),
    ),
    "an object's class": (
        "class P:\n    K = 3\nclass Q:\n    K = 4\nA = P()",
        "A.K",
        lambda p: setattr(p.A, "__class__", p.Q),
    ),
    "an object's dictionary": (
        "class P:\n    K = 3\nA = P()",
        "A.K",
        lambda p: setattr(p.A, "__dict__", {"K": 4}),
    ),
    "the dictionary of an object with the attribute": (
        "class P:\n    pass\nA = P()\nA.K = 3",
        "A.K",
        lambda p: setattr(p.A, "__dict__", {"K": 4}),
    ),
    "a property that covers an object's attribute": (
        "class P:\n    pass\nA = P()\nA.K = 3",
        "A.K",
        lambda p: setattr(p.P, "K", property(lambda self: 4)),
    ),
    "an attribute that an object has not": (
        "class P:\n    pass\nA = P()",
        "getattr(A, 'K', 3)",
        lambda p: setattr(p.A, "K", 4),
    ),
    "an item of a list": ("K = [3]", "K[0]", lambda p: p.K.__setitem__(0, 4)),
}


def call_every_form(program):
    for form in FORMS.values():
        assert result_of(program, form) in (3, 4)


def result_of(program, form):
    a = np.zeros(4, np.float32)
    form(program, a)
    return a[0]


def in_a_thread(change, program):
    thread = threading.Thread(target=change, args=(program,))
    thread.start()
    thread.join()


@pytest.mark.parametrize("by_thread", sampled([False, True], 2), ids=["here", "by another thread"])
@pytest.mark.parametrize("name", sampled(CHANGES, 6))
def test_a_change_after_known_calls_is_noticed(name, by_thread):
    before, value, change = CHANGES[name]
    program = load(PROGRAM.format(before=before, value=value), SETTINGS=SETTINGS)
    for form in FORMS.values():
        assert [result_of(program, form) for _ in range(3)] == [3, 3, 3]
    in_a_thread(change, program) if by_thread else change(program)
    for title, form in FORMS.items():
        assert [result_of(program, form) for _ in range(3)] == [4, 4, 4], title


def test_unrelated_changes_of_a_module_or_class_recompile_nothing():
    text = "K = 3\nclass P:\n    L = 0\n    other = 0\nA = P()"
    program = load(PROGRAM.format(before=text, value="K + A.L + P.L"))
    for number in range(5):
        program.other = program.P.other = number
        assert [result_of(program, form) for form in FORMS.values()] == [3] * len(FORMS)
    assert len(program.run.specializations) == 1


def python_functions_in(call):
    """Names of weft's Python functions that a call runs."""
    seen = []

    def note(frame, event, _):
        if event == "call" and frame.f_globals.get("__name__", "").startswith("weft"):
            seen.append(frame.f_code.co_qualname)

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return seen


@pytest.mark.parametrize("name", [name for name in FORMS if "method" not in name])
def test_a_known_call_runs_no_python(name):
    program, a = load(PROGRAM.format(before="K = 3", value="K")), np.zeros(4, np.float32)
    for _ in range(2):
        FORMS[name](program, a)
    assert set(python_functions_in(lambda: FORMS[name](program, a))) <= set(OWN)


def test_a_function_replaced_or_with_new_code_runs_as_it_is_now():
    @weft.jit
    def run(a: weft.i32):
        return a + 1

    def other(a: weft.i32):
        return a + 2

    def third(a: weft.i32):
        return a + 3

    assert [run(1), run(1)] == [2, 2]
    run.function = other
    assert [run(1), run(1)] == [3, 3]
    other.__code__ = third.__code__
    assert [run(1), run(1)] == [4, 4]


def test_defaults_are_those_of_the_call():
    @weft.jit
    def run(a: weft.i32, b: weft.i32 = 1, *, c: weft.i32 = 10):
        return a + b + c

    assert [run(1), run(1), run(1, c=20)] == [12, 12, 22]
    run.function.__defaults__ = (2,)
    assert [run(1), run(1)] == [13, 13]
    run.function.__kwdefaults__["c"] = 30
    assert [run(1), run(1)] == [33, 33]
    run.function.__defaults__ = None
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'b'"):
        run(1)


def test_errors_are_those_of_a_call_by_python():
    @weft.jit
    def run(a: weft.Tensor[weft.f32, (4,)], /, b: weft.i32 = 1, *, c: weft.i32 = 10):
        return b + c

    a = np.zeros(4, np.float32)
    wrong = [
        run,
        lambda: run(a, 1, 2),
        lambda: run(a, d=1),
        lambda: run(a, 1, b=1),
        lambda: run(a=a),
        lambda: run(a, "1"),
        lambda: run(np.zeros(5, np.float32)),
        lambda: run(np.zeros(4, np.float64)),
        lambda: run(object()),
        lambda: run(a, 1 << 40),
    ]

    def words(call):
        with pytest.raises((TypeError, ValueError)) as caught:
            call()
        return type(caught.value), str(caught.value), len(caught.traceback)

    assert [run(a), run(a, 2, c=3)] == [11, 5]
    with override(time=False):
        by_python = [words(call) for call in wrong]
    natively = [words(call) for call in wrong]
    assert [one[:2] for one in natively] == [one[:2] for one in by_python]
    assert all(frames <= 3 for _, _, frames in natively)  # this file's two, and one of weft's


KERNEL = """
@weft.kernel
def put(a: weft.Tensor[weft.f32, (4,)], scale: weft.f32 = 1.0, *, times: weft.f32 = 1.0):
    i = weft.block_idx.x * weft.block_dim.x + weft.thread_idx.x
    a[i] = scale * times

@weft.kernel
def other(a: weft.Tensor, scale: weft.f32 = 1.0, *, times: weft.f32 = 1.0):
    a[0] = 9

@weft.kernel
def put_each(a: weft.Tensor):
    for i in weft.each(a.shape[0]):
        a[i] = 1
"""


def test_sizes_of_launches_are_those_of_each():
    program = load(KERNEL)
    for grid, block in (
        (1, 1),
        (2, 1),
        (2, 2),
        (1, (1, 1)),
        ((2, 1, 1), 2),
        (1, 4),
        (0, 4),
        ((4,), (1,)),
    ):
        for _ in range(2):
            a = np.zeros(4, np.float32)
            program.put[grid, block](a)
            count = int(np.prod(grid) * np.prod(block))
            assert a.tolist() == [1] * count + [0] * (4 - count), (grid, block)
    for iterations in (4, (4,), (2, 2), (4, 1), 300, (0, 4)):
        a = np.zeros(4, np.float32)
        program.put_each.over(iterations)(a)
        assert a.tolist() == [1] * 4


def test_a_kernel_that_is_replaced_runs_as_it_is():
    program, a = load(KERNEL), np.zeros(4, np.float32)
    kept = program.put[1, 4]

    def first():
        program.put[1, 4](a)
        one = a[0]
        kept(a)
        assert a[0] == one
        return one

    assert [first(), first()] == [1, 1]
    program.put.function.__defaults__ = (2.0,)
    assert [first(), first()] == [2, 2]
    program.put.function.__kwdefaults__["times"] = 2.0
    assert [first(), first()] == [4, 4]
    program.put.function.__code__ = program.other.function.__code__
    assert [first(), first()] == [9, 9]
    program = load(KERNEL)
    kept = program.put[1, 4]
    assert [first(), first()] == [1, 1]
    program.put.function = program.other.function
    assert [first(), first()] == [9, 9]


def test_errors_of_launches_are_those_of_a_launch_by_python():
    program, a = load(KERNEL), np.zeros(4, np.float32)
    put = program.put
    wrong = [
        put[1, 4],
        lambda: put[1, 4](a, 1, 2),
        lambda: put[1, 4](a, grid=1),
        lambda: put[1, 4](a, a=a),
        lambda: put[1, 4](a, "1"),
        lambda: put[1, 4](np.zeros(5, np.float32)),
        lambda: put[1, 4](object()),
        lambda: put[1, 4](a, stream="x"),
        lambda: put[1, 4, 0](a, stream=0),
        lambda: put[1, 4, "x"](a),
        lambda: put[-1, 4],
        lambda: put[1, 0],
        lambda: put[1, 2000],
        lambda: put[(1, 1, 1, 1), 1],
        lambda: put[True, 1],
        lambda: put[1],
        lambda: put.over(-1),
        lambda: put.over("x"),
        lambda: put.over(1 << 63),
        lambda: put.over((1 << 32, 1 << 32)),
        put.over,
        lambda: program.put_each.over(4)(a, a),
    ]

    def words(call):
        with pytest.raises((TypeError, ValueError)) as caught:
            call()
        return type(caught.value), str(caught.value), len(caught.traceback)

    for _ in range(2):
        put[1, 4](a)
        put[1, 4, 0](a)
        program.put_each.over(4)(a)
    natively = [words(call) for call in wrong]
    with override(time=False):
        by_python = [words(call) for call in wrong]
    assert [one[:2] for one in natively] == [one[:2] for one in by_python]
    assert all(frames <= 3 for _, _, frames in natively)


def test_a_launch_says_what_it_launches():
    program, a = load(KERNEL), np.zeros(4, np.float32)
    program.put[1, 4](a)
    program.put_each.over(4)(a)
    assert repr(program.put[1, (4, 1)]) == "<weft launch of <weft kernel put> on (1, (4, 1))>"
    assert repr(program.put_each.over(4)) == "<weft launch of <weft kernel put_each> over 4>"


def test_a_kernel_that_keeps_its_launch_is_collected():
    program, a = load(KERNEL), np.zeros(4, np.float32)
    program.put[1, 4](a)
    program.put.own = [program.put[1, 4], program.put[2, 2]]
    gone = weakref.ref(program.put)
    del program
    gc.collect()
    assert gone() is None


def test_constants_are_distinguished():
    @weft.jit
    def run(k: weft.Constexpr):
        return k

    @weft.jit
    def kind(k: weft.Constexpr):
        return 1 if isinstance(k, bool) else 2 if isinstance(k, int) else 3

    for value in (1, 2, -1, 1 << 40, 1, 2, 1.5, -0.0, 0.0, True, 1, 1.0):
        for _ in range(2):
            assert repr(run(value)) == repr(value)
    assert [kind(k) for k in (True, 1, 1.0, True, 1, 1.0)] == [1, 2, 3, 1, 2, 3]


class Mutable:
    """Hashable by what it holds: equality is Python's to decide."""

    def __init__(self, k):
        self.k = k

    def __hash__(self):
        return hash(self.k)

    def __eq__(self, other):
        return self.k == other.k


def test_a_constant_with_its_own_equality_is_looked_up_by_python():
    @weft.jit
    def run(k: weft.Constexpr):
        return k.k

    held = Mutable(3)
    assert [run(held), run(held)] == [3, 3]
    held.k = 4
    assert [run(held), run(held)] == [4, 4]


def test_calls_under_an_override_are_left_to_python():
    @weft.jit
    def run(a: weft.i32):
        return a + 1

    assert [run(1), run(1)] == [2, 2]
    with override(sanitize="bounds"):
        assert python_functions_in(lambda: run(1))
    assert python_functions_in(lambda: run(1)) == []


def test_a_class_whose_call_is_replaced_calls_that(monkeypatch):
    @weft.jit
    def run(a: weft.i32):
        return a + 1

    assert [run(1), run(1)] == [2, 2]
    monkeypatch.setattr(type(run), "__call__", lambda self, a: "replaced")
    assert run(1) == "replaced"
    monkeypatch.undo()
    assert [run(1), run(1)] == [2, 2]


def test_many_sets_of_types_are_kept_apart():
    @weft.jit
    def run(a: weft.Tensor, k: weft.Constexpr):
        return a.shape[0] + k

    arrays = [np.zeros(n, kind) for n in (3, 4) for kind in (np.float32, np.float64, np.int8)]
    for _ in range(3):
        for k in range(4):
            for a in arrays:
                assert run(a, k) == len(a) + k


def test_a_function_and_all_that_it_knows_is_collected():
    def made():
        k = [1]

        @weft.kernel
        def put(a: weft.Tensor):
            a[0] = K

        K = 3

        @weft.jit
        def run(a: weft.Tensor):
            put(a).launch(grid=1, block=1)

        k.append(run)
        return run

    run = made()
    for _ in range(3):
        run(np.zeros(1, np.float32))
    gone = weakref.ref(run)
    del run
    gc.collect()
    assert gone() is None


def test_guards_are_what_a_walk_over_the_places_says():
    def f(k=1):
        return k

    class Slotted:
        __slots__ = ("k",)

    names, cell, slotted, free = {"a": f}, types.CellType(f), Slotted(), types.SimpleNamespace(k=f)
    slotted.k = f
    places = (
        (0, names, "a", f),
        (0, names, "b"),
        (1, cell, None, f),
        (2, f, None, f.__code__, f.__defaults__, None),
        (3, slotted, "k", f),
        (3, free, "k", f),
        (3, free, "missing"),
        (3, free, "__dict__", vars(free)),
        (3, free, "__class__", types.SimpleNamespace),
        (4, Slotted, "other"),
    )
    guards = _native.Guards(places)

    def check(expected):
        assert guards.is_current() is expected
        assert _native.is_unchanged(places) is expected

    def around(change, back):
        for _ in range(2):
            change()
            check(False)
            back()
            check(True)

    check(True)
    around(lambda: names.update(a=1), lambda: names.update(a=f))
    around(lambda: names.update(b=1), lambda: names.pop("b"))
    around(lambda: setattr(cell, "cell_contents", 1), lambda: setattr(cell, "cell_contents", f))
    defaults = f.__defaults__
    around(lambda: setattr(f, "__defaults__", (2,)), lambda: setattr(f, "__defaults__", defaults))
    around(lambda: setattr(slotted, "k", 1), lambda: setattr(slotted, "k", f))
    around(lambda: setattr(free, "k", 1), lambda: setattr(free, "k", f))
    around(lambda: setattr(free, "missing", 1), lambda: delattr(free, "missing"))
    around(lambda: setattr(Slotted, "other", 1), lambda: delattr(Slotted, "other"))
    slot = Slotted.__dict__["k"]
    around(
        lambda: setattr(Slotted, "k", property(lambda self: 1)), lambda: setattr(Slotted, "k", slot)
    )
    names["c"] = Slotted.c = free.c = 1
    check(True)
    assert not _native.Guards(((0, names, "a", 1),)).is_current()


def test_guards_refuse_other_tuples():
    for wrong in (((9, {}, "a"),), (1,), ((),)):
        with pytest.raises(TypeError, match="expected a tuple of places"):
            _native.Guards(wrong)
    with pytest.raises(TypeError):
        _native.Guards([])
    with pytest.raises(TypeError, match="expected a subclass of StagedFunction"):
        _native.call_natively(int)


class Interrupting:
    """Its value is read again where the global has changed, and raises once what the global holds."""

    @property
    def value(self):
        global ONCE
        raised, ONCE = ONCE, None
        if raised is not None:
            raise raised
        return 3


ONCE = None
INTERRUPTING = Interrupting()


@weft.kernel
def interrupted_kernel(out: weft.Tensor):
    out[0] = INTERRUPTING.value


@weft.jit
def interrupted(out: weft.Tensor):
    interrupted_kernel(out).launch(grid=1, block=1)


@pytest.mark.parametrize("raised", [KeyboardInterrupt(), SystemExit(3)], ids=repr)
@pytest.mark.parametrize("call", [interrupted, interrupted_kernel[1, 1]])
def test_an_interrupt_while_a_change_is_looked_for_ends_the_call(call, raised, monkeypatch):
    out = np.zeros(1, np.float32)
    call(out)
    call(out)
    monkeypatch.setitem(globals(), "ONCE", raised)
    with pytest.raises(type(raised)):
        call(out)
    call(out)
    assert out[0] == 3
