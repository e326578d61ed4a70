# SPDX-License-Identifier: Apache-2.0
"""Compiling from many threads at once, from the first moment of a process on.

`WEFT_TEST_ROUNDS` sets the number of fresh processes; fifty found nothing, a few keep it so.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROUNDS = int(os.environ.get("WEFT_TEST_ROUNDS", "2"))
PROGRAM = Path(__file__).with_name("threads_program.py")


@pytest.mark.slow
@pytest.mark.parametrize("number", range(ROUNDS))
def test_eight_threads_compile_at_once_and_each_key_once(number: int):
    done = subprocess.run([sys.executable, str(PROGRAM)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    answer = json.loads(done.stdout)
    assert answer["wrong"] == []
    # Each thread's own function once for its direct call, and twice for weft.compile, which keeps nothing.
    assert answer["compiled"] == {"same": 1, "own": 24}
