# SPDX-License-Identifier: Apache-2.0
"""What `Tensor[...]`, `fake_tensor` and `sym` accept, and what they refuse."""

from __future__ import annotations

import pickle

import pytest

from weft.arguments.stream import Stream
from weft.arguments.tensor_spec import Tensor, fake_tensor
from weft.errors import SignatureError
from weft.types import dtype as types
from weft.types.dims import MAX_RANK, Dim, sym

pytestmark = pytest.mark.joined

F32 = types.f32

TEXTS = {
    "Tensor[f32]": Tensor[F32],
    "Tensor[f32, ()]": Tensor[F32, ()],
    "Tensor[f32, (n,)]": Tensor[F32, ("n",)],
    "Tensor[f32, (n, 4, None)]": Tensor[F32, ("n", 4, None)],
    "Tensor[f32, ..., strided]": Tensor[F32, ..., "strided"],
    "Tensor[None, (n,)]": Tensor[None, ("n",)],
    "Tensor[f32, (sym(n, divisibility=16, width=64),)]": Tensor[
        F32, (sym("n", divisibility=16, width=64),)
    ],
    "Tensor[f32, (n,), strided, strides=(-2,)]": fake_tensor(F32, ("n",), strides=(-2,)),
    "Tensor[f32, (n,), contiguous, device=cpu]": fake_tensor(F32, ("n",), device="cpu"),
}


@pytest.mark.parametrize("text", TEXTS)
def test_texts(text):
    spec = TEXTS[text]
    assert repr(spec) == text
    assert pickle.loads(pickle.dumps(spec)) == spec


REFUSED = {
    "the dtype must be one of weft's types": lambda: Tensor[complex],
    "takes dtype, dims and layout": lambda: Tensor[F32, (), "strided", 4],
    "dims is 'n', expected a tuple": lambda: Tensor[F32, "n"],
    "dims is 2, expected a tuple": lambda: Tensor[F32, 2],
    r"dims\[0\] is -1, expected a size of at least 0": lambda: Tensor[F32, (-1,)],
    r"dims\[1\] is 'a b', expected": lambda: Tensor[F32, ("n", "a b")],
    r"dims\[0\] is True, expected": lambda: Tensor[F32, (True,)],
    "dims has 9 dimensions": lambda: Tensor[F32, (1,) * 9],
    "the layout is 'rows', expected one of 'contiguous'": lambda: Tensor[F32, ("n",), "rows"],
    "needs a dtype": lambda: fake_tensor(None, ("n",)),
    "shape is 3, expected a tuple": lambda: fake_tensor(F32, 3),
    r"strides is \(1,\), expected a tuple of 2": lambda: fake_tensor(F32, (2, 2), strides=(1,)),
    r"strides\[0\] is 1.5, expected an int": lambda: fake_tensor(F32, (2,), strides=(1.5,)),
    "device is 'gpu', expected 'cpu', 'cuda'": lambda: fake_tensor(F32, (2,), device="gpu"),
    "device is 3, expected": lambda: fake_tensor(F32, (2,), device=3),
    "alignment_bytes is 3, expected a power of two": lambda: fake_tensor(
        F32, (2,), alignment_bytes=3
    ),
    "alignment_bytes is True": lambda: fake_tensor(F32, (2,), alignment_bytes=True),
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_is_refused(message):
    with pytest.raises(SignatureError, match=message):
        REFUSED[message]()


def test_the_largest_rank():
    assert len(Tensor[F32, (None,) * MAX_RANK].dims) == MAX_RANK


def test_the_last_stride_decides_the_layout_of_a_fake():
    assert fake_tensor(F32, (2, 2), strides=(9, 1)).layout == "inner"
    assert fake_tensor(F32, (2, 2), strides=(9, "s")).layout == "strided"


def test_symbols_are_values():
    assert sym("n") == Dim("n") != sym("n", width=64)
    assert pickle.loads(pickle.dumps(sym("n", 4))) == sym("n", 4)
    with pytest.raises(AttributeError, match="cannot be changed"):
        sym("n").name = "m"


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: sym("1n"), ValueError, "'1n' is not an identifier"),
        (lambda: sym(3), TypeError, "name must be a str or None, received 3"),
        (lambda: sym("n", 0), ValueError, "divisibility is 0, expected 1 to 2147483647"),
        (lambda: sym("n", 1.0), TypeError, "divisibility must be an int, received 1.0"),
        (lambda: sym("n", width=16), ValueError, "width is 16, expected 32 or 64"),
    ],
)
def test_what_no_symbol_can_be(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_annotations_are_not_called():
    with pytest.raises(TypeError, match=r"Tensor\[f32\] annotates a parameter"):
        Tensor[F32]()


@pytest.mark.parametrize(
    ("handle", "error"),
    [("x", TypeError), (True, TypeError), (-1, ValueError), (1 << 64, ValueError)],
)
def test_what_no_stream_can_be(handle, error):
    with pytest.raises(error, match="Stream: handle "):
        Stream(handle)
