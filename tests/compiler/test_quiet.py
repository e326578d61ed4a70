# SPDX-License-Identifier: Apache-2.0
"""Nothing is printed unless it is asked for, from import to exit."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.sampling import sampled

PROGRAM = """
import numpy, weft, sys

@weft.kernel
def scale_kernel(a, factor):
    i = weft.block_idx.x * weft.block_dim.x + weft.thread_idx.x
    shared = weft.shared(32, weft.f32)
    shared[weft.thread_idx.x] = factor
    weft.sync_threads()
    if i < a.shape[0]:
        a[i] *= shared[weft.thread_idx.x]

@weft.jit
def scale(a, factor):
    scale_kernel(a, factor).launch(grid=weft.ceil_div(a.shape[0], 32), block=32)
    return factor

target, options = sys.argv[1], sys.argv[2]
if target == "cpu":
    a = numpy.ones(100, numpy.float32)
    assert scale(a, 2.0) == 2.0
    scale_kernel[4, 32](a, 2.0)
    example = a
else:
    example = weft.fake_tensor(weft.f32, ("n",))
function = weft.compile(scale, example, 1.0, options=options)
function.ir_module, function.llvm_ir, function.ptx, function.kernels, function.remarks
for wrong in (None, numpy.ones(3)):
    try:
        function(wrong, 1.0)
    except (TypeError, ValueError):
        pass
    else:
        raise SystemExit("it was not refused")
"""


@pytest.mark.parametrize(
    ("target", "options"),
    sampled(
        [
            ("cpu", ""),
            ("cuda", "--gpu-arch sm_90a"),
            ("cuda", "--gpu-arch sm_70"),
            ("cpu", "--verify"),
        ],
        3,
        several=True,
    ),
)
def test_a_program_that_compiles_and_calls_prints_nothing(target, options, tmp_path):
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", str(script), target, options],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert [path.name for path in tmp_path.iterdir()] == ["program.py"]
