# SPDX-License-Identifier: Apache-2.0
"""Which GPU has which operation of the tensor cores and TMA: the others are refused by name.

One row for each operation: a kernel's body, and the first architecture that has it, or all that do. What has it is
assembled for the first and for the newest of them.
"""

from __future__ import annotations

import pytest

import weft
from tests.sampling import sampled
from weft.errors import UnavailableError

ARCHITECTURES = ("sm_75", "sm_80", "sm_89", "sm_90", "sm_90a", "sm_100a", "sm_120a")
FROM_80, FROM_89, FROM_90 = ARCHITECTURES[1:], ARCHITECTURES[2:], ARCHITECTURES[3:]
HOPPER, SPECIFIC = ("sm_90a",), ARCHITECTURES[4:]


def product(a, b, acc):
    def body(tensor, out):
        left, right = weft.shared((16, 32), a), weft.shared((8, 32), b)
        sums = weft.mma.zeros((16, 8), acc)
        found = weft.mma.mma(weft.mma.load_a(left), weft.mma.load_b(right.T), sums)
        out[0] = weft.f32(found.values[0])

    return body


def warpgroup_product(a, b, acc):
    def body(tensor, out):
        depth = 128 // a.itemsize
        left = weft.shared((64, depth), a, swizzle=128)
        right = weft.shared((8, depth), b, swizzle=128)
        sums = weft.wgmma.accumulator((64, 8), acc)
        sums = weft.wgmma.wait(weft.wgmma.mma(left, right.T, sums, accumulate=False))
        out[0] = weft.f32(sums.values[0])

    return body


def copies_by_threads(tensor, out):
    weft.cp_async.copy(weft.shared(64, weft.f32), 0, out, 0, 4)
    weft.cp_async.commit()
    weft.cp_async.wait()


def waits(tensor, out):
    full = weft.mbarrier(1, arrivals=128)
    full[0].arrive()
    full[0].wait(0)


def loads(tensor, out):
    tile = weft.shared((8, 32), weft.f32)
    full = weft.mbarrier(1, arrivals=128)
    full[0].arrive(expect_bytes=8)
    weft.tma.load(tensor, (0, 0), tile, full[0])


def stores(tensor, out):
    weft.tma.store(tensor, (0, 0), weft.shared((8, 32), weft.f32))
    weft.tma.wait()


def reduces(tensor, out):
    weft.tma.reduce(tensor, (0, 0), weft.shared((8, 32), weft.f32))


def copies_maps(tensor, out):
    weft.tma.copy_map(tensor, out[:32])


def finds_maps(tensor, out):
    weft.tma.prefetch(weft.tma.map_at(out[:32], tensor))


def edits_maps(tensor, out):
    mine = weft.tma.copy_map(tensor, out[:32])
    weft.tma.edit_map(mine, weft.global_scratch((8, 32), weft.f32), weft.shared(16, weft.u64))


def copies_adjacent(tensor, out):
    weft.bulk_copy(out[:64], weft.shared(64, weft.f32))


def reduces_adjacent(tensor, out):
    weft.bulk_reduce(out[:64], weft.shared(64, weft.f32))


def fetches_adjacent(tensor, out):
    full = weft.mbarrier(1, arrivals=128)
    weft.bulk_copy(weft.shared(64, weft.f32), out[:64], full[0])


def releases_blocks(tensor, out):
    empty = weft.mbarrier(1)
    empty[0].release(ranks=1)


def loads_into_several(tensor, out):
    tile = weft.shared((8, 32), weft.f32)
    weft.tma.load(tensor, (0, 0), tile, weft.mbarrier(1)[0], multicast=(0, 1))


def fences(tensor, out):
    weft.fence_proxy()
    weft.fence_proxy(space="global")


def elects(tensor, out):
    if weft.elect_one():
        out[0] = 1.0


def hands_registers_on(tensor, out):
    if weft.warp_id() < 4:
        weft.setmaxnreg(40)
    else:
        weft.setmaxnreg(232)


def overlaps(tensor, out):
    weft.grid_dependency_launch()
    weft.grid_dependency_wait()


def meets_in_clusters(tensor, out):
    box = weft.shared(32, weft.f32)
    weft.sync_cluster()
    weft.map_shared(box, 1)[0] = 1.0
    weft.sync_cluster()


def sends(tensor, out):
    full = weft.mbarrier(1)
    weft.st_async(weft.shared(32, weft.f32), 0, 1.0, full[0], 1)


def adds_vectors(tensor, out):
    weft.red_add(out, 0, (1.0, 1.0, 1.0, 1.0))


