# SPDX-License-Identifier: Apache-2.0
"""`@weft.kernel(restrict=)`: results, overlaps refused on every way to call, machine code of loads and stores."""

import functools
import itertools
import pickle
import re
import typing

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

import weft
from tests.conformance.harness import define
from tests.sampling import sampled


@weft.kernel(restrict=True)
def axpy_kernel(a: weft.Tensor, b: weft.Tensor, out: weft.Tensor):
    for i in weft.each(out.shape[0]):
        out[i] = a[i] * 2 + b[i]


@weft.jit
def axpy(a: weft.Tensor, b: weft.Tensor, out: weft.Tensor):
    axpy_kernel(a, b, out).launch(over=out.shape[0])


def arrays(count=64):
    return (
        np.arange(count, dtype=np.float32),
        np.ones(count, np.float32),
        np.zeros(count, np.float32),
    )


# The names of `ways`, whose functions are compiled by the first test that calls one.
WAYS = ("direct", "compiled", "context", "tvm-ffi", "prepared", "pickled", "kernel", "sanitized")


@functools.cache
def ways():
    compiled = weft.compile(axpy, *[weft.fake_tensor(weft.f32, ("n",))] * 3)
    return {
        "direct": axpy,
        "compiled": compiled,
        "context": weft.compile(
            axpy, *[weft.fake_tensor(weft.f32, ("n",))] * 3, options="--executor context"
        ),
        "tvm-ffi": weft.compile(
            axpy, *[weft.fake_tensor(weft.f32, ("n",))] * 3, options="--enable-tvm-ffi"
        ),
        "prepared": lambda *given: compiled.prepare(*given)(),
        "pickled": pickle.loads(pickle.dumps(compiled)),
        "kernel": axpy_kernel.over(64),
        "sanitized": sanitized,
    }


def sanitized(*given):
    with weft.sanitize():
        axpy(*given)


def test_each_way_has_its_name():
    assert tuple(ways()) == WAYS


@pytest.mark.parametrize("name", WAYS)
def test_an_overlap_with_what_is_written_is_refused_on_every_path(name):
    call = ways()[name]
    a, b, out = arrays()
    for _ in range(2):
        call(a, b, out)
        assert (out == 2 * a + 1).all()
        call(a, a, out)  # what is only read may be the same
        assert (out == 3 * a).all()
        for given in ((a, b, a), (a, b, b)):
            before = [one.copy() for one in given]
            with pytest.raises(
                ValueError,
                match=r"kernel 'axpy_kernel': argument '[ab]': its memory, from 0x\w+ on, overlaps",
            ):
                call(*given)
            assert all((one == two).all() for one, two in zip(given, before, strict=True))


FIRST = """
@weft.kernel(restrict="a")
def kernel(a: weft.Tensor, out: weft.Tensor):
    if a.size > 0 and out.size > 0:
        out[{zeros}] = a[{other}]

@weft.jit
def host(a: weft.Tensor, out: weft.Tensor):
    kernel(a, out).launch(grid=1, block=1)
"""


@pytest.mark.parametrize(("rank", "other"), [(1, 1), (2, 1), (1, 2), (2, 2)])
def test_ranges_overlap_as_numpy_says(rank, other):
    host = define(FIRST.format(zeros="0, " * other, other="0, " * rank))["host"]
    base = np.zeros(64, np.int16)
    shapes = {1: [(0,), (1,), (5,)], 2: [(0, 3), (2, 3), (3, 1), (1, 4)]}
    steps = {1: [(1,), (2,), (-1,), (0,)], 2: [(3, 1), (4, 1), (1, 3), (-4, 1), (5, -1), (0, 2)]}

    def views(rank, starts):
        for shape, strides, start in itertools.product(shapes[rank], steps[rank], starts):
            yield as_strided(base[start:], shape, [2 * step for step in strides])

    seen = set()
    for a in views(rank, [20]):
        for out in views(other, [14, 19, 20, 21, 23, 25, 31]):
            wanted = np.may_share_memory(a, out)
            seen.add(wanted)
            try:
                host(a, out)
            except ValueError as error:
                assert "overlaps" in str(error)
                assert wanted, (a.shape, a.strides, out.shape, out.strides)
            else:  # those that interleave are apart
                shared = wanted and np.shares_memory(a, out)
                assert not shared, (a.shape, a.strides, out.shape, out.strides)
    assert seen == {True, False}


