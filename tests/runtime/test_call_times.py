# SPDX-License-Identifier: Apache-2.0
"""Loads and first launches of functions for CUDA are timed when they happen, on the fake driver."""

from __future__ import annotations

import functools
import re
import threading

import pytest

import weft
from tests.native.fake_cuda.cpu_builds import Compiled
from tests.native.fake_cuda.fake import FakeCuda, build, on_fake
from weft.driver import empty
from weft.runtime.compiled_function import times_table

LOAD_MICROSECONDS = 20_000


@weft.kernel
def fill_kernel(a: weft.Tensor):
    a[weft.thread_idx.x] = 1.0


@weft.jit
def fill(a: weft.Tensor[weft.f32, (32,)]):
    fill_kernel(a).launch(grid=1, block=32)


@functools.cache
def compiled() -> Compiled:
    return Compiled(fill, weft.fake_tensor(weft.f32, (32,)), options="--time")


@pytest.fixture(autouse=True, scope="module")
def compile_before_the_first_fork():
    build()
    compiled()


def rows(text: str) -> dict[str, float]:
    return {
        name: float(ms) for name, ms in re.findall(r"^  (\S.*?) +(\d+\.\d+)$", text, re.MULTILINE)
    }


def test_a_table_lines_up():
    assert times_table("f: stages", [("trace", 1.0), ("a longer one", 100.126)]).splitlines() == [
        "weft: f: stages, in milliseconds",
        "  trace             1.00",
        "  a longer one    100.13",
    ]


@on_fake(devices=2)
def test_the_first_call_tells_load_and_launch_apart(
    fake: FakeCuda, capfd: pytest.CaptureFixture[str]
):
    function = compiled().register(fake)
    fake.delay("cuLibraryLoadData", LOAD_MICROSECONDS)
    tensor = empty(32, weft.f32, 1)
    capfd.readouterr()
    with pytest.raises(TypeError):
        function(3)
    assert capfd.readouterr().err == ""  # a refused call is not a first call
    function(tensor)
    text = capfd.readouterr().err
    assert text.startswith("weft: fill: first call, in milliseconds\n")
    found = rows(text)
    assert list(found) == ["load on cuda:1", "first launch"]
    assert found["load on cuda:1"] >= LOAD_MICROSECONDS / 1000
    assert 0 <= found["first launch"] < LOAD_MICROSECONDS / 1000
    function(tensor)
    assert capfd.readouterr().err == ""


@on_fake(devices=2)
def test_a_preload_is_reported_when_it_happens_and_not_again(
    fake: FakeCuda, capfd: pytest.CaptureFixture[str]
):
    function = compiled().register(fake)
    capfd.readouterr()
    function.preload(0)
    function.preload(0)
    text = capfd.readouterr().err
    assert text.splitlines()[0] == "weft: fill: preload, in milliseconds"
    assert list(rows(text)) == ["load on cuda:0"]
    function(empty(32, weft.f32, 0))
    assert list(rows(capfd.readouterr().err)) == ["first launch"]
    function.to(1)(empty(32, weft.f32, 1))
    assert list(rows(capfd.readouterr().err)) == ["load on cuda:1", "first launch"]


@on_fake()
def test_of_many_first_calls_at_once_one_is_reported(
    fake: FakeCuda, capfd: pytest.CaptureFixture[str]
):
    function = compiled().register(fake)
    tensors = [empty(32, weft.f32, 0) for _ in range(8)]
    capfd.readouterr()
    barrier = threading.Barrier(8)

    def call(tensor: object) -> None:
        barrier.wait()
        function(tensor)

    threads = [threading.Thread(target=call, args=(tensor,)) for tensor in tensors]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert capfd.readouterr().err.count("first launch") == 1
    assert len(fake.launches()) == 8


def test_a_report_that_raises_does_not_disturb_the_call(monkeypatch: pytest.MonkeyPatch):
    import sys

    unraisable: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda args: unraisable.append(args.exc_value))
    host = weft.fake_tensor(weft.f32, (32,), device="cpu")
    function = weft.compile(fill, host)
    with pytest.raises(
        TypeError, match=r"report_first_call\(\) takes a callable or None, received int"
    ):
        function.report_first_call(3)
    seen: list[float] = []
    function.report_first_call(lambda seconds: seen.append(seconds) or 1 / 0)
    tensor = empty(32, weft.f32, "cpu")
    function(tensor)
    function(tensor)
    assert len(seen) == 1 and seen[0] > 0
    assert isinstance(unraisable[0], ZeroDivisionError)
    function.report_first_call(seen.append)
    function.report_first_call(None)
    function(tensor)
    assert len(seen) == 1
