# SPDX-License-Identifier: Apache-2.0
"""Launch attributes: one class each, with the driver's number, its value as bytes and its limits.

In: numbers and words from users. Out: (id, at most 64 bytes), which the launch passes on.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

from weft.driver.library import as_int
from weft.errors import brief
from weft.types.capabilities import FEATURES, capabilities_of
from weft.types.launch_limits import CLUSTER, as_sizes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from weft.driver.device import DeviceProperties


class LaunchShape(NamedTuple):
    """The launch that an attribute is checked against: grid in blocks, block in threads, the other attributes."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    attributes: tuple[LaunchAttribute, ...] = ()


class LaunchAttribute(ABC):
    """One launch attribute.

    Attributes:
        id: the driver's CUlaunchAttributeID.
    """

    id: int

    @abstractmethod
    def pack(self) -> bytes:
        """The value in the driver's union, without padding to 64 bytes."""

    def check(self, shape: LaunchShape, device: DeviceProperties | None) -> None:  # noqa: B027
        """Refuse values that cannot work; without a `device`, those that no device supports.

        Raises:
            ValueError: with both numbers.
        """

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({fields})"


class AttributeRow(LaunchAttribute):
    """An attribute of numbers and words, declared in its class statement.

    Args:
        values: one for each of `fields`, in order or by name.

    Attributes:
        layout: their format for `struct`.
        defaults: of the last fields.
        fields: the allowed values of each: a range of ints, the words for 0, 1, 2 and so on, or `float`, from 0 to 1;
            instances have them as attributes.
    """

    layout: ClassVar[str]
    defaults: ClassVar[tuple[Any, ...]]
    fields: ClassVar[Mapping[str, Any]]

    def __init_subclass__(
        cls, *, id: int, layout: str, defaults: tuple[Any, ...] = (), **fields: Any
    ) -> None:
        cls.id, cls.layout, cls.defaults, cls.fields = id, layout, defaults, fields

    def __init__(self, *values: Any, **named: Any) -> None:
        names = tuple(self.fields)
        given = {**dict(zip(names, values, strict=False)), **named}
        known = {**dict(zip(names[::-1], self.defaults[::-1], strict=False)), **given}
        if len(given) < len(values) + len(named) or known.keys() != self.fields.keys():
            raise TypeError(f"{type(self).__name__} takes {', '.join(names)}; received {given}")
        vars(self).update((name, known[name]) for name in names)
        self.pack()

    def pack(self) -> bytes:
        """The values side by side."""
        numbers = [_number(name, value, self.fields[name]) for name, value in vars(self).items()]
        return struct.pack(self.layout, *numbers)


def _number(name: str, value: Any, allowed: Any) -> float:
    """A value's number in the driver's union."""
    if isinstance(allowed, range):
        return as_int(value, name, allowed.start, allowed.stop - 1)
    if allowed is float:
        if not 0.0 <= value <= 1.0:
            raise ValueError(f"{name} is {value}, expected 0 to 1")
        return value
    if value not in allowed:
        words = ", ".join(map(str, allowed))
        raise ValueError(f"{name} is {brief(value)}, expected one of: {words}")
    return allowed.index(value)


_SWITCH: Final = (False, True)
_EVENT: Final = range(1, 1 << 64)
_FLAGS: Final = range(1 << 31)
_BYTE: Final = range(1 << 8)


class AccessPolicyWindow(
    AttributeRow,
    id=1,
    layout="QQfii",
    defaults=(1.0, "persisting", "streaming"),
    address=range(1 << 64),
    size=range(1 << 63),
    hit_ratio=float,
    hit=("normal", "streaming", "persisting"),
    miss=("normal", "streaming"),
):
    """L2 policy of accesses to `size` bytes of memory at `address`.

    A fraction `hit_ratio` of their cache lines gets `hit`, ``"normal"``, ``"streaming"`` or ``"persisting"``; the rest
    gets `miss`, ``"normal"`` or ``"streaming"``.
    """

    def check(self, shape: LaunchShape, device: DeviceProperties | None) -> None:
        """The window must fit the device's limit."""
        size = vars(self)["size"]
        if device is not None and size > device.max_access_policy_window_bytes:
            raise ValueError(
                f"the access policy window has {size} bytes, "
                f"{device.name} allows {device.max_access_policy_window_bytes}"
            )


class Cooperative(AttributeRow, id=2, layout="i", defaults=(True,), enabled=_SWITCH):
    """Makes the whole grid resident at once, so that it can synchronize."""


class _Cluster(LaunchAttribute):
    """Blocks in x, y, z."""

    called: ClassVar[str]

    def __init__(self, size: int | Sequence[int]) -> None:
        self.size = as_sizes(size, self.called, CLUSTER)

    def pack(self) -> bytes:
        """Three 32-bit sizes."""
        return struct.pack("3I", *self.size)