class Pair(typing.NamedTuple):
    a: weft.Tensor
    out: weft.Tensor


def test_items_of_a_tuple_are_restricted_with_it():
    @weft.kernel(restrict=["pair"])
    def kernel(pair: Pair):
        pair.out[0] = pair.a[1]

    a, _, out = arrays()
    kernel[1, 1](Pair(a, out))
    assert out[0] == 1
    with pytest.raises(ValueError, match="overlaps"):
        kernel[1, 1](Pair(a, a))


def test_scratch_memory_and_views_of_one_argument_are_compared():
    @weft.kernel(restrict=("a",))
    def kernel(a: weft.Tensor, out: weft.Tensor):
        out[0] = a[0]

    @weft.jit
    def host(a: weft.Tensor, split: weft.i32):
        held = weft.scratch(4, weft.f32)
        kernel(a, held).launch(grid=1, block=1)
        kernel(held, a[4:]).launch(grid=1, block=1)
        kernel(a[:split], a[4:]).launch(grid=1, block=1)

    a, _, _ = arrays(8)
    host(a, 4)
    assert a.tolist() == [0, 1, 2, 3, 0, 5, 6, 7]
    with pytest.raises(ValueError, match=r"overlaps .* of 'out'"):
        host(a, 5)
    compiled = weft.compile(host, weft.fake_tensor(weft.f32, ("n",)), 1)
    assert compiled.stages["use_restrictions"].count("simt.check_distinct") == 1


WALK = """
@weft.kernel(restrict={restrict})
def kernel(a: weft.Tensor, b: weft.Tensor, out: weft.Tensor):
    t = weft.thread_idx.x
    {before}
    for k in weft.static_range(4):
        i = t + k * 1024
        {body}

@weft.jit
def host(a: weft.Tensor, b: weft.Tensor, out: weft.Tensor):
    kernel(a, b, out).launch(grid=4, block=256)
"""
SUMS = "out[i] = a[i] * 2 + b[i]"


def walking(restrict, body=SUMS, before="pass"):
    """The program, compiled for sm_90a."""
    vector = weft.fake_tensor(weft.f32, ("n",))
    host = define(WALK.format(restrict=restrict, body=body, before=before))["host"]
    return weft.compile(host, vector, vector, vector, options="--gpu-arch sm_90a")


def in_ptx(compiled):
    """The accesses of global memory, in order."""
    return re.findall(r"\b(?:ld|st)\.(?:volatile\.)?global\S*", compiled.ptx)


def in_sass(compiled):
    """The same in machine code, whose disassembler takes 0.4 s to start."""
    return re.findall(r"\b(?:LDG|STG)\S*", compiled.sass)


def test_loads_come_before_stores_in_sass():
    compiled = walking(("a", "b"))
    assert in_ptx(compiled).count("ld.global.nc.b32") == 8
    assert in_sass(compiled) == ["LDG.E.CONSTANT"] * 8 + ["STG.E"] * 4
    assert in_sass(walking(())) == ["LDG.E", "LDG.E", "STG.E"] * 4


@pytest.mark.parametrize(
    ("restrict", "body", "before", "constant"),
    [
        (True, SUMS, "pass", 8),
        (("a",), SUMS, "pass", 4),
        (("out",), SUMS, "pass", 0),
        (True, "out[i] += a[i] + b[i]", "pass", 8),
        (True, "a[i] = a[i] + b[i]", "pass", 4),
        (True, "weft.atomic_add(b, i, a[i])", "pass", 4),
        (True, SUMS, "weft.grid_dependency_wait()", 0),
        (("a", "b"), SUMS, "a = a if out.shape[0] > 3 else b", 8),
        (("a",), SUMS, "a = a if out.shape[0] > 3 else b", 0),
        (("a",), "out[i] = a[1:][i]", "pass", 4),
        (("a",), "out[i] = a.reshape(-1, 2)[i, 0]", "pass", 4),
        (("a",), "a.reshape(-1, 2)[i, 0] = b[i]", "pass", 0),
    ],
)
def test_only_what_nothing_writes_is_loaded_as_constant(restrict, body, before, constant):
    found = in_ptx(walking(restrict, body, before))
    assert sum(".nc" in one for one in found) == constant


