# SPDX-License-Identifier: Apache-2.0
"""Known multiples: every view's alignment is what dims, strides and indices allow, and never more."""

from __future__ import annotations

import linecache
import random
import re
from math import gcd

import numpy as np
import pytest

import weft
from weft.errors import CompileError, TypeMismatchError

ALIGNMENT = 64
ITEM = 2  # bytes of an f16
# Source of what is known → the argument, dims and strides for a seed, and what the kernel assumes.
SYM = weft.sym


def tensor(dims, **facts):
    return weft.fake_tensor(weft.f16, dims, alignment_bytes=ALIGNMENT, **facts)


SOURCES = {
    "static dims": (tensor(("r", 24, 8)), lambda r: (r(), 24, 8), ""),
    "static and symbolic dims": (tensor(("r", "m", 8)), lambda r: (r(), r(), 8), ""),
    "divisible dims": (
        tensor(("r", SYM("m", divisibility=2), SYM("n", divisibility=24))),
        lambda r: (r(), 2 * r(), 24 * r()),
        "",
    ),
    "64-bit dims": (
        tensor((SYM("r", width=64), SYM("m", divisibility=4, width=64), SYM("n", width=64))),
        lambda r: (r(), 4 * r(), r()),
        "",
    ),
    "assumed dims": (
        tensor(("r", "m", "n")),
        lambda r: (r(), 4 * r(), 8 * r()),
        "weft.assume(x.shape[1] % 4 == 0 and x.shape[2] & 7 == 0)",
    ),
    "assumed to be equal": (
        tensor(("r", "m", "n")),
        lambda r: (r(), r(), 16 * r()),
        "weft.assume(x.shape[2] == 16 * (x.shape[2] // 16))",
    ),
    "assumed by not": (
        tensor(("r", "m", "n")),
        lambda r: (r(), r(), 8 * r()),
        "weft.assume(not x.shape[2] % 8)",
    ),
    "nothing": (tensor(("r", "m", "n")), lambda r: (r(), r(), r()), ""),
}
STRIDED = {
    "divisible strides": (
        tensor(
            ("r", "m", "n"),
            strides=(SYM("s", divisibility=64, width=64), SYM("t", divisibility=8), 1),
        ),
        "",
    ),
    "static strides": (tensor(("r", "m", "n"), strides=(64, 8, 1)), ""),
    "assumed strides": (
        tensor(("r", "m", "n"), layout="inner"),
        "weft.assume(x.strides[0] % 64 == 0 and x.strides[1] % 8 == 0)",
    ),
}
# View → its first element, of a tensor of that shape and strides in elements.
VIEWS = {
    "x[i]": lambda s, i: i * s[0],
    "x[i, 1]": lambda s, i: i * s[0] + s[1],
    "x[i, :, 4:]": lambda s, i: i * s[0] + 4 * s[2],
    "x[2 * i:, 1:]": lambda s, i: 2 * i * s[0] + s[1],
    "x[i][1]": lambda s, i: i * s[0] + s[1],
    "x[:, 4 * i:6][1, 2]": lambda s, i: 4 * i * s[1] + s[0] + 2 * s[1],
    "x[::2][i]": lambda s, i: 2 * i * s[0],
    "x.tile((1, 2, 8), (i, 1, 0))": lambda s, i: i * s[0] + 2 * s[1],
    "x[..., 8 * i:]": lambda s, i: 8 * i * s[2],
    "x[i << 2, i | 8]": lambda s, i: (i << 2) * s[0] + (i | 8) * s[1],
    "x[:, :, 8 * i:16][1]": lambda s, i: 8 * i * s[2] + s[0],
}


def known_alignments(spec, assumed):
    """View → the alignment in its type, from the IR as traced."""
    lines = [f"    v = {view}; weft.printf('end of a view')" for view in VIEWS]
    text = (
        "@weft.kernel\n"
        "def kernel(x, i):\n"
        f"    {assumed or 'pass'}\n" + "\n".join(lines) + "\n"
        "@weft.jit\n"
        "def host(x: weft.Tensor, i: weft.i32):\n"
        "    kernel(x, i).launch(grid=1, block=1)\n"
    )
    file = f"<views {hash(text)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    exec(compile(text, file, "exec"), made := {"weft": weft})
    traced = weft.compile(made["host"], spec, 1, options="--keep-ir").stages["trace"]
    parts = traced.split("end of a view")[:-1]
    found = [re.findall(r"simt\.view .*align (\d+)>", part)[-1] for part in parts]
    return dict(zip(VIEWS, map(int, found), strict=True))


def least_alignments(shapes, strides_of):
    """View → the greatest alignment that all examples have, up to that of the tensor."""
    found = dict.fromkeys(VIEWS, ALIGNMENT)
    for view, first in VIEWS.items():
        for shape in shapes:
            for i in range(9):
                found[view] = gcd(found[view], ITEM * first(strides_of(shape), i))
    return found


def strides_of(shape):
    return shape[1] * shape[2], shape[2], 1


@pytest.mark.parametrize("source", SOURCES)
def test_parts_are_known_to_be_aligned_as_dims_allow(source):
    spec, shape_of, assumed = SOURCES[source]
    seeds = random.Random(source)
    shapes = [shape_of(lambda: seeds.randint(1, 64)) for _ in range(50)]
    assert known_alignments(spec, assumed) == least_alignments(shapes, strides_of)


@pytest.mark.parametrize("source", STRIDED)
def test_parts_are_known_to_be_aligned_as_strides_allow(source):
    spec, assumed = STRIDED[source]
    strides = [(64, 8, 1), (128, 8, 1), (192, 24, 1), (64, 64, 1)][: 1 if "static" in source else 4]
    assert known_alignments(spec, assumed) == least_alignments(strides, tuple)


