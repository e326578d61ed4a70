# SPDX-License-Identifier: Apache-2.0
"""What calls of `weft.kernels` would compile, without compiling it: the keys by which direct calls find their code."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from weft import _native, kernels
from weft.api import JitFunction
from weft.kernels.host import calls

if TYPE_CHECKING:
    import pytest

KEYS: set[tuple[Any, ...]] = set()


def _noted(function: JitFunction, *arguments: Any) -> None:
    code = function.function.__code__
    kinds = [function.function.__annotations__[name] for name in code.co_varnames[: len(arguments)]]
    pairs = list(zip(kinds, arguments, strict=True))
    constants = tuple(_native.constant_key(one) for kind, one in pairs if kind == "Constant")
    runtime = tuple(one for kind, one in pairs if kind != "Constant")
    KEYS.add((function, _native.argument_key(runtime), constants))


def count_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls note their keys, and neither compile nor run."""
    monkeypatch.setattr(JitFunction, "__call__", _noted)
    monkeypatch.setattr(calls, "known_call", lambda *_: None)


def like_hopper(monkeypatch: pytest.MonkeyPatch) -> None:
    """Functions decide as on a GPU of sm_90, while arrays are on the CPU."""
    for module in set(kernels._MODULES.values()):  # pyright: ignore[reportPrivateUsage]
        import_module(f"weft.kernels.{module}")
    for name, module in list(sys.modules.items()):
        if name.startswith("weft.kernels."):
            if hasattr(module, "capability"):
                monkeypatch.setattr(module, "capability", lambda _: (9, 0))
            if hasattr(module, "multiprocessors_of"):
                monkeypatch.setattr(module, "multiprocessors_of", lambda _: 132)


def compilations(calls: Any) -> int:
    """How many programs these calls, functions of nothing, need; those of internal calls too."""
    KEYS.clear()
    for call in calls:
        call()
    return len(KEYS)
