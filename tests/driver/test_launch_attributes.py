# SPDX-License-Identifier: Apache-2.0
"""Launch attributes: every one is accepted by the driver as packed, and refuses what cannot work."""

from __future__ import annotations

import struct

import pytest

from tests.native.fake_cuda.code import EMPTY, assemble
from tests.native.fake_cuda.fake import FakeCuda, on_fake
from weft.driver import launch_attributes
from weft.driver.binary import load_binary
from weft.driver.device import device_properties
from weft.driver.kernel_launch import launch_ex, make_kernel_signature
from weft.driver.launch_attributes import (
    AccessPolicyWindow,
    AttributeRow,
    Cluster,
    ClusterSchedulingPolicy,
    Cooperative,
    DeviceUpdatableNode,
    LaunchAttribute,
    LaunchCompletionEvent,
    LaunchShape,
    MemorySyncDomain,
    MemorySyncDomainMap,
    NvlinkCentricScheduling,
    PortableClusterSize,
    PreferredCluster,
    Priority,
    ProgrammaticEvent,
    ProgrammaticStreamSerialization,
    Raw,
    SharedMemoryCarveout,
    SharedMemoryMode,
)
from weft.errors import CudaError

pytestmark = pytest.mark.joined

# One of each, with the bytes that the driver's union holds, written out by hand.
EXAMPLES: list[tuple[LaunchAttribute, str]] = [
    (
        AccessPolicyWindow(0x1000, 512, 0.5, "persisting", "streaming"),
        "0010000000000000 0002000000000000 0000003f 02000000 01000000",
    ),
    (Cooperative(), "01000000"),
    (Cluster((2, 1)), "02000000 01000000 01000000"),
    (ClusterSchedulingPolicy("load_balancing"), "02000000"),
    (ProgrammaticStreamSerialization(False), "00000000"),
    (ProgrammaticEvent(0xABCD, 1, True), "cdab000000000000 01000000 01000000"),
    (Priority(-5), "fbffffff"),
    (MemorySyncDomainMap(0, 2), "00 02"),
    (MemorySyncDomain("remote"), "01000000"),
    (PreferredCluster((4, 1, 1)), "04000000 01000000 01000000"),
    (LaunchCompletionEvent(0xABCD), "cdab000000000000 00000000"),
    (DeviceUpdatableNode(), "01000000 00000000 0000000000000000"),
    (SharedMemoryCarveout(50), "32000000"),
    (NvlinkCentricScheduling(), "01000000"),
    (PortableClusterSize("any"), "02000000"),
    (SharedMemoryMode("oversized"), "03000000"),
]


def test_every_attribute_has_an_example_here_and_its_own_number():
    public = [each for name, each in vars(launch_attributes).items() if name[0].isupper()]
    attributes = [each for each in public if isinstance(each, type) and hasattr(each, "pack")]
    kinds = [type(attribute) for attribute, _ in EXAMPLES]
    assert {LaunchAttribute, AttributeRow, Raw, *kinds} == set(attributes)
    numbers = [kind.id for kind in kinds]
    assert numbers == sorted(set(numbers))
    assert set(range(19)) - set(numbers) == {0, 3, 15}


@pytest.mark.parametrize(("attribute", "value"), EXAMPLES, ids=lambda item: type(item).__name__)
def test_values_are_laid_out_as_in_the_drivers_union(attribute: LaunchAttribute, value: str):
    assert attribute.pack() == bytes.fromhex(value)
    assert eval(repr(attribute), {**vars(launch_attributes)}).pack() == attribute.pack()
    assert type(attribute).__doc__


@on_fake()
def test_every_attribute_passes_the_drivers_checks(fake: FakeCuda):
    function = load_binary("empty_kernel", assemble(EMPTY))[1]
    for attribute, _ in EXAMPLES:
        attributes = [attribute]
        if isinstance(attribute, PreferredCluster):
            attributes.insert(0, Cluster(2))
        launch_ex(
            function,
            8,
            32,
            make_kernel_signature([]),
            (),
            attributes=attributes,
            device=device_properties(),
        )
    assert len(fake.launches()) == len(EXAMPLES)


