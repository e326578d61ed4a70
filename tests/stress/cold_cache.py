# SPDX-License-Identifier: Apache-2.0
"""Processes that share a cold cache, some killed at random: ``python -m tests.stress.cold_cache <how> <iterations>``.

WEFT_CACHE_DIR is their folder, which fails as `how` says. Prints how many were killed; fails if another had a wrong
result, or an entry is not whole.
"""

from __future__ import annotations

import os
import random
import resource
import shutil
import signal
import sys
import time
import traceback
from pathlib import Path

import weft.cache
from tests.stress.programs import check
from weft.cache.entry import SUFFIX, decode
from weft.config import override

PROCESSES = 32
UNPRIVILEGED = 65534
LARGEST_ENTRY = 40_000
FOLDER = Path(os.environ.get("WEFT_CACHE_DIR", ""))
HOW = ("local", "vanishing", "read-only", "full")


def started(how: str, number: int, finds: int = 0) -> int:
    """A process that compiles or finds two functions which others compile or find too.

    Args:
        how: its folder fails.
        number: of the process.
        finds: how many of them it must find.
    """
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        if how == "full":
            most = random.randrange(LARGEST_ENTRY)
            sys.dont_write_bytecode = True  # Python would keep half a module's
            resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
        elif how == "read-only" and os.geteuid() == 0:
            os.setuid(UNPRIVILEGED)
        check(float(number % 3 + 2))
        check(float(number % 5 + 10))
        status = int(weft.cache.stats().hits < finds)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def storm(how: str) -> int:
    """One iteration; how many processes were killed before their end."""
    children = [started(how, number) for number in range(PROCESSES)]
    victims = random.sample(children, PROCESSES // 2)
    for victim in victims:
        time.sleep(random.uniform(0, 0.1))
        if how == "vanishing":
            shutil.rmtree(FOLDER, ignore_errors=True)
        os.kill(victim, signal.SIGKILL)
    killed = 0
    for child in children:
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        killed += status == -signal.SIGKILL
        assert status == 0 or (child in victims and status == -signal.SIGKILL), status
    for entry in FOLDER.rglob(f"*{SUFFIX}"):
        assert decode(entry.read_bytes()) is not None, entry
    return killed


def main(how: str, iterations: int) -> None:
    """Repeats, each on an empty folder; then a process that finds what they kept."""
    with override(no_cache=True):
        check(1.0)  # what is imported once is there
    killed = 0
    for _ in range(iterations):
        shutil.rmtree(FOLDER, ignore_errors=True)
        FOLDER.mkdir(mode=0o500 if how == "read-only" else 0o700)
        killed += storm(how)
    kept = [*FOLDER.rglob(f"*{SUFFIX}")] if FOLDER.exists() else []
    assert not kept if how == "read-only" else how != "local" or kept
    for again in range(2):
        child = started("local", 0, finds=2 * again)
        assert how == "read-only" or os.waitpid(child, 0)[1] == 0
    print(killed)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
