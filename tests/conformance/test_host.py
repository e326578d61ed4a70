# SPDX-License-Identifier: Apache-2.0
"""Host functions compute with scalars and dims, loop and branch around launches, and return values.

In: host functions. Out: memory and results.
"""

from __future__ import annotations

import numpy as np
import pytest

import weft
from tests.conformance.harness import define

FILL = """
@weft.kernel
def fill(out: weft.Tensor, start: weft.i32, value: weft.i32):
    i = start + weft.thread_idx.x
    if i < out.shape[0]:
        out[i] = value
"""


def host_of(body: str, parameters: str = "out: weft.Tensor, n: weft.i32"):
    lines = "\n".join("    " + line for line in body.strip().splitlines())
    return define(f"{FILL}\n@weft.jit\ndef host({parameters}):\n{lines}\n")["host"]


def test_several_launches_run_in_order():
    host = host_of(
        "fill(out, 0, 1).launch(grid=1, block=8)\n"
        "fill(out, n, 2).launch(grid=1, block=8)\n"
        "fill(out, n + 1, 3).launch(grid=1, block=1)"
    )
    out = np.zeros(8, np.int32)
    host(out, 4)
    assert out.tolist() == [1, 1, 1, 1, 2, 3, 2, 2]


def test_loop_around_a_launch():
    host = host_of("for k in range(n):\n    fill(out, k * 2, k + 1).launch(grid=1, block=2)")
    out = np.zeros(8, np.int32)
    host(out, 3)
    assert out.tolist() == [1, 1, 2, 2, 3, 3, 0, 0]


def test_while_with_break_around_a_launch():
    host = host_of(
        "k = 0\n"
        "while True:\n"
        "    if k * k >= n:\n"
        "        break\n"
        "    fill(out, k, k + 1).launch(grid=1, block=1)\n"
        "    k += 1"
    )
    out = np.zeros(8, np.int32)
    host(out, 10)
    assert out.tolist() == [1, 2, 3, 4, 0, 0, 0, 0]


def test_branch_around_a_launch():
    host = host_of(
        "if n > 5:\n"
        "    fill(out, 0, 1).launch(grid=1, block=8)\n"
        "elif n == 0:\n"
        "    return\n"
        "else:\n"
        "    fill(out, 4, 2).launch(grid=1, block=8)\n"
        "fill(out, 7, 9).launch(grid=1, block=1)"
    )
    for n, expected in (
        (6, [1] * 7 + [9]),
        (3, [0] * 4 + [2] * 3 + [9]),
        (0, [0] * 8),
    ):
        out = np.zeros(8, np.int32)
        host(out, n)
        assert out.tolist() == expected


def test_arithmetic_of_dims_and_scalars():
    host = host_of(
        "blocks = weft.ceil_div(out.shape[0], 4)\n"
        "size = max(1, min(n, 4))\n"
        "for b in range(blocks):\n"
        "    fill(out, b * 4, b if b % 2 else -b).launch(grid=1, block=size)"
    )
    out = np.full(10, 7, np.int32)
    host(out, 3)
    assert out.tolist() == [0, 0, 0, 7, 1, 1, 1, 7, -2, -2]


def test_helper_that_launches():
    names = define(
        FILL
        + """
def fill_pair(out, at, value):
    fill(out, at, value).launch(grid=1, block=1)
    fill(out, at + 1, value + 1).launch(grid=1, block=1)

@weft.jit
def host(out: weft.Tensor):
    fill_pair(out, 0, 10)
    fill_pair(out, 2, 20)
"""
    )
    out = np.zeros(4, np.int32)
    names["host"](out)
    assert out.tolist() == [10, 11, 20, 21]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("n", 7),
        ("n * 2 + out.shape[0]", 18),
        ("weft.i64(n) << 40", 7 << 40),
        ("weft.u64(1) << 63", 1 << 63),
        ("n / 2", 3.5),
        ("weft.f64(n) / 3", 7 / 3),
        ("n > 3", True),
        ("(n, n > 10, n * 0.5)", (7, False, 3.5)),
        ("None", None),
        ("5", 5),
    ],
)
def test_returned_scalars_and_tuples(text, expected):
    host = host_of(f"return {text}")
    got = host(np.zeros(4, np.int32), 7)
    if isinstance(expected, tuple):
        got = tuple(got)
    assert got == expected
    assert type(got) is type(expected)


def test_returned_tensor_is_the_one_that_was_given():
    host = host_of("fill(out, 0, 5).launch(grid=1, block=8)\nreturn out")
    out = np.zeros(8, np.int32)
    returned = host(out, 0)
    np.testing.assert_array_equal(np.from_dlpack(returned), out)
    assert np.shares_memory(np.from_dlpack(returned), out)


def test_return_from_branches_joins():
    host = host_of("if n > 3:\n    return n * 2\nreturn 0 - n")
    out = np.zeros(1, np.int32)
    assert [host(out, n) for n in (10, 3)] == [20, -3]


@pytest.mark.parametrize(
    "line",
    ["x = out[0]", "out[0] = 1", "x = weft.thread_idx.x", "weft.atomic_add(out, 0, 1)"],
)
def test_host_function_cannot_touch_elements_or_be_a_thread(line):
    with pytest.raises(weft.WeftError) as caught:
        host_of(line)(np.zeros(1, np.int32), 1)
    assert line in str(caught.value)


def test_host_function_may_launch_nothing():
    assert host_of("return n")(np.zeros(1), 4) == 4


def test_kernels_of_one_name_from_two_places_are_distinguished():
    names = define(
        """
        def make(value):
            @weft.kernel
            def kernel(out: weft.Tensor):
                out[value] = value + 1
            return kernel

        first, second = make(0), make(1)

        @weft.jit
        def host(out: weft.Tensor):
            first(out).launch(grid=1, block=1)
            second(out).launch(grid=1, block=1)
        """
    )
    out = np.zeros(2, np.int32)
    names["host"](out)
    assert out.tolist() == [1, 2]


def test_names_beyond_ascii_are_names():
    names = define(
        """
        @weft.kernel
        def größe_kernel(out: weft.Tensor):
            out[0] = 7

        @weft.jit
        def größe(out: weft.Tensor):
            größe_kernel(out).launch(grid=1, block=1)
        """
    )
    out = np.zeros(1, np.int32)
    names["größe"](out)
    assert out.tolist() == [7]
    compiled = weft.compile(names["größe"], weft.fake_tensor(weft.i32, ("n",)))
    assert compiled.engine.lookup("__tvm_ffi_größe")
    with pytest.raises(TypeError, match="größe"):
        compiled(1)


def test_an_element_type_or_none_is_an_optional_number():
    host = host_of(
        "fill(out, 0, -1 if n is None else n).launch(grid=1, block=4)",
        "out: weft.Tensor, n: weft.i32 | None = None",
    )
    out = np.zeros(2, np.int32)
    host(out)
    assert out.tolist() == [-1, -1]
    host(out, 5)
    assert out.tolist() == [5, 5]
