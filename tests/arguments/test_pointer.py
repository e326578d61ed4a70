# SPDX-License-Identifier: Apache-2.0
"""Addresses: how they are annotated, what is accepted, what is refused."""

from __future__ import annotations

import ctypes

import numpy
import pytest

from tests.arguments.inferring import kind, refused
from weft.arguments.pointer import Pointer, PointerKind
from weft.errors import SignatureError
from weft.types.dtype import f32, u8


class Address:
    def __tvm_ffi_opaque_ptr__(self) -> int:
        return 64


@pytest.mark.parametrize("value", [0, 64, None, ctypes.c_void_p(64), ctypes.c_void_p(), Address()])
def test_what_holds_an_address_is_one(value):
    assert kind(Pointer[f32], value) == PointerKind(f32)


def test_what_is_said_is_kept():
    assert kind(Pointer[f32]).text == "Pointer[f32]"
    assert kind(Pointer[f32, "global"]).text == "Pointer[f32]"
    assert kind(Pointer[u8, "global", 16]).text == "Pointer[u8, global, 16]"
    assert kind(Pointer, Pointer[u8]) == PointerKind(u8)


@pytest.mark.parametrize(
    ("annotation", "value", "words"),
    [
        (Pointer[f32], 2, "it is 0x2, expected an address divisible by 4"),
        (Pointer[f32], -4, "it is -4, expected an address of 64 bits"),
        (Pointer[f32], 1 << 64, "expected an address of 64 bits"),
        (Pointer[f32], True, "it is annotated Pointer[f32], received a Python bool True"),
        (Pointer[f32], numpy.zeros(3), "received an object of type numpy.ndarray"),
        (Pointer[f32], Pointer[u8], "it is Pointer[u8], but it is annotated Pointer[f32]"),
        (Pointer, 64, "weft.Pointer needs an element type"),
    ],
)
def test_what_does_not_fit_is_refused(annotation, value, words: str):
    assert words in refused(annotation, args=(value,))


@pytest.mark.parametrize(
    ("items", "words"),
    [
        ("f32", "the dtype must be one of weft's types"),
        ((f32, "texture"), "the address space is 'texture', expected one of 'global', 'shared'"),
        ((f32, "shared"), "no caller can have an address of shared memory"),
        ((f32, "global", 3), "expected a power of two"),
        ((f32, "global", 4, 5), "received 4 items"),
    ],
)
def test_what_no_pointer_can_be_is_refused_where_it_is_written(items, words: str):
    with pytest.raises(SignatureError) as caught:
        Pointer[items]
    assert words in str(caught.value)
