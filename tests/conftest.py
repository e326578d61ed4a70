# SPDX-License-Identifier: Apache-2.0
"""Shared by every test: requirements of tests, and which may be skipped where.

`torch`, `jax` and `gpu` marks say what a test needs. In CI a test may be skipped only for what cannot be
installed: a GPU, or a debugger; any other skip is a failure there.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import importlib.util
import inspect
import itertools
import os
import sys
from typing import Any

import pytest

# Tests compile; those of the cache have folders of their own.
os.environ.setdefault("WEFT_NO_CACHE", "1")
# Read when JAX opens a GPU, which several workers share: what a test needs, not three quarters of the card in each.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
os.environ.setdefault("XLA_PYTHON_CLIENT_MEM_FRACTION", "0.15")

CI = os.environ.get("CI", "") not in ("", "0", "false")
WITH_TORCH = os.environ.get("WEFT_TEST_TORCH", "") not in ("", "0")
WITH_JAX = os.environ.get("WEFT_TEST_JAX", "") not in ("", "0")
SEPARATE = os.environ.get("SEPARATE", "") not in ("", "0")
# A skip whose reason begins with one of these is allowed in CI.
ALLOWED_IN_CI = ("needs a GPU", "needs gdb", "needs another")


@functools.cache
def gpu_missing() -> str:
    """Why there is no GPU to test on, or an empty string."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return "libcuda.so.1 is not installed"
    if (code := driver.cuInit(0)) != 0:
        return f"cuInit answered {code}"
    count = ctypes.c_int(0)
    driver.cuDeviceGetCount(ctypes.byref(count))
    return "" if count.value else "the driver sees no device"


def pytest_report_header() -> list[str]:
    """What this machine lets the tests see."""
    torch = "with torch" if WITH_TORCH else "without torch (TORCH=1 adds it)"
    jax = "with jax" if WITH_JAX else "without jax (JAX=1 adds it)"
    return [f"weft: {torch}; {jax}; GPU: {gpu_missing() or 'yes'}"]


def order(item: pytest.Item) -> tuple[bool, bool]:
    """Slow tests come first, so that all workers end together; then those of files that fork.

    A fork copies the tables of all memory that the worker has: 65 ms where it has the gigabyte of a run's end, 25 ms
    before the first test.
    """
    forks = not {"in_child", "on_fake"}.isdisjoint(vars(getattr(item, "module", None) or item))
    return item.get_closest_marker("slow") is None, not forks


def cases_of(test: Any) -> list[dict[str, object]] | None:
    """The arguments of each case of a test; None without any, or where cases have marks."""
    marks = [m for m in getattr(test, "pytestmark", ()) if m.name == "parametrize"]
    if not marks or any(set(m.kwargs) - {"ids"} for m in marks):
        return None
    columns: list[list[dict[str, object]]] = []
    for mark in marks:
        given, rows = mark.args
        names = [n.strip() for n in given.split(",")] if isinstance(given, str) else list(given)
        # As in pytest, a row is a tuple where there are several names or they are given as a tuple.
        single = isinstance(given, str) and len(names) == 1
        column: list[dict[str, object]] = []
        for row in rows:
            parameters = isinstance(row, type(pytest.param()))
            if parameters and row.marks:
                return None
            values = row.values if parameters else (row,) if single else row
            column.append(dict(zip(names, values, strict=True)))
        columns.append(column)
    cases = [
        {k: v for part in parts for k, v in part.items()} for parts in itertools.product(*columns)
    ]
    return cases


def joined(test: Any, cases: list[dict[str, object]], fixtures: list[str]) -> Any:
    """A test that runs all cases and reports all that fail: a test of its own costs pytest and xdist 2.5 ms.

    Where none fails but one is skipped, the test is skipped, after all others have run.
    """

    def run(**given: object) -> None:
        failures: list[tuple[str, BaseException]] = []
        skipped: list[BaseException] = []
        for case in cases:
            try:
                test(**case, **given)
            except pytest.skip.Exception as skip:
                skipped.append(skip)
            except (Exception, pytest.fail.Exception) as failure:
                name = ", ".join(f"{name}={value!r:.60}" for name, value in case.items())
                failures.append((name, failure))
        if failures:
            lines = [
                f"{case}: {type(failure).__name__}: {failure}".partition("\n")[0]
                for case, failure in failures
            ]
            raise AssertionError(
                f"{len(failures)} of {len(cases)} cases:\n" + "\n".join(lines)
            ) from failures[0][1]
        if skipped:
            raise skipped[0]

    run.__name__ = test.__name__
    run.__doc__ = test.__doc__
    run.__module__ = test.__module__
    vars(run)["__wrapped__"] = test
    vars(run)["__signature__"] = inspect.Signature(
        [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in fixtures]
    )
    vars(run)["pytestmark"] = [m for m in test.pytestmark if m.name != "parametrize"]
    return run


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(
    collector: pytest.Collector, name: str, obj: Any
) -> list[pytest.Item] | None:
    """Join the cases of tests marked so; `SEPARATE=1` leaves each a test.

    A mark of a module is for those that use no fixtures; with one of its own, a test's cases share them.
    """
    if not name.startswith("test_") or not isinstance(collector, pytest.Module) or SEPARATE:
        return None
    is_own = any(mark.name == "joined" for mark in getattr(obj, "pytestmark", ()))
    if not is_own and not collector.get_closest_marker("joined"):
        return None
    cases = cases_of(obj)
    if not cases:
        return None
    fixtures = [one for one in inspect.signature(obj).parameters if one not in cases[0]]
    if fixtures and not is_own:
        return None
    test = joined(obj, cases, fixtures)
    setattr(collector.obj, name, test)  # where pytest looks for a test's function
    return list(collector._genfunctions(name, test))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order the tests, and skip what the machine cannot run, with the reason."""
    items.sort(key=order)
    has_torch = importlib.util.find_spec("torch") is not None
    has_jax = importlib.util.find_spec("jax") is not None
    for item in items:
        if item.get_closest_marker("torch") and not has_torch and not WITH_TORCH:
            item.add_marker(pytest.mark.skip(reason="needs torch: make test TORCH=1"))
        if item.get_closest_marker("jax") and not has_jax and not WITH_JAX:
            item.add_marker(pytest.mark.skip(reason="needs jax: make test JAX=1"))
        if item.get_closest_marker("gpu") and gpu_missing():
            item.add_marker(pytest.mark.skip(reason=f"needs a GPU: {gpu_missing()}"))


def pytest_collection_finish() -> None:
    """Spares every later collection the modules and tests that live to the end: a tenth of a second each.

    The IR of a compilation is more than Python's 700 objects, and dies at once: collecting that often takes a
    twentieth of the time of all tests.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, *gc.get_threshold()[1:])
    # Tests write programs anew within a second, which bytecode does not tell apart. Processes that they start keep it.
    sys.dont_write_bytecode = True


@pytest.fixture(autouse=True, scope="module")
def _collections_are_short() -> None:
    """Spares the collections of a file's tests what the files before have imported and keep."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]):
    """In CI, a skip for something that could have been installed is a failure."""
    report = yield
    if CI and report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        reason = reason.removeprefix("Skipped: ")
        if not reason.startswith(ALLOWED_IN_CI):
            report.outcome = "failed"
            report.longrepr = f"skipped in CI, where everything is installed: {reason}"
    return report
