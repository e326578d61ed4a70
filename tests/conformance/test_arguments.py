# SPDX-License-Identifier: Apache-2.0
"""What can be passed: tensors of every library, all scalars, None, streams, defaults, keywords.

In: calls on the direct and the compiled path. Out: what arrives in the kernel, and what is refused.
"""

from __future__ import annotations

import array
import ctypes
from typing import NamedTuple

import numpy as np
import pytest

import weft
from tests.conformance.harness import (
    INTEGERS,
    NUMPY_TYPES,
    WIDE_FLOATS,
    Exported,
    define,
)
from tests.sampling import sampled

SCALARS = INTEGERS + WIDE_FLOATS


@weft.kernel
def add_kernel(a: weft.Tensor, b: weft.Tensor, c: weft.Tensor):
    i = weft.block_idx.x * 32 + weft.thread_idx.x
    if i < c.shape[0]:
        c[i] = a[i] + b[i]


@weft.jit
def add(a: weft.Tensor, b: weft.Tensor, c: weft.Tensor):
    add_kernel(a, b, c).launch(grid=weft.ceil_div(c.shape[0], 32), block=32)


def passing(dtype: weft.DType):
    """A host function that stores its scalar argument in a tensor of one element."""
    return define(
        f"""
        @weft.kernel
        def kernel(out: weft.Tensor, value: weft.{dtype}):
            out[0] = value

        @weft.jit
        def host(out: weft.Tensor, value: weft.{dtype}):
            kernel(out, value).launch(grid=1, block=1)
        """
    )["host"]


