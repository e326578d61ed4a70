# SPDX-License-Identifier: Apache-2.0
"""Hits of the cache: the same function, and never one of another program."""

import importlib.util
import sys
from array import array

import pytest

import weft
from weft.cache import store
from weft.compiler import cached
from weft.config import override

HELPERS = """
SIZE = 4
def twice(x):
    return x * 2
"""
PROGRAM = '''
import weft
import helpers_of_cache as helpers

FACTOR = 3.0
TABLE = [1.0, 2.0]
KIND = weft.f32

class Options:
    offset = 0.5

def scaled(x, by=1.0):
    return x * by * FACTOR + TABLE[1]

def half(n):
    return n // 2

def make(scale):
    @weft.kernel
    def work(a: weft.Tensor, n: weft.Constexpr):
        """Scale."""
        i = weft.thread_idx.x
        if i < min(helpers.SIZE, 9):
            x = weft.f32(KIND(scaled(helpers.twice(a[i])) * scale))
            a[i] = x + Options.offset + n * half(4)

    @weft.jit
    def run(a: weft.Tensor[weft.f32, ("n",)], n: weft.Constexpr = 1):
        """Run."""
        work(a, n).launch(grid=1, block=8)
        return [a.shape[0], 2]

    return run

run = make(2.0)
'''


@pytest.fixture
def load(tmp_path, monkeypatch):
    """A function that loads a program as another process, in another checkout, would."""
    store._is_trusted.cache_clear()
    count = iter(range(1000))

    def load(program=PROGRAM, helpers=HELPERS):
        checkout = tmp_path / str(next(count))
        checkout.mkdir()
        for name, text in (("helpers_of_cache", helpers), ("program_of_cache", program)):
            path = checkout / f"{name}.py"
            path.write_text(text)
            spec = importlib.util.spec_from_file_location(name, path)
            module = importlib.util.module_from_spec(spec)
            monkeypatch.setitem(sys.modules, name, module)
            spec.loader.exec_module(module)
        return module

    with override(cache_dir=str(tmp_path / "cache"), no_cache=False):
        yield load


def outcome(call):
    """Outcome of a call: ``"hit"``, ``"miss"``, and whether it kept the result."""
    stats = weft.cache.stats()
    before = stats.hits, stats.stored
    result = call()
    return result, ("hit" if stats.hits > before[0] else "miss"), stats.stored > before[1]


def result_of(module, **keywords):
    a = array("f", [1.0] * 8)
    module.run(a, **keywords)
    return a.tolist()


CHANGED = {
    "text of the kernel": ("+ n * half", "- n * half"),
    "text of the host function": ("block=8", "block=4"),
    "text of a helper": ("x * by *", "x + by *"),
    "text of code that Python runs": ("n // 2", "n // 1"),
    "default of a helper": ("by=1.0", "by=2.0"),
    "global number": ("FACTOR = 3.0", "FACTOR = 4.0"),
    "type of a global": ("FACTOR = 3.0", "FACTOR = 3"),
    "item of a global list": ("[1.0, 2.0]", "[1.0, 3.0]"),
    "data type": ("KIND = weft.f32", "KIND = weft.f16"),
    "attribute of a class": ("offset = 0.5", "offset = 1.5"),
    "closure value": ("make(2.0)", "make(3.0)"),
    "global that covers a builtin": ("KIND = ", "min = max\nKIND = "),
    "line": ("FACTOR = 3.0", "\nFACTOR = 3.0"),
    "bound of the kernel": ("@weft.kernel", "@weft.kernel(max_threads=64)"),
}


def test_each_change_of_the_program_is_a_miss(load):
    expected = {}
    programs = {"": PROGRAM, **{k: PROGRAM.replace(*pair, 1) for k, pair in CHANGED.items()}}
    for name, text in programs.items():
        expected[name], what, kept = outcome(lambda text=text: result_of(load(text)))
        assert (what, kept) == ("miss", True), (name, weft.cache.stats())
    for name, text in programs.items():
        found = outcome(lambda text=text: result_of(load(text)))
        assert found == (expected[name], "hit", False), name
    below = PROGRAM.replace("run = make", "OTHER = 5\nrun = make")
    assert outcome(lambda: result_of(load(below)))[1] == "hit"


