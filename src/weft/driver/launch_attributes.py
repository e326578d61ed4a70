# SPDX-License-Identifier: Apache-2.0
"""Launch attributes: one class each, with the driver's number, its value as bytes and its limits.

In: numbers that a user typed. Out: (id, at most 64 bytes), which the launch passes on as they are.
A new attribute is a class here and a line in LAUNCH_ATTRIBUTES.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, Final

from weft.driver.numbers import as_int, as_triple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weft.driver.device import DeviceProperties


class LaunchShape:
    """What an attribute is checked against: grid in blocks, block in threads, the other attributes."""

    __slots__ = ("attributes", "block", "grid")

    def __init__(
        self,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        attributes: tuple[LaunchAttribute, ...] = (),
    ) -> None:
        self.grid = grid
        self.block = block
        self.attributes = attributes


class LaunchAttribute(ABC):
    """One launch attribute.

    Attributes:
        id: the driver's CUlaunchAttributeID.
    """

    __slots__ = ()

    id: int

    @abstractmethod
    def pack(self) -> bytes:
        """The value as the driver's union holds it, without the padding to 64 bytes."""

    def check(self, shape: LaunchShape, device: DeviceProperties | None) -> None:  # noqa: B027
        """Refuse what cannot work; with `device` None only what no device can do.

        Raises:
            ValueError: with both numbers.
        """

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__)
        return f"{type(self).__name__}({fields})"


def _within(name: str, value: int, least: int, most: int) -> int:
    return as_int(value, name, least, most)


def _sizes(name: str, sizes: int | Sequence[int]) -> tuple[int, int, int]:
    if isinstance(sizes, tuple | list) and not 1 <= len(sizes) <= 3:
        raise ValueError(f"{name} is {sizes!r}, expected an int or one to three of them")
    x, y, z = (_within(name, size, 1, 2**32 - 1) for size in as_triple(sizes, name))
    return x, y, z


class _Flag(LaunchAttribute):
    """An attribute that is on or off."""

    __slots__ = ("enabled",)

    def __init__(self, enabled: bool = True) -> None:
        self.enabled = enabled

    def pack(self) -> bytes:
        """A 32-bit 0 or 1."""
        return struct.pack("i", self.enabled)


class AccessPolicyWindow(LaunchAttribute):
    """How the L2 cache treats accesses to one range of memory.

    Args:
        address: where the range begins, a device address.
        size: its bytes.
        hit_ratio: which part of its cache lines gets `hit`, 0 to 1; the rest gets `miss`.
        hit, miss: ``"normal"``, ``"streaming"`` or, for `hit` only, ``"persisting"``.
    """

    __slots__ = ("address", "hit", "hit_ratio", "miss", "size")

    id = 1
    kinds: ClassVar = {"normal": 0, "streaming": 1, "persisting": 2}

    def __init__(
        self,
        address: int,
        size: int,
        hit_ratio: float = 1.0,
        hit: str = "persisting",
        miss: str = "streaming",
    ) -> None:
        if not 0.0 <= hit_ratio <= 1.0:
            raise ValueError(f"hit_ratio is {hit_ratio}, expected 0 to 1")
        if hit not in self.kinds:
            raise ValueError(f"hit is {hit!r}, expected one of: {', '.join(self.kinds)}")
        if miss not in ("normal", "streaming"):
            raise ValueError(f"miss is {miss!r}, expected one of: normal, streaming")
        self.address = _within("address", address, 0, 2**64 - 1)
        self.size = _within("size", size, 0, 2**63 - 1)
        self.hit_ratio = hit_ratio
        self.hit = hit
        self.miss = miss

    def pack(self) -> bytes:
        """Pointer, size, ratio and the two kinds."""
        kinds = self.kinds[self.hit], self.kinds[self.miss]
        return struct.pack("QQfii", self.address, self.size, self.hit_ratio, *kinds)

    def check(self, shape: LaunchShape, device: DeviceProperties | None) -> None:
        """The window must not be larger than the device's largest."""
        if device is not None and self.size > device.max_access_policy_window_bytes:
            raise ValueError(
                f"the access policy window has {self.size} bytes, "
                f"{device.name} allows {device.max_access_policy_window_bytes}"
            )


class Cooperative(_Flag):
    """The whole grid is resident at once, so that it can synchronize."""

    __slots__ = ()

    id = 2