def host_of(kernel):
    @weft.jit
    def host(x: weft.Tensor, n: weft.i32):
        kernel(x, n).launch(grid=1, block=1)

    return host


def test_an_assumption_holds_in_its_block_alone():
    @weft.kernel
    def inside(x, n):
        if n > 3:
            weft.assume(x.shape[1] % 8 == 0)
            for i in range(n):
                if i % 2 == 0:
                    weft.store_vector(x[i], 0, weft.load_vector(x[i + 1], 0, 8))

    @weft.kernel
    def beside(x, n):
        if n > 3:
            weft.assume(x.shape[1] % 8 == 0)
        weft.store_vector(x[1], 0, weft.load_vector(x[0], 0, 8))

    @weft.kernel
    def other_side(x, n):
        if n > 3:
            weft.assume(x.shape[1] % 8 == 0)
        else:
            weft.store_vector(x[1], 0, weft.load_vector(x[0], 0, 8))

    @weft.kernel
    def before(x, n):
        weft.store_vector(x[1], 0, weft.load_vector(x[0], 0, 8))
        weft.assume(x.shape[1] % 8 == 0)

    spec = tensor(("r", "n"))
    weft.compile(host_of(inside), spec, 1)
    for kernel in (beside, other_side, before):
        with pytest.raises(TypeMismatchError) as caught:
            weft.compile(host_of(kernel), spec, 1)
        assert caught.value.code == "VECTOR_ALIGNMENT"


def test_a_host_functions_slices_keep_known_facts():
    n = weft.sym("n", divisibility=16)

    @weft.kernel
    def kernel(x, length: weft.sym("length", divisibility=8)):
        weft.store_vector(x[1], 0, weft.load_vector(x[0], 0, 8))

    @weft.jit
    def host(x: weft.Tensor[weft.f16, ("r", n)], shape: weft.Shape[("r", n)]):
        kernel(x, x.shape[1]).launch(grid=1, block=1)
        kernel(x, shape[1]).launch(grid=1, block=1)
        kernel(x[2:, 8:], x.shape[1] - 8).launch(grid=1, block=1)
        kernel(weft.scratch((2, x.shape[1]), weft.f16), x.shape[1] // 16 * 8).launch(
            grid=1, block=1
        )

    made = weft.compile(host, tensor(("r", n)))
    assert list(made.kernels) == ["kernel", "kernel_1", "kernel_2"]


n = weft.sym("n", divisibility=8)


@pytest.mark.parametrize(
    ("annotation", "given", "message"),
    [
        (tensor(("r", n)), tensor(("r", "n")), r"shape\[1\] must be known to be a multiple of 8"),
        (tensor(("r", n)), tensor(("r", 12)), r"shape\[1\] must be known to be a multiple of 8"),
        (tensor(("r", n)), tensor(("r", weft.sym("n", divisibility=24))), ""),
        (tensor(("r", n)), tensor(("r", 24)), ""),
        (tensor(("r", "n")), weft.Tensor[weft.f16, ("r", "n")], "known to be aligned to 64 bytes"),
    ],
)
def test_annotation_promises_are_known_at_the_launch(annotation, given, message):
    @weft.kernel
    def kernel(x: annotation):
        x[0, 0] = x[0, 1]

    @weft.jit
    def host(x: given):
        kernel(x).launch(grid=1, block=1)

    if not message:
        weft.compile(host)
        return
    with pytest.raises(TypeMismatchError, match=message) as caught:
        weft.compile(host)
    assert caught.value.code == "KERNEL_ARGUMENT"


def test_known_and_unknown_dims_have_kernels_of_their_own():
    @weft.kernel
    def kernel(x, n):
        weft.assume(n > 0)
        x[1, 0] = x[0, 0]

    @weft.jit
    def host(x: weft.Tensor, y: weft.Tensor, z: weft.Tensor):
        kernel(x, 1).launch(grid=1, block=1)
        kernel(y, 2).launch(grid=1, block=1)
        kernel(z, 3).launch(grid=1, block=1)

    known, unknown = tensor(("r", weft.sym("n", divisibility=8))), tensor(("r", "m"))
    assert len(weft.compile(host, known, known, unknown).kernels) == 2


def test_rows_that_are_known_to_be_aligned_are_read_right():
    @weft.kernel
    def kernel(x, y):
        row = weft.thread_idx.x
        weft.store_vector(y[row], 8, weft.load_vector(x[row], 0, 8))

    @weft.jit
    def host(
        x: weft.Tensor[weft.f16, ("r", weft.sym("n", divisibility=8))],
        y: weft.Tensor[weft.f16, ("r", "n")],
    ):
        kernel(x, y).launch(grid=1, block=x.shape[0])

    vector = weft.fake_tensor(weft.f16, ("r", "n"), alignment_bytes=16)
    fn = weft.compile(host, vector, vector)
    x = np.arange(48, dtype=np.float16).reshape(3, 16)
    fn(x, y := np.zeros_like(x))
    assert (y[:, 8:] == x[:, :8]).all()
    with pytest.raises(ValueError, match="multiple of 8"):
        fn(np.zeros((3, 12), np.float16), np.zeros((3, 12), np.float16))


def test_a_stride_that_reaches_no_element_promises_nothing():
    """A dim of 1 may have any stride, of which only the index 0 is aligned."""

    @weft.kernel
    def kernel(x, n):
        weft.store_vector(x[0], 0, weft.load_vector(x[0], 0, 8))
        weft.bulk_copy(x[0, x.strides[0] * 8 : n], x[0, 0:n])

    spec = tensor(("r", "n"), strides=(weft.sym("s", divisibility=8), 1))
    with pytest.raises(CompileError):
        weft.compile(host_of(kernel), spec, 1)
