# SPDX-License-Identifier: Apache-2.0
"""Barriers and fences: one operation each, predicates by their truth, masks that name lanes."""

from __future__ import annotations

import pytest

from tests.language.tracing import Trace
from weft.errors import TypeMismatchError, ValueRangeError
from weft.language import resolve
from weft.types import dtype as types
from weft.types.dtype import DTYPES

pytestmark = pytest.mark.joined

PLAIN = {
    "sync_threads": "simt.barrier",
    "sync_grid": "simt.grid_barrier",
    "fence_block": 'simt.fence "block"',
    "fence_device": 'simt.fence "device"',
    "fence_system": 'simt.fence "system"',
}


@pytest.mark.parametrize("name", PLAIN)
def test_a_barrier_or_fence_is_one_operation(name):
    trace = Trace()
    assert resolve(name).emit(trace.builder) is None
    assert len(trace.names) == 1
    assert f"{PLAIN[name]}\n" in trace.verify()


@pytest.mark.parametrize(("kind", "result"), [("count", "i32"), ("and", "bool_"), ("or", "bool_")])
@pytest.mark.parametrize("dtype", [types.bool_, types.i32, types.f32], ids=str)
def test_a_reducing_barrier_takes_any_number_by_its_truth(kind, result, dtype):
    trace = Trace()
    found = resolve(f"sync_threads_{kind}").emit(trace.builder, trace.scalar(dtype))
    assert found.dtype.name == result
    assert f'simt.barrier_reduce "{kind}"' in trace.verify()


def test_a_constant_predicate_still_waits():
    trace = Trace()
    resolve("sync_threads_count").emit(trace.builder, True)
    assert trace.names == ["simt.barrier_reduce"]


def test_a_predicate_that_is_not_a_number_is_refused():
    trace = Trace()
    with pytest.raises(
        TypeMismatchError, match="sync_threads_or: the predicate must be a number, received"
    ):
        resolve("sync_threads_or").emit(trace.builder, trace.tensor(types.i32))


def test_the_default_mask_is_all_lanes():
    trace = Trace()
    resolve("sync_warp").emit(trace.builder)
    assert trace.constants == ["-1 : i32"]
    assert "simt.warp_barrier" in trace.verify()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_mask_at_run_time_is_a_u32_or_an_i32(dtype):
    trace = Trace()
    if dtype.name in ("u32", "i32"):
        resolve("sync_warp").emit(trace.builder, trace.scalar(dtype))
        trace.verify()
        return
    with pytest.raises(TypeMismatchError) as caught:
        resolve("sync_warp").emit(trace.builder, trace.scalar(dtype))
    assert caught.value.code == "WARP_MASK"
    assert caught.value.message.startswith(f"sync_warp: the mask is {dtype}; expected a u32")


@pytest.mark.parametrize("mask", [0, -1, 1 << 32])
def test_a_constant_mask_names_lanes_from_0_to_31(mask):
    with pytest.raises(ValueRangeError) as caught:
        resolve("sync_warp").emit(Trace().builder, mask)
    assert caught.value.code == "WARP_MASK"
    assert f"the mask is {mask:#x}; expected 0x1 to 0xffffffff" in caught.value.message


@pytest.mark.parametrize("mask", [1.0, True, "all"])
def test_a_constant_mask_is_an_integer(mask):
    with pytest.raises(TypeMismatchError, match=r"sync_warp: the mask (is|must be) "):
        resolve("sync_warp").emit(Trace().builder, mask)


@pytest.mark.parametrize("name", [*PLAIN, "sync_threads_count", "sync_warp"])
def test_host_functions_have_no_barriers(name):
    assert not resolve(name).on_host