def test_a_loop_that_waits_reads_memory_each_time():
    body = "while a[0] == 0.0:\n            pass\n        out[i] = b[i]"
    assert any("volatile" in one for one in in_ptx(walking(True, body)))


def test_the_cpu_is_reported_what_does_not_overlap():
    compiled = weft.compile(axpy, *[weft.fake_tensor(weft.f32, ("n",))] * 3)
    loads = re.findall(r"load .*!alias.scope.*", compiled.llvm_ir)
    stores = re.findall(r"store .*!alias.scope.*", compiled.llvm_ir)
    assert loads
    assert stores
    assert all("!noalias" in one for one in (*loads, *stores))
    assert "invariant" not in compiled.llvm_ir


def test_a_pointer_has_no_end_to_compare():
    @weft.kernel(restrict=True)
    def kernel(a: weft.Tensor, out: weft.Pointer[weft.f32]):
        out[0] = a[0]

    @weft.jit
    def host(a: weft.Tensor, out: weft.Pointer[weft.f32]):
        kernel(a, out).launch(grid=1, block=1)

    with pytest.raises(
        weft.CompileError, match="'out' is a pointer, whose memory cannot be compared"
    ):
        weft.compile(host, weft.fake_tensor(weft.f32, ("n",)))


@pytest.mark.parametrize(
    ("restrict", "error", "words"),
    [
        (3, TypeError, "restrict is 3, expected names of parameters, or True for all tensors"),
        ([1], TypeError, "restrict is .1., expected names"),
        ("x", ValueError, r"restrict names 'x', expected a parameter of kernel\(a, n\)"),
    ],
)
def test_wrong_names_are_refused_where_the_kernel_is_defined(restrict, error, words):
    with pytest.raises(error, match=words):

        @weft.kernel(restrict=restrict)
        def kernel(a: weft.Tensor, n: weft.i32):
            pass


def test_another_restrict_is_another_function_in_the_cache():
    found = [in_ptx(walking(restrict)) for restrict in ((), ("a",), True)]
    assert [one.count("ld.global.nc.b32") for one in found] == [0, 4, 8]


FRAGMENT = """
@weft.kernel(restrict={restrict})
def kernel(a: weft.Tensor, out: weft.Tensor):
    for k in weft.static_range(2):
        weft.mma.zeros((16, 32)).load(a, (0, 32 * k)).store(out, (0, 32 * k))

@weft.jit
def host(a: weft.Tensor, out: weft.Tensor):
    kernel(a, out).launch(grid=1, block=32)
"""


@pytest.mark.parametrize("restrict", sampled([False, True], 2))
def test_restricted_fragments_are_loaded_before_stores(restrict):
    matrix = weft.fake_tensor(weft.f32, (16, 64), alignment_bytes=16)
    host = define(FRAGMENT.format(restrict=restrict))["host"]
    compiled = weft.compile(host, matrix, matrix, options="--gpu-arch sm_90a")
    kinds = "".join(one[0] for one in re.findall(r"\b(?:LDG|STG)(?=\S*128)", compiled.sass))
    assert kinds == ("L" * 8 + "S" * 8 if restrict else "LLLLSSSSLLLLSSSS")
    assert ("CONSTANT" in compiled.sass) == restrict


@weft.kernel(restrict=True)
def first_kernel(a: weft.Tensor, b: weft.Tensor):
    for i, j in weft.each((weft.math.min(a.shape[0], b.shape[0]), 1)):
        b[i, j] = a[i, j]


@weft.jit
def first_columns(a: weft.Tensor, b: weft.Tensor):
    first_kernel(a, b).launch(over=weft.math.min(a.shape[0], b.shape[0]))


@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
def test_halves_of_a_matrix_interleave_and_are_apart(dtype):
    x = np.arange(32).reshape(4, 8).astype(dtype)
    for one, other in (
        (x[:, :4], x[:, 4:]),
        (x[:, 4:], x[:, :4]),
        (x[:2], x[2:]),
        (x[:, ::2], x[:, 1::2]),
        (x[::2], x[1::2]),
        (x[:, :2], x[:, 3:7]),
    ):
        first_columns(one, other)
        assert (other[: len(one), 0] == one[: len(other), 0]).all()