class Cluster(LaunchAttribute):
    """Blocks of a cluster in x, y, z. Needs compute capability 9.0; the launch asks for leave above 8 blocks."""

    __slots__ = ("size",)

    id = 4
    most_blocks: ClassVar = 16  # of any device so far; 8 are portable

    def __init__(self, size: int | Sequence[int]) -> None:
        self.size = _sizes("cluster", size)

    def pack(self) -> bytes:
        """Three 32-bit sizes."""
        return struct.pack("3I", *self.size)

    def check(self, shape: LaunchShape, device: DeviceProperties | None) -> None:
        """The cluster must divide the grid, and exist on the device."""
        for axis, blocks, size in zip("xyz", shape.grid, self.size, strict=True):
            if blocks % size != 0:
                raise ValueError(
                    f"grid.{axis} is {blocks}, expected a multiple of the cluster's {size}"
                )
        blocks = self.size[0] * self.size[1] * self.size[2]
        if blocks > self.most_blocks:
            raise ValueError(
                f"a cluster of {blocks} blocks, at most {self.most_blocks} are allowed"
            )
        if device is not None and blocks > 1 and device.compute_capability < (9, 0):
            raise ValueError(f"clusters need compute capability 9.0, {device!r} has none")


class ClusterSchedulingPolicy(LaunchAttribute):
    """How blocks of a cluster are placed: ``"default"``, ``"spread"`` or ``"load_balancing"``."""

    __slots__ = ("policy",)

    id = 5
    policies: ClassVar = {"default": 0, "spread": 1, "load_balancing": 2}

    def __init__(self, policy: str) -> None:
        if policy not in self.policies:
            raise ValueError(f"policy is {policy!r}, expected one of: {', '.join(self.policies)}")
        self.policy = policy

    def pack(self) -> bytes:
        """A 32-bit number."""
        return struct.pack("i", self.policies[self.policy])


class ProgrammaticStreamSerialization(_Flag):
    """The kernel may begin before the one before it on the stream has ended; it waits by itself."""

    __slots__ = ()

    id = 6


class ProgrammaticEvent(LaunchAttribute):
    """Records an event when all blocks have triggered it.

    Args:
        event: a CUevent made without timing, as a number; borrowed.
        flags: of cuEventRecordWithFlags.
        trigger_at_block_start: each block triggers it when it begins.
    """

    __slots__ = ("event", "flags", "trigger_at_block_start")

    id = 7

    def __init__(self, event: int, flags: int = 0, trigger_at_block_start: bool = False) -> None:
        self.event = _within("event", event, 1, 2**64 - 1)
        self.flags = flags
        self.trigger_at_block_start = trigger_at_block_start

    def pack(self) -> bytes:
        """Handle, flags, and when it is triggered."""
        return struct.pack("Qii", self.event, self.flags, self.trigger_at_block_start)


class Priority(LaunchAttribute):
    """The launch's priority; lower numbers go first, as with streams."""

    __slots__ = ("priority",)

    id = 8

    def __init__(self, priority: int) -> None:
        self.priority = _within("priority", priority, -(2**31), 2**31 - 1)

    def pack(self) -> bytes:
        """A 32-bit number."""
        return struct.pack("i", self.priority)


class MemorySyncDomainMap(LaunchAttribute):
    """Which of the device's memory domains stand behind ``"default"`` and ``"remote"``."""

    __slots__ = ("default", "remote")

    id = 9

    def __init__(self, default: int = 0, remote: int = 1) -> None:
        self.default = _within("default", default, 0, 255)
        self.remote = _within("remote", remote, 0, 255)

    def pack(self) -> bytes:
        """Two bytes."""
        return struct.pack("BB", self.default, self.remote)

    def check(self, shape: LaunchShape, device: DeviceProperties | None) -> None:
        """The device must have these domains."""
        largest = max(self.default, self.remote)
        if device is not None and largest >= device.memory_sync_domains:
            raise ValueError(
                f"memory domain {largest}, {device.name} has {device.memory_sync_domains}, from 0"
            )


class MemorySyncDomain(LaunchAttribute):
    """The kernel's memory domain: ``"default"`` or ``"remote"``; fences wait for their own domain only."""

    __slots__ = ("domain",)

    id = 10
    domains: ClassVar = {"default": 0, "remote": 1}

    def __init__(self, domain: str) -> None:
        if domain not in self.domains:
            raise ValueError(f"domain is {domain!r}, expected one of: {', '.join(self.domains)}")
        self.domain = domain

    def pack(self) -> bytes:
        """A 32-bit number."""
        return struct.pack("i", self.domains[self.domain])


class PreferredCluster(LaunchAttribute):
    """A larger cluster that the device may use where it fits; a multiple of `Cluster`, which must be given."""

    __slots__ = ("size",)

    id = 11

    def __init__(self, size: int | Sequence[int]) -> None:
        self.size = _sizes("preferred cluster", size)

    def pack(self) -> bytes:
        """Three 32-bit sizes."""
        return struct.pack("3I", *self.size)

    def check(self, shape: LaunchShape, device: DeviceProperties | None) -> None:
        """It must be a multiple of the regular cluster and divide the grid."""
        regular = [item for item in shape.attributes if isinstance(item, Cluster)]
        if not regular:
            raise ValueError("a preferred cluster needs a Cluster attribute beside it")
        for axis, size, least, blocks in zip(
            "xyz", self.size, regular[0].size, shape.grid, strict=True
        ):
            if size % least != 0:
                raise ValueError(
                    f"the preferred cluster's {axis} is {size}, expected a multiple of the cluster's {least}"
                )
            if blocks % size != 0:
                raise ValueError(
                    f"grid.{axis} is {blocks}, expected a multiple of the preferred cluster's {size}"
                )