@pytest.mark.parametrize("dtype", sampled(SCALARS, 3), ids=str)
def test_scalar_of_every_type_arrives(dtype):
    host, out = passing(dtype), np.zeros(1, NUMPY_TYPES[dtype])
    if dtype.is_float:
        values = [0.0, -1.5, 3, np.inf, 1e-3]
    else:
        values = [dtype.minimum, dtype.maximum, 0, 1, dtype.maximum // 3]
    compiled = weft.compile(host, out, values[0])
    for value in values:
        for call in (host, compiled):
            out[0] = 99
            call(out, value)
            assert out[0] == NUMPY_TYPES[dtype].type(value)
    compiled(out, NUMPY_TYPES[dtype].type(7))
    assert out[0] == 7


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integer_out_of_range_is_a_value_error_with_the_number(dtype):
    host, out = passing(dtype), np.zeros(1, NUMPY_TYPES[dtype])
    compiled = weft.compile(host, out, 0)
    for value in (dtype.maximum + 1, dtype.minimum - 1, 1 << 70):
        for call in (host, compiled):
            with pytest.raises(ValueError) as caught:
                call(out, value)
            for word in ("host", "argument", "'value'", str(value), str(dtype.maximum)):
                assert word in str(caught.value)


def test_bool_argument():
    host, out = passing(weft.bool_), np.zeros(1, np.bool_)
    for value in (True, False, np.True_):
        host(out, value)
        assert out[0] == value


@pytest.mark.parametrize("dtype", [weft.f16, weft.bf16], ids=str)
def test_16_bit_float_argument_iterations_to_nearest_even(dtype):
    out = np.zeros(1, NUMPY_TYPES[dtype])
    host = passing(dtype)
    for value in (1.0, 1.0009765625, 3.14159, -65504.0):
        host(Exported(out) if dtype is weft.bf16 else out, value)
        assert out[0] == NUMPY_TYPES[dtype].type(value)


def test_python_numbers_without_annotation_are_i32_f32_and_bool():
    names = define(
        """
        @weft.kernel
        def kernel(out, a, b, c):
            weft.static_assert(a.dtype is weft.i32)
            weft.static_assert(b.dtype is weft.f32)
            weft.static_assert(c.dtype is weft.bool_)
            out[0] = a * 100 + weft.i32(b) * 10 + c

        @weft.jit
        def host(out, a, b, c):
            kernel(out, a, b, c).launch(grid=1, block=1)
        """
    )
    out = np.zeros(1, np.int32)
    names["host"](out, 7, 3.5, True)
    assert out[0] == 731


def test_numpy_scalars_without_annotation_have_their_own_type():
    names = define(
        """
        @weft.kernel
        def kernel(out, a):
            weft.static_assert(a.dtype is weft.u8)
            out[0] = a

        @weft.jit
        def host(out, a):
            kernel(out, a).launch(grid=1, block=1)
        """
    )
    out = np.zeros(1, np.int32)
    names["host"](out, np.uint8(200))
    assert out[0] == 200


def test_large_python_int_without_annotation_points_to_i64():
    names = define(
        """
        @weft.jit
        def host(out, a):
            pass
        """
    )
    with pytest.raises((ValueError, OverflowError, weft.WeftError), match=r"weft\.i64"):
        names["host"](np.zeros(1), 1 << 40)


def test_another_scalar_value_compiles_nothing(monkeypatch):
    from weft.compiler import pipeline

    host, out, compilations = passing(weft.f32), np.zeros(1, np.float32), []
    compile_function = pipeline.compile_function

    def counted(*arguments, **keywords):
        compilations.append(1)
        return compile_function(*arguments, **keywords)

    monkeypatch.setattr(pipeline, "compile_function", counted)
    for value in (1.0, 2.0, -3.0, 0.0, np.float32(7)):
        host(out, value)
        assert out[0] == value
    # One for Python floats, one for NumPy's, if the two are kept apart.
    assert len(compilations) <= 2


KEYWORDS = """
@weft.kernel
def kernel(out: weft.Tensor, a: weft.i32, b: weft.i32, c: weft.i32):
    out[0] = a * 100 + b * 10 + c

@weft.jit
def host(out: weft.Tensor, a: weft.i32, b: weft.i32 = 2, *, c: weft.i32 = 3):
    kernel(out, a, b, c).launch(grid=1, block=1)
"""


@pytest.mark.parametrize(
    ("arguments", "keywords", "expected"),
    [
        ((1,), {}, 123),
        ((1, 5), {}, 153),
        ((1,), {"b": 5}, 153),
        ((1,), {"c": 7}, 127),
        ((), {"c": 7, "a": 4, "b": 0}, 407),
    ],
)
def test_defaults_and_keywords(arguments, keywords, expected):
    host, out = define(KEYWORDS)["host"], np.zeros(1, np.int32)
    compiled = weft.compile(host, out, 1)
    for call in (host, compiled):
        out[0] = 0
        call(out, *arguments, **keywords)
        assert out[0] == expected


@pytest.mark.parametrize(
    ("arguments", "keywords", "words"),
    [
        ((), {}, "a"),
        ((1, 2, 3), {}, "positional"),
        ((1,), {"d": 1}, "d"),
        ((1,), {"a": 1}, "a"),
        ((1.5,), {}, "a.*(float|1.5)|float.*a"),
        (("1",), {}, "a.*str|str.*a"),
        ((None,), {}, "a.*None|None.*a"),
    ],
)
def test_wrong_call_is_a_type_error_with_the_functions_name(arguments, keywords, words):
    host, out = define(KEYWORDS)["host"], np.zeros(1, np.int32)
    compiled = weft.compile(host, out, 1)
    for call in (host, compiled):
        with pytest.raises(TypeError, match=words) as caught:
            call(out, *arguments, **keywords)
        assert "host" in str(caught.value)


def test_buffers_and_dlpack_objects_are_tensors():
    a, b = np.arange(5, dtype=np.float32), np.ones(5, np.float32)
    out = np.zeros(5, np.float32)
    add(Exported(a), memoryview(b), out)
    np.testing.assert_array_equal(out, a + b)
    buffer = array.array("f", [1, 2, 3, 4, 5])
    add(a, buffer, out)
    np.testing.assert_array_equal(out, a + np.array(buffer))
    foreign = (ctypes.c_float * 5)(9, 8, 7, 6, 5)
    add(a, foreign, out)
    np.testing.assert_array_equal(out, a + np.array(foreign))


def test_bytearray_is_a_tensor_of_u8():
    out = bytearray(4)
    add(memoryview(bytes([1, 2, 3, 4])), bytearray([5, 6, 7, 8]), out)
    assert list(out) == [6, 8, 10, 12]


def test_read_only_array_may_be_read_and_not_written():
    a, b, out = (np.ones(4, np.float32) for _ in range(3))
    a.flags.writeable = False
    add(a, b, out)
    assert out.tolist() == [2.0] * 4
    with pytest.raises(ValueError, match=r"'c'.*read-only|read-only.*'c'"):
        add(out, b, a)
    assert a.tolist() == [1.0] * 4


def test_none_replaces_an_optional_tensor():
    names = define(
        """
        @weft.kernel
        def kernel(a, bias, out):
            i = weft.thread_idx.x
            value = a[i]
            if bias is not None:
                value += bias[i]
            out[i] = value

        @weft.jit
        def host(a: weft.Tensor, bias, out: weft.Tensor):
            kernel(a, bias, out).launch(grid=1, block=a.shape[0])
        """
    )
    a, out = np.arange(4, dtype=np.float32), np.zeros(4, np.float32)
    names["host"](a, None, out)
    np.testing.assert_array_equal(out, a)
    names["host"](a, a, out)
    np.testing.assert_array_equal(out, 2 * a)


def test_stream_is_accepted_and_ignored_on_the_cpu():
    names = define(
        """
        @weft.kernel
        def kernel(out: weft.Tensor):
            out[weft.thread_idx.x] = 1

        @weft.jit
        def host(out: weft.Tensor, stream: weft.Stream):
            kernel(out).launch(grid=1, block=3, stream=stream)
        """
    )
    out = np.zeros(3, np.int32)
    names["host"](out, 0)
    assert out.tolist() == [1, 1, 1]


def test_direct_call_specializes_by_dtype_rank_and_layout():
    names = define(
        """
        @weft.kernel
        def kernel(a, out):
            out[0] = a.ndim * 100 + weft.i32(a[(0,) * a.ndim])

        @weft.jit
        def host(a, out):
            kernel(a, out).launch(grid=1, block=1)
        """
    )
    out = np.zeros(1, np.int32)
    for array_given in (
        np.full(3, 7, np.float32),
        np.full(3, 8, np.uint8),
        np.full((2, 2), 9, np.float64),
        np.full((2, 2), 5, np.float64).T[::-1],
    ):
        names["host"](array_given, out)
        assert out[0] == array_given.ndim * 100 + int(array_given.flat[0])


def test_another_layout_class_is_refused_with_the_annotation():
    a = np.ones(4, np.float32)
    compiled = weft.compile(add, a, a, a)
    with pytest.raises(ValueError, match="strided") as caught:
        compiled(np.ones(8, np.float32)[::2], a, a.copy())
    assert "argument #0 'a'" in str(caught.value)


def test_annotation_admits_every_layout():
    names = define(
        """
        @weft.kernel
        def kernel(a, out):
            out[weft.thread_idx.x] = a[weft.thread_idx.x]

        @weft.jit
        def host(a: weft.Tensor[weft.f32, ("n",), "strided"], out: weft.Tensor[weft.f32, ("n",)]):
            kernel(a, out).launch(grid=1, block=a.shape[0])
        """
    )
    base = np.arange(8, dtype=np.float32)
    compiled = weft.compile(names["host"], base, base.copy())
    for a in (base[:4], base[::2], base[3::-1], np.broadcast_to(np.float32(2), 4)):
        out = np.zeros(4, np.float32)
        compiled(a, out)
        np.testing.assert_array_equal(out, a)


@pytest.mark.torch
def test_torch_tensors_on_the_cpu():
    torch = pytest.importorskip("torch", reason="needs torch: make test TORCH=1")
    a, b = torch.arange(5, dtype=torch.float32), torch.ones(5)
    out = torch.zeros(5)
    add(a, b, out)
    assert torch.equal(out, a + b)
    columns = torch.arange(10, dtype=torch.bfloat16).reshape(5, 2)
    wide = torch.zeros(5, dtype=torch.bfloat16)
    add(columns[:, 0], columns[:, 1], wide)
    assert torch.equal(wide, columns[:, 0] + columns[:, 1])


@pytest.mark.torch
def test_numpy_and_torch_mix_in_one_call():
    torch = pytest.importorskip("torch", reason="needs torch: make test TORCH=1")
    a, b, out = np.arange(5, dtype=np.float32), torch.ones(5), np.zeros(5, np.float32)
    add(a, b, out)
    np.testing.assert_array_equal(out, a + 1)


class Byte(NamedTuple):
    value: weft.u8


@pytest.mark.parametrize(
    ("annotation", "number", "wrong"),
    [
        *((dtype, 1, int(dtype.maximum) + 1) for dtype in (*INTEGERS, weft.bool_)),
        *((dtype, 1, int(dtype.minimum) - 1) for dtype in INTEGERS),
        *((weft.u8, 1, np.int32(-7)), (int, 1, 1 << 40), (weft.i32, 1, 1 << 100)),
        *(
            (weft.sym("n", divisibility=8), 8, 9),
            (weft.sym("n"), 8, -1),
            (weft.sym("n"), 8, 1 << 80),
        ),
        *(
            (weft.Shape, (4,), (-4,)),
            (weft.Pointer[weft.f32], 4, -4),
            (weft.Pointer[weft.f32], 4, 6),
        ),
        *((tuple[weft.u8, weft.i32], (1, 2), (256, 2)), (Byte, Byte(1), Byte(-1))),
    ],
    ids=str,
)
def test_a_wrong_number_has_one_wording_at_the_first_call_and_later(annotation, number, wrong):
    def function(n):
        pass

    function.__annotations__ = {"n": annotation}
    words = []
    host = weft.jit(function)
    for _ in range(2):
        with pytest.raises(ValueError) as caught:
            host(wrong)
        words.append((type(caught.value), str(caught.value)))
        host(number)
    assert words[0] == words[1]
    text = str(wrong[0] if isinstance(wrong, tuple) else wrong)
    assert text in words[0][1] or hex(int(text)) in words[0][1]


def test_a_number_beyond_every_type_has_no_advice_to_annotate_one():
    @weft.jit
    def function(n):
        pass

    for number, hint in ((1 << 40, "weft.i64"), (1 << 63, "weft.u64"), (1 << 64, "")):
        with pytest.raises(ValueError, match=f"value is {number}") as caught:
            function(number)
        assert ("hint" in str(caught.value)) == bool(hint) and hint in str(caught.value)
