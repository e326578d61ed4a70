# SPDX-License-Identifier: Apache-2.0
"""The floors of the run-time dependencies are stated once, and CI runs the tests on those."""

from __future__ import annotations

import os
import re
import tomllib
from importlib.metadata import version

import pytest

from tests.architecture.source_tree import ROOT
from tools.requirements import requirements

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
RUN_TIME = {"xdsl", "llvmlite", "apache-tvm-ffi"}
AT_FLOORS = os.environ.get("WEFT_TEST_FLOORS", "") not in ("", "0")


def numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text.partition("post")[0]))


def floors() -> dict[str, tuple[int, ...]]:
    parts = (
        re.fullmatch(r"([\w-]+)>=([\d.]+)(?:,<[\d.]+)?", line) for line in requirements(["run"])
    )
    return {part[1]: numbers(part[2]) for part in parts if part}


def test_weft_runs_on_three_packages_and_each_has_a_floor():
    assert set(floors()) == RUN_TIME
    assert len(PROJECT["project"]["dependencies"]) == len(RUN_TIME)


@pytest.mark.parametrize("package", sorted(RUN_TIME))
def test_the_installed_version_is_not_below_the_floor(package: str):
    assert numbers(version(package)) >= floors()[package]


@pytest.mark.parametrize("package", sorted(RUN_TIME))
def test_ci_tests_the_floor_itself(package: str):
    floor = floors()[package]
    installed = numbers(version(package))[: len(floor)]
    assert installed == floor if AT_FLOORS else installed >= floor


def test_torch_is_the_version_of_the_shim_reader():
    assert requirements(["torch"]) == ["torch==2.13.0"]


def test_the_version_is_written_the_same_in_both_places():
    import weft

    assert weft.__version__ == PROJECT["project"]["version"]