class LaunchCompletionEvent(LaunchAttribute):
    """Records an event when all blocks have begun.

    Args:
        event: a CUevent made without timing, as a number; borrowed.
        flags: of cuEventRecordWithFlags.
    """

    __slots__ = ("event", "flags")

    id = 12

    def __init__(self, event: int, flags: int = 0) -> None:
        self.event = _within("event", event, 1, 2**64 - 1)
        self.flags = flags

    def pack(self) -> bytes:
        """Handle and flags."""
        return struct.pack("Qi", self.event, self.flags)


class DeviceUpdatableNode(_Flag):
    """Under capture: the graph's kernel node can be updated from the device. The node's handle is not returned."""

    __slots__ = ()

    id = 13

    def pack(self) -> bytes:
        """A 32-bit flag and the place of a handle."""
        return struct.pack("ixxxxQ", self.enabled, 0)


class SharedMemoryCarveout(LaunchAttribute):
    """Which part of a multiprocessor's L1 is preferred as shared memory, in percent."""

    __slots__ = ("percent",)

    id = 14

    def __init__(self, percent: int) -> None:
        self.percent = _within("percent", percent, 0, 100)

    def pack(self) -> bytes:
        """A 32-bit number."""
        return struct.pack("I", self.percent)


class NvlinkCentricScheduling(_Flag):
    """Blocks are spread for an even load of NVLink; a hint."""

    __slots__ = ()

    id = 16


class PortableClusterSize(LaunchAttribute):
    """Which cluster sizes are allowed: ``"default"``, ``"portable"`` (at most 8 blocks) or ``"any"``."""

    __slots__ = ("mode",)

    id = 17
    modes: ClassVar = {"default": 0, "portable": 1, "any": 2}

    def __init__(self, mode: str) -> None:
        if mode not in self.modes:
            raise ValueError(f"mode is {mode!r}, expected one of: {', '.join(self.modes)}")
        self.mode = mode

    def pack(self) -> bytes:
        """A 32-bit number."""
        return struct.pack("i", self.modes[self.mode])


class SharedMemoryMode(LaunchAttribute):
    """How much shared memory a block may ask for.

    Args:
        mode: ``"default"``, ``"portable"`` (48 kB), ``"any"`` (what the device allows), ``"oversized"`` or
            ``"prefer_oversized"`` (more, with little L1 left).
    """

    __slots__ = ("mode",)

    id = 18
    modes: ClassVar = {
        "default": 0,
        "portable": 1,
        "any": 2,
        "oversized": 3,
        "prefer_oversized": 4,
    }

    def __init__(self, mode: str) -> None:
        if mode not in self.modes:
            raise ValueError(f"mode is {mode!r}, expected one of: {', '.join(self.modes)}")
        self.mode = mode

    def pack(self) -> bytes:
        """A 32-bit number."""
        return struct.pack("i", self.modes[self.mode])


class Raw(LaunchAttribute):
    """Any attribute by number, for those that a newer driver has.

    Args:
        id: the driver's CUlaunchAttributeID.
        value: at most 64 bytes; the rest is zero.
    """

    __slots__ = ("id", "value")

    def __init__(self, id: int, value: bytes) -> None:
        if not isinstance(value, (bytes, bytearray, memoryview)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"value is {value!r}, expected bytes")
        if len(value) > 64:
            raise ValueError(f"the value has {len(value)} bytes, expected at most 64")
        self.id = _within("id", id, 0, 2**32 - 1)
        self.value = bytes(value)

    def pack(self) -> bytes:
        """The value as given."""
        return self.value


# Every attribute that has a class, in the order of the driver's numbers. 3 and 15 are not for launches.
LAUNCH_ATTRIBUTES: Final[tuple[type[LaunchAttribute], ...]] = (
    AccessPolicyWindow,
    Cooperative,
    Cluster,
    ClusterSchedulingPolicy,
    ProgrammaticStreamSerialization,
    ProgrammaticEvent,
    Priority,
    MemorySyncDomainMap,
    MemorySyncDomain,
    PreferredCluster,
    LaunchCompletionEvent,
    DeviceUpdatableNode,
    SharedMemoryCarveout,
    NvlinkCentricScheduling,
    PortableClusterSize,
    SharedMemoryMode,
)
