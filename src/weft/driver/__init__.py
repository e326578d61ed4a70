# SPDX-License-Identifier: Apache-2.0
"""The bridge to the CUDA driver: binaries, launches, devices, memory, streams.

In: cubins, arguments, sizes. Out: loaded kernels and launches; `weft.CudaError` where the driver refuses.
Importing it opens nothing; a module is imported when one of its names is first used.
"""

from __future__ import annotations

import sys as _sys

TYPE_CHECKING = False  # as typing.TYPE_CHECKING, without importing typing
if TYPE_CHECKING:
    from weft.driver.binary import drain_unloads as drain_unloads
    from weft.driver.binary import largest_cluster as largest_cluster
    from weft.driver.binary import load_binary as load_binary
    from weft.driver.binary import occupancy_blocks as occupancy_blocks
    from weft.driver.binary import occupancy_clusters as occupancy_clusters
    from weft.driver.binary import parameter_sizes as parameter_sizes
    from weft.driver.binary import static_shared_memory as static_shared_memory
    from weft.driver.binary import unload as unload
    from weft.driver.device import DeviceProperties as DeviceProperties
    from weft.driver.device import current_device as current_device
    from weft.driver.device import device_count as device_count
    from weft.driver.device import device_properties as device_properties
    from weft.driver.device import is_capturing as is_capturing
    from weft.driver.device import memory_info as memory_info
    from weft.driver.device import set_current_device as set_current_device
    from weft.driver.device import set_printf_buffer as set_printf_buffer
    from weft.driver.device import stream_device as stream_device
    from weft.driver.device import stream_handle as stream_handle
    from weft.driver.device import synchronize as synchronize
    from weft.driver.kernel_launch import KernelMetadata as KernelMetadata
    from weft.driver.kernel_launch import Launcher as Launcher
    from weft.driver.kernel_launch import LaunchMetadata as LaunchMetadata
    from weft.driver.kernel_launch import LazyMetadata as LazyMetadata
    from weft.driver.kernel_launch import ParsedSignature as ParsedSignature
    from weft.driver.kernel_launch import annotate_arguments as annotate_arguments
    from weft.driver.kernel_launch import build_signature_metadata as build_signature_metadata
    from weft.driver.kernel_launch import launch as launch
    from weft.driver.kernel_launch import launch_ex as launch_ex
    from weft.driver.kernel_launch import make_kernel_signature as make_kernel_signature
    from weft.driver.kernel_launch import parse_signature as parse_signature
    from weft.driver.kernel_launch import set_launch_hooks as set_launch_hooks
    from weft.driver.library import driver_is_open as driver_is_open
    from weft.driver.library import driver_version as driver_version
    from weft.driver.library import open_driver as open_driver
    from weft.driver.memory import copy as copy
    from weft.driver.memory import empty as empty
    from weft.driver.memory import full as full
    from weft.driver.memory import set_allocator as set_allocator
    from weft.driver.memory import set_profile_allocator as set_profile_allocator
    from weft.driver.memory import zeros as zeros
    from weft.driver.tensor_map import TensorMap as TensorMap
    from weft.driver.tensor_map import fill_tma_descriptor_im2col as fill_tma_descriptor_im2col
    from weft.driver.tensor_map import fill_tma_descriptor_tiled as fill_tma_descriptor_tiled

# Module of this package → the public names that it defines.
_PUBLIC = {
    "binary": (
        "drain_unloads",
        "largest_cluster",
        "load_binary",
        "occupancy_blocks",
        "occupancy_clusters",
        "parameter_sizes",
        "static_shared_memory",
        "unload",
    ),
    "device": (
        "DeviceProperties",
        "current_device",
        "device_count",
        "device_properties",
        "is_capturing",
        "memory_info",
        "set_current_device",
        "set_printf_buffer",
        "stream_device",
        "stream_handle",
        "synchronize",
    ),
    "kernel_launch": (
        "KernelMetadata",
        "LaunchMetadata",
        "Launcher",
        "LazyMetadata",
        "ParsedSignature",
        "annotate_arguments",
        "build_signature_metadata",
        "launch",
        "launch_ex",
        "make_kernel_signature",
        "parse_signature",
        "set_launch_hooks",
    ),
    "library": ("driver_is_open", "driver_version", "open_driver"),
    "memory": ("copy", "empty", "full", "set_allocator", "set_profile_allocator", "zeros"),
    "tensor_map": ("TensorMap", "fill_tma_descriptor_im2col", "fill_tma_descriptor_tiled"),
}
_MODULE_OF = {name: module for module, names in _PUBLIC.items() for name in names}


def __getattr__(name: str) -> object:
    """Imports what `name` needs, once; then it is an ordinary attribute of this package."""
    if name == "__all__":
        return sorted(_MODULE_OF)
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'weft.driver' has no attribute {name!r}")
    module = _MODULE_OF[name]
    try:
        from weft.imports import imported

        found = imported(f"weft.driver.{module}")
    except ImportError as error:
        if not _sys.is_finalizing():
            raise
        raise ImportError(
            f"weft.driver.{name} is first used while the interpreter shuts down; "
            f"write `from weft.driver import {name}` at the top of the module"
        ) from error
    # The whole module: a finalizer at shutdown needs `unload` where the program used `load`.
    globals().update((each, getattr(found, each)) for each in _PUBLIC[module])
    return globals()[name]


def __dir__() -> list[str]:
    return sorted([*globals(), *_MODULE_OF])
