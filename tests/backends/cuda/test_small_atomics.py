# SPDX-License-Identifier: Apache-2.0
"""Atomics on 8 and 16 bits for a GPU, which has words of 32: what they become, with their orders and scopes."""

from __future__ import annotations

import itertools
import re

import pytest

from tests.backends.cuda.test_backend import compiled, synchronization, tensor
from tests.codegen.kernel_runner import parse_module
from tests.sampling import sampled
from weft.backends.cuda.stages import emit_ptx, print_kernels
from weft.backends.cuda.target import cuda_machine
from weft.backends.registry import find_backend
from weft.dialects.simt.atomics import MEMORY_ORDERS, MEMORY_SCOPES

BITWISE = ("and", "or", "xor")
KINDS = {
    "i8": ("add", "sub", "max", "min", "umax", "umin", *BITWISE, "exchange"),
    "i16": ("add", "sub", "max", "min", "umax", "umin", *BITWISE, "exchange"),
    "i1": (*BITWISE, "exchange"),
    "f16": ("add", "sub", "max", "min", "exchange"),
    "bf16": ("add", "sub", "max", "min", "exchange"),
    "f8E4M3FN": ("add", "sub", "max", "min", "exchange"),
    "f8E5M2": ("add", "sub", "max", "min", "exchange"),
}


def kernel(name: str, element: str, operation: str, count: int = 1) -> str:
    """One access of an element in global memory, and the same in shared memory."""
    there = tensor(element)
    own = (
        there.replace("[?]", "[8]").replace("global", "shared").replace("offsets 64", "offsets 32")
    )
    values = ", ".join(["%v"] * count)
    types = ", ".join([element] * count)
    return f"""simt.kernel @{name}(%a : {there}, %n : i32) {{
  %zero = arith.constant 0 : i32
  %tile = simt.shared at 0 : {own}
  %v = simt.load %a[%zero : i32] : {there} -> {element}
  %x = {operation} {values}, %a[%n : i32] : {types}, {there} -> {element}
  %y = {operation} {values}, %tile[%n : i32] : {types}, {own} -> {element}
  simt.store %x, %a[%zero : i32] : {element}, {there}
  simt.store %y, %a[%n : i32] : {element}, {there}
  simt.return
}}
"""


def ptx_of(text: str, architecture: str) -> str:
    machine = cuda_machine(architecture)
    return emit_ptx(print_kernels(parse_module(text), machine), machine, 3)


@pytest.mark.parametrize("element", sampled(KINDS, 3))
def test_every_kind_assembles(element: str):
    text = "".join(
        kernel(kind, element, f'simt.atomic_rmw "{kind}" "acq_rel" "block"')
        for kind in KINDS[element]
    )
    text += kernel("cas", element, 'simt.atomic_cas "acq_rel" "block"', count=2)
    code, _ = compiled(text)
    assert code.device_code
    assert len(code.kernels) == len(KINDS[element]) + 1


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90a", "sm_120"])
@pytest.mark.parametrize("element", KINDS)
def test_every_kind_takes_any_element_of_any_shared_array(element: str, architecture: str):
    """The address of a later array's element at a constant index is a constant expression."""
    own = tensor(element).replace("[?]", "[8]").replace("global", "shared")
    own = own.replace("offsets 64", "offsets 32")
    lines, count = [], 0
    accesses = [
        *(f'simt.atomic_rmw "{kind}" "{{}}" "block" %v' for kind in KINDS[element]),
        'simt.atomic_cas "{}" "block" %v, %v',
    ]
    for access, order in itertools.product(accesses, ("relaxed", "acq_rel")):
        values = ", ".join([element] * access.count("%v"))
        for array, index in itertools.product(("first", "second", "third"), ("zero", "five", "n")):
            count += 1
            lines += [
                f"%r{count} = {access.format(order)}, %{array}[%{index} : i32] : {values}, {own} -> {element}",
                f"simt.store %r{count}, %a[%n : i32] : {element}, {tensor(element)}",
            ]
    text = "\n  ".join(
        [
            f"simt.kernel @every(%a : {tensor(element)}, %n : i32) {{",
            "%zero = arith.constant 0 : i32",
            "%five = arith.constant 5 : i32",
            f"%first = simt.shared at 0 : {own}",
            f"%second = simt.shared at 16 : {own}",
            f"%third = simt.shared at 34 : {own}",
            f"%v = simt.load %a[%zero : i32] : {tensor(element)} -> {element}",
            *lines,
            "simt.return",
        ]
    )
    code, _ = compiled(text + "\n}\n", architecture)
    assert code.device_code


@pytest.mark.parametrize(
    ("kind", "element"), sampled(itertools.product(BITWISE, ["i8", "i16"]), 3, several=True)
)
def test_bitwise_ones_are_one_instruction_on_the_word(kind: str, element: str):
    _, artifacts = compiled(
        kernel("kernel", element, f'simt.atomic_rmw "{kind}" "relaxed" "device"')
    )
    text = artifacts.contents["ptx"].decode()
    assert synchronization(text) == [f"atom.global.{kind}.b32", f"atom.shared.{kind}.b32"]
    assert re.findall(r"and\.b64\s.*, -4;", text), "the address is that of the word"
    sass = find_backend("cuda").disassemble(artifacts)
    assert sass is not None
    assert "CAS" not in sass
    assert f"ATOMS.{kind.upper()}" in sass


@pytest.mark.joined
@pytest.mark.parametrize("kind", ["and", "add", "umax", "exchange", "cas"])
@pytest.mark.parametrize("element", ["i8", "i16"])
@pytest.mark.parametrize("order", MEMORY_ORDERS)
@pytest.mark.parametrize("scope", MEMORY_SCOPES)
def test_orders_and_scopes_are_kept(kind: str, element: str, order: str, scope: str):
    name = {"block": "cta", "device": "gpu", "system": "sys"}[scope]
    operation = f'simt.atomic_rmw "{kind}" "{order}" "{scope}"'
    if kind == "cas":
        operation = f'simt.atomic_cas "{order}" "{scope}"'
    found = synchronization(
        ptx_of(kernel("kernel", element, operation, 2 if kind == "cas" else 1), "sm_90a")
    )
    atomics = [word for word in found if word.startswith("atom")]
    assert len(atomics) == 2
    if order == "relaxed" and scope != "system" and kind == "and":
        return  # without words: relaxed, for the whole device
    assert all(f".{name}." in word for word in atomics)
    words = " ".join(found)
    if order in ("acquire", "acq_rel", "seq_cst"):
        assert re.search(rf"atom\.acq\w*\.{name}|fence\.(acq_rel|sc)\.{name}$", words)
    if order in ("release", "acq_rel"):
        assert re.search(rf"atom\.(release|acq_rel)\.{name}|^fence\.acq_rel\.{name}", words)
    if order == "seq_cst":
        assert words.startswith(f"fence.sc.{name} atom.")


@pytest.mark.parametrize("kind", ["xor", "add", "exchange", "cas"])
@pytest.mark.parametrize("element", ["i8", "i16", "i32", "i64"])
def test_before_sm_70_orders_are_fences(kind: str, element: str):
    operation = f'simt.atomic_rmw "{kind}" "acq_rel" "device"'
    if kind == "cas":
        operation = 'simt.atomic_cas "acq_rel" "device"'
    text = ptx_of(kernel("kernel", element, operation, 2 if kind == "cas" else 1), "sm_61")
    found = [word.split(".")[0] for word in synchronization(text)]
    assert found == ["membar", "atom", "membar"] * 2
