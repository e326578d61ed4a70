# SPDX-License-Identifier: Apache-2.0
"""Refusals of a call, with the whole message: the function's signature, the argument, both values.

In: compiled functions and wrong arguments. Out: exact texts, on the direct and the compiled path.
"""

from __future__ import annotations

import numpy as np
import pytest

import weft
from tests.conformance.harness import Exported, define

pytestmark = pytest.mark.joined


@weft.kernel
def add_one_kernel(a: weft.Tensor, b: weft.Tensor):
    i = weft.block_idx.x * weft.block_dim.x + weft.thread_idx.x
    if i < a.shape[0]:
        b[i] = a[i] + 1.0


@weft.jit
def add_one(a: weft.Tensor[weft.f32, ("n",)], b: weft.Tensor[weft.f32, ("n",)]):
    add_one_kernel(a, b).launch(grid=weft.ceil_div(a.shape[0], 128), block=128)


@weft.jit
def untyped(a: weft.Tensor, b: weft.Tensor):
    add_one_kernel(a, b).launch(grid=1, block=128)


@pytest.fixture(scope="module")
def compiled():
    return weft.compile(add_one, np.zeros(10, np.float32), np.zeros(10, np.float32))


SIGNATURE = "add_one(a: Tensor[f32, (n,)], b: Tensor[f32, (n,)])"


def vector(n: int = 10, dtype=np.float32) -> np.ndarray:
    return np.zeros(n, dtype)


def test_dims_that_should_be_equal(compiled):
    with pytest.raises(ValueError) as caught:
        compiled(vector(10), vector(12))
    assert str(caught.value) == (
        f"{SIGNATURE}: argument #1 'b': shape[0] is 12, expected 10 to match a.shape[0]"
    )


