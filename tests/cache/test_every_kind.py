# SPDX-License-Identifier: Apache-2.0
"""Every kind of program is found again as it was compiled, by another process of this checkout and of another one."""

import importlib.util
import sys

import numpy as np
import pytest

import weft.cache
from tests.cache.test_cached import outcome
from weft.cache import store
from weft.config import override

HEAD = """
import numpy, weft
SIZE = 2
from weft.profiler import Profiler, capture
"""
TENSOR = 'weft.Tensor[weft.f32, ("n",)]'
PROGRAMS = {
    "scratch": f"""
@weft.kernel
def twice(a: weft.Tensor, b: weft.Tensor):
    b[weft.thread_idx.x] = a[weft.thread_idx.x] * 2.0

@weft.jit
def run(a: {TENSOR}):
    half = weft.scratch(a.shape[0], weft.f32)
    twice(a, half).launch(grid=1, block=8)
    twice(half, a).launch(grid=1, block=8)

def result(a):
    run(a)
    return a.tolist(), [(s.text, s.shape, s.line, s.file == __file__) for s in made().scratch]
""",
    "tensor map": f"""
@weft.kernel
def copy(source: weft.TensorMap, target: weft.Tensor):
    tile = weft.shared((8, 8), weft.f32, swizzle=32)
    full = weft.mbarrier(1, arrivals=1)
    if weft.thread_idx.x == 0:
        full[0].arrive(expect_bytes=tile.nbytes)
        weft.tma.load(source, (0, 0), tile, full[0])
    full[0].wait(0)
    target[weft.thread_idx.x] = tile[1, weft.thread_idx.x]

@weft.jit
def run(a: {TENSOR}, b: weft.Tensor[weft.f32, (8, 8)]):
    copy(weft.tensor_map(b, box=(8, 8), swizzle=32), a).launch(grid=1, block=8)

def result(a):
    memory = numpy.arange(128, dtype=numpy.float32)
    first = -memory.ctypes.data % 64 // 4
    run(a, memory[first:first + 64].reshape(8, 8))
    return [x - a[0] for x in a]
""",
    "profiler": f"""
@weft.kernel
def marked(a: weft.Tensor):
    p = Profiler(groups=("even", "odd"))
    p.init(weft.thread_idx.x % 2)
    with p.range("load", payload=7):
        x = a[weft.thread_idx.x]
    p.count("step", 3)
    a[weft.thread_idx.x] = x + 1.0

@weft.jit
def run(a: {TENSOR}):
    marked(a).launch(grid=1, block=2)

def result(a):
    with capture() as trace:
        run(a)
    spans = sorted((str(s["group"]), str(s["event"]), int(s["payload"])) for s in trace.spans())
    return [launch.recording.kernel for launch in trace.launches], trace.problems, spans
""",
    "printf and assertions": f"""
@weft.kernel
def checked(a: weft.Tensor):
    assert a[0] < 100.0, "large"
    a[weft.thread_idx.x] += 1.0

@weft.jit(options="--enable-assertions")
def run(a: {TENSOR}):
    checked(a).launch(grid=1, block=8)

def result(a):
    run(a)
    a[0] = 1000.0
    try:
        run(a)
    except AssertionError as error:
        return str(error).replace(__file__, "FILE")
""",
    "a lambda, names of all kinds": f"""
Größe = 2.0
def helper(x):
    return x + Größe

@weft.kernel
def größer(a: weft.Tensor):
    a[weft.thread_idx.x] = helper(a[weft.thread_idx.x])

def local():
    def run(a: {TENSOR}):
        größer(a).launch(grid=1, block=(lambda: 8)())
    run.__name__ = "not an identifier/../x"
    return weft.jit(run)

run = local()

def result(a):
    run(a)
    return a.tolist(), made().__name__
""",
}
# Messages of their failing calls do.
NAMES_ITS_FILE = {"scratch", "tensor map", "printf and assertions"}
TAIL = """
def made():
    return run.specializations[-1]
"""


@pytest.fixture
def load(tmp_path, monkeypatch):
    """A function that loads a program as another process would, from a checkout."""
    store._is_trusted.cache_clear()

    def load(checkout, program):
        path = tmp_path / checkout / "program_k.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(HEAD + program + TAIL)
        spec = importlib.util.spec_from_file_location("program_k", path)
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, "program_k", module)
        spec.loader.exec_module(module)
        return module

    with override(cache_dir=str(tmp_path / "cache"), no_cache=False):
        yield load


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_found_does_what_was_compiled(load, name):
    def result(checkout):
        module = load(checkout, PROGRAMS[name])
        return outcome(lambda: module.result(np.arange(8, dtype=np.float32)))

    first, what, kept = result("one")
    assert (what, kept) == ("miss", True), weft.cache.stats()
    assert first is not None
    assert result("one") == (first, "hit", False)
    other, what, kept = result("other")
    assert other == first
    assert (what, kept) == (("miss", True) if name in NAMES_ITS_FILE else ("hit", False))
    assert result("other") == (first, "hit", False)


@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_lines_of_files_are_those_of_this_checkout(load, target):
    where = "" if target == "cpu" else " --gpu-arch sm_90a"

    def compiled(checkout):
        module = load(checkout, PROGRAMS["scratch"])
        a = weft.fake_tensor(weft.f32, ("n",))
        return outcome(lambda: weft.compile(module.run, a, options="--generate-line-info" + where))

    texts = {}
    for checkout in ("one", "other"):
        fn, what, kept = compiled(checkout)
        assert (what, kept) == ("miss", True), weft.cache.stats()
        texts[checkout] = fn.llvm_ir
        assert f"/{checkout}" in texts[checkout]
    for checkout, text in texts.items():
        fn, what, _ = compiled(checkout)
        assert (what, fn.llvm_ir) == ("hit", text)
    assert texts["one"] != texts["other"]


CHANGES = [
    ("tensor map", "swizzle=32), a", "swizzle=32, fill='nan'), a"),
    ("tensor map", "target[weft.thread_idx.x] = tile[1", "target[weft.thread_idx.x] = tile[2"),
    ("scratch", "a.shape[0], weft.f32", "a.shape[0] * SIZE, weft.f32"),
    ("scratch", "a.shape[0], weft.f32", "a.shape[0] + SIZE, weft.f32"),
    ("profiler", '"load"', '"read"'),
    ("profiler", '"odd"', '"other"'),
    ("profiler", "payload=7", "payload=SIZE"),
]


def test_options_of_a_map_and_of_scratch_are_in_the_key(load):
    def result(text):
        module = load("one", text)
        return outcome(lambda: module.result(np.arange(8, dtype=np.float32)))

    for name, old, new in CHANGES:
        assert old in PROGRAMS[name]
        original, _, _ = result(PROGRAMS[name])
        changed, what, kept = result(text := PROGRAMS[name].replace(old, new))
        assert (what, kept) == ("miss", True), (name, old)
        assert result(text) == (changed, "hit", False)
        assert result(PROGRAMS[name]) == (original, "hit", False)