@on_fake()
def test_raw_attributes_reach_the_driver(fake: FakeCuda):
    function = load_binary("empty_kernel", assemble(EMPTY))[1]
    launch_ex(
        function, 1, 32, make_kernel_signature([]), (), attributes=[Raw(8, struct.pack("i", 7))]
    )
    assert "attributes=[8:7,0,0]" in fake.launches()[0]
    with pytest.raises(CudaError, match="CUDA_ERROR_INVALID_VALUE") as caught:
        launch_ex(function, 1, 32, make_kernel_signature([]), (), attributes=[Raw(77, b"")])
    assert "attribute 77" in caught.value.configuration


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Cluster(0), "cluster.x is 0, expected 1 to 16"),
        (lambda: Cluster(32), "cluster.x is 32, expected 1 to 16"),
        (lambda: Cluster((4, 8)), "cluster has 32 blocks, expected at most 16"),
        (lambda: AccessPolicyWindow(0, 1, 1.5), "hit_ratio is 1.5, expected 0 to 1"),
        (lambda: AccessPolicyWindow(0, 1, 1.0, "x"), "hit is 'x', expected one of: normal"),
        (lambda: AccessPolicyWindow(0, 1, 1.0, "normal", "persisting"), "miss is 'persisting'"),
        (lambda: ClusterSchedulingPolicy("x"), "policy is 'x', expected one of: default, spread"),
        (lambda: MemorySyncDomain("x"), "domain is 'x'"),
        (lambda: MemorySyncDomainMap(0, 256), "remote is 256, expected 0 to 255"),
        (lambda: ProgrammaticEvent(0), "event is 0"),
        (lambda: SharedMemoryCarveout(101), "percent is 101, expected 0 to 100"),
        (lambda: PortableClusterSize("x"), "mode is 'x'"),
        (lambda: SharedMemoryMode("x"), "mode is 'x'"),
        (lambda: Priority(2**31), "priority is 2147483648"),
        (lambda: Cooperative("yes"), "enabled is 'yes', expected one of: False, True"),
        (lambda: LaunchCompletionEvent(1, -1), "flags is -1, expected 0 to 2147483647"),
        (lambda: Raw(1, bytes(65)), "the value has 65 bytes, expected at most 64"),
        (lambda: Raw(-1, b""), "id is -1"),
    ],
)
def test_values_out_of_range_are_refused_with_what_is_allowed(make: object, text: str):
    with pytest.raises(ValueError, match=text):
        make()  # type: ignore[operator]


@pytest.mark.parametrize(
    ("values", "named"),
    [((), {}), ((1, 2), {}), ((1,), {"priority": 2}), ((), {"prior": 1})],
)
def test_missing_extra_and_misnamed_values_are_refused(
    values: tuple[int, ...], named: dict[str, int]
):
    with pytest.raises(TypeError, match=r"^Priority takes priority; received"):
        Priority(*values, **named)
    assert Priority(priority=1).pack() == Priority(1).pack()


@on_fake()
def test_attributes_are_checked_against_grid_and_device(fake: FakeCuda):
    device = device_properties()
    cases = [
        (Cluster(3), (4, 1, 1), (), r"grid\.x is 4, expected a multiple of the cluster's 3"),
        (PreferredCluster(4), (4, 1, 1), (), "also needs a Cluster attribute"),
        (
            PreferredCluster(3),
            (6, 1, 1),
            (Cluster(2),),
            "x is 3, expected a multiple of the cluster's 2",
        ),
        (
            PreferredCluster(4),
            (6, 1, 1),
            (Cluster(2),),
            r"grid\.x is 6, expected a multiple of the preferred",
        ),
        (MemorySyncDomainMap(0, 4), (1, 1, 1), (), "memory domain 4, Fake GPU has 4, from 0"),
        (AccessPolicyWindow(0, 2**40), (1, 1, 1), (), "allows 134213632"),
    ]
    for attribute, grid, others, text in cases:
        with pytest.raises(ValueError, match=text):
            attribute.check(LaunchShape(grid, (32, 1, 1), (attribute, *others)), device)
    fake.set_architecture(0, 8, 0)
    with pytest.raises(ValueError, match=r"clusters need sm_90 or later"):
        Cluster(2).check(LaunchShape((2, 1, 1), (1, 1, 1)), device_properties())
