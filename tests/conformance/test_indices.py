# SPDX-License-Identifier: Apache-2.0
"""Sums, differences and products in the brackets of a subscript find the elements that they find in NumPy.

In: indices as text, of every integer type, for tensors of each rank, layout and address space. Out: elements, as the
CPU target finds them; what a GPU's code is made of.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

import weft
from tests.conformance.harness import INTEGERS, NUMPY_TYPES, define
from tests.conformance.test_cuda import why_no_cuda
from tests.sampling import sampled

# Instructions of PTX: 64-bit products and sums, loads of elements.
COUNTED = (
    r"(mul\.wide|mul\.lo|mad\.wide|mad\.lo)\.[su]?64",
    r"add\.[su]64",
    r"ld\.global\.[bsu]32",
)
PLACES = [2, 3, 5]
ROUNDS = 3
WIDTH = 3
# Of a value, a loop's variable and a width; each between 0 and 15.
FORMS = (
    *("i + 1", "i - 1 + k", "k + i - 2", "2 * (i - 1) + k", "i + (k - 2)", "3 + (k + i) - 1"),
    *("(i - 2) * w + k", "w * (k + 1) + i", "k * (i - 1) + 4", "i * 1 + 0 * k", "(i + 1) * k", "k"),
    *("i", "7", "(i + k) % 4", "i // 2 + 1", "(i + 2 if k > 0 else i - 2)", "k + w + i + 1 - w"),
)
SHAPES = {1: (16,), 2: (17, 16), 3: (16, 17, 16), 4: (16, 16, 16, 16)}

KERNEL = """
@weft.kernel
def kernel{number}(a: weft.Tensor, out: weft.Tensor, places: weft.Tensor, w: weft.{dtype}):
    {made}
    i = places[weft.thread_idx.x]
    for j in range({iterations}):
        k = weft.{dtype}(j)
        out[{number}, weft.thread_idx.x, j] = a[{indices}]
