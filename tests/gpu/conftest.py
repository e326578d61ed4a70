# SPDX-License-Identifier: Apache-2.0
"""Shared by every test on a GPU: how much memory a process may hold, and the quick selection.

Four processes share a card of 80 GB: torch fails a test that takes more than its part, and what a test leaves in a
library's pool is given back.
"""

from __future__ import annotations

import functools
import gc
import sys
from typing import Any, Final

import pytest

MOST_BYTES: Final = 16 << 30  # of a process
_KEPT_BYTES: Final = 1 << 30  # of torch's pool from one test to the next
_QUICK_CASES: Final = 3  # of a parametrized test


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--quick`."""
    parser.addoption("--quick", action="store_true", help="a few cases of every test on a GPU")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves the first, the last and the middle cases of each test, and none that is slow."""
    if not config.getoption("--quick"):
        return
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("slow") is None:
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    kept = {id(item) for of_one in cases.values() for item in few(of_one)}
    left_out = [item for item in items if id(item) not in kept]
    items[:] = [item for item in items if id(item) in kept]
    config.hook.pytest_deselected(items=left_out)


def few(cases: list[Any], most: int = _QUICK_CASES) -> list[Any]:
    """Some of them at equal distances, with the first and the last."""
    if len(cases) <= most:
        return cases
    return [cases[round(place * (len(cases) - 1) / (most - 1))] for place in range(most)]


@functools.cache
def _limit(torch: Any) -> None:
    total = torch.cuda.get_device_properties(0).total_memory
    for device in range(torch.cuda.device_count()):
        torch.cuda.set_per_process_memory_fraction(min(1.0, MOST_BYTES / total), device)


@pytest.fixture(autouse=True)
def _memory_is_bounded() -> Any:
    """Limits torch's pool before a test, and empties the pools after it."""
    torch = sys.modules.get("torch")
    has_torch = torch is not None and torch.cuda.is_available()
    if has_torch:
        _limit(torch)
    yield
    if has_torch and torch is not None and torch.cuda.memory_reserved() > _KEPT_BYTES:
        gc.collect()
        torch.cuda.empty_cache()
    if (cupy := sys.modules.get("cupy")) is not None:
        cupy.get_default_memory_pool().free_all_blocks()
