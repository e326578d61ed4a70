# SPDX-License-Identifier: Apache-2.0
"""Storms of signals, forks, many threads, sudden ends and limits, on whatever machine; ``make test-all`` runs them.

Each is a process of its own with a time to run, which `WEFT_TEST_STRESS` multiplies for a longer look by hand.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from tests.native.fake_cuda.fake import ROOT, build
from tests.stress.cold_cache import HOW

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
FACTOR = float(os.environ.get("WEFT_TEST_STRESS", "1"))


def run(name: str, seconds: float, **options) -> dict:
    command = [sys.executable, "-X", "faulthandler", "-m", "tests.stress.programs"]
    done = subprocess.run(
        [*command, name, str(seconds)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=seconds + 600,
        **options,
    )
    assert done.returncode == 0, f"status {done.returncode}: {done.stderr[-4000:]}"
    return json.loads(done.stdout)


def test_a_storm_of_signals_leaves_every_thread_able_to_compile():
    assert run("signals", 8 * FACTOR)["signals"] > 5


def test_a_storm_of_signals_while_a_driver_loads_and_launches():
    environment = {**os.environ, "WEFT_LIBCUDA": str(build())}
    assert run("on_the_fake_driver", 8 * FACTOR, env=environment)["signals"] > 5


def test_children_forked_in_the_middle_of_compilations_compile():
    assert run("forks", 8 * FACTOR)["children"] > 2


def test_sixty_four_threads_compile_at_once():
    assert run("threads", 0) == {"threads": 64}


@pytest.mark.parametrize("name", ["signaled", "timed", "forked"])
def test_signals_and_forks_throughout_the_first_compilation(name: str):
    command = [sys.executable, "-m", "tests.compiler.first_import_program"]
    done = subprocess.run(
        [*command, name, str(int(40 * FACTOR))],
        env={**os.environ, "WEFT_NO_CACHE": "1"},
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert (done.returncode, done.stdout.strip()) == (0, "{}"), done.stderr[-4000:]


@pytest.mark.parametrize("number", range(int(6 * FACTOR)))
def test_a_process_ends_well_while_daemon_threads_compile(number: int):
    run("daemons", 0.7)


@pytest.mark.parametrize("files", [32, 64])
def test_a_process_with_few_files_compiles_or_names_the_limit(files: int):
    def limit():
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))

    assert run("with_all_files_taken", 0, preexec_fn=limit)["freed"] == "compiled"


def test_a_process_without_more_threads_compiles():
    if not run("without_threads", 0)["limited"]:
        pytest.skip("this machine does not limit a user's threads")


def test_a_process_without_a_folder_for_temporary_files_compiles():
    environment = {**os.environ, "TMPDIR": "/nonexistent", "HOME": "/nonexistent"}
    assert run("compiles", 0, env=environment) == {"done": True}


@pytest.mark.parametrize("how", HOW)
def test_processes_killed_on_a_cold_cache_do_no_harm(how: str, tmp_path: Path):
    folder = tmp_path / "cache"
    command = [sys.executable, "-W", "error", "-m", "tests.stress.cold_cache", how]
    done = subprocess.run(
        [*command, str(max(1, int(FACTOR)))],
        env={**os.environ, "WEFT_CACHE_DIR": str(folder), "WEFT_NO_CACHE": "0"},
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=600,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert int(done.stdout) > 0
