# SPDX-License-Identifier: Apache-2.0
"""Calls of the conformance tests on a GPU: arrays of NumPy and torch are copied there and back.

In: a host function, a kernel or a compiled function, and a test's arguments. Out: the arrays, filled by the GPU, and
the result on the host. Two arguments that are one array are one copy; other overlaps are not kept, so tests of aliasing
stay on the CPU.
"""

from __future__ import annotations

import copy
import dataclasses
import sys
from contextlib import nullcontext
from functools import update_wrapper
from typing import TYPE_CHECKING, Any

import numpy as np

import weft
from tests.conformance.harness import EXPORTED_TYPES, Exported
from tests.gpu.device_memory import DeviceArray
from weft import api

if TYPE_CHECKING:
    from collections.abc import Callable

CUDA_DEVICE = 2  # kDLCUDA
DEVICE = 0


class DeviceExport(DeviceArray):
    """An array on the device that is given by `__dlpack__`, for the types that NumPy has no text for."""

    def __init__(self, exported: Exported, host: Any = None) -> None:
        super().__init__(exported.array)
        self.host = exported if host is None else host
        self.export = copy.copy(exported)
        self.export.data = self.interface["data"][0] - exported.byte_offset  # type: ignore[index]
        self.export.device = CUDA_DEVICE, 0

    @property
    def __cuda_array_interface__(self) -> dict[str, object]:
        raise AttributeError("this array is given by __dlpack__ alone")

    def __dlpack__(self, **_: object) -> object:
        return self.export.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.export.device


class HostsArray(DeviceArray):
    """An array of NumPy on the device."""

    def __init__(self, array: np.ndarray) -> None:
        super().__init__(array)
        self.host = array


class TorchCopy:
    """A tensor's copy on the device, with its strides."""

    def __init__(self, tensor: Any) -> None:
        torch = sys.modules["torch"]
        self.host, own = tensor, tensor.detach()
        options = {"dtype": own.dtype, "device": f"cuda:{DEVICE}"}
        self.device = torch.empty_strided(own.shape, own.stride(), **options).copy_(own)

    def fetch(self) -> None:
        self.host.detach().copy_(self.device)


class Copies:
    """The arguments of one call on the device, and its result back."""

    def __init__(self) -> None:
        self.made: dict[
            int, tuple[Any, Any]
        ] = {}  # of a host's array: its copy, and what is passed

    def of(self, value: Any) -> Any:
        """An array on the device, once for each object; containers item by item."""
        return mapped(value, self._copied)

    def _copied(self, value: Any) -> Any:
        if not is_on_host(value):
            return value
        if id(value) not in self.made:
            self.made[id(value)] = copied(value)
        return self.made[id(value)][1]

    def fetch(self) -> None:
        """Everything back into the host's arrays."""
        for array, _ in self.made.values():
            array.fetch()

    def back(self, result: Any) -> Any:
        """A result with the caller's own arrays, and new ones of the caller's library."""
        if not isinstance(result, (*CONTAINERS, weft.ffi.Tensor)) and not is_torch(result):
            return result
        hosts = {id(given): array.host for array, given in self.made.values()}
        has_numpy = any(isinstance(host, np.ndarray) for host in hosts.values())

        def fetched(value: Any) -> Any:
            if id(value) in hosts:
                return hosts[id(value)]
            if is_torch(value):
                return value.cpu()
            if not isinstance(value, weft.ffi.Tensor):
                return value
            host = weft.copy(weft.empty(value.shape, value.dtype.weft), value)
            return np.asarray(host) if has_numpy else host

        return mapped(result, fetched)


CONTAINERS = (tuple, list, dict)


