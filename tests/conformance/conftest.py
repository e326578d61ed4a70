# SPDX-License-Identifier: Apache-2.0
"""Which target the conformance tests run on: the CPU's own, or what WEFT_TEST_TARGET names.

In: the variable. Out: host functions that compile for that target wherever a test does not name one itself; for
`cuda`, direct calls copy their arrays to the GPU and back. And what `test_architectures` assembles.
docs/recipes/add-a-backend.md has the command.
"""

from __future__ import annotations

import os
from typing import Any

import pytest

import weft
from tests.conformance.assembling import Assembling
from weft import api

TARGET = os.environ.get("WEFT_TEST_TARGET", "")
NAMES_A_TARGET = ("--target", "--gpu-arch")


def names_a_target(options: Any) -> bool:
    """Whether options, in any form, say what to compile for."""
    if isinstance(options, str):
        return any(flag in options for flag in NAMES_A_TARGET)
    given = options if isinstance(options, tuple) else (options,)
    return any(getattr(option, "flag", "") in NAMES_A_TARGET for option in given)


def jit_for(target: str) -> Any:
    """``weft.jit`` whose functions compile for a target unless their options name one."""
    plain = weft.jit

    def targeted(function: Any = None, /, *, options: Any = "") -> Any:
        named = names_a_target(options)
        if not named:
            if isinstance(options, str):
                options = f"--target {target} {options}"
            else:
                given = options if isinstance(options, tuple) else (options,)
                options = (weft.CompileTarget(target), *given)
        decorate = plain(options=options)
        if target == "cuda" and not named:
            from tests.conformance.on_cuda import on_cuda

            on_cpu = decorate
            decorate = lambda it: on_cuda(on_cpu(it))
        return decorate if function is None else decorate(function)

    return targeted


if TARGET:
    # Before the test modules are imported, which is when they decorate their functions.
    weft.jit = api.jit = jit_for(TARGET)
if TARGET == "cuda":
    from tests.conformance.on_cuda import direct_launches_on_cuda

    direct_launches_on_cuda()


# Kernels of more parameters than an older GPU takes, and of instructions that sm_90 has not.
NOT_ASSEMBLED = "test_many_parameters", "test_tma_gather"
EVERYTHING = "test_every_kernel_of_these_tests_assembles"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The test that assembles what the others compiled comes last."""
    items.sort(key=lambda item: item.name == EVERYTHING)


@pytest.fixture(scope="session")
def assembling(request: pytest.FixtureRequest) -> Assembling | None:
    """Collects what the tests compile, if a test of this run asks for it."""
    wanted = any(item.name == EVERYTHING for item in request.session.items)
    return Assembling() if wanted else None


@pytest.fixture(autouse=True)
def collect_kernels(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, assembling: Assembling | None
) -> None:
    """Gives what a test compiles to `assembling`."""
    nodeid = request.node.nodeid
    if assembling is not None and not any(name in nodeid for name in NOT_ASSEMBLED):
        assembling.watch(monkeypatch, nodeid)
