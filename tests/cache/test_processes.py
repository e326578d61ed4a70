# SPDX-License-Identifier: Apache-2.0
"""Processes that share a cache: what a hit imports, many at once that are killed, the command line, packs."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from weft.cache.entry import decode

ROOT = Path(__file__).parents[2]
COMPILER = ("xdsl", "llvmlite", "numpy", "logging", "weft.frontend.trace", "weft.compiler.pipeline")
PROGRAM = f"""
import sys
from benchmarks import first_result
first_result.main()
import weft.cache
print(weft.cache.stats().hits, [name for name in {COMPILER} if name in sys.modules])
"""
FOUND = "1 []"
# Each took the first result 0.5 to 3 ms longer.
SLOW = {
    *(
        "ast",
        "copy",
        "csv",
        "ctypes",
        "dataclasses",
        "hashlib",
        "importlib.metadata",
        "inspect",
        "json",
    ),
    *("linecache", "logging", "pathlib", "shlex", "signal", "subprocess", "tempfile", "threading"),
    *("tokenize", "traceback", "urllib"),
}
TARGETS = {
    "cpu": "first_result.main()",
    "cuda": """
vector = weft.fake_tensor(weft.f32, ("n",))
weft.compile(first_result.add_one, vector, vector, options="--gpu-arch sm_90a")
""",
}
MODULES = """
import weft
from benchmarks import first_result
import sys
{}
import weft.cache
print(*(sys.modules if weft.cache.stats().hits else ["none"]))
"""


def environment(folder, **others):
    # A checkout's bytecode, as a user has it.
    return {
        **os.environ,
        "WEFT_NO_CACHE": "0",
        "WEFT_CACHE_DIR": str(folder),
        "PYTHONPATH": str(ROOT),
        **others,
    }


def run(folder, *command, **others):
    command = command or ("-c", PROGRAM)
    done = subprocess.run(
        [sys.executable, *command],
        env=environment(folder, **others),
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert done.returncode in (0, 1) and "Traceback" not in done.stderr, done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def warm(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cache")
    assert run(folder).startswith("0 ")
    return folder


def test_a_hit_imports_no_compiler(warm):
    assert run(warm) == FOUND


@pytest.mark.parametrize("target", TARGETS)
def test_a_hit_imports_what_is_listed_and_nothing_slow(warm, tmp_path, target):
    """A module of weft takes 0.2 ms: import it where it is needed; if every hit needs it, add it to the list."""
    folder, program = warm, MODULES.format(TARGETS[target])
    if target != "cpu":
        folder = tmp_path
        assert run(folder, "-c", program) == "none"
    found = set(run(folder, "-c", program).split())
    listed = (Path(__file__).parent / f"modules_of_a_hit_on_{target}.txt").read_text().split()
    assert sorted(name for name in found if name.partition(".")[0] == "weft") == listed
    assert found & SLOW == set()


@pytest.mark.parametrize("change", ["enable", "disable"])
def test_importing_the_compiler_leaves_gc_unchanged(tmp_path, change):
    program = f"import gc; gc.{change}()\n{PROGRAM}\nprint(gc.isenabled())"
    assert run(tmp_path, "-c", program).endswith(str(change == "enable"))


@pytest.mark.slow
def test_the_command_line_and_packs(warm, tmp_path):
    assert run(warm, "-m", "weft", "cache", "info").splitlines()[:2] == [
        f"folder   {warm}",
        "entries  1",
    ]
    assert len(run(warm, "-m", "weft", "cache", "list").splitlines()) == 1
    pack, own = tmp_path / "pack", tmp_path / "own"
    assert "1 entries were copied" in run(warm, "-m", "weft", "cache", "pack", str(pack))
    assert run(own, WEFT_CACHE_PACK=str(pack)) == FOUND
    assert not own.exists()
    program = ROOT / "benchmarks" / "first_result.py"
    assert "1 misses, 1 stored" in run(own, "-m", "weft", "cache", "warm", str(program))
    entry = next(own.rglob("*.weft"))
    entry.write_bytes(entry.read_bytes()[:-1])
    assert "0 entries are whole, 1 damaged" in run(own, "-m", "weft", "cache", "verify")
    assert run(pack, "-m", "weft", "cache", "clear") == "1 entries were removed"


@pytest.mark.slow
def test_killed_processes_leave_only_whole_entries(tmp_path):
    chance = random.Random(7)
    command = [sys.executable, "-c", PROGRAM]
    for _ in range(6):
        started = [
            subprocess.Popen(
                command,
                env=environment(tmp_path),
                cwd=ROOT,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for _ in range(4)
        ]
        time.sleep(chance.uniform(0.05, 1.0))
        for process in started[1:]:
            process.send_signal(signal.SIGKILL)
        results = [process.communicate() for process in started]
        assert started[0].returncode == 0, results[0][1]
        assert all(p.returncode in (0, -signal.SIGKILL) for p in started), results
        assert all(decode(file.read_bytes()) for file in tmp_path.rglob("*.weft"))
    assert run(tmp_path) == FOUND
