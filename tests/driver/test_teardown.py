# SPDX-License-Identifier: Apache-2.0
"""The end of a process that has used the driver: whatever is still held, in whatever order, it ends quietly."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.native.fake_cuda.fake import ROOT, build
from tests.sampling import sampled

PROGRAM = """\
import sys
import threading

import weft
from weft import driver


@weft.kernel
def store_kernel(a: weft.Tensor):
    a[0] = 1.0


@weft.jit
def store(a: weft.Tensor[weft.f32, ("n",)]):
    store_kernel(a).launch(grid=1, block=32)


tensor = weft.empty(16, weft.f32, "cuda:0")
function = weft.compile(store, tensor, options="--target cuda --gpu-arch sm_90 --executor EXECUTOR")
function(tensor)
bound = function.to(0)
prepared = function.prepare(tensor)
prepared()
module, handle, *_ = driver.load_binary("store_kernel", function.cubin)
descriptor = driver.fill_tma_descriptor_tiled(
    driver.TensorMap(), tensor.data, "f32", (16,), (1,), (16,)
)
weft.set_allocator(lambda size, alignment, stream: 0)
driver.set_launch_hooks(lambda launch: launch.get(), lambda launch: None)
prepared()
"""
ENDS = {
    "held by the module": "",
    "held by another module": "sys.modules['keeper'] = [tensor, function, bound, prepared, descriptor]\n",
    "dropped in another order": "del tensor, function\ndel prepared, bound\n",
    "unloaded and dropped": (
        "driver.unload(module)\ndel prepared, function, bound, tensor\nweft.synchronize('cuda:0')\n"
    ),
    "in a cycle": "cycle = [function, prepared]\ncycle.append(cycle)\ndel function, prepared\n",
    "called by a finalizer": (
        "class Last:\n    def __del__(self, prepared=prepared):\n        prepared()\nlast = Last()\n"
    ),
    "called by a daemon thread": (
        "def run():\n    while True:\n        prepared()\nthreading.Thread(target=run, daemon=True).start()\n"
    ),
    "loaded by a daemon thread": (
        "def run():\n    while True:\n        driver.unload(driver.load_binary('store_kernel', function.cubin)[0])\n"
        "threading.Thread(target=run, daemon=True).start()\n"
    ),
    "ended by an exception": "raise SystemExit(0)\n",
}


@pytest.mark.parametrize(
    ("end", "executor"),
    sampled(
        [("held by the module", "context"), *((end, "library") for end in ENDS)], 4, several=True
    ),
)
def test_a_process_ends_quietly_whatever_it_still_holds(end: str, executor: str, tmp_path: Path):
    # A file, because kernels are compiled from their source text.
    script = tmp_path / "program.py"
    script.write_text(PROGRAM.replace("EXECUTOR", executor) + ENDS[end])
    environment = {**os.environ, "WEFT_LIBCUDA": str(build()), "PYTHONPATH": str(ROOT)}
    result = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, env=environment, timeout=60
    )
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
