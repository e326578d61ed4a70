# SPDX-License-Identifier: Apache-2.0
"""Known divisors: remainders vanish on every path that leads to them, on every target."""

from __future__ import annotations

import linecache
import re

import numpy as np
import pytest

import weft
from tests.sampling import sampled
from weft.errors import TypeMismatchError

DIVISIBILITIES = (2, 8, 24, 48)
DIVISORS = (2, 3, 8, 16, 24)
SYM = weft.sym


def made(body, kind=weft.i32, *, more=""):
    """A host function whose kernel has that body."""
    text = (
        f"{more}\n@weft.kernel\ndef kernel(x, n):\n"
        + "".join(f"    {line}\n" for line in body.splitlines())
        + "@weft.jit\ndef host(x: weft.Tensor, n: kind):\n    kernel(x, n).launch(grid=1, block=1)\n"
    )
    file = f"<known multiples {hash(text)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    exec(compile(text, file, "exec"), names := {"weft": weft, "kind": kind})
    return names["host"]


def spec(k, **more):
    return weft.fake_tensor(weft.i32, ("r", SYM("m", divisibility=k, **more)), alignment_bytes=16)


def traced(fn, *arguments):
    return weft.compile(fn, *arguments, options="--keep-ir").stages["trace"]


def is_zero(text, name="found"):
    """Whether what is stored at the end is the constant 0."""
    stored = re.findall(r"simt\.store %(\S+),", text)[-1]
    return re.search(rf"%{stored} = arith\.constant (0 :|false)", text) is not None


# The number that is divisible → the argument for `n`, and an assumption of what `k` divides.
NUMBERS = {
    "dim": ("x.shape[1]", weft.i32, ""),
    "size": ("n", SYM, ""),
    "assumed i32": ("n", weft.i32, "weft.assume(n % {k} == 0)"),
    "assumed i64": ("n", weft.i64, "weft.assume(n % {k} == 0)"),
    "assumed u32": ("n", weft.u32, "weft.assume(n % {k} == 0)"),
    "assumed dim": ("x.shape[0]", weft.i32, "weft.assume(x.shape[0] % {k} == 0)"),
    "assumed stride": ("x.strides[0]", weft.i32, "weft.assume(x.strides[0] % {k} == 0)"),
    "copied": ("weft.i64(x.shape[1])", weft.i32, ""),
}


@pytest.mark.parametrize("number", sampled(NUMBERS, 8))
@pytest.mark.parametrize("k", DIVISIBILITIES)
def test_a_remainder_is_0_exactly_where_the_divisor_divides(number, k):
    text, kind, assumed = NUMBERS[number]
    argument = SYM("n", divisibility=k) if kind is SYM else kind
    for d in DIVISORS:
        body = f"{assumed.format(k=k)}\nx[0, 0] = weft.i32({text} % {d})"
        found = is_zero(traced(made(body, argument), spec(k), 48))
        assert found is (k % d == 0), (k, d)


def test_divisors_other_than_powers_of_two_need_the_sign():
    """-24 is a multiple of 24; the same bits without a sign are not."""
    for d, expected in ((24, False), (8, True)):
        body = f"weft.assume(n % 24 == 0)\nx[0, 0] = weft.i32(weft.u32(n) % {d})"
        assert is_zero(traced(made(body), spec(1), 1)) is expected
    fn = weft.compile(
        made("weft.assume(n % 24 == 0)\nx[0, 0] = weft.i32(weft.u32(n) % 24)"), spec(1), 1
    )
    fn(x := np.zeros((1, 1), np.int32), -24)
    assert x[0, 0] == (2**32 - 24) % 24


COMPARISONS = {
    "m % 8 == 0": True,
    "m % 8 != 0": False,
    "m % 8 < 1": True,
    "m % 8 > 0": False,
    "not m % 8": True,
    "(m & 7) == 0": True,
    "m // 8 * 8 == m": True,
    "8 * (m // 8) != m": False,
    "m - m % 8 == m": True,
    "(m & -8) == m": True,
    "m // 4 % 2 == 0": True,
    "(m >> 2) % 2 == 0": True,
    "(3 * m + 16) % 8 == 0": True,
    "min(m, 64) % 8 == 0": True,
    "m % 16 == 0": None,
    "m // 8 % 2 == 0": None,
    "(m + 4) % 8 == 4": None,
}


