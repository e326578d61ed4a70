# SPDX-License-Identifier: Apache-2.0
"""The device that a measurement belongs to, and its lock.

In: a backend and an ordinal. Out: a text by which another process knows the device; a lock, so that one measurement
runs on it at a time.
"""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft import _native
from weft.cache import store
from weft.cache.entry import blake2b
from weft.config import config
from weft.driver.device import device_properties
from weft.memo import kept
from weft.types.device import CPU, CUDA

if TYPE_CHECKING:
    from collections.abc import Generator


def describe_device(device_type: int, ordinal: int, architecture: str) -> str:
    """A device in words that hold for every one of its kind: ``"NVIDIA H200, sm_90a, 132 multiprocessors"``.

    Example:
        >>> describe_device(1, 0, "").startswith("CPU ")
        True
    """
    if device_type == CPU:
        count = config.num_threads or len(os.sched_getaffinity(0))
        return f"CPU {_cpu_name()}, {count} thread{'s' * (count != 1)}"
    if device_type == CUDA:
        found = device_properties(ordinal)
        return f"{found.name}, {architecture}, {found.multiprocessor_count} multiprocessors"
    return f"device type {device_type}, {architecture}"


@kept
def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    for line in lines:
        name, _, value = line.partition(":")
        if name.strip() in ("model name", "CPU part"):
            return value.strip()
    return os.uname().machine


@kept
def _lock_of(process: int) -> threading.Lock:
    """Lock of this process; a forked child has its own, whatever the parent's threads hold."""
    return threading.Lock()


@contextlib.contextmanager
def alone_on(device_type: int, ordinal: int) -> Generator[None]:
    """Waits until no other thread measures, and no other process of this user on this device."""
    with _lock_of(os.getpid()), contextlib.ExitStack() as held:
        folder = store.user_folder()
        if folder is not None and not config.no_cache:
            name = f"{device_type}-{ordinal}"
            if device_type == CUDA:  # ordinals are each process's own
                bus = [_native.device_attribute(ordinal, number) for number in _PCI]
                name = blake2b(repr(bus).encode(), digest_size=6).hexdigest()
            with contextlib.suppress(OSError):
                held.enter_context(_locked(Path(folder) / "autotune", f"{name}.lock"))
        yield


# CUdevice_attribute: PCI_BUS_ID, PCI_DEVICE_ID, PCI_DOMAIN_ID.
_PCI = (33, 34, 50)


@contextlib.contextmanager
def _locked(folder: Path, name: str) -> Generator[Any]:
    """A lock that the system takes back from a process that ends."""
    import fcntl

    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (folder / name).open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield file
