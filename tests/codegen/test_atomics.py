# SPDX-License-Identifier: Apache-2.0
"""Atomic operations yield the old element and leave the right one, for every element type."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tests.codegen.kernel_runner import CpuKernel, tensor
from tests.sampling import sampled

TYPES = {
    "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "f32": np.float32, "f64": np.float64,
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f8E4M3FN": ml_dtypes.float8_e4m3fn,
    "f8E5M2": ml_dtypes.float8_e5m2,
}  # fmt: skip
FLOAT_KINDS = ("add", "sub", "max", "min", "exchange")
INTEGER_KINDS = (*FLOAT_KINDS, "umax", "umin", "and", "or", "xor")
CASES = [
    (element, kind)
    for element in TYPES
    for kind in (INTEGER_KINDS if element.startswith("i") else FLOAT_KINDS)
]


def text_of(element: str, operation: str) -> str:
    kind = tensor(element)
    return f"""simt.kernel @kernel(%a : {kind}, %values : {kind}, %old : {kind}) {{
  %i = simt.thread_idx "x" : i32
  %zero = arith.constant 0 : i32
  %v = simt.load %values[%i : i32] : {kind} -> {element}
  %r = {operation}, %a[%zero : i32] : {element}, {kind} -> {element}
  simt.store %r, %old[%i : i32] : {element}, {kind}
  simt.return
}}"""


def step(kind: str, old, value, dtype):
    """The result of one access."""
    if kind in ("umax", "umin"):
        word = np.dtype(f"u{np.dtype(dtype).itemsize}")
        pair = np.array([old, value], dtype).view(word)
        return np.array([pair.max() if kind == "umax" else pair.min()], word).view(dtype)[0]
    with np.errstate(over="ignore"):
        return {
            "add": lambda: dtype(old + value),
            "sub": lambda: dtype(old - value),
            "max": lambda: max(old, value),
            "min": lambda: min(old, value),
            "and": lambda: old & value,
            "or": lambda: old | value,
            "xor": lambda: old ^ value,
            "exchange": lambda: value,
        }[kind]()


@pytest.mark.parametrize(
    ("element", "kind", "order"),
    sampled(
        [(*case, order) for case in CASES for order in ("relaxed", "seq_cst")], 6, several=True
    ),
)
def test_each_access_yields_the_old_element(element: str, kind: str, order: str):
    dtype = TYPES[element]
    values = np.array([3, -5, 7, -1, 2, 100, -100, 4], np.float32).astype(dtype)
    target, old = np.array([1], dtype), np.zeros(len(values), dtype)
    operation = f'simt.atomic_rmw "{kind}" "{order}" "device" %v'
    kernel = CpuKernel(text_of(element, operation), level=1)
    kernel((1,), (len(values),), target, values, old)
    current, expected = dtype(1), []
    for value in values:
        expected.append(current)
        current = step(kind, current, value, dtype)
    assert old.tolist() == np.array(expected, dtype).tolist()
    assert target[0] == current


@pytest.mark.parametrize("element", TYPES)
def test_compare_and_swap_writes_only_what_it_expected(element: str):
    dtype, kind = TYPES[element], tensor(element)
    text = f"""simt.kernel @kernel(%a : {kind}, %expected : {kind}, %values : {kind}, %old : {kind}) {{
  %i = simt.thread_idx "x" : i32
  %zero = arith.constant 0 : i32
  %e = simt.load %expected[%i : i32] : {kind} -> {element}
  %v = simt.load %values[%i : i32] : {kind} -> {element}
  %r = simt.atomic_cas "acq_rel" "system" %e, %v, %a[%zero : i32] : {element}, {element}, {kind} -> {element}
  simt.store %r, %old[%i : i32] : {element}, {kind}
  simt.return
}}"""
    target, old = np.array([1], dtype), np.zeros(3, dtype)
    expected, values = np.array([1, 1, 5], dtype), np.array([5, 9, 7], dtype)
    CpuKernel(text, level=1)((1,), (3,), target, expected, values, old)
    assert old.tolist() == np.array([1, 5, 5], dtype).tolist()
    assert target[0] == dtype(7)


def test_compare_and_swap_compares_bits():
    kind = tensor("f32")
    text = f"""simt.kernel @kernel(%a : {kind}, %e : f32, %v : f32) {{
  %zero = arith.constant 0 : i32
  %r = simt.atomic_cas "relaxed" "device" %e, %v, %a[%zero : i32] : f32, f32, {kind} -> f32
  simt.return
}}"""
    kernel = CpuKernel(text, level=1)
    for start, expected, written in ((np.nan, np.nan, True), (0.0, -0.0, False)):
        target = np.array([start], np.float32)
        kernel((1,), (1,), target, np.float32(expected), np.float32(4))
        assert (target[0] == 4) == written


@pytest.mark.parametrize("kind", ["and", "or", "xor", "exchange"])
def test_atomics_on_bools_keep_bytes_zero_or_one(kind: str):
    kernel = CpuKernel(text_of("i1", f'simt.atomic_rmw "{kind}" "relaxed" "device" %v'), level=1)
    for start in (0, 1):
        target, old = np.array([start], np.uint8), np.zeros(3, np.uint8)
        values = np.array([1, 0, 1], np.uint8)
        kernel((1,), (3,), target, values, old)
        current, seen = start, []
        for value in values:
            seen.append(current)
            current = {"and": current & value, "or": current | value, "xor": current ^ value}.get(
                kind, value
            )
        assert (old.tolist(), target[0]) == (seen, current)
