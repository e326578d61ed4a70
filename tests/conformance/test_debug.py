# SPDX-License-Identifier: Apache-2.0
"""printf reaches the process's standard output; a failing assert names its line, block and thread.

In: kernels that print or check. Out: captured text, exceptions.
"""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

import weft
from tests.conformance.harness import define, run_threads


def printed(capfd, body: str, count: int = 1, **arrays: np.ndarray) -> str:
    """Output of a kernel on file descriptor 1."""
    arrays = arrays or {"unused": np.zeros(1, np.int32)}
    capfd.readouterr()
    run_threads(body, count, arrays)
    ctypes.CDLL(None).fflush(None)
    return capfd.readouterr().out


def test_printf_writes_numbers_of_every_kind(capfd):
    numbers = np.array([-7, 1 << 40], np.int64)
    text = printed(
        capfd,
        r"""
        weft.printf("%d %lld|%u|%x|", i - 3, a[1], 3000000000, 255)
        weft.printf("%5.2f|%g|%e\n", r[0], r[1], weft.f64(r[0]))
        """,
        a=numbers,
        r=np.array([1.5, -0.125], np.float32),
    )
    assert text == f"-3 {1 << 40}|3000000000|ff| 1.50|-0.125|1.500000e+00\n"


def test_printf_of_small_types_and_bools(capfd):
    text = printed(
        capfd,
        r'weft.printf("%d %u %d %f\n", a[0], b[0], c[0], d[0])',
        a=np.array([-5], np.int8),
        b=np.array([250], np.uint8),
        c=np.array([True]),
        d=np.array([0.5], np.float16),
    )
    assert text == "-5 250 1 0.500000\n"


def test_printf_comes_in_the_order_of_the_threads_of_a_block(capfd):
    text = printed(capfd, r'weft.printf("%d\n", i)', count=32)
    assert text.splitlines() == [str(k) for k in range(32)]


def test_printf_of_several_blocks_loses_no_line(capfd):
    text = printed(capfd, r'weft.printf("%d\n", i)', count=1000)
    assert sorted(map(int, text.splitlines())) == list(range(1000))


def test_printf_without_arguments_and_with_percent_and_quotes(capfd):
    text = printed(capfd, r'weft.printf("100%% \"sure\" \\ ütf\t.\n")')
    assert text == '100% "sure" \\ ütf\t.\n'


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ('weft.printf("%d")', "argument"),
        ('weft.printf("%d\\n", i, i)', "argument"),
        ('weft.printf("%d", 1.5)', "%d"),
        ('weft.printf("%f", i)', "%f"),
        ('weft.printf("%s", i)', "%s"),
        ("weft.printf(i)", "string|str|format"),
        ('weft.printf("%n", i)', "%n"),
    ],
)
def test_printf_with_a_format_that_does_not_fit_is_refused(call, words):
    with pytest.raises(weft.WeftError, match=words):
        run_threads(call, 1, {"unused": np.zeros(1, np.int32)})


def test_print_points_to_printf():
    with pytest.raises(weft.WeftError, match="printf"):
        run_threads("print(i)", 1, {"unused": np.zeros(1, np.int32)})


def failing(**names) -> Exception:
    host = define(
        """
        @weft.kernel
        def kernel(a: weft.Tensor):
            i = weft.block_idx.x * 4 + weft.thread_idx.x
            assert a[i] >= 0, "negative element"
            a[i] = a[i] * 2

        @weft.jit
        def host(a: weft.Tensor):
            kernel(a).launch(grid=3, block=4)
        """,
        **names,
    )["host"]
    with pytest.raises(Exception) as caught:
        host(np.array([0, 1, 2, 3, 4, 5, -6, 7, 8, 9, 10, 11], np.int32))
    return caught.value


def test_failing_assert_says_message_line_block_and_thread():
    error = failing()
    text = str(error)
    assert isinstance(error, AssertionError)
    assert "negative element" in text
    assert "<conformance" in text and ":5" in text
    assert "kernel" in text
    for place in ("block (1, 0, 0)", "thread (2, 0, 0)"):
        assert place in text


def test_assert_that_holds_changes_nothing():
    a = np.arange(40, dtype=np.int32)
    run_threads("assert a[i] == i\na[i] = 2 * i", 40, {"a": a})
    assert a.tolist() == [2 * k for k in range(40)]


def test_assert_of_a_constant_fails_only_where_a_thread_reaches_it():
    out = np.zeros(4, np.int32)
    run_threads(
        "assert 2 + 2 == 4\nif i > 10:\n    assert False, 'never'\nout[i] = 1", 4, {"out": out}
    )
    assert out.tolist() == [1] * 4
    with pytest.raises(AssertionError, match="too small"):
        run_threads("assert 2 + 2 == 5, 'too small'", 1, {"out": out})


def test_call_after_a_failed_assert_works():
    names = define(
        """
        @weft.kernel
        def kernel(a: weft.Tensor):
            assert a[weft.thread_idx.x] > 0
            a[weft.thread_idx.x] += 1
        """
    )
    a = np.zeros(2, np.int32)
    with pytest.raises(AssertionError):
        names["kernel"][1, 2](a)
    a[:] = 1
    names["kernel"][1, 2](a)
    assert a.tolist() == [2, 2]


def test_a_wrong_promise_is_reported_on_the_cpu():
    a = np.array([4, 8, 9], np.int32)
    body = "weft.assume(a[i] % 4 == 0); weft.assume(True); a[i] //= 4"
    run_threads(body, 2, {"a": a})
    assert a.tolist() == [1, 2, 9]
    with pytest.raises(
        AssertionError, match=r"weft.assume, which promises this .*thread \(2, 0, 0\)"
    ):
        run_threads(body, 3, {"a": np.array([4, 8, 9], np.int32)})
    with pytest.raises(AssertionError, match="promises this"):
        run_threads("weft.assume(False)", 1, {"a": a})