"""
HOST = """
@weft.jit
def host(
    a: weft.Tensor[weft.i32, {shape}, {layout!r}], out: weft.Tensor, places: weft.Tensor, w: weft.{dtype}
):
"""
LAUNCH = "    kernel{number}(a, out, places, w).launch(grid=1, block={count})\n"


def check(
    a: np.ndarray, forms: list[str], dtype: weft.DType, made: str = "pass", **chosen: object
) -> None:
    """Reads `a[form]` for each place and round, each form in a kernel of its own, and compares with NumPy."""
    settings = {"shape": "(" + "None, " * a.ndim + ")", "layout": "contiguous"} | chosen
    source = "".join(
        KERNEL.format(number=number, indices=form, dtype=dtype, made=made, iterations=ROUNDS)
        for number, form in enumerate(forms)
    )
    source += HOST.format(dtype=dtype, **settings)
    source += "".join(LAUNCH.format(number=n, count=len(PLACES)) for n in range(len(forms)))
    out = np.full((len(forms), len(PLACES), ROUNDS), -1, np.int32)
    define(source)["host"](a, out, np.array(PLACES, NUMPY_TYPES[dtype]), WIDTH)
    for form, found in zip(forms, out.tolist(), strict=True):
        expected = [
            [eval(f"a[{form}]", {"a": a, "i": i, "k": k, "w": WIDTH}) for k in range(ROUNDS)]
            for i in PLACES
        ]
        assert found == expected, form


def array(rank: int) -> np.ndarray:
    shape = SHAPES[rank]
    return np.arange(np.prod(shape), dtype=np.int32).reshape(shape)


def forms_of(rank: int) -> list[str]:
    """Indices in which each form stands once in each dimension."""
    count = len(FORMS)
    return [", ".join(FORMS[(n + 5 * d) % count] for d in range(rank)) for n in range(count)]


@pytest.mark.parametrize("dtype", sampled(INTEGERS, 3), ids=str)
def test_every_form_of_every_type(dtype: weft.DType):
    check(array(1), list(FORMS), dtype)


@pytest.mark.parametrize("rank", [2, 3, 4])
def test_every_rank(rank: int):
    for number, dtype in enumerate(INTEGERS):
        check(array(rank), forms_of(rank)[number :: len(INTEGERS)], dtype)


@pytest.mark.parametrize("dims", ["('n', 17, 16)", "('n', None, 16)", "(16, 17, 16)"])
def test_known_strides(dims: str):
    check(array(3), forms_of(3)[::3], weft.i32, shape=dims)


@pytest.mark.parametrize("layout", ["inner", "strided"])
def test_other_layouts(layout: str):
    whole = np.arange(40 * 17 * 33, dtype=np.int32).reshape(40, 17, 33)
    part = whole[::2, :, :16] if layout == "inner" else whole[::-2, :, ::-2]
    check(part, forms_of(3)[1::3], weft.i32, layout=layout)


@pytest.mark.parametrize(
    "made", ["a = a[:, :, :]", "a = a[::1]", "b = a\n    a = a if w > 0 else b"]
)
def test_views_and_chosen_tensors(made: str):
    check(array(3), forms_of(3)[2::3], weft.i32, made=made)


def elements(
    body: str, *arguments: np.ndarray, signature: str = "a: weft.Tensor, out: weft.Tensor"
):
    """Runs statements in eight threads of a block, `i` its index, and returns the last argument."""
    names = ", ".join(part.split(":")[0] for part in signature.split(", "))
    host = define(
        f"""
        @weft.kernel
        def kernel({signature}):
            i = weft.thread_idx.x
            four = weft.local(64, weft.i32)
            {body}

        @weft.jit
        def host({signature}):
            kernel({names}).launch(grid=1, block=8)
        """
    )["host"]
    host(*arguments)
    return arguments[-1]


NUMBERS = np.arange(64, dtype=np.int32)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("p = a[i + 1 :]; out[i] = p[i + 2]", 2 * np.arange(8) + 3),
        ("p = a[8:24]; out[i] = p[::-1][i + 1]", 22 - np.arange(8)),
        ("s = weft.shared(16, weft.i32); s[i + 4] = a[i]; weft.sync_threads(); out[i] = s[11 - i]", 7 - np.arange(8)),
        ("s = weft.local((4, 4), weft.i32); s[i % 4, 1 + i // 8] = i; out[i] = s[i % 4, 1 - i // 8]", np.arange(8)),
        ("j = i + 2147483647; j = j + 2147483647; out[i] = a[j + 2]", np.arange(8)),
        ("u = weft.u32(i); out[i] = a[u + 4294967295 - 4294967292 + 1]", np.arange(8) + 4),
        ("u = weft.u8(i); out[i] = a[u + 255 + 3]", np.arange(8) + 2),
        ("w = weft.i64(i); out[i] = a[w * 8 - w * 7 + 1]", np.arange(8) + 1),
        ("for x in range(4): out[i] = a[(x + 1) * 8 + 2 * (x + 2) + i - 1]", np.arange(8) + 41),
        ("w = weft.i32(weft.i8(i)); out[i] = a[w + w + 1]", 2 * np.arange(8) + 1),
        ("w = weft.i32(weft.i8(i)); out[i] = 0; out[w + (w - i)] += a[w * w + 1]", np.arange(8) ** 2 + 1),
        ("weft.atomic_add(out, 8 - (i + 1), a[i + 1])", 8 - np.arange(8)),
        ("weft.atomic_exchange(out, (i + 3) - 3, weft.atomic_load(a, 2 * (i + 1)))", 2 * np.arange(8) + 2),
        ("weft.volatile_store(out, 7 - i, weft.volatile_load(a, i * 3 + 1))", 22 - 3 * np.arange(8)),
        ("weft.store_vector(four, 4 * (i + 1), (i, i + 1)); out[i] = four[4 * i + 5]", np.arange(8) + 1),
        ("four[4 * i + 6] = i; x, y = weft.load_vector(four, 4 * (i + 2) - 2, 2); out[i] = x", np.arange(8)),
        ("out[i] = 0; out[i + 0] += a[i + 1]", np.arange(8) + 1),
        ("out[i] = a[a[a[i + 1] + 1] + 1]", np.arange(8) + 3),
    ],
)  # fmt: skip
def test_what_else_has_indices(body: str, expected: np.ndarray):
    found = elements(body.replace("; ", "\n            "), NUMBERS, np.zeros(8, np.int32))
    assert found.tolist() == expected.tolist()


@pytest.mark.parametrize(
    ("body", "marked"),
    [
        ("out[i] = a[i + 1]", 1),
        ("out[i + 1] = 0", 1),
        ("out[i + 1] += 1", 1),
        ("out[i - 1 + i] = a[2 * (i + 1)]", 4),
        ("out[i] = a[weft.i64(i) + 1]", 1),
        ("out[i] = b[i + 1, i - 1]", 2),
        ("p = b[i + 1]; out[i] = p[i + 2]", 2),
        ("out[i] = a[a[i + 1] + 1]", 2),
        ("j = i + 1; out[i] = a[j]", 0),
        ("out[i] = a[(j := i + 1)]", 0),
        ("out[i] = a[(i + 1) % 8]", 0),
        ("out[i] = a[(i * 25173) & 7]", 0),
        ("out[i] = a[weft.i32(i + 1)]", 0),
        ("out[i] = a[max(i - 1, 0)]", 0),
        ("out[i] = a[weft.u32(i) + 1]", 0),
        ("out[i] = a[i + 1] + a[i] * 2", 1),
        ("items = [1, 2]; out[i] = items[1 - 1]", 0),
        ("weft.atomic_add(out, i + 1, i + 2)", 1),
        ("weft.atomic_cas(b, (i + 1, i - 1), i + 2, i + 3)", 2),
        ("weft.atomic_max(out, value=i + 2, index=i * 2 + 1)", 2),
        ("given = (out, i); weft.atomic_add(*given, i + 2)", 0),
        ("x, y = weft.load_vector(four, 4 * i - 2, 2)", 2),
        ("weft.store_vector(four, (4 * i + 8,), (i - 1, i + 1))", 2),
        ("weft.volatile_store(out, i + 1, i + 2)", 1),
        ("out[i] = max(i + 1, i + 2)", 0),
    ],
)
def test_the_text_of_an_index_decides_what_may_not_wrap(body: str, marked: int):
    body = body.replace("; ", "\n            ")
    host = define(
        f"""
        @weft.kernel
        def kernel(a: weft.Tensor, b: weft.Tensor, out: weft.Tensor):
            i = weft.thread_idx.x
            four = weft.local(64, weft.i32)
            {body}

        @weft.jit
        def host(a: weft.Tensor, b: weft.Tensor, out: weft.Tensor):
            kernel(a, b, out).launch(grid=1, block=8)
        """
    )["host"]
    vector = weft.fake_tensor(weft.i32, ("n",))
    compiled = weft.compile(host, vector, weft.fake_tensor(weft.i32, ("n", "m")), vector)
    assert compiled.stages["trace"].count("overflow<nsw>") == marked


STENCIL = """
@weft.kernel
def kernel(a: weft.Tensor, out: weft.Tensor):
    x = weft.block_idx.x * 32 + weft.thread_idx.x
    y = weft.block_idx.y * 8 + weft.thread_idx.y
    total = weft.i32(0)
    for i in weft.static_range({size}):
        for j in weft.static_range({size}):
            total += a[y + i - 1, x + j - 1]
    out[y, x] = total

@weft.jit
def host(a: weft.Tensor, out: weft.Tensor):
    kernel(a, out).launch(grid=1, block=(32, 8))
"""


@pytest.mark.parametrize("columns", ["columns", 640])
def test_a_stencils_rows_cost_no_multiplication(columns: object):
    if why_no_cuda():
        pytest.skip(why_no_cuda())
    image = weft.fake_tensor(weft.i32, ("rows", columns))
    found = {}
    for size in (3, 5):
        host = define(STENCIL.format(size=size))["host"]
        text = weft.compile(host, image, image, options="--gpu-arch sm_90a --keep-ptx").ptx
        found[size] = [len(re.findall(rf"\b{name}\b", text)) for name in COUNTED]
    products, sums, loads = zip(*(found[size] for size in (3, 5)), strict=True)
    assert loads == (9, 25)
    assert products == (0, 0)
    # Two rows more take two steps where the row's length is known only at run time, else none.
    assert sums[1] - sums[0] == (0 if columns == 640 else 2)