E4, E5 = weft.f8e4m3, weft.f8e5m2
OPERATIONS = {
    "mma bf16": (product(weft.bf16, weft.bf16, weft.f32), FROM_80),
    "mma f16": (product(weft.f16, weft.f16, weft.f16), FROM_80),
    "mma f32": (product(weft.f32, weft.f32, weft.f32), FROM_80),
    "mma f64": (product(weft.f64, weft.f64, weft.f64), FROM_80),
    "mma i8 u8": (product(weft.i8, weft.u8, weft.i32), FROM_80),
    **{f"mma {a} {b}": (product(a, b, weft.f32), FROM_89) for a in (E4, E5) for b in (E4, E5)},
    "wgmma bf16": (warpgroup_product(weft.bf16, weft.bf16, weft.f32), HOPPER),
    "wgmma f32": (warpgroup_product(weft.f32, weft.f32, weft.f32), HOPPER),
    "wgmma u8 i8": (warpgroup_product(weft.u8, weft.i8, weft.i32), HOPPER),
    **{
        f"wgmma {a} {b}": (warpgroup_product(a, b, weft.f32), HOPPER)
        for a in (E4, E5)
        for b in (E4, E5)
    },
    "cp_async": (copies_by_threads, FROM_80),
    "mbarrier": (waits, FROM_90),
    "tma.load": (loads, FROM_90),
    "tma.load to several": (loads_into_several, ("sm_90", "sm_90a", "sm_100a")),
    "tma.store": (stores, FROM_90),
    "tma.reduce": (reduces, FROM_90),
    "tma.copy_map": (copies_maps, SPECIFIC),
    "tma.map_at": (finds_maps, SPECIFIC),
    "tma.edit_map": (edits_maps, SPECIFIC),
    "bulk_copy": (copies_adjacent, FROM_90),
    "bulk_reduce": (reduces_adjacent, FROM_90),
    "bulk_copy into shared memory": (fetches_adjacent, FROM_90),
    "fence_proxy": (fences, FROM_90),
    "elect_one": (elects, ARCHITECTURES),
    "setmaxnreg": (hands_registers_on, SPECIFIC),
    "dependent launches": (overlaps, FROM_90),
    "map_shared": (meets_in_clusters, FROM_90),
    "st_async": (sends, FROM_90),
    "release of other blocks": (releases_blocks, FROM_90),
    "red_add": (adds_vectors, ARCHITECTURES),
}
CLUSTERS = ("map_shared", "st_async", "release of other blocks", "tma.load to several")


def host_of(name):
    body = OPERATIONS[name][0]
    cluster = 2 if name in CLUSTERS else None
    uses_map = name.startswith("tma.")

    @weft.kernel(cluster=cluster)
    def kernel(tensor: weft.TensorMap, out: weft.Tensor):
        body(tensor, out)

    @weft.kernel(cluster=cluster)
    def kernel_without_map(out: weft.Tensor):
        body(None, out)

    @weft.jit
    def host(tensor, out):
        if uses_map:
            kernel(weft.tensor_map(tensor, box=(8, 32)), out).launch(grid=2, block=256)
        else:
            kernel_without_map(out).launch(grid=2, block=256)

    return host


def compiled(host, architecture):
    tensor = weft.fake_tensor(weft.f32, (64, 64), alignment_bytes=16)
    out = weft.fake_tensor(weft.f32, (256,), alignment_bytes=128)
    return weft.compile(host, tensor, out, options=f"--gpu-arch {architecture}")


@pytest.mark.parametrize("name", sampled(OPERATIONS, 6))
def test_each_operation_is_refused_by_name_where_a_gpu_lacks_it(name):
    _, having = OPERATIONS[name]
    host = host_of(name)
    for architecture in ARCHITECTURES:
        if architecture in having:
            continue
        with pytest.raises(UnavailableError, match=rf"sm_\d+a?\b.* {architecture}") as caught:
            compiled(host, architecture)
        assert caught.value.location is not None
        assert having[0] in caught.value.message
    for architecture in {having[0], having[-1]}:
        assert compiled(host, architecture).cubin


# The architectures that devices are compiled for, from the first with TMA on.
NEWEST = ("sm_90a", "sm_100a", "sm_103a", "sm_110a", "sm_120a", "sm_121a")
# Copies into shared memory: PTX's name of the instruction on sm_90a, and on all later ones.
INTO_A_BLOCK = {
    "tma.load": "cp.async.bulk.tensor.2d.shared::{}.global.tile.mbarrier::complete_tx::bytes",
    "bulk_copy into shared memory": "cp.async.bulk.shared::{}.global.mbarrier::complete_tx::bytes",
}


def having(name: str) -> list[str]:
    """Of the newest architectures those that have an operation."""
    lacking = {"wgmma": NEWEST[1:], "tma.load to several": NEWEST[4:]}
    listed = next((lacking[stem] for stem in lacking if name.startswith(stem)), ())
    return [one for one in NEWEST if one not in listed]


def test_a_copy_to_several_blocks_says_which_gpus_have_it():
    with pytest.raises(UnavailableError) as caught:
        compiled(host_of("tma.load to several"), "sm_121a")
    assert (
        "tma.load(multicast=) needs sm_90, sm_100, sm_101, sm_103, sm_110" in caught.value.message
    )


@pytest.mark.parametrize("name", INTO_A_BLOCK)
def test_copies_into_a_block_have_the_form_of_each_architecture(name):
    for architecture in NEWEST:
        form = "cluster" if architecture == "sm_90a" else "cta"
        text = compiled(host_of(name), architecture).ptx
        assert INTO_A_BLOCK[name].format(form) in text, architecture


@pytest.mark.parametrize(
    ("name", "architecture"),
    sampled([(name, one) for name in OPERATIONS for one in having(name)], 7, several=True),
)
def test_no_operation_is_a_call_that_keeps_a_stack(name, architecture):
    found = compiled(host_of(name), architecture)
    assert [kernel.stack_bytes for kernel in found.kernels.values()] == [0]
    if name not in CLUSTERS and architecture != "sm_90a":
        assert "shared::cluster" not in found.ptx
