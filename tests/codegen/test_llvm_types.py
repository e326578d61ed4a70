# SPDX-License-Identifier: Apache-2.0
"""Constants are written as bits, rounded as the type rounds."""

from __future__ import annotations

import math
import struct

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
)

from weft.cli.functions import numpy_type
from weft.codegen.llvm.types import float_text, integer_text, quoted
from weft.language.ir_types import float_type
from weft.types.dtype import DTYPES, INFO

finite = st.floats(allow_nan=False, width=64)


def bits_of_double(text: str) -> float:
    return struct.unpack("<d", struct.pack("<Q", int(text, 16)))[0]


@given(finite)
def test_doubles_keep_every_bit(value: float):
    text = float_text(value, Float64Type())
    assert math.copysign(1, bits_of_double(text)) == math.copysign(1, value)
    assert bits_of_double(text) == value


@given(finite)
def test_floats_are_rounded_to_nearest(value: float):
    with np.errstate(over="ignore"):
        assert bits_of_double(float_text(value, Float32Type())) == float(np.float32(value))


@given(st.floats(width=32, allow_nan=False))
def test_small_floats_are_rounded_to_nearest(value: float):
    with np.errstate(over="ignore"):
        half = np.float16(value).view(np.uint16)
        brain = np.float32(value).astype(ml_dtypes.bfloat16).view(np.uint16)
    assert float_text(value, Float16Type()) == integer_text(int(half), 16)
    assert float_text(value, BFloat16Type()) == integer_text(int(brain), 16)


@pytest.mark.parametrize(
    ("dtype", "name"), [(numpy_type(d).type, d.name) for d in DTYPES if d.is_float8]
)
def test_every_8_bit_float_and_what_lies_between_keeps_its_bits(dtype: type, name: str):
    exact = np.arange(256, dtype=np.uint8).view(dtype).astype(np.float32)
    exact = np.unique(exact[np.isfinite(exact)])
    between = np.concatenate(
        [exact[:-1] + np.diff(exact) * part for part in (0.0, 0.25, 0.5, 0.75)]
    )
    for value in np.float32(between):
        assert INFO[name].format.bits_of(float(value)) == int(value.astype(dtype).view(np.uint8))


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d.is_float8], ids=str)
@given(value=st.floats(width=32, allow_nan=False))
def test_8_bit_floats_saturate_or_become_infinity(dtype, value: float):
    kind = dtype.info.format
    most = kind.largest if kind.saturates else math.inf
    clipped = np.float32(max(-most, min(most, value)))
    assert kind.bits_of(value) == int(clipped.astype(numpy_type(dtype)).view(np.uint8))
    assert float_text(value, float_type(dtype)) == integer_text(kind.bits_of(value), 8)


def test_nan_and_infinities_have_their_bits():
    assert float_text(math.inf, Float16Type()) == integer_text(0x7C00, 16)
    assert float_text(-math.inf, BFloat16Type()) == integer_text(0xFF80, 16)
    assert math.isnan(bits_of_double(float_text(math.nan, Float32Type())))
    assert INFO["f8e4m3"].format.bits_of(math.nan) == 0x7F


@pytest.mark.parametrize(
    ("value", "bits", "text"),
    [(255, 8, "-1"), (-1, 64, "-1"), (2**63, 64, str(-(2**63))), (1, 1, "true"), (2, 1, "false")],
)
def test_integers_wrap_to_their_width(value: int, bits: int, text: str):
    assert integer_text(value, bits) == text


@given(st.binary())
def test_strings_survive_llvms_quoting(data: bytes):
    text = quoted(data)[1:-1].encode()
    read, position = bytearray(), 0
    while position < len(text):
        if text[position : position + 1] == b"\\":
            read.append(int(text[position + 1 : position + 3], 16))
            position += 3
        else:
            read.append(text[position])
            position += 1
    assert bytes(read) == data