WRONG = {
    "another dtype": (lambda: vector(dtype=np.float64), ValueError, ("f64", "f32")),
    "an integer dtype": (lambda: vector(dtype=np.int32), ValueError, ("i32", "f32")),
    "another rank": (lambda: np.zeros((2, 5), np.float32), ValueError, ("2", "1")),
    "no tensor": (lambda: 3.5, TypeError, ("float",)),
    "None": (lambda: None, TypeError, ("None",)),
    "a string": (lambda: "abc", TypeError, ("str",)),
    "a list": (lambda: [1.0] * 10, TypeError, ("a list", "of 10 items")),
    "a strided view": (lambda: vector(20)[::2], ValueError, ("stride", "2", "1")),
    "a reversed view": (lambda: vector()[::-1], ValueError, ("stride", "-1")),
    "misaligned data": (
        lambda: np.zeros(41, np.uint8)[1:].view(np.float32),
        ValueError,
        ("expected an address divisible by 4",),
    ),
    "complex numbers": (
        lambda: vector(dtype=np.complex64),
        (TypeError, ValueError),
        ("dtype is c64", "expected f32"),
    ),
    "dates": (lambda: vector(dtype="M8[s]"), (TypeError, ValueError), ("a",)),
    "objects": (lambda: vector(dtype=object), (TypeError, ValueError), ("a",)),
    "a masked array": (lambda: np.ma.masked_array(vector(), mask=True), TypeError, ("mask",)),
    "big-endian numbers": (lambda: vector(dtype=">f4"), (TypeError, ValueError), ("a",)),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_tensor_is_refused_with_its_place_and_both_values(compiled, case):
    make, kind, words = WRONG[case]
    with pytest.raises(kind) as caught:
        compiled(make(), vector())
    text = str(caught.value)
    assert text.startswith(f"{SIGNATURE}: argument #0 'a': ")
    assert [word for word in words if word not in text] == []


@pytest.mark.parametrize(
    "case",
    [
        case
        for case in WRONG
        if case not in ("a strided view", "a reversed view", "misaligned data")
    ],
)
def test_direct_call_refuses_what_the_annotation_excludes(case):
    make, kind, _ = WRONG[case]
    with pytest.raises(kind, match="add_one: argument 'a': "):
        add_one(make(), vector())


@pytest.mark.parametrize(
    ("arguments", "keywords"),
    [((), {}), ((1,), {}), ((1, 2, 3), {}), ((), {"a": 1}), ((1, 2), {"b": 3}), ((1, 2), {"c": 3})],
    ids=str,
)
def test_wrong_count_or_keyword_is_a_type_error(compiled, arguments, keywords):
    given = [vector() for _ in arguments]
    named = {name: vector() for name in keywords}
    for call in (compiled, add_one):
        with pytest.raises(TypeError, match="add_one"):
            call(*given, **named)


def test_nothing_is_written_when_a_later_argument_is_wrong(compiled):
    b = vector()
    with pytest.raises(ValueError):
        compiled(vector(), b.astype(np.float64))
    assert not b.any()


def test_a_fully_annotated_function_needs_no_examples():
    b = vector()
    weft.compile(add_one)(vector(), b)
    assert b.tolist() == [1.0] * 10


def test_call_after_a_refusal_works(compiled):
    with pytest.raises(ValueError):
        compiled(vector(10), vector(12))
    b = vector()
    compiled(vector(), b)
    assert b.tolist() == [1.0] * 10


def test_another_device_is_refused_by_name(compiled):
    foreign = Exported(vector())
    foreign.device = (2, 0)  # kDLCUDA, with an address that must not be touched
    with pytest.raises(ValueError, match=r"argument #0 'a'.*(cuda.*cpu|cpu.*cuda)"):
        compiled(foreign, vector())


def test_null_data_with_elements_is_refused(compiled):
    empty = Exported(vector())
    empty.data = 0
    with pytest.raises(ValueError, match=r"argument #0 'a'.*(null|NULL|no data)"):
        compiled(empty, vector())


def test_empty_tensors_are_fine(compiled):
    compiled(vector(0), vector(0))


def test_stride_of_a_dimension_of_size_one_is_not_checked():
    names = define(
        """
        @weft.kernel
        def kernel(a):
            a[0, weft.thread_idx.x] = 1

        @weft.jit
        def host(a: weft.Tensor[weft.f32, ("n", "m")]):
            kernel(a).launch(grid=1, block=a.shape[1])
        """
    )
    compiled = weft.compile(names["host"], np.zeros((2, 3), np.float32))
    odd = np.lib.stride_tricks.as_strided(np.zeros(3, np.float32), (1, 3), (4 * 777, 4))
    compiled(odd)
    assert odd.tolist() == [[1.0, 1.0, 1.0]]


def host_with(annotation: str):
    return define(
        f"""
        @weft.jit
        def host(a: {annotation}, b: weft.Tensor[weft.f32, ("n", "m")]):
            pass
        """
    )["host"]


def test_static_dim_is_checked():
    host = host_with('weft.Tensor[weft.f32, ("n", 4)]')
    compiled = weft.compile(host, np.zeros((2, 4), np.float32), np.zeros((2, 3), np.float32))
    with pytest.raises(ValueError, match=r"argument #0 'a': shape\[1\] is 5, expected 4"):
        compiled(np.zeros((2, 5), np.float32), np.zeros((2, 3), np.float32))


def test_divisibility_is_checked():
    host = define(
        """
        @weft.jit
        def host(a: weft.Tensor[weft.f32, (weft.sym("n", divisibility=8),)]):
            pass
        """
    )["host"]
    compiled = weft.compile(host, np.zeros(16, np.float32))
    compiled(np.zeros(64, np.float32))
    with pytest.raises(ValueError, match=r"shape\[0\] is 12.*8"):
        compiled(np.zeros(12, np.float32))


def test_alignment_is_checked():
    n = weft.sym("n")
    host = define("@weft.jit\ndef host(a: weft.Tensor):\n    pass")["host"]
    fake = weft.fake_tensor(weft.f32, (n,), alignment_bytes=64)
    compiled = weft.compile(host, fake)
    raw = np.zeros(200, np.float32)
    start = (-raw.ctypes.data // 4) % 16
    compiled(raw[start : start + 10])
    with pytest.raises(ValueError, match=r"64"):
        compiled(raw[start + 1 : start + 10])


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: weft.compile(untyped), "a"),
        (lambda: weft.compile(untyped, vector()), "b"),
        (lambda: weft.compile(add_one, vector(), vector(), vector()), "3"),
        (lambda: weft.compile(add_one, vector(), object()), "b"),
        (lambda: weft.compile(add_one, vector(), vector(dtype=np.int32)), "i32"),
        (lambda: weft.compile(add_one, vector(), vector(), options="--fast"), "--opt-level"),
        (lambda: weft.compile(add_one, vector(), vector(), options="--opt-level 7"), "7"),
        (lambda: weft.compile(add_one, vector(), vector(), options="--gpu-arch sm_77"), "sm_75"),
        (lambda: weft.compile(add_one_kernel, vector(), vector()), "kernel"),
        (lambda: weft.compile(len, vector()), "len"),
        (lambda: weft.fake_tensor("f32", (3,)), "f32"),
        (lambda: weft.fake_tensor(weft.f32, 3), "3"),
        (lambda: weft.fake_tensor(weft.f32, (3,), layout="rows"), "contiguous"),
        (lambda: weft.fake_tensor(weft.f32, (3,), alignment_bytes=3), "3"),
        (lambda: weft.sym("n", divisibility=0), "0"),
        (lambda: weft.sym("n", width=16), "16"),
        (lambda: weft.Tensor[weft.f32, ("n",), "rows"], "rows"),
        (lambda: weft.kernel(max_threads=5000)(len), "5000"),
        (lambda: weft.jit(3), "3"),
        (lambda: weft.f32(1.0), "f32"),
        (lambda: weft.math.exp(1.0), "exp"),
        (lambda: weft.thread_idx.x, "thread_idx"),
        (lambda: weft.nothing_like_this, "nothing_like_this"),
        (lambda: weft.synchronise, "synchron"),
    ],
)
def test_wrong_use_outside_a_kernel_says_what_and_what_is_allowed(call, words):
    with pytest.raises((TypeError, ValueError, AttributeError, weft.WeftError)) as caught:
        call()
    assert words in str(caught.value)
