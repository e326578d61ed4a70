# SPDX-License-Identifier: Apache-2.0
"""Kernels loaded by hand: from a cubin, fatbin or PTX to a handle that `launch` takes.

In: bytes, a kernel's name, a device. Out: handles and resources; occupancy.
"""

from __future__ import annotations

from weft import _native
from weft.driver.device import ordinal_of
from weft.driver.library import as_int, driver_is_open, open_driver
from weft.errors import brief
from weft.types.launch_limits import as_sizes

# CUfunction_attribute numbers (cuda.h).
_STATIC_SHARED = 1
_MOST_THREADS = 2**31 - 1  # the driver's int; smaller limits are the driver's to check


def load_binary(
    name: str, data: bytes, shared: int = 0, device: object = 0
) -> tuple[int, int, int, int, int]:
    """Load a kernel on a device.

    The code is loaded into the caller's context if that belongs to the device, else into the device's primary context,
    which stays retained; the caller's context is current again on return. Above 48 kB the kernel may use all of the
    device's shared memory beyond its static part.

    Args:
        name: the kernel's name in the code.
        data: a cubin, fatbin or PTX; refused if truncated, before the driver sees it.
        shared: dynamic shared memory of a block, in bytes.
        device: an ordinal, or anything that `ordinal_of` takes.

    Returns:
        ``(module, function, n_regs, n_spills, n_max_threads)``: two handles, registers per thread, 32-bit words of
        local memory per thread, the kernel's largest block in threads.

    Raises:
        weft.CudaError: there is no usable driver, or it refuses the code.
        ValueError: the code is truncated or not code, `shared` exceeds the device's, or there is no such device.
        TypeError: an argument is of another kind.

    Example:
        >>> module, function, *_ = load_binary("add_one_kernel", cubin)  # doctest: +SKIP
    """
    if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"name is {brief(name)}, expected a kernel's name")
    try:
        memoryview(data)
    except TypeError:
        raise TypeError(
            f"data is {brief(data)}, expected the bytes of a cubin, fatbin or PTX"
        ) from None
    shared_bytes, ordinal = as_int(shared, "shared"), ordinal_of(device)
    open_driver()
    return _native.load_binary(name, data, shared_bytes, ordinal)


def unload(module: int) -> None:
    """Queue a module for unloading; its functions are refused from now on.

    It is unloaded at the next safe point: a load, `weft.synchronize`, or `drain_unloads`. A finalizer may therefore
    call this. In a forked child nothing happens.

    Raises:
        ValueError: no such module is loaded.
    """
    _native.unload_binary(module)


def drain_unloads() -> int:
    """Unload all queued modules and libraries now; return their number.

    Example:
        >>> drain_unloads()
        0
    """
    return _native.drain_unloads() if driver_is_open() else 0


def static_shared_memory(function: int) -> int:
    """Bytes of a kernel's static shared memory.

    Raises:
        weft.CudaError: there is no usable driver.
        ValueError: the handle is stale.
    """
    open_driver()
    return _native.function_attribute(function, _STATIC_SHARED)


def parameter_sizes(function: int) -> tuple[int, ...] | None:
    """Bytes of each parameter of a kernel; None if the driver (older than 12.4) cannot tell.

    Raises:
        weft.CudaError: there is no usable driver.
        ValueError: the handle is stale.
    """
    open_driver()
    return _native.function_parameters(function)


def occupancy_blocks(function: int, threads: int, shared: int = 0) -> int:
    """Number of blocks of a kernel that fit on a multiprocessor at once.

    Args:
        function: a handle of `load_binary`.
        threads: threads per block.
        shared: dynamic shared memory of a block, in bytes.

    Raises:
        weft.CudaError: the driver refuses the numbers.
        ValueError: the handle is stale, or a number is negative.
        TypeError: an argument is not an int.
    """
    sizes = as_int(threads, "threads", 0, _MOST_THREADS), as_int(shared, "shared", 0)
    open_driver()
    return _native.occupancy_blocks(function, *sizes)


def occupancy_clusters(
    function: int,
    block: tuple[int, int, int],
    cluster: tuple[int, int, int],
    shared: int = 0,
) -> int:
    """Number of clusters of a kernel that fit on the device at once.

    Args:
        function: a handle of `load_binary`.
        block: threads per block.
        cluster: blocks per cluster.
        shared: dynamic shared memory of a block, in bytes.

    Raises:
        weft.CudaError: the device has no clusters, or the driver refuses the numbers.
        ValueError: the handle is stale, or a size is not positive.
        TypeError: an argument is not an int, or not one to three ints.
    """
    return _clusters(function, block, cluster, shared, largest=False)


def largest_cluster(function: int, block: tuple[int, int, int], shared: int = 0) -> int:
    """A kernel's largest cluster in blocks, including non-portable sizes above 8.

    Raises:
        weft.CudaError: the device has no clusters, or the driver refuses the numbers.
        ValueError: the handle is stale, or a size is not positive.
        TypeError: an argument is not an int, or not one to three ints.
    """
    return _clusters(function, block, (1, 1, 1), shared, largest=True)


def _clusters(
    function: int,
    block: tuple[int, int, int],
    cluster: tuple[int, int, int],
    shared: int,
    *,
    largest: bool,
) -> int:
    limits = 1, (_MOST_THREADS,) * 3, _MOST_THREADS**3
    sizes = as_sizes(block, "block", limits), as_sizes(cluster, "cluster", limits)
    # A 32-bit field of the driver's configuration.
    shared_bytes = as_int(shared, "shared", 0, 2**31 - 1)
    open_driver()
    return _native.occupancy_clusters(function, *sizes, shared_bytes, largest)
