# SPDX-License-Identifier: Apache-2.0
"""The key of a direct call holds the types of its arguments, and nothing of their values."""

from collections import namedtuple

import numpy as np
import pytest

from weft import _native

pytestmark = pytest.mark.joined

key = _native.argument_key
BASE = np.zeros((8, 8), "f4")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((1,), (2**31 - 1,)),
        ((2**40,), (-(2**70),)),
        ((1.0,), (2.0,)),
        ((True,), (False,)),
        (("a",), ("a longer text",)),
        ((np.float32(1),), (np.float32(2),)),
        ((BASE,), (np.zeros((3, 5), "f4"),)),
        ((BASE,), (np.zeros((0, 5), "f4"),)),
        ((BASE,), (np.zeros((5, 1), "f4")[:, ::1],)),
        ((BASE[:, :4],), (BASE[::3, :2],)),
        ((BASE[:, ::2],), (BASE.T,)),
        (((1, 2),), ((3, 4),)),
    ],
)
def test_values_dims_and_addresses_are_not_in_the_key(first, second):
    assert key(first) == key(second)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((1,), (1.0,)),
        ((1,), (True,)),
        ((1,), (None,)),
        ((1,), (np.int32(1),)),
        ((np.int32(1),), (np.uint32(1),)),
        ((BASE,), (BASE.astype("f8"),)),
        ((BASE,), (BASE[0],)),
        ((BASE,), (BASE[:, :4],)),
        ((BASE[:, :4],), (BASE[:, ::2],)),
        ((BASE,), (np.zeros(257, "u1")[1:].view("f4").reshape(8, 8),)),
        ((BASE, 1), (1, BASE)),
        ((1, 2), ((1, 2),)),
        (((1,), 2), ((1, 2),)),
        (((1, 2),), ([1, 2],)),
        (((1, 2),), (namedtuple("pair", "x y")(1, 2),)),
    ],
)
def test_types_ranks_layouts_and_alignment_are(first, second):
    assert key(first) != key(second)


def test_a_dimension_beyond_31_bits_is_a_class_of_its_own():
    wide = np.lib.stride_tricks.as_strided(np.zeros(1, "u1"), (2**31,), (0,))
    narrow = np.lib.stride_tricks.as_strided(np.zeros(1, "u1"), (2**31 - 1,), (0,))
    assert key((wide,)) != key((narrow,))


@pytest.mark.parametrize("kind", [int, np.int64, np.uint64])
def test_an_int_beyond_32_bits_is_a_class_of_its_own(kind):
    assert key((kind(2**31 - 1),)) != key((kind(2**31),))


def test_a_type_that_cannot_be_an_argument_is_named():
    with pytest.raises(TypeError, match="received dict"):
        key((1, {}))
    with pytest.raises(TypeError, match="expected a tuple, received list"):
        key([1])


def test_very_many_arguments_have_a_key_too():
    assert key((BASE,) * 100) != key((BASE,) * 101)


@pytest.mark.parametrize(
    ("array", "layout"),
    [
        (BASE, "contiguous"),
        (BASE[:, :4], "inner"),
        (BASE.T, "strided"),
        (BASE[:1, :4], "contiguous"),
        (BASE[:, 3:4], "inner"),
        (BASE[:0, ::2], "contiguous"),
        (np.zeros(()), "contiguous"),
        (BASE[::-1], "inner"),
        (np.broadcast_to(np.zeros(4), (3, 4)), "inner"),
    ],
)
def test_the_layout_class_ignores_dims_of_one_element(array, layout):
    assert _native.tensor_info(array).layout == layout


def test_a_non_tensor_has_no_tensor_info():
    assert _native.tensor_info(3) is None
    assert _native.tensor_info("text") is None
    assert _native.tensor_info(object()) is None


def test_describe_names_the_kind():
    assert _native.describe(3) == ("int", None)
    assert _native.describe(np.float32(1)) == ("numpy_scalar", (2, 32, 1))
    kind, info = _native.describe(BASE)
    assert kind == "tensor"
    assert info == _native.tensor_info(BASE)


@pytest.mark.parametrize("kind", ["u1", "f2", "f4", "f8"])
def test_an_address_is_aligned_to_16_bytes_8_or_an_element(kind):
    memory, size = np.zeros(64, "u1"), np.dtype(kind).itemsize
    keys = {}
    for offset in range(32):
        array = memory[offset : offset + 16].view(kind)
        address = array.ctypes.data
        wanted = next((one for one in (16, 8, size) if address % one == 0), 0)
        found = _native.tensor_info(array).alignment
        assert found == wanted
        assert keys.setdefault(found, key((array,))) == key((array,))
    assert len(set(keys.values())) == len(keys)