@pytest.mark.joined
@pytest.mark.parametrize("condition", COMPARISONS)
def test_comparisons_of_what_is_known_are_constants(condition):
    body = f"m = x.shape[1]\nx[0, 0] = weft.i32({condition})"
    fn = made(body)
    text = traced(fn, spec(8), 1)
    stored = re.findall(r"simt\.store %(\S+),", text)[-1]
    constant = re.search(rf"%{stored} = arith\.constant (\d)", text)
    expected = COMPARISONS[condition]
    assert (constant and bool(int(constant[1]))) is expected
    for m in (8, 16, 72):
        weft.compile(fn, spec(8), 1)(x := np.full((1, m), 7, np.int32), 1)
        value = eval(condition.replace("(m & 7) == 0", "(m & 7) == 0"), {"m": m})
        assert x[0, 0] == value


PATHS = {
    # Python code → the greatest divisor that all paths have; `m` is a multiple of 8.
    "if": ("p = m\nif n > 3:\n    p = 2 * m\n", 8),
    "if, else": ("if n > 3:\n    p = m + 32\nelse:\n    p = 4 * m\n", 8),
    "a smaller one": ("p = m\nif n > 3:\n    p = weft.i32(12)\n", 4),
    "nothing": ("p = m\nif n > 3:\n    p = n\n", 1),
    "ternary": ("p = m if n > 3 else 16 * n\n", 8),
    "nested": (
        "p = m\nif n > 3:\n    if n > 5:\n        p = 24 * n\n    else:\n        p = 3 * m\n",
        8,
    ),
    "assumed in the branch": ("p = m\nif n > 3:\n    weft.assume(n % 8 == 0)\n    p = n\n", 8),
    "elif": ("if n > 3:\n    p = m\nelif n > 1:\n    p = 8 * n\nelse:\n    p = m // 2\n", 4),
    "tuple": ("p, q = (m, n) if n > 3 else (2 * m, 0)\n", 8),
    "device function": ("p = chosen(m, n)\n", 8),
    "early return": ("p = early(m, n)\n", 8),
    "for": ("p = m\nfor i in range(n):\n    p += 16\n", 8),
    "for, from 0": ("p = weft.i32(0)\nfor i in range(n):\n    p += 64\n", 64),
    "for, counted": ("p = m\nfor i in range(0, n, 8):\n    p = i\n", 8),
    "for, multiplied": ("p = m\nfor i in range(n):\n    p *= 3\n", 8),
    "for, halved": ("p = m\nfor i in range(n):\n    p = p // 2\n", 1),
    "for, less": ("p = m\nfor i in range(n):\n    p += 4\n", 4),
    "for, branch": ("p = m\nfor i in range(n):\n    if i % 2 == 0:\n        p += 8\n", 8),
    "for, exchanged": ("p, q = m, 8 * n\nfor i in range(n):\n    p, q = q, p\n", 8),
    "for, one of three": ("p, q, s = m, 2 * m, n\nfor i in range(n):\n    p, q, s = q, s, p\n", 1),
    "for, break": ("p = m\nfor i in range(n):\n    p += 16\n    if p > 100:\n        break\n", 8),
    "for in for": (
        "p = m\nfor i in range(n):\n    for j in range(i):\n        p += 32\n    p += 8\n",
        8,
    ),
    "for in for, less": (
        "p = m\nfor i in range(n):\n    for j in range(i):\n        p += 2\n    p += 8\n",
        2,
    ),
    "while": ("p = m\nwhile p < n:\n    p += 8\n", 8),
    "while, less": ("p = m\nwhile p < n:\n    p += 12\n", 4),
    "while, walrus": ("p = m\nwhile (q := 2 * p) < n:\n    p = q\n", 8),
    "object": ("o = Pair(m)\nif n > 3:\n    o.p = 2 * m\np = o.p\n", 8),
}
HELPERS = """
class Pair:
    def __init__(self, p):
        self.p = p
def chosen(m, n):
    return m if n > 3 else 2 * m
def early(m, n):
    if n > 3:
        return 2 * m
    for i in range(n):
        m += 8
    return m
"""


