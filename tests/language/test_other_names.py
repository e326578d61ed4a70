# SPDX-License-Identifier: Apache-2.0
"""The names of other systems lead to weft's."""

from __future__ import annotations

import functools
import re

import pytest

import weft
from weft.language import LANGUAGE, hint_for, other_names

pytestmark = pytest.mark.joined

PUBLIC = [name for name in weft.__all__ if not name.startswith("_")] + weft._namespaced_names()
NAMESPACED = [name.rpartition(".")[2] for name in weft._namespaced_names()]
# The names of every public module, wherever they are.
EVERYWHERE = {name.rpartition(".")[2].lower() for name in (*LANGUAGE, *PUBLIC)} | {
    name.lower()
    for space in weft._NAMESPACES
    for name in dir(getattr(weft, space))
    if not name.startswith("_")
}


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("threadIdx", "thread_idx"),
        ("__syncthreads", "sync_threads"),
        ("__shfl_down_sync", "shfl_down"),
        ("__popc", "math.popcount"),
        ("__expf", "math.exp"),
        ("rsqrtf", "math.rsqrt"),
        ("atomicAdd", "atomic_add"),
        ("atomicCAS", "atomic_cas"),
        ("atomicExch", "atomic_exchange"),
        ("__threadfence_block", "fence_block"),
        ("__float_as_int", "bitcast"),
        ("program_id", "block_idx"),
        ("float32", "f32"),
        ("uint8", "u8"),
        ("int64", "i64"),
        ("cdiv", "ceil_div"),
        ("heuristics", "autotune"),
    ],
)
def test_a_name_of_another_system_is_understood(theirs, ours):
    assert hint_for(theirs, PUBLIC) == f"did you mean weft.{ours}?"


def test_every_row_of_the_table_leads_to_a_name_that_there_is():
    known = {*LANGUAGE, *PUBLIC}
    assert {ours for ours in other_names._NAMES.values() if ours not in known} == set()


@pytest.mark.parametrize("name", ["thread", "x", "", "__", "value_of_y"])
def test_other_names_are_not_guessed(name):
    assert hint_for(name, PUBLIC, near=()) == ""


def test_python_says_it_too():
    with pytest.raises(AttributeError, match=r"did you mean weft\.sync_threads\?"):
        weft.__syncthreads  # noqa: B018


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("conv2d", "convolution of arrays"),
        ("tcgen05", "operation of this name; weft.mma"),
        ("ones", "tensors that a kernel makes"),
    ],
)
def test_what_weft_does_not_have_is_said_so(name, what):
    with pytest.raises(AttributeError, match=rf"no attribute '{name}'; weft has no {what}"):
        getattr(weft, name)


def test_nothing_that_weft_has_is_said_to_be_absent():
    words = {word for name in EVERYWHERE for word in (name, *name.split("_"))}
    assert {*other_names._ABSENT} & {*words, *other_names._NAMES} == set()


@pytest.mark.parametrize("text", sorted({*other_names._ABSENT.values()}))
def test_what_a_hint_names_instead_exists(text):
    named = re.findall(r"weft\.([\w.]+)", text)
    assert named
    assert all(getattr(weft, name) for name in named)


@pytest.mark.parametrize("name", sorted({*NAMESPACED} - {*weft.__all__, "all", "any"}))
def test_a_name_in_a_namespace_leads_there(name):
    with pytest.raises(AttributeError) as caught:
        getattr(weft, name)
    hint = str(caught.value)
    assert "weft has no" not in hint
    offered = re.findall(r"weft\.([\w.]+)", hint)
    assert offered
    assert all(functools.reduce(getattr, one.split("."), weft) for one in offered)
    assert any(one.rpartition(".")[2] == name for one in offered)


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("philox", "random.philox"),
        ("rand", "random.philox"),
        ("sort", "kernels.sort"),
        ("softmax", "kernels.softmax"),
        ("matmul", "kernels.matmul"),
        ("ldmatrix", "mma.load_a"),
        ("radix_sort", "block.radix_sort"),
        ("memcpy_async", "cp_async"),
    ],
)
def test_a_name_that_weft_was_said_not_to_have_leads_to_it(name, ours):
    with pytest.raises(AttributeError, match=rf"\bweft\.{ours}\b"):
        getattr(weft, name)


@pytest.mark.parametrize(
    ("name", "ours"),
    [("sycn_threads", "sync_threads"), ("sum", "block.sum"), ("print", "printf"), ("jitt", "jit")],
)
def test_a_misspelled_name_leads_to_what_looks_like_it(name, ours):
    with pytest.raises(AttributeError, match=rf"did you mean weft\.{ours}\b"):
        getattr(weft, name)


@pytest.mark.parametrize("name", ["qqq", "lunch_break", "cat", "rhubarb"])
def test_what_looks_like_nothing_has_no_hint(name):
    with pytest.raises(AttributeError, match=rf"no attribute '{name}'$"):
        getattr(weft, name)