def mapped(value: Any, leaf: Callable[[Any], Any]) -> Any:
    """A value with each leaf of its tuples, lists, dictionaries and dataclasses replaced; itself where none is."""
    if isinstance(value, tuple | list):
        items = [mapped(item, leaf) for item in value]
        if all(new is old for new, old in zip(items, value, strict=True)):
            return value
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if isinstance(value, dict):
        return {name: mapped(item, leaf) for name, item in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return mapped_fields(value, leaf)
    return leaf(value)


def mapped_fields(value: Any, leaf: Callable[[Any], Any]) -> Any:
    """The same for a dataclass."""
    names = [field.name for field in dataclasses.fields(value) if hasattr(value, field.name)]
    items = {name: mapped(getattr(value, name), leaf) for name in names}
    if all(item is getattr(value, name) for name, item in items.items()):
        return value
    changed = copy.copy(value)
    for name, item in items.items():
        object.__setattr__(changed, name, item)
    return changed


def is_torch(value: Any) -> bool:
    """Whether it is a tensor of torch, which need not be installed."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def is_on_host(value: Any) -> bool:
    """Whether it is an array that a call on the GPU needs a copy of."""
    if is_torch(value):
        return value.device.type == "cpu"
    return isinstance(value, np.ndarray | Exported)


def copied(value: Any) -> tuple[Any, Any]:
    """The copy of an array, and what a call receives for it."""
    if is_torch(value):
        made = TorchCopy(value)
        return made, made.device
    if isinstance(value, np.ndarray) and value.dtype in EXPORTED_TYPES:
        array = DeviceExport(Exported(value), host=value)
    else:
        array = DeviceExport(value) if isinstance(value, Exported) else HostsArray(value)
    return array, array


def call_on_cuda(function: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """Calls with copies of the arrays, which come back also where the call fails."""
    copies = Copies()
    given = [copies.of(value) for value in arguments]
    named = {name: copies.of(value) for name, value in keywords.items()}
    try:
        return copies.back(function(*given, **named))
    finally:
        copies.fetch()


class OnCuda(api.JitFunction):
    """A host function whose direct calls run on the GPU."""

    __slots__ = ()

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        return call_on_cuda(super().__call__, arguments, keywords)


class Prepared:
    """A call on the GPU that is made again and again, with copies of the first time's arrays."""

    def __init__(self, compiled: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        self._copies = Copies()
        given = [self._copies.of(value) for value in arguments]
        named = {name: self._copies.of(value) for name, value in keywords.items()}
        self._prepared = compiled.prepare(*given, **named)

    def __setitem__(self, key: Any, value: Any) -> None:
        self._prepared[key] = self._copies.of(value)

    def __call__(self) -> Any:
        try:
            return self._copies.back(self._prepared())
        finally:
            self._copies.fetch()


class CompiledOnCuda:
    """A compiled function that is called with arrays of the host."""

    def __init__(self, compiled: Any) -> None:
        self._compiled = compiled

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        return call_on_cuda(self._compiled, arguments, keywords)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._compiled, name)

    def prepare(self, *arguments: Any, **keywords: Any) -> Prepared:
        """As the compiled function's own."""
        return Prepared(self._compiled, arguments, keywords)

    def to(self, device: Any) -> CompiledOnCuda:
        """As the compiled function's own."""
        return CompiledOnCuda(self._compiled.to(device))

    def __reduce__(self) -> tuple[Any, ...]:
        return CompiledOnCuda, (self._compiled,)


class CompileOnCuda(api.Compile):
    """`weft.compile`, whose functions for the GPU are called with arrays of the host."""

    __slots__ = ()

    def __getitem__(self, options: Any) -> CompileOnCuda:
        return CompileOnCuda(super().__getitem__(options)._typed)

    def __call__(self, function: Any, /, *arguments: Any, **keywords: Any) -> Any:
        compiled = super().__call__(function, *arguments, **keywords)
        return CompiledOnCuda(compiled) if compiled.target == "cuda" else compiled


def on_cuda(function: api.JitFunction) -> OnCuda:
    """The same function, called on the GPU."""
    made = OnCuda(function.function, function.default_options)
    update_wrapper(made, function.function)
    return made


def direct_launches_on_cuda() -> None:
    """Makes launches without a host function, `weft.compile` and `weft.sanitize` those of this file."""
    api.launch_on = lambda kernel, configuration: kernel._launch_in_python(configuration)
    api.launch_over = lambda kernel, iterations: kernel._over_in_python(iterations)
    weft.compile = api.compile = CompileOnCuda()
    weft.sanitize = lambda *_: nullcontext()  # a GPU has no interpreter: the results count
