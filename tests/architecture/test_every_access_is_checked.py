# SPDX-License-Identifier: Apache-2.0
"""Walks the operations that may read or write memory: a new one fails here until the sanitizer checks its bounds."""

from __future__ import annotations

import pytest
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect

from weft.dialects.nvgpu import NVGPU
from weft.dialects.simt import SIMT
from weft.passes import check_accesses, instrument_memory

pytestmark = pytest.mark.joined

OPERATIONS = [*SIMT.operations, *NVGPU.operations]
# The language's name of an operation → why it has no check of its own.
ORDERS = "orders accesses, or waits, and reaches no array"
IN_ITS_REGION = "its region has the access of one element, which is checked"
OWN = "weft's own, which users do not index"
WITHOUT_CHECK = {
    **dict.fromkeys(
        (
            *("simt.barrier", "simt.barrier_reduce", "simt.warp_barrier", "simt.grid_barrier"),
            *(
                "simt.fence",
                "nvgpu.cluster_barrier",
                "nvgpu.fence_proxy",
                "nvgpu.warpgroup_barrier",
            ),
            *("nvgpu.cp_async_commit", "nvgpu.cp_async_wait", "nvgpu.tma_wait", "nvgpu.wgmma_wait"),
            *("nvgpu.named_barrier_arrive", "nvgpu.named_barrier_sync", "nvgpu.named_barriers"),
            *("nvgpu.grid_dependency_launch", "nvgpu.grid_dependency_wait", "nvgpu.setmaxnreg"),
        ),
        ORDERS,
    ),
    **dict.fromkeys(
        (
            *("simt.shuffle", "simt.vote", "simt.match", "simt.warp_reduce", "simt.timer"),
            *("simt.sm_id", "nvgpu.elect_one", "nvgpu.mma"),
        ),
        "exchanges or reads registers",
    ),
    **dict.fromkeys(
        ("simt.fragment_map",),
        IN_ITS_REGION,
    ),
    **dict.fromkeys(
        ("simt.record", "simt.track_profiler", "simt.tirx_profiler", "simt.mark"),
        OWN,
    ),
    **dict.fromkeys(
        (
            *("simt.printf", "simt.assert", "simt.assume", "simt.check", "simt.event"),
            *("simt.watch", "simt.watch_copy", "simt.watch_event", "nvgpu.watch_box"),
        ),
        "tells something",
    ),
    "nvgpu.mbarrier_init": "all barriers of an array, whole",
    "simt.check_distinct": "compares addresses, in a host function",
    "nvgpu.tma_prefetch": "a box, of which what lies outside is left out",
    "nvgpu.prefetch": "a hint, which leaves out what lies outside",
    "nvgpu.nanosleep": "waits, and reaches no array",
    "nvgpu.inline_ptx": "text that weft does not read",
}
# What a GPU's threads cannot leave out, since others wait for it, or use what it makes: a finding ends the launch.
ENDS_THE_LAUNCH = {
    *("nvgpu.bulk_load", "nvgpu.tma_load", "nvgpu.st_async", "nvgpu.wgmma_mma"),
    *("nvgpu.copy_map", "nvgpu.map_at", "nvgpu.edit_map"),
    *("nvgpu.mbarrier_arrive", "nvgpu.mbarrier_release"),
    *("nvgpu.mbarrier_wait", "nvgpu.mbarrier_try_wait"),
}


def may_access(operation) -> bool:
    return bool({MemoryReadEffect(), MemoryWriteEffect()} & set(operation.traits.traits))


@pytest.mark.parametrize(
    "operation", list(filter(may_access, OPERATIONS)), ids=lambda operation: operation.name
)
def test_an_operation_on_memory_has_its_bounds_checked_or_a_reason(operation):
    is_checked = check_accesses.is_checked(operation)
    assert is_checked != (operation.name in WITHOUT_CHECK)
    if is_checked:
        assert check_accesses.is_required(operation) == (operation.name in ENDS_THE_LAUNCH)


def test_no_reason_is_left_over():
    known = {operation.name for operation in OPERATIONS if may_access(operation)}
    assert set(WITHOUT_CHECK) | ENDS_THE_LAUNCH <= known
    assert not [
        operation.name
        for operation in OPERATIONS
        if check_accesses.is_required(operation) and not check_accesses.is_checked(operation)
    ]


def test_races_are_looked_for_at_everything_that_has_bounds():
    checked = set(filter(check_accesses.is_checked, OPERATIONS))
    watched = set(filter(instrument_memory.is_watched, OPERATIONS))
    # Barriers order accesses; tensor maps are not elements of an array; the others' regions access elements.
    words = ("mbarrier", "map", "fragment", "load_matrix")
    others = {operation.name for operation in checked - watched}
    assert not [name for name in others if not any(word in name for word in words)]
    assert watched <= checked