class Cluster(_Cluster):
    """Blocks of a cluster in x, y, z. Needs compute capability 9.0; the launch enables sizes above 8 blocks."""

    id, called = 4, "cluster"

    def check(self, shape: LaunchShape, device: DeviceProperties | None) -> None:
        """The cluster must divide the grid, and exist on the device."""
        for axis, blocks, size in zip("xyz", shape.grid, self.size, strict=True):
            if blocks % size != 0:
                raise ValueError(
                    f"grid.{axis} is {blocks}, expected a multiple of the cluster's {size}"
                )
        if device is None or self.size == (1, 1, 1):
            return
        if not capabilities_of(device.compute_capability).has("clusters"):
            raise ValueError(f"clusters need {FEATURES['clusters'].needed}, {device!r} has none")


class ClusterSchedulingPolicy(
    AttributeRow, id=5, layout="i", policy=("default", "spread", "load_balancing")
):
    """Placement of a cluster's blocks: the `policy` ``"default"``, ``"spread"`` or ``"load_balancing"``."""


class ProgrammaticStreamSerialization(
    AttributeRow, id=6, layout="i", defaults=(True,), enabled=_SWITCH
):
    """The kernel may begin before the stream's preceding kernel has ended, and waits for it itself."""


class ProgrammaticEvent(
    AttributeRow,
    id=7,
    layout="Qii",
    defaults=(0, False),
    event=_EVENT,
    flags=_FLAGS,
    trigger_at_block_start=_SWITCH,
):
    """Records an event when all blocks have triggered it or, with `trigger_at_block_start`, have begun.

    The `event` is a CUevent made without timing, as a number; borrowed. The `flags` are cuEventRecordWithFlags'.
    """


class Priority(AttributeRow, id=8, layout="i", priority=range(-(1 << 31), 1 << 31)):
    """The launch's priority; lower numbers go first, as with streams."""


class MemorySyncDomainMap(
    AttributeRow, id=9, layout="BB", defaults=(0, 1), default=_BYTE, remote=_BYTE
):
    """The device's memory domains for ``"default"`` and ``"remote"``."""

    def check(self, shape: LaunchShape, device: DeviceProperties | None) -> None:
        """The device must have these domains."""
        largest = max(vars(self).values())
        if device is not None and largest >= device.memory_sync_domains:
            raise ValueError(
                f"memory domain {largest}, {device.name} has {device.memory_sync_domains}, from 0"
            )


class MemorySyncDomain(AttributeRow, id=10, layout="i", domain=("default", "remote")):
    """The kernel's memory domain: ``"default"`` or ``"remote"``; fences wait for their own domain only."""


class PreferredCluster(_Cluster):
    """A larger cluster that the device may use if it fits; a multiple of `Cluster`, which is required."""

    id, called = 11, "preferred cluster"

    def check(self, shape: LaunchShape, device: DeviceProperties | None) -> None:
        """It must be a multiple of the regular cluster and divide the grid."""
        regular = [item for item in shape.attributes if isinstance(item, Cluster)]
        if not regular:
            raise ValueError("a preferred cluster also needs a Cluster attribute")
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


class LaunchCompletionEvent(
    AttributeRow, id=12, layout="Qi", defaults=(0,), event=_EVENT, flags=_FLAGS
):
    """Records an event when all blocks have begun; `event` and `flags` as of `ProgrammaticEvent`."""


class DeviceUpdatableNode(AttributeRow, id=13, layout="i12x", defaults=(True,), enabled=_SWITCH):
    """Under capture: the graph's kernel node can be updated from the device. The node's handle is not returned."""


class SharedMemoryCarveout(AttributeRow, id=14, layout="I", percent=range(101)):
    """The preferred share of a multiprocessor's L1 used as shared memory, in percent."""


class NvlinkCentricScheduling(AttributeRow, id=16, layout="i", defaults=(True,), enabled=_SWITCH):
    """A hint to distribute blocks for an even load on NVLink."""


class PortableClusterSize(AttributeRow, id=17, layout="i", mode=("default", "portable", "any")):
    """Allowed cluster sizes, by `mode`: ``"default"``, ``"portable"`` (at most 8 blocks) or ``"any"``."""


class SharedMemoryMode(
    AttributeRow,
    id=18,
    layout="i",
    mode=("default", "portable", "any", "oversized", "prefer_oversized"),
):
    """Most shared memory of a block, by `mode`.

    ``"default"``, ``"portable"`` (48 kB), ``"any"`` (the device's limit), ``"oversized"`` or
    ``"prefer_oversized"`` (more, with little L1 left).
    """


class Raw(LaunchAttribute):
    """Any attribute by number, for attributes of newer drivers.

    Args:
        id: the driver's CUlaunchAttributeID.
        value: at most 64 bytes; the rest is zero.
    """

    def __init__(self, id: int, value: bytes) -> None:
        if not isinstance(value, (bytes, bytearray, memoryview)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"value is {value!r}, expected bytes")
        if len(value) > 64:
            raise ValueError(f"the value has {len(value)} bytes, expected at most 64")
        self.id = as_int(id, "id", 0, 2**32 - 1)
        self.value = bytes(value)

    def pack(self) -> bytes:
        """The value as given."""
        return self.value
