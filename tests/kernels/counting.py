# SPDX-License-Identifier: Apache-2.0
"""Counts the programs that calls of `weft.kernels` would compile, by the keys of direct calls, without compiling."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft import _native
from weft.api import JitFunction
from weft.kernels.host import devices, dispatch_cache

if TYPE_CHECKING:
    import pytest

CONSTANTS = "Constant", "weft.Constexpr"
KEYS: set[tuple[Any, ...]] = set()


def _noted(function: JitFunction, *arguments: Any) -> None:
    code = function.function.__code__
    kinds = [function.function.__annotations__[name] for name in code.co_varnames[: len(arguments)]]
    pairs = list(zip(kinds, arguments, strict=True))
    constants = tuple(_native.constant_key(one) for kind, one in pairs if _is_constant(kind))
    runtime = tuple(one for kind, one in pairs if not _is_constant(kind))
    KEYS.add((function, _native.argument_key(runtime), constants))


def _is_constant(kind: str) -> bool:
    return kind.startswith(CONSTANTS)


def count_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls note their keys, and neither compile nor run."""
    monkeypatch.setattr(JitFunction, "__call__", _noted)
    monkeypatch.setattr(dispatch_cache, "known_call", lambda *_: None)


def like_device(
    monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int], multiprocessors: int
) -> None:
    """Kernels are chosen as on that GPU, while arrays are on the CPU; choices made for another device stay unused."""
    monkeypatch.setattr(dispatch_cache, "overrides", lambda: True)
    info = devices.DeviceInfo(capability, multiprocessors, 227 << 10)
    monkeypatch.setattr(devices, "device_info", lambda _: info)


def like_hopper(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on an H200."""
    like_device(monkeypatch, (9, 0), 132)


def like_ampere(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on an A100."""
    like_device(monkeypatch, (8, 0), 108)


def compilations(calls: Any) -> int:
    """How many programs these calls, functions of nothing, need; those of internal calls too."""
    KEYS.clear()
    for call in calls:
        call()
    return len(KEYS)