@pytest.mark.parametrize(
    ("old", "new"), [("SIZE = 4", "SIZE = 5"), ("x * 2", "x * 3")], ids=["global", "function"]
)
def test_a_change_in_another_module_is_a_miss(load, old, new):
    first, _, _ = outcome(lambda: result_of(load()))
    changed = HELPERS.replace(old, new)
    second, what, kept = outcome(lambda: result_of(load(helpers=changed)))
    assert (what, kept) == ("miss", True) and second != first
    assert outcome(lambda: result_of(load(helpers=changed))) == (second, "hit", False)
    assert outcome(lambda: result_of(load())) == (first, "hit", False)


OPTIONS = [
    "",
    "--opt-level 1",
    "--fp-contract off",
    "--math portable",
    "--enable-assertions",
    "--gpu-arch sm_80",
    "--gpu-arch sm_90a",
    "--gpu-arch sm_90a --ptxas-options -dlcm=cg",
]


def test_the_key_has_options_types_and_constants(load):
    a = weft.fake_tensor(weft.f32, ("n",))
    cases = [((a, 1), options) for options in OPTIONS]
    cases += [((a, 2), ""), ((a, 1.0), ""), ((a, True), "")]
    cases += [((weft.fake_tensor(weft.f32, (4,)), 1), "")]
    texts = {}
    for wanted in ("miss", "hit"):
        for arguments, options in cases:
            run = load().run
            fn, what, _ = outcome(lambda: weft.compile(run, *arguments, options=options))  # noqa: B023
            assert what == wanted, (options, arguments, weft.cache.stats())
            case = (repr(arguments), options)
            seen = [fn.llvm_ir, fn.ptx, fn.signature, fn.kernels, fn.stages, str(fn.ir_module)]
            seen += [fn.cubin, fn.__doc__, dict(fn.plan.defaults), [r.message for r in fn.remarks]]
            assert texts.setdefault(case, seen) == seen
    assert outcome(lambda: weft.compile(load().run, a, 1, options="--executor context"))[1] == "hit"
    assert outcome(lambda: weft.compile(load().run, a, 1, options="--no-cache"))[1] == "miss"


@pytest.mark.parametrize("part", ["compiler_version", "tools_version"])
def test_versions_are_in_the_key(load, monkeypatch, part):
    assert outcome(lambda: result_of(load()))[1] == "miss"
    if part == "compiler_version":
        monkeypatch.setattr(cached, part, lambda: "another")
    else:
        from weft.backends.registry import find_backend

        monkeypatch.setattr(type(find_backend("cpu")), part, lambda _self: "another")
    assert outcome(lambda: result_of(load()))[1] == "miss"
    assert outcome(lambda: result_of(load()))[1] == "hit"


def test_a_found_function_notices_changes_as_a_compiled_one_does(load):
    result_of(load())
    module = load()
    first, what, _ = outcome(lambda: result_of(module))
    assert what == "hit"
    module.FACTOR = 10.0
    assert outcome(lambda: result_of(module))[1] == "miss"
    module.FACTOR = 3.0
    assert outcome(lambda: result_of(module)) == (first, "hit", False)


UNKNOWN = {
    "the clock": ("half(4)", "int(time.time())", "import time\n"),
    "the environment": ("half(4)", "len(os.environ.get('HOME', ''))", "import os\n"),
    "a property": ("Options.offset", "Options().size", ""),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_python_reads_elsewhere_is_not_kept(load, name):
    old, new, first = UNKNOWN[name]
    text = first + PROGRAM.replace(old, new).replace(
        "    offset = 0.5", "    offset = 0.5\n    @property\n    def size(self):\n        return 3"
    )
    assert outcome(lambda: result_of(load(text)))[1:] == ("miss", False)
    assert outcome(lambda: result_of(load(text)))[1:] == ("miss", False)
