# SPDX-License-Identifier: Apache-2.0
"""The benchmark of launches runs to its end on the fake driver, and says why where there is no GPU."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import weft
from benchmarks import gpu_launch, launch_stages
from benchmarks.gpu_launch import COUNTS, PEERS, figures, gpu_missing
from benchmarks.harness import ROOT
from tests.native.fake_cuda.fake import FakeCuda, on_fake


class DeviceArray:
    """A NumPy array that says it is in device memory."""

    def __init__(self) -> None:
        self.array = np.zeros(16, np.float32)

    @property
    def __cuda_array_interface__(self) -> dict[str, object]:
        return {**self.array.__array_interface__, "strides": None, "stream": 1, "version": 3}


def make_array() -> tuple[DeviceArray, int]:
    array = DeviceArray()
    return array, array.array.ctypes.data


@on_fake()
@pytest.mark.slow
def test_every_way_to_launch_is_measured(fake: FakeCuda):
    options = "--gpu-arch sm_90"
    found = list(figures(make_array, 1, driver=str(fake.path), options=options, launches=2))
    assert len(found) == len(COUNTS) * (4 + len(PEERS) + 1)
    for figure in found:
        assert figure.value is not None and figure.value > 0
        assert figure.peer_value or figure.note
    assert {figure.peer_value is not None for figure in found if figure.peer == "C loop"} == {True}


@on_fake()
@pytest.mark.slow
def test_a_failing_peer_is_a_line_with_the_reason(fake: FakeCuda, monkeypatch: pytest.MonkeyPatch):
    def breaks(
        count: int, arrays: object, launches: int
    ) -> tuple[dict[str, object], dict[str, str]]:
        return {"cupy": lambda: 1 / 0}, {"triton": "not here"}

    monkeypatch.setattr(gpu_launch, "peer_callers", breaks)
    options = "--gpu-arch sm_90"
    found = list(figures(make_array, 2, driver=str(fake.path), options=options, launches=2))
    notes = {figure.peer: figure.note for figure in found}
    assert notes["cupy"] == "failed while it was measured: ZeroDivisionError: division by zero"
    assert notes["triton"] == "not here"
    assert all(figure.value for figure in found)


@on_fake()
def test_parts_of_a_launch_sum_to_the_whole(fake: FakeCuda):
    options = "--gpu-arch sm_90"
    found = list(
        launch_stages.figures(make_array, 3, driver=str(fake.path), options=options, launches=20)
    )
    values = {figure.name.removeprefix("launch_stages/"): figure.value for figure in found}
    assert len(values) == len(COUNTS) * 7
    for count in COUNTS:
        parts = {
            name.split(", ", 1)[1]: value for name, value in values.items() if name[0] == str(count)
        }
        whole, _ = parts.pop("whole call"), parts.pop("device switch")
        assert sum(parts.values()) == pytest.approx(whole)
    assert fake.current() is not None
    # The switched calls set the context and restore it; the others leave it alone.
    assert fake.count("cuCtxSetCurrent") >= 2 * 20 * 3 * len(COUNTS)


@on_fake(prepare=False)
def test_clocks_inside_the_calls_see_every_launch_and_change_none(fake: FakeCuda, tmp_path: Path):
    clocks = launch_stages.use_timed_driver(str(tmp_path), str(fake.path))
    fake.set_current(fake.retain_primary(0))
    launching = weft.compile(launch_stages.HOSTS[0], options="--target cuda --gpu-arch sm_90")
    launching()
    fake.forget_calls()
    found = launch_stages.clocked(clocks, launching, (), 20)
    assert all(0 < value < 1e9 for value, _ in found.values())
    assert len(fake.launches()) == 21  # one before the loop
    assert set(fake.calls("cuLaunchKernelEx", "cuCtxGetCurrent"))


@pytest.mark.skipif(not gpu_missing(), reason="there is a GPU")
@pytest.mark.parametrize("name", ["gpu_launch", "launch_stages"])
def test_a_machine_without_a_gpu_is_reported(name: str):
    command = [sys.executable, "-m", f"benchmarks.{name}", "--json"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
    (line,) = done.stdout.splitlines()
    assert gpu_missing() in json.loads(line)["note"]
