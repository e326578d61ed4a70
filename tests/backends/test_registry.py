# SPDX-License-Identifier: Apache-2.0
"""Backends are found by name, in the table or through an entry point."""

from __future__ import annotations

import importlib.metadata

import pytest

from weft.backends import registry
from weft.backends.registry import BACKENDS, find_backend
from weft.errors import OptionError


@pytest.mark.parametrize("name", BACKENDS)
def test_each_backend_of_the_table_has_its_name_and_is_made_once(name: str):
    assert find_backend(name).name == name
    assert find_backend(name) is find_backend(name)


def test_an_unknown_target_is_an_error_that_lists_all():
    with pytest.raises(OptionError, match=r"there is no target 'tpu'; there are: cpu, cuda"):
        find_backend("tpu")


def test_another_package_adds_a_backend_through_an_entry_point(monkeypatch: pytest.MonkeyPatch):
    class Elsewhere:
        name = "elsewhere"

    class Point:
        name = "elsewhere"

        @staticmethod
        def load() -> type[Elsewhere]:
            return Elsewhere

    def entry_points(group: str) -> list[type[Point]]:
        assert group == registry.ENTRY_POINT == "weft.backends"
        return [Point]

    monkeypatch.setattr(importlib.metadata, "entry_points", entry_points)
    assert isinstance(find_backend("elsewhere"), Elsewhere)
    find_backend.cache_clear()