@pytest.mark.parametrize("path", sampled(PATHS, 8))
def test_paths_that_meet_keep_what_divides_all(path):
    code, divisor = PATHS[path]
    for d in (1, 2, 4, 8, 16, 32, 64, 128):
        body = f"m = x.shape[1]\n{code}x[0, 0] = weft.i32(p % {d})"
        text = traced(made(body, more=HELPERS), spec(8), 1)
        assert is_zero(text) is (divisor % d == 0), d


@pytest.mark.slow
@pytest.mark.joined
@pytest.mark.parametrize("path", [name for name, (_, divisor) in PATHS.items() if divisor >= 4])
def test_what_paths_keep_is_true(path):
    code, _ = PATHS[path]
    for d in (4, 8, 16, 64):
        body = f"m = x.shape[1]\n{code}x[0, 0] = weft.i32(p % {d})\nx[0, 1] = weft.i32(p)"
        fn = weft.compile(made(body, more=HELPERS), spec(8), 1)
        for n in (0, 8, 16):
            fn(x := np.zeros((1, 24), np.int32), n)
            assert x[0, 0] == x[0, 1] % d, (n, x)


def test_inside_a_loop_too():
    body = "p = x.shape[1]\nfor i in range(n):\n    x[0, 0] = p % 8\n    p += 16"
    assert is_zero(traced(made(body), spec(8), 1))
    body = "p = x.shape[1]\nwhile p < n:\n    x[0, 0] = p % 8\n    p += 4"
    assert not is_zero(traced(made(body), spec(8), 1))


VIEWS = {
    "if": "v = x[0]\nif n > 3:\n    v = x[1, 8:]\n",
    "if, else": "if n > 3:\n    v = x[n, 16 * n:]\nelse:\n    v = x[2]\n",
    "ternary": "v = x[0, 8:] if n > 3 else x[1]\n",
    "for": "v = x[0]\nfor i in range(n):\n    v = v[8:]\n",
    "for, rows": "v = x[0]\nfor i in range(n):\n    v = x[i]\n",
    "device function": "v = row(x, n)\n",
    "two dims": "w = x\nif n > 3:\n    w = x[2:]\nv = w[1]\n",
    "two dims in a loop": "w = x\nfor i in range(n):\n    w = w[1:]\nv = w[1]\n",
}
ROW = "def row(x, n):\n    if n > 3:\n        return x[n, 32:]\n    return x[0]\n"


@pytest.mark.parametrize("view", VIEWS)
def test_joined_views_keep_alignment_and_divisors(view):
    body = (
        f"{VIEWS[view]}x[0, 0] = v.shape[0] % 8\nweft.store_vector(v, 0, weft.load_vector(v, 4, 4))"
    )
    fn = made(body, more=ROW)
    assert is_zero(traced(fn, spec(8), 1).split("store_vector")[0])
    if view == "for":
        return  # parts of one row
    with pytest.raises(TypeMismatchError) as caught:
        weft.compile(fn, spec(2), 1)
    assert caught.value.code == "VECTOR_ALIGNMENT"


def test_llvm_gets_the_divisors_of_a_dim():
    """So a loop that LLVM unrolls has no rest."""
    body = "total = 0\nfor i in range(x.shape[1]):\n    total += x[0, i] * x[0, i]\nx[0, 0] = total"
    loads = {}
    for k in (1, 64):
        fn = weft.compile(made(body), spec(k), 1, options="--keep-ptx --gpu-arch sm_90a")
        loads[k] = fn.ptx.count("ld.global")
        fn = weft.compile(made(body), spec(k), 1, options="--keep-llvm --target cpu")
        assert ("llvm.assume" in fn.llvm_ir) is (k == 64)
    assert loads[64] < loads[1]


def test_many_sums_of_a_number_with_itself_are_answered_at_once():
    body = "p = x.shape[1]\n" + "p = p + p + n\n" * 300 + "x[0, 0] = p % 8"
    assert not is_zero(traced(made(body), spec(8), 1))
