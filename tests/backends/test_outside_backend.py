# SPDX-License-Identifier: Apache-2.0
"""A backend in a package of its own, installed by pip, compiles, runs, and passes the conformance tests.

In: `portable_backend`, which docs/recipes/add-a-backend.md walks through. Out: a process with the package on its
path. Here a part of `tests/conformance` runs on it; the recipe has the command for the whole.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent.parent
PACKAGE = Path(__file__).parent / "portable_backend"
# Grids, launches, layouts, joins, waiting threads: each part of a backend has one.
CONFORMANCE = ("grids", "host", "tensors", "joins", "global_scratch", "warp_order")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
    command += ["--no-build-isolation", "--target", str(folder), str(PACKAGE)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def run(site: Path, *command: str, **environment: str) -> str:
    """Output of a process with the package on its path."""
    path = os.pathsep.join([str(site), str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, *command],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path, **environment},
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout


def test_options_choose_it_and_its_stages_are_seen(site: Path):
    program = """
import numpy as np
import weft
from examples.add_one import add_one
from tests.profiler.test_profiler import made
from weft.backends.registry import find_backend
a, b = np.arange(1000, dtype=np.float32), np.zeros(1000, np.float32)
fn = weft.compile(add_one, a, b, options="--target portable")
fn(a, b)
assert (b == a + 1).all()
assert "fadd float" in fn.llvm_ir and "ymm" not in fn.llvm_ir
assert (fn.ptx, fn.sass, fn.cubin) == (None, None, None)
assert fn.kernels["add_one_kernel"].parameter_bytes > 0
print(type(find_backend("portable")).__module__)
words = weft.profiler.buffer(4096)
mark = made("p = Profiler(buffer=rec); p.init(0); p.mark('x')")
weft.compile(mark, words, 0, True, b, options="--target portable")(words, 0, True, b)
assert weft.profiler.decode_track(words).tick_ns == 1  # its clocks are the host's
try:
    weft.compile(add_one, a, b, options="--target portabel")
except weft.OptionError as error:
    print(error.message)
"""
    module, error = run(site, "-c", program).splitlines()
    assert module == "weft_portable.backend"
    assert error == "there is no target 'portabel'; there are: cpu, cuda, portable"


def test_it_passes_conformance_tests(site: Path):
    files = [f"tests/conformance/test_{name}.py" for name in CONFORMANCE]
    said = run(
        site, "-m", "pytest", "-q", "-p", "no:cacheprovider", *files, WEFT_TEST_TARGET="portable"
    )
    passed = re.search(r"(\d+) passed", said)
    assert passed is not None and int(passed[1]) > 100


def test_the_recipe_shows_the_entry_point_of_this_package():
    recipe = (ROOT / "docs/recipes/add-a-backend.md").read_text()
    (shown,) = re.findall(r"```toml\n(.*?)```", recipe, re.DOTALL)
    declared = tomllib.loads((PACKAGE / "pyproject.toml").read_text())
    assert tomllib.loads(shown)["project"]["entry-points"] == declared["project"]["entry-points"]
    assert "WEFT_TEST_TARGET=portable" in recipe
