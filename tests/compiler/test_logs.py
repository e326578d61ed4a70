# SPDX-License-Identifier: Apache-2.0
"""What WEFT_LOG and WEFT_TIME show, each in a process of its own: the environment is the program's."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PROGRAM = """
import numpy as np
import weft
from examples.add_one import add_one
a, b = np.zeros(4, np.float32), np.zeros(4, np.float32)
add_one(a, b)
add_one(b, a)
"""


def said(program: str = PROGRAM, **environment: str) -> str:
    """Standard error of the program."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("WEFT_")}
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=own | {"WEFT_NO_CACHE": "1"} | environment,
    )
    assert done.returncode == 0 or "expected one of" in done.stderr, done.stderr
    assert done.stdout == ""
    return done.stderr


def test_nothing_is_said_unless_asked():
    assert said() == ""


@pytest.mark.slow
def test_the_log_says_which_executor_was_created_and_why():
    expected = "weft: INFO: add_one: executor library, because of the default\n"
    assert said(WEFT_LOG="info") == expected
    assert said(WEFT_LOG="warning") == ""


def test_a_log_handler_gets_each_message_once():
    program = "import logging\nlogging.basicConfig(format='mine: %(message)s')\n" + PROGRAM
    assert said(program, WEFT_LOG="INFO").splitlines() == [
        "mine: add_one: executor library, because of the default"
    ]


def test_a_level_that_is_none_is_refused_with_those_that_are():
    assert (
        "WEFT_LOG is 'loud', expected one of debug, info, warning, error"
        in said(WEFT_LOG="loud").splitlines()[-1]
    )


def test_a_misspelled_variable_is_warned_of_once():
    assert said(WEFT_PTXSA="/x").splitlines() == [
        "weft has no environment variable WEFT_PTXSA; did you mean WEFT_PTXAS?"
    ]


@pytest.mark.parametrize("way", ["environment", "option"])
def test_times_are_those_of_each_stage_and_of_the_first_launch(way: str):
    if way == "environment":
        text = said(WEFT_TIME="1")
    else:
        text = said(
            PROGRAM.replace("add_one(a, b)", "weft.jit(options='--time')(add_one.function)(a, b)")
        )
    stages, first = text.split("weft: add_one: first call, in milliseconds\n")
    assert stages.startswith("weft: add_one: stages, in milliseconds\n")
    for stage in (
        "signature",
        "trace",
        "lay_out_shared_memory",
        "attach_ffi_wrapper",
        "LLVM",
        "LLVM to object",
        "load host code",
    ):
        assert re.search(rf"^  {stage} +\d+\.\d\d$", stages, re.MULTILINE), stage
    assert re.match(r"  first launch +\d+\.\d\d\n", first)
    assert text.count("first launch") == 1
